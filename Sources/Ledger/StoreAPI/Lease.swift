/// Whether whoever holds a row of work is still at it, in SQL: one rule for everything that one process does at a time.
package enum Lease {
    /// How long a holder may be silent before another may take over.
    static let seconds = 30.0
    /// Between signs of life: several of them before a silent holder is taken for dead.
    package static let heartbeat = Duration.seconds(10)

    /// True while the sign of life in `column` is a fresh one, by the database's clock.
    ///
    /// One that is further ahead was given before the clock was set back, by a process that may be long gone.
    ///
    /// - Parameter parameter: the statement's placeholder for `seconds`, such as `$5`.
    static func isFresh(_ column: String, _ parameter: String) -> String {
        "\(column) BETWEEN clock_timestamp() - make_interval(secs => \(parameter)) "
            + "AND clock_timestamp() + make_interval(secs => \(parameter))"
    }

    /// Runs work of which one process does it at a time, and gives signs of life while it takes its time.
    ///
    /// One that fails has no consequence: where another has taken over, whatever the work writes into its row fails. None is
    /// given any more when this returns, so that the row can be let go.
    package static func keepAlive<Value, Failure: Error>(
        every interval: Duration = heartbeat, by sign: @escaping @Sendable () async throws -> Void,
        while work: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let signs = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: interval)
                try? await sign()
            }
        }
        do {
            let value = try await work()
            signs.cancel()
            _ = await signs.result
            return value
        } catch {
            signs.cancel()
            _ = await signs.result
            throw error
        }
    }

    /// Lets go of work that failed or was stopped, also where this task is cancelled: another process goes on at once.
    ///
    /// - Parameter letGo: is told why, and `nil` where it was only stopped. That it fails has no consequence: the lease runs out.
    /// - Returns: what is to be thrown.
    package static func letGo(
        after error: any Error, _ letGo: @escaping @Sendable (_ reason: String?) async throws -> Void
    ) async -> any Error {
        let isStopped = error is CancellationError || Task.isCancelled
        await Task { try? await letGo(isStopped ? nil : "\(error)") }.value
        return isStopped ? CancellationError() : error
    }
}
