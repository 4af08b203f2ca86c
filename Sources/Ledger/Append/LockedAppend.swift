import EntitlementCore
import PostgresClient
import Synchronization

/// Writes batches that are decided under the head's lock, again after a lost connection or lock.
struct LockedAppend: Sendable {
    let pool: PostgresPool
    let limits: LedgerWriter.Limits
    let memory: WriterMemory
    let lease: ReadLease
    let now: @Sendable () -> Timestamp
    /// Compared with the database's under the lock.
    let clock: LedgerClock?
    let report: @Sendable (LedgerWriter.BatchReport) -> Void
    let obstacles: ObstacleWatch
    private let isEnding = Flag()

    private final class Flag: Sendable {
        let value = Atomic(false)
    }

    /// From now on gives up where the connection is lost, rather than tries again.
    func end() { isEnding.value.store(true, ordering: .relaxed) }

    /// Writes a batch and answers its requests.
    ///
    /// - Parameter inDoubt: what an earlier attempt may have committed of it.
    /// - Returns: what was written; `nil` where that failed for some of it at least.
    func commit(_ batch: [LedgerWriter.Waiter], inDoubt: AppendPlan? = nil) async -> AppendPlan? {
        let clock = ContinuousClock()
        let start = clock.now
        do {
            let plan = try await write(batch.map(\.event), inDoubt: inDoubt)
            obstacles.note(plan)
            self.clock?.hear(of: plan.head.recordedAt)
            report(
                LedgerWriter.BatchReport(
                    requests: batch.count, events: plan.events.count, base: plan.base.mark, end: plan.head.mark,
                    duration: start.duration(to: clock.now)))
            for (waiter, outcome) in zip(batch, plan.outcomes) {
                waiter.continuation.resume(returning: outcome.mapError { $0 })
            }
            return plan
        } catch {
            var failure = LedgerError(error, doing: "appending to the log")
            // What is refused because everything is will do later, whatever the database's code for it.
            if obstacles.obstacle != nil { failure = failure.passing }
            // One event that the database refuses must not take its neighbours with it.
            if failure.code != .unavailable, batch.count > 1 {
                for waiter in batch { _ = await commit([waiter]) }
            } else {
                obstacles.note(error)
                for waiter in batch { waiter.continuation.resume(returning: .failure(failure)) }
            }
            return nil
        }
    }

    private func write(_ batch: [PreparedEvent], inDoubt: AppendPlan?) async throws -> AppendPlan {
        var inDoubt = inDoubt
        var attempt = 1
        var isHeld = false
        while true {
            let failure: PostgresError
            do {
                let outcome =
                    if isHeld {
                        try await obstacles.watching(through: pool) { try await run(batch, inDoubt: inDoubt, in: $0) }
                    } else {
                        try await run(batch, inDoubt: inDoubt)
                    }
                switch outcome {
                case .committed(let plan): return plan
                case .inDoubt(let plan, let error): (inDoubt, failure) = (plan, error)
                }
            } catch let error as PostgresError where error.isPassing {
                failure = error
            } catch {
                guard inDoubt == nil else {
                    // Decided one by one they might be recorded twice: an earlier attempt may have been committed.
                    throw LedgerError(.unavailable, "appending to the log, where an attempt is in doubt: \(error)")
                }
                throw error
            }
            isHeld = failure.kind == .lockTimeout
            if isHeld { await endStalledHolders() }
            // A server that says nothing keeps each attempt waiting for half a minute.
            let isLast = failure.kind == .connection && isEnding.value.load(ordering: .relaxed)
            guard attempt < limits.attempts, !isLast else {
                guard isHeld, let holder = obstacles.holder else {
                    guard inDoubt != nil else { throw failure }
                    throw LedgerError(failure, doing: "appending to the log").inDoubt
                }
                throw LedgerError(.unavailable, "appending to the log: \(holder) (\(failure))")
            }
            // Longer than the pool refuses at once after a failure to connect.
            if failure.kind == .connection { try? await Task.sleep(for: .milliseconds(100 * attempt)) }
            attempt += 1
        }
    }

    private func run(
        _ batch: [PreparedEvent], inDoubt: AppendPlan?, in session: ObstacleWatch.Session? = nil
    ) async throws -> AppendTransaction.Outcome {
        try await pool.withConnection { [memory, lease, now, clock] connection in
            session?.use(connection)
            return try AppendTransaction.run(
                batch, inDoubt: inDoubt, memory: memory, lease: lease, now: now, clock: clock, on: connection)
        }
    }

    /// Ends sessions that hold the head, or write events, while their program does not move.
    private func endStalledHolders() async {
        let limit = Duration.milliseconds(limits.stalledMilliseconds)
        try? await pool.withConnection { try StalledSessions.end(stalledFor: limit, on: $0) }
    }
}
