package import EntitlementCore
import Synchronization

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

/// Spreads the requests of one process over time, so that others who use the same account are not shut out.
///
/// Source: Stripe, "Rate limits": 100 requests a second in live mode and 25 in a sandbox, 25 of one endpoint.
package final class StripePace: Sendable {
    private let interval: Int64
    private let burst: Int64
    /// When the next request has its turn, and until when Stripe wants to be left alone; in milliseconds since 1970.
    private let state = Mutex<(next: Int64, blockedUntil: Int64)>((.min, .min))

    package init(_ environment: StoreEnvironment) {
        switch environment {
        case .production: (interval, burst) = (50, 20)
        case .sandbox: (interval, burst) = (100, 10)
        }
    }

    /// Takes a turn; returns how long to wait for it.
    func turn(now: Timestamp) -> Duration {
        let now = now.milliseconds
        let at = state.withLock { state in
            // What lies far ahead was taken before the clock was set back.
            if state.next > now + Self.farAhead { state.next = now }
            let at = max(state.next, now - (burst - 1) * interval)
            state.next = at + interval
            return at
        }
        return .milliseconds(max(0, at - now))
    }

    /// Remembers that Stripe wants to be left alone.
    func block(until: Timestamp) {
        state.withLock { $0.blockedUntil = max($0.blockedUntil, until.milliseconds) }
    }

    /// Until when Stripe wants to be left alone; `nil` when it does not.
    func blocked(now: Timestamp) -> Timestamp? {
        state.withLock { state in
            let isAhead = state.blockedUntil > now.milliseconds
            guard isAhead, state.blockedUntil <= now.milliseconds + StripeAPIError.longestRetryAfter * 1000 else {
                state.blockedUntil = .min
                return nil
            }
            return Timestamp(milliseconds: state.blockedUntil)
        }
    }

    private static let farAhead: Int64 = 60_000
}
