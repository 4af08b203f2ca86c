package import EntitlementCore
package import PostgresClient
import Synchronization

/// Appends events, many requests to one transaction and one fsync.
///
/// While one batch is being written the next one gathers, so a batch is as large as the load makes it and a lone request
/// waits for nothing. A request is answered only after the commit that holds its event. Any number of writers may run
/// against one ledger, in this process or others: the head row orders them.
///
/// As long as nobody else appends, a batch needs no lock while it is decided and written: it goes on from the head that
/// the batch before it leaves, is written beside that one on a connection of its own, and takes the head only to commit
/// (`AheadAppend`). Where that fails, and for what depends on more than a writer remembers, a batch is decided under the
/// head's lock (`AppendTransaction`).
package final class LedgerWriter: Sendable {
    package struct Limits: Sendable {
        /// Events of one transaction.
        package var batchEvents = 2048
        /// Evidence bytes of one transaction; a single larger event still goes, alone.
        package var batchBytes = 8 << 20
        /// Requests that may wait; further ones are refused as `unavailable`.
        package var waiting = 8192
        /// Tries of one batch while the database is away or the head is locked.
        package var attempts = 3
        /// How long a session may hold the head while the server waits for its program.
        package var stalledMilliseconds = 5000
        /// Batches decided under the head's lock after one that was written ahead of it failed: others append as well, or
        /// statements come twice.
        package var lockedBatches = 16
        /// For how long the database must have refused everything before that is an obstacle.
        package var refusalPatience = Duration.seconds(3)
        package var lease = ReadLease.Limits()

        package init() {}
    }

    /// What one committed batch looked like, for metrics.
    package struct BatchReport: Sendable {
        package let requests: Int
        package let events: Int
        /// Where the log ended before it.
        package let base: EventMark
        /// Where the log ends with it.
        package let end: EventMark
        package let duration: Duration
    }

    /// A request with whoever waits for its answer.
    struct Waiter: Sendable {
        let event: PreparedEvent
        let continuation: CheckedContinuation<Result<AppendOutcome, any Error>, Never>
    }

    /// Spares reads the question where the log ends, as long as nobody but this writer appends.
    package let readLease: ReadLease

    /// The clock that events are dated by, unless the log is ahead of it.
    let now: @Sendable () -> Timestamp
    private let pool: PostgresPool
    private let queue: AppendQueue
    private let ahead: AheadAppend
    private let locked: LockedAppend

    /// - Parameters:
    ///   - now: dates events.
    ///   - clock: what `now` reads, where it is to agree with the database's; every batch that is decided under the lock
    ///     then compares the two, and any other is refused where its date is too far from the database's. `nil` takes `now`
    ///     as it is.
    package init(
        pool: PostgresPool, limits: Limits = Limits(), now: @escaping @Sendable () -> Timestamp,
        clock: LedgerClock? = nil,
        report: @escaping @Sendable (BatchReport) -> Void = { _ in }
    ) {
        let memory = WriterMemory()
        let lease = ReadLease(limits: limits.lease)
        readLease = lease
        self.pool = pool
        self.now = now
        queue = AppendQueue(limits: limits)
        ahead = AheadAppend(
            pool: pool, lockedBatches: limits.lockedBatches, memory: memory, lease: lease, now: now,
            clock: clock, report: report)
        locked = LockedAppend(
            pool: pool, limits: limits, memory: memory, lease: lease, now: now, clock: clock, report: report,
            obstacles: ObstacleWatch(patience: limits.refusalPatience))
    }

    /// A writer that dates events by the clock that all instances share.
    package convenience init(
        pool: PostgresPool, clock: LedgerClock, report: @escaping @Sendable (BatchReport) -> Void = { _ in }
    ) {
        self.init(pool: pool, now: clock.now, clock: clock, report: report)
    }

    /// Returns once the event is durable and visible, or was so before.
    ///
    /// Throws `AppendRefusal` for a command that must not be carried out, else `LedgerError`.
    package func append(_ draft: EventDraft) async throws -> AppendOutcome {
        let event = PreparedEvent(draft)
        let result = await withCheckedContinuation { continuation in
            switch queue.enqueue(Waiter(event: event, continuation: continuation)) {
            case .waits: break
            case .isFirst: Task { await self.run() }
            case .isTooMany(let waiting):
                let error = LedgerError(.unavailable, "\(waiting) appends are waiting; try again later")
                continuation.resume(returning: .failure(error))
            }
        }
        return try result.get()
    }

    /// Asks for the read lease, or for another proof of it.
    package func renewReadLease() async { await readLease.renew(through: pool) }

    /// What keeps appends from the log, as far as is known: somebody who has kept them waiting in vain again and again, or a
    /// database that has refused everything for some seconds; `nil`: nothing.
    package var obstacle: AppendObstacle? { locked.obstacles.obstacle }

    /// The same once it was looked whether it is over, which takes a trial where the database has refused what came last.
    package func lookForObstacle() async throws -> AppendObstacle? { try await locked.obstacles.look(through: pool) }

    /// Says that an orderly stop has begun: what fails from now on because the connection is lost is not tried again.
    package func beginEnding() { locked.end() }

    /// Waits until nothing is waiting or under way, and gives the read lease back; for an orderly stop.
    package func drain() async {
        await queue.drain()
        await readLease.release(through: pool)
    }

    private func run() async {
        while true {
            switch await queue.next(isAhead: ahead.isAdvisable) {
            case .done: return
            case .batch(let batch): await write(batch)
            case .returned(let batches):
                // What was decided after a batch that failed rests on it.
                if batches.contains(where: \.hasFailed) { ahead.giveUp() }
                for batch in batches { await lockAndWrite(batch.waiters, inDoubt: batch.inDoubt) }
            }
        }
    }

    private func write(_ batch: [Waiter]) async {
        guard ahead.isAdvisable, batch.allSatisfy(\.event.isDecidedByMemory) else {
            await queue.landing()
            // A batch before this one that failed has to be written before it.
            if queue.give(back: batch) { return }
            return await lockAndWrite(batch)
        }
        let flight = queue.takeOff(batch)
        Task { [ahead, queue] in
            let landing = await ahead.write(batch, as: flight) { queue.isDecided(flight) }
            queue.land(flight, batch, landing)
        }
    }

    private func lockAndWrite(_ batch: [Waiter], inDoubt: AppendPlan? = nil) async {
        let headWasKnown = ahead.expectedHead
        let plan = await locked.commit(batch, inDoubt: inDoubt)
        ahead.learn(from: plan, expecting: headWasKnown)
    }
}
