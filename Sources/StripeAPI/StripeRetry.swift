package import OutgoingHTTP

/// When a request that failed is sent again.
package struct StripeRetry: Sendable {
    /// How often a request is sent at most.
    package var attempts = 4
    /// The pauses between attempts that Stripe did not ask for.
    package var backoff = Backoff(first: .milliseconds(500), longest: .seconds(5))

    package init() {}

    /// How long to wait before the next attempt; `nil` to give up.
    ///
    /// A request that makes something bears a key of its own, so it may be sent again whatever became of it.
    ///
    /// - Parameters:
    ///   - attempt: how many were made.
    ///   - fraction: from 0 to 1, chosen by chance: services that failed together do not come back together.
    func pause(after error: StripeAPIError, attempt: Int, fraction: Double) -> Duration? {
        guard attempt < attempts, error.isPassing else { return nil }
        return max(backoff.pause(after: attempt, fraction: fraction), .seconds(error.retryAfter ?? 0))
    }
}
