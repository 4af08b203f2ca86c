import EntitlementCore
import OutgoingHTTP

/// An outage of a server that is waited out: how long to pause before each further attempt, and when to give up.
struct Outage: Sendable {
    /// However late the server wants to be asked again, it is asked after this.
    private static let longestWish = Duration.seconds(3600)

    private let patience: Duration
    private let backoff: Backoff
    private var failures = 0
    private var end: ContinuousClock.Instant?

    /// - Parameter patience: how long it is waited out; where the server says when it wants to be asked, from then on.
    init(patience: Duration, _ backoff: Backoff) {
        self.patience = patience
        self.backoff = backoff
    }

    /// How long to wait after a failure; `nil` to give up.
    ///
    /// - Parameter wish: how long the server wants to be left alone, where it says so.
    mutating func pause(at now: ContinuousClock.Instant, wish: Duration? = nil) -> Duration? {
        if let end, now >= end { return nil }
        failures += 1
        let pause = max(backoff.pause(after: failures), min(wish ?? .zero, Self.longestWish))
        if wish != nil {
            end = now + pause + patience
        } else if end == nil {
            end = now + patience
        }
        return pause
    }
}

extension Timestamp {
    /// The instant after a duration, of which whole milliseconds count.
    func adding(_ duration: Duration) -> Timestamp { adding(milliseconds: Int64(duration / .milliseconds(1))) }
}
