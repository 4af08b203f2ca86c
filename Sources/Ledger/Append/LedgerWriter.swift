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
        package var batchEvents = 2048
        /// Evidence bytes of one transaction; a single larger event still goes, alone.
        package var batchBytes = 8 << 20
        /// Requests that may wait; further ones are refused as `unavailable`.
        package var waiting = 8192
        /// Tries of one batch while the database is away or the head is locked.
        package var attempts = 3
        /// How long a session may hold the head while the server waits for its program.
        package var stalledMilliseconds = 5000

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
    private let memory = WriterMemory()
    private var waiting: [Waiter] = []
    private var isRunning = false
    private var drained: [CheckedContinuation<Void, Never>] = []

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
            bytes += waiter.event.evidence?.bytes.count ?? 0
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

    /// Writes one batch, again after a lost connection or lock.
    private func write(_ batch: [PreparedEvent]) async throws -> AppendPlan {
        var inDoubt: AppendPlan?
        var attempt = 1
        while true {
            let failure: PostgresError
            do {
                let outcome = try await pool.withConnection { [inDoubt, memory, now] connection in
                    try AppendTransaction.run(batch, inDoubt: inDoubt, memory: memory, now: now, on: connection)
                }
                switch outcome {
                case .committed(let plan): return plan
                case .inDoubt(let plan, let error): (inDoubt, failure) = (plan, error)
                }
            } catch let error as PostgresError where error.isPassing {
                failure = error
            }
            if failure.kind == .lockTimeout { await endStalledHolders() }
            guard attempt < limits.attempts else { throw failure }
            // Longer than the pool refuses at once after a failure to connect.
            if failure.kind == .connection { try? await Task.sleep(for: .milliseconds(100 * attempt)) }
            attempt += 1
        }
    }

    /// Ends sessions that hold the head while their program does not move.
    ///
    /// The server's own timeouts end a session that is idle in a transaction, and one whose statement takes long. One
    /// whose program stopped half-way through sending a batch is neither, and would hold the ledger until it goes on.
    private func endStalledHolders() async {
        _ = try? await pool.withConnection { connection in
            try connection.query(
                """
                SELECT pg_terminate_backend(activity.pid) FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
                WHERE lock.locktype = 'relation' AND lock.relation = 'ledger_head'::regclass AND lock.granted
                    AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND activity.usename = current_user AND activity.state = 'active'
                    AND activity.wait_event IN ('ClientRead', 'ClientWrite')
                    AND activity.state_change < clock_timestamp() - $1 * interval '1 millisecond'
                """, [.double(Double(limits.stalledMilliseconds))])
        }
    }
}
