package import EntitlementCore
import OutgoingHTTP
import Synchronization

/// By how much this machine's clock and Stripe's differ, as its answers tell.
package final class StripeClock: Sendable {
    private struct Comparison {
        let ahead: Int64
        /// This machine's clock then, and what no setting of a clock changes.
        let at: Timestamp
        let instant: ContinuousClock.Instant
    }

    /// How much the clock may drift until it is taken for one that was set since; in milliseconds.
    private static let tolerance: Int64 = 5000

    private let last = Mutex<Comparison?>(nil)

    init() {}

    /// By how many milliseconds this machine's clock is ahead (behind, where negative); 0 while the two agree as far
    /// as whole seconds tell, `nil` before Stripe has answered, also since the clock was set.
    package func aheadMilliseconds(at now: Timestamp) -> Int64? {
        guard let last = last.withLock(\.self) else { return nil }
        let passed = Int64(last.instant.duration(to: .now) / .milliseconds(1))
        let isSet = abs(now.milliseconds - last.at.milliseconds - passed) > Self.tolerance
        return isSet ? nil : last.ahead
    }

    /// What Stripe's clock says when this machine's says `now`; the same where that is not known.
    package func reading(at now: Timestamp) -> Timestamp {
        now.adding(milliseconds: -(aheadMilliseconds(at: now) ?? 0))
    }

    /// Compares the clocks by an answer, which was dated between the two instants.
    func compare(_ answer: OutgoingAnswer, sentAt: Timestamp, receivedAt: Timestamp) {
        guard let dated = answer.header("Date").flatMap(HTTPDate.milliseconds) else { return }
        // It was dated within that second, and what is told of Stripe's time is never later than it is.
        let isAhead = sentAt.milliseconds > dated + 999
        let ahead = isAhead ? sentAt.milliseconds - dated : min(0, receivedAt.milliseconds - dated)
        last.withLock { $0 = Comparison(ahead: ahead, at: receivedAt, instant: .now) }
    }
}
