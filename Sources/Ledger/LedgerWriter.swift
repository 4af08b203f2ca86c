package import EntitlementCore
package import PostgresClient

/// Appends events, many requests to one transaction and one fsync.
///
/// While one batch is being committed the next one gathers, so a batch is as large as the load makes it and a lone
/// request waits for nothing. A request is answered only after the commit that holds its event. Any number of writers
/// may run against one ledger, in this process or others: the head row orders them.
package actor LedgerWriter {
    package struct Limits: Sendable {
        /// Events of one transaction.
        package var batchEvents = 256
        /// Evidence bytes of one transaction; a single larger event still goes, alone.
        package var batchBytes = 8 << 20
        /// Requests that may wait; further ones are refused as `unavailable`.
        package var waiting = 8192
        /// Tries of one batch while the database is away; the pool waits between them.
        package var attempts = 3

        package init() {}
    }

    /// What one committed batch looked like, for metrics.
    package struct BatchReport: Sendable {
        package let requests: Int
        package let events: Int
        package let position: Int64
        package let duration: Duration
    }

    private struct Waiter {
        let event: PreparedEvent
        let continuation: CheckedContinuation<Result<AppendOutcome, any Error>, Never>
    }

    private let pool: PostgresPool
    private let limits: Limits
    private let now: @Sendable () -> Timestamp
    private let report: @Sendable (BatchReport) -> Void
    private var waiting: [Waiter] = []
    private var isRunning = false
    private var drained: [CheckedContinuation<Void, Never>] = []
    /// Positions for which partitions are known to exist.
    private var partitionedUpTo: Int64 = 0

    package init(
        pool: PostgresPool, limits: Limits = Limits(), now: @escaping @Sendable () -> Timestamp,
        report: @escaping @Sendable (BatchReport) -> Void = { _ in }
    ) {
        self.pool = pool
        self.limits = limits
        self.now = now
        self.report = report
    }

    /// Returns once the event is durable and visible, or was so before.
    ///
    /// Throws `AppendRefusal` for a command that must not be carried out, else `LedgerError`.
    package nonisolated func append(_ draft: EventDraft) async throws -> AppendOutcome {
        try await enqueue(PreparedEvent(draft)).get()
    }

    private func enqueue(_ event: PreparedEvent) async -> Result<AppendOutcome, any Error> {
        guard waiting.count < limits.waiting else {
            return .failure(LedgerError(.unavailable, "\(waiting.count) appends are waiting; try again later"))
        }
        return await withCheckedContinuation { continuation in
            waiting.append(Waiter(event: event, continuation: continuation))
            if !isRunning {
                isRunning = true
                Task { await self.run() }
            }
        }
    }

    /// Waits until nothing is waiting or under way; for an orderly stop.
    package func drain() async {
        guard isRunning else { return }
        await withCheckedContinuation { drained.append($0) }
    }

    private func run() async {
        while !waiting.isEmpty { await commit(nextBatch()) }
        isRunning = false
        for continuation in drained { continuation.resume() }
        drained = []
    }

    private func nextBatch() -> [Waiter] {
        var bytes = 0
        var count = 0
        for waiter in waiting.prefix(limits.batchEvents) {
            bytes += waiter.event.draft.evidence?.count ?? 0
            if count > 0, bytes > limits.batchBytes { break }
            count += 1
        }
        let batch = Array(waiting.prefix(count))
        waiting.removeFirst(count)
        return batch
    }

    private func commit(_ batch: [Waiter]) async {
        let clock = ContinuousClock()
        let start = clock.now
        do {
            let plan = try await write(batch.map(\.event))
            report(
                BatchReport(
                    requests: batch.count, events: plan.events.count, position: plan.head.position,
                    duration: start.duration(to: clock.now)))
            for (waiter, outcome) in zip(batch, plan.outcomes) {
                waiter.continuation.resume(returning: outcome.mapError { $0 })
            }
        } catch {
            let failure = LedgerError(error, doing: "appending to the log")
            // One event that the database refuses must not take its neighbours with it.
            if failure.code != .unavailable, batch.count > 1 {
                for waiter in batch { await commit([waiter]) }
            } else {
                for waiter in batch { waiter.continuation.resume(returning: .failure(failure)) }
            }
        }
    }

    /// Writes one batch, again after a lost connection or lock: what was committed unheard is found by its keys.
    private func write(_ batch: [PreparedEvent]) async throws -> AppendPlan {
        var attempt = 1
        while true {
            do {
                let plan = try await pool.withConnection { [now] connection in
                    try AppendTransaction.run(batch, now: now, on: connection)
                }
                await ensurePartitions(after: plan.head.position)
                return plan
            } catch let error as PostgresError where error.isPassing && attempt < limits.attempts {
                attempt += 1
            }
        }
    }

    /// Makes partitions well ahead of the head.
    ///
    /// A failure is no reason to refuse what is already committed: the two partitions ahead leave millions of appends
    /// to try again in.
    private func ensurePartitions(after position: Int64) async {
        guard position + Self.partitionMargin > partitionedUpTo else { return }
        let target = position + 2 * Self.partitionMargin
        let made: Void? = try? await pool.withConnection { connection in
            try connection.query("SELECT ensure_partitions($1)", [.int(target)])
        }
        if made != nil { partitionedUpTo = target }
    }

    private static let partitionMargin: Int64 = 1_000_000
}
