import EntitlementCore
import PostgresClient
import Synchronization

/// Writes batches ahead of the head: each goes on from the head that the batch before it is going to leave.
///
/// The database proves its assumptions. The row of the first event's position keeps everybody else from appending until
/// this transaction ends; the unique index of dedup keys refuses what is in the log already; and the head moves only
/// from where it is assumed to be, which shows that nobody else has appended since. So positions have no gaps and
/// follow the order of commits here too: no batch touches the head before the one before it is committed.
final class AheadAppend: Sendable {
    /// The most by which an event may be dated before its commit.
    static let oldestMilliseconds: Int64 = 1000

    private let pool: PostgresPool
    /// How many batches are decided under the lock after one that was written ahead failed.
    private let lockedBatches: Int
    private let memory: WriterMemory
    private let lease: ReadLease
    private let now: @Sendable () -> Timestamp
    /// Hears of what is committed; with it the database refuses events dated later than its own clock allows.
    private let clock: LedgerClock?
    private let report: @Sendable (LedgerWriter.BatchReport) -> Void
    private let pause = Mutex(0)

    init(
        pool: PostgresPool, lockedBatches: Int, memory: WriterMemory, lease: ReadLease,
        now: @escaping @Sendable () -> Timestamp, clock: LedgerClock?,
        report: @escaping @Sendable (LedgerWriter.BatchReport) -> Void
    ) {
        self.pool = pool
        self.lockedBatches = lockedBatches
        self.memory = memory
        self.lease = lease
        self.now = now
        self.clock = clock
        self.report = report
    }

    /// Whether the head is known and nobody else seems to move it.
    var isAdvisable: Bool { memory.head != nil && pause.withLock { $0 == 0 } }

    /// Where the log is believed to end.
    var expectedHead: LedgerHead? { memory.head }

    /// Takes note of a batch that was decided under the lock.
    func learn(from plan: AppendPlan?, expecting head: LedgerHead?) {
        pause.withLock { pause in
            if let plan, head == nil || plan.base == head {
                pause = max(0, pause - 1)
            } else {
                pause = lockedBatches
            }
        }
    }

    /// Forgets what was believed, after a batch failed.
    func giveUp() {
        memory.reset()
        pause.withLock { $0 = lockedBatches }
    }

    /// Decides a batch, writes it, and commits it once the batch before it is committed; answers its requests then.
    ///
    /// All of it on one connection's queue: for a few events, going from thread to thread would take longer than the work.
    ///
    /// - Parameter isDecided: called once it is known where this batch is going to leave the log, so that the next can go on
    ///   from there.
    func write(
        _ batch: [LedgerWriter.Waiter], as flight: AppendQueue.Flight, isDecided: @Sendable () -> Void
    ) async -> AppendQueue.Landing {
        defer { flight.turn.finish(committed: false) }
        do {
            return try await pool.withConnection { connection in
                defer { flight.turn.finish(committed: false) }
                return try write(batch, as: flight, isDecided: isDecided, on: connection)
            }
        } catch {
            // Under the lock one connection is enough, which may be open already.
            pause.withLock { $0 = lockedBatches }
            return .undecided
        }
    }

    /// Throws only before anything is decided.
    private func write(
        _ batch: [LedgerWriter.Waiter], as flight: AppendQueue.Flight, isDecided: () -> Void,
        on connection: isolated PostgresConnection
    ) throws -> AppendQueue.Landing {
        let start = ContinuousClock.now
        guard let plan = try plan(batch.map(\.event), on: connection), !plan.events.isEmpty else { return .undecided }
        isDecided()
        do {
            try AppendWrite.runAhead(
                plan, after: flight.previous, isBounded: clock != nil, lease: lease,
                mayCommit: { now().milliseconds - plan.head.recordedAt.milliseconds <= Self.oldestMilliseconds },
                on: connection)
        } catch {
            // If even this fails the connection is broken, and the server rolls back by itself.
            if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
            return .failed(inDoubt: error is AppendWrite.CommitInDoubt ? plan : nil)
        }
        clock?.hear(of: plan.head.recordedAt)
        flight.turn.finish(committed: true)
        report(
            LedgerWriter.BatchReport(
                requests: batch.count, events: plan.events.count, base: plan.base.mark, end: plan.head.mark,
                duration: start.duration(to: .now)))
        for (waiter, outcome) in zip(batch, plan.outcomes) {
            waiter.continuation.resume(returning: outcome.mapError { $0 })
        }
        return .committed
    }

    /// Decides a batch; `nil` while the head is not known.
    ///
    /// The memory then holds what the plan is going to write.
    private func plan(_ batch: [PreparedEvent], on connection: isolated PostgresConnection) throws -> AppendPlan? {
        guard let head = memory.head else { return nil }
        // It blocks the connection's queue, for a millisecond at most.
        let instant = AppendTransaction.instant(after: head.recordedAt, now) {
            connection.sleep(for: .microseconds(200))
        }
        let known = memory.knowledge(of: batch)
        var context = AppendContext(head: head)
        (context.identities, context.knownHeaders, context.memory) = (known.identities, known.headers, memory)
        if !known.isComplete {
            let results = try AppendRead.missing(from: known, on: connection)
            try context.learnIdentities(from: results[0])
            try context.learnHeaders(from: results[1])
            // A number beyond the head's comes from a longer log than is assumed here: somebody else has appended, or
            // the log has lost its end since this was read.
            guard context.identities.values.allSatisfy({ $0.number < head.nextIdentity }) else { return nil }
            memory.learn(from: context, unknownTo: known)
        }
        let plan = AppendPlan(batch, context: context, now: instant)
        if !plan.events.isEmpty { memory.learn(from: plan) }
        return plan
    }
}
