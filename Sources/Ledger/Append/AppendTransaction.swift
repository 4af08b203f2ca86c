import EntitlementCore
import PostgresClient

/// The one transaction that writes events: what a batch must know is read under the head's lock, decided in Swift, and
/// written.
///
/// The head row is locked first and until the commit. Each later statement sees what the holder before committed
/// (READ COMMITTED), so keys, identities and states are read under the lock. A transaction becomes visible before it
/// lets go of its locks; so whoever reads position n can read every position before it.
enum AppendTransaction {
    enum Outcome: Sendable {
        case committed(AppendPlan)
        /// The connection went before the commit was answered: it may have taken place.
        case inDoubt(AppendPlan, PostgresError)
    }

    /// Appends a batch.
    ///
    /// - Parameters:
    ///   - inDoubt: what an earlier run of this batch left open; if the log holds it, that is the outcome.
    ///   - memory: what this process knows of the ledger already; it learns from what is read and committed.
    ///   - lease: that of this process; whoever else has it is outlasted before anything is written.
    ///   - clock: what `now` reads, where it is to agree with the database's.
    ///   - now: read under the lock, so that the time spent waiting for it does not date the events back.
    static func run(
        _ batch: [PreparedEvent], inDoubt: AppendPlan?, memory: WriterMemory, lease: ReadLease,
        now: @Sendable () -> Timestamp, clock: LedgerClock? = nil, on connection: isolated PostgresConnection
    ) throws -> Outcome {
        do {
            let asked = clock?.reading()
            let context = try AppendRead.run(batch, memory: memory, on: connection)
            if let clock, let asked { clock.compare(with: context.databaseTime, asked: asked) }
            // Another instance's clock may have dated the last event ahead of this one's, and what follows is not earlier.
            clock?.hear(of: context.head.recordedAt)
            if let inDoubt, try holds(inDoubt, on: connection) {
                try connection.execute(script: "ROLLBACK")
                return .committed(inDoubt)
            }
            let instant = try instant(after: context.head.recordedAt, now) {
                try connection.query("SELECT pg_sleep(0.0002)", [])
            }
            var plan = AppendPlan(batch, context: context, now: instant)
            if !plan.events.isEmpty, lease.outlast(context.leaseHolder, on: connection) {
                plan = AppendPlan(batch, context: context, now: now())
            }
            do {
                try AppendWrite.run(plan, lease: lease, on: connection)
            } catch let error as PostgresError where error.kind == .connection {
                return .inDoubt(plan, error)
            }
            memory.learn(from: plan)
            return .committed(plan)
        } catch {
            // If even this fails the connection is broken, and the server rolls back by itself.
            if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
            throw error
        }
    }

    /// The clock's instant, once it is later than the batch before.
    ///
    /// Batches are at least 1 ms apart on paper. Were they faster in fact, the log would run ahead of the clock, and a
    /// grant would begin after it was answered; so the fast ones wait. A clock that is behind another instance's waits
    /// no longer than that millisecond.
    ///
    /// - Parameter wait: waits for a fifth of a millisecond.
    static func instant(
        after last: Timestamp, _ now: () -> Timestamp, wait: () throws -> Void
    ) rethrows -> Timestamp {
        for _ in 0..<5 {
            let instant = now()
            guard instant == last else { return instant }
            try wait()
        }
        return now()
    }

    /// Whether a plan's commit took place: the chain's hash at its last position is like no other's.
    private static func holds(_ plan: AppendPlan, on connection: isolated PostgresConnection) throws -> Bool {
        try !plan.events.isEmpty && plan.head.mark.isHeld(on: connection)
    }
}
