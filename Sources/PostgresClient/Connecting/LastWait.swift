import Synchronization

/// For how long a program that stops still waits for a server that says nothing, over all of its connections.
///
/// One after the other they would each wait as long as the longest statement may take.
package final class LastWait: Sendable {
    /// What each wait gets that begins when the time is over: a server that lives still answers then.
    static let moment = Duration.milliseconds(500)

    private let end = Mutex<ContinuousClock.Instant?>(nil)

    package init() {}

    /// Begins it; only the first time counts.
    package func begin(_ limit: Duration) {
        end.withLock { if $0 == nil { $0 = .now + limit } }
    }

    /// Holds a wait that begins now to what is left.
    ///
    /// - Parameter limit: how long it may take otherwise; `nil`: without end.
    func shortened(_ limit: Duration?) -> Duration? {
        guard let end = end.withLock({ $0 }) else { return limit }
        let left = max(Self.moment, ContinuousClock.now.duration(to: end))
        return limit.map { min($0, left) } ?? left
    }
}
