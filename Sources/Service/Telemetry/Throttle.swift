import Synchronization

/// Lets something pass at most once in a while.
package final class Throttle: Sendable {
    private let interval: Duration
    private let last: Mutex<ContinuousClock.Instant>

    /// The first to pass waits for `interval` too.
    package init(_ interval: Duration) {
        self.interval = interval
        last = Mutex(.now)
    }

    package func passes() -> Bool {
        last.withLock { last in
            let now = ContinuousClock.now
            guard last.duration(to: now) >= interval else { return false }
            last = now
            return true
        }
    }
}
