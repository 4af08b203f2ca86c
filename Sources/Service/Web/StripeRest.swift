import OutgoingHTTP
import StripeAPI
import Synchronization

/// How long Stripe's API is left alone after it could not be asked at all: by all readings, those included that a webhook waits
/// for, since each would fare no better.
final class StripeRest: Sendable {
    private struct State {
        var failures = 0
        /// Where something was read when Stripe failed, and only then since it last answered.
        var failedAt: Int64?
        var until: ContinuousClock.Instant?
        var reason = ""
    }

    private let state = Mutex(State())
    private let backoff: Backoff

    /// - Parameter backoff: the pauses, by the failures in a row.
    init(_ backoff: Backoff) { self.backoff = backoff }

    /// What is left of the rest; `nil` where there is none.
    func left(at now: ContinuousClock.Instant = .now) -> Duration? {
        state.withLock { $0.until }.flatMap { now < $0 ? now.duration(to: $0) : nil }
    }

    /// Why there is one now; `nil` where there is none.
    func reason(at now: ContinuousClock.Instant = .now) -> String? {
        state.withLock { state in state.until.flatMap { now < $0 ? state.reason : nil } }
    }

    /// Stripe could not be asked; whatever was under way meanwhile failed for the same reason, and counts once.
    ///
    /// An answer that Stripe has failed may be about what was asked for alone, so it counts when it comes for something else,
    /// too.
    ///
    /// - Parameter position: of the event for which something was read.
    func begin(_ error: StripeAPIError, at position: Int64, now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            if let until = state.until, now < until { return }
            if error.kind == .unavailable, error.status != nil, state.failures == 0 {
                let first = state.failedAt ?? position
                state.failedAt = first
                guard first != position else { return }
            }
            state.failures += 1
            state.until = now + backoff.pause(after: state.failures)
            state.reason = "\(error)"
        }
    }

    /// Stripe has answered.
    func end() { state.withLock { $0 = State() } }
}
