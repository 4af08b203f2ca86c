import EntitlementCore
import Synchronization

/// Knows when customers may have been looked at by a clock that was ahead of the present.
///
/// Their rows say so, but nothing leads to these rows; so they are searched when this process begins, and when its clock went
/// back.
final class LookedAhead: Sendable {
    /// How far ahead an instant may lie and is still taken for the present, in milliseconds: the clocks of several machines differ,
    /// and events that come at once are dated one after the other.
    private static let tolerance: Int64 = 60_000

    /// The latest instant of a look since none lay ahead; `nil` before the first search.
    private let latest = Mutex<Timestamp?>(nil)

    /// What comes after this lies ahead.
    static func limit(of now: Timestamp) -> Timestamp { now.adding(milliseconds: tolerance) }

    static func isAhead(_ instant: Timestamp, of now: Timestamp) -> Bool { instant > limit(of: now) }

    /// Whether some may have been.
    func isPossible(at now: Timestamp) -> Bool {
        latest.withLock { latest in latest.map { Self.isAhead($0, of: now) } ?? true }
    }

    /// Takes note that some are looked at now.
    func noteLook(at now: Timestamp) {
        latest.withLock { latest in latest = latest.map { max($0, now) } }
    }

    /// Takes note that they were searched, and that there is none.
    func noteNone(at now: Timestamp) { latest.withLock { $0 = now } }
}
