/// When a request that failed is sent again.
package struct StripeRetry: Sendable {
    /// How often a request is sent at most.
    package var attempts = 4
    /// The pause before the second attempt; doubled before each further one.
    package var firstPause = Duration.milliseconds(500)
    /// The longest pause between two attempts that Stripe did not ask for.
    package var longestPause = Duration.seconds(5)

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
        let whole = min(longestPause, firstPause * (1 << min(attempt - 1, 16)))
        let own = whole / 2 + whole / 2 * fraction
        return max(own, .seconds(error.retryAfter ?? 0))
    }
}
