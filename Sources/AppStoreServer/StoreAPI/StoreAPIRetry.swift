package import EntitlementCore
package import OutgoingHTTP

/// When a request that failed is sent again.
package struct StoreAPIRetry: Sendable {
    /// For how long a request that fails is sent again, after its first failure.
    package var persistence = Duration.seconds(8)
    /// The pauses between attempts that the store did not ask for.
    package var backoff = Backoff(first: .milliseconds(500), longest: .seconds(30))

    package init() {}

    /// How long to wait before the next attempt; `nil` to give up.
    ///
    /// - Parameters:
    ///   - attempt: how many were made.
    ///   - failing: for how long the request has failed.
    ///   - fraction: from 0 to 1, chosen by chance: services that failed together do not come back together.
    package func pause(
        after error: StoreAPIError, of request: StoreAPIRequest, attempt: Int, failing: Duration, now: Timestamp,
        fraction: Double
    ) -> Duration? {
        guard error.isPassing else { return nil }
        // A refusal says that nothing was done; without an answer nobody knows.
        if !request.isRepeatable, error.kind == .unavailable || error.kind == .unreadable { return nil }
        if case .limited(let until?) = error.kind {
            // A little later than allowed, so that not everybody comes in the same millisecond.
            return .milliseconds(max(0, until.milliseconds - now.milliseconds)) + backoff.first * fraction
        }
        let pause = backoff.pause(after: attempt, fraction: fraction)
        return failing + pause <= persistence ? pause : nil
    }
}
