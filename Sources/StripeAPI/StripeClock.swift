package import EntitlementCore
import OutgoingHTTP
import Synchronization

/// By how much this machine's clock and Stripe's differ, as its answers tell.
package final class StripeClock: Sendable {
    private let ahead = Mutex<Int64?>(nil)

    init() {}

    /// By how many milliseconds this machine's clock is ahead (behind, where negative); 0 while the two agree as far
    /// as whole seconds tell, `nil` before Stripe has answered.
    package var aheadMilliseconds: Int64? { ahead.withLock { $0 } }

    /// What Stripe's clock says when this machine's says `now`; the same until Stripe has answered.
    package func reading(at now: Timestamp) -> Timestamp {
        now.adding(milliseconds: -(aheadMilliseconds ?? 0))
    }

    /// Compares the clocks by an answer, which was dated between the two instants.
    func compare(_ answer: OutgoingAnswer, sentAt: Timestamp, receivedAt: Timestamp) {
        guard let dated = answer.header("Date").flatMap(HTTPDate.milliseconds) else { return }
        // It was dated within that second, and what is told of Stripe's time is never later than it is.
        let isAhead = sentAt.milliseconds > dated + 999
        ahead.withLock { $0 = isAhead ? sentAt.milliseconds - dated : min(0, receivedAt.milliseconds - dated) }
    }
}
