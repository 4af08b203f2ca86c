import EntitlementCore
import PostgresClient
import Synchronization

/// Writes batches ahead of the head: each goes on from the head that the batch before it is going to leave.
///
/// What it believes is proven by the database. The first event's position keeps everybody else from appending until this
/// transaction ends; the unique index of dedup keys refuses what is in the log already; and the head moves only from
/// where it is believed to be, which shows that nobody else has appended since the beliefs were formed. So positions have
/// no gaps and follow the order of commits here too: no batch touches the head before the one before it is committed.
final class AheadAppend: Sendable {
    /// The most by which an event may be dated before its commit.
    private static let oldestMilliseconds: Int64 = 1000

    private let pool: PostgresPool
    /// How many batches are decided under the lock after this way failed.
    private let lockedBatches: Int
    private let memory: WriterMemory
    private let lease: ReadLease
    private let now: @Sendable () -> Timestamp
    /// Whether the database refuses events dated later than its own clock allows.
    private let isBounded: Bool
    private let report: @Sendable (LedgerWriter.BatchReport) -> Void
    private let pause = Mutex(0)

    init(
        pool: PostgresPool, lockedBatches: Int, memory: WriterMemory, lease: ReadLease,
        now: @escaping @Sendable () -> Timestamp, isBounded: Bool,
        report: @escaping @Sendable (LedgerWriter.BatchReport) -> Void
    ) {
        self.pool = pool
        self.lockedBatches = lockedBatches
        self.memory = memory
        self.lease = lease
        self.now = now
        self.isBounded = isBounded
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

    /// Decides a batch; `nil` while the head is not known.
    ///
    /// The memory then holds what the plan is going to write.
    func plan(_ batch: [PreparedEvent]) async throws -> AppendPlan? {
        guard let head = memory.head else { return nil }
        let instant = try await instant(after: head.recordedAt)
        let known = memory.knowledge(of: batch)
        var context = AppendContext(head: head)
        (context.identities, context.knownHeaders, context.memory) = (known.identities, known.headers, memory)
        if !known.isComplete {
            let results = try await pool.withConnection { try AppendRead.missing(from: known, on: $0) }
            try context.learnIdentities(from: results[0])
            try context.learnHeaders(from: results[1])
            memory.learn(from: context, unknownTo: known)
        }
        let plan = AppendPlan(batch, context: context, now: instant)
        if !plan.events.isEmpty { memory.learn(from: plan) }
        return plan
    }

    /// The clock's instant, once it is later than the batch before.
    ///
    /// As under the lock: fast batches wait for the next millisecond, so that the log does not run ahead of the clock. A
    /// clock that is behind another instance's waits for nothing.
    private func instant(after last: Timestamp) async throws -> Timestamp {
        for _ in 0..<5 {
            let instant = now()
            guard instant == last else { return instant }
            try await Task.sleep(for: .microseconds(200))
        }
        return now()
    }

    /// Writes and commits a plan once the batch before it is committed, and answers its requests then.
    func write(
        _ plan: AppendPlan, _ batch: [LedgerWriter.Waiter], as flight: AppendQueue.Flight,
        hasBegun: @Sendable () -> Void
    ) async -> AppendQueue.Landing {
        let clock = ContinuousClock()
        let start = clock.now
        defer { flight.turn.finish(committed: false) }
        do {
            try await pool.withConnection { [now, isBounded, lease] connection in
                hasBegun()
                defer { flight.turn.finish(committed: false) }
                do {
                    try AppendWrite.runAhead(
                        plan, after: flight.previous, isBounded: isBounded, lease: lease,
                        mayCommit: {
                            now().milliseconds - plan.head.recordedAt.milliseconds <= Self.oldestMilliseconds
                        }, on: connection)
                } catch {
                    // If even this fails the connection is broken, and the server rolls back by itself.
                    if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
                    throw error
                }
                flight.turn.finish(committed: true)
            }
        } catch is AppendWrite.CommitInDoubt {
            return .failed(inDoubt: plan)
        } catch {
            return .failed(inDoubt: nil)
        }
        report(
            LedgerWriter.BatchReport(
                requests: batch.count, events: plan.events.count, position: plan.head.position,
                duration: start.duration(to: clock.now)))
        for (waiter, outcome) in zip(batch, plan.outcomes) {
            waiter.continuation.resume(returning: outcome.mapError { $0 })
        }
        return .committed
    }
}
