import Synchronization

/// Lets something pass at most once in a while.
package final class Throttle: Sendable {
    private let interval: Duration
    private let last: Mutex<ContinuousClock.Instant>

    /// - Parameter beginsOpen: whether the first passes at once; else it waits for `interval` too.
    package init(_ interval: Duration, beginsOpen: Bool = false) {
        self.interval = interval
        last = Mutex(beginsOpen ? .now - interval : .now)
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
