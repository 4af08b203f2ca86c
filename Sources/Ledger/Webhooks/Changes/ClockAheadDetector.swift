import EntitlementCore
import Synchronization

/// Tells whether customers may have been looked at by a clock that was ahead of the present.
///
/// Their rows say so, but no index finds these rows; so they are searched when this process starts, and when its clock
/// went back. The clock that went back may be the wrong one, and then what has begun since would be reported as ended;
/// so it is believed only once it has gone on for a while.
final class ClockAheadDetector: Sendable {
    /// How far ahead an instant may lie and is still taken for the present, in milliseconds: the clocks of several machines differ,
    /// and the present comes to it by itself before long.
    private static let tolerance: Int64 = 600_000

    /// A smaller step than this is taken for none, in milliseconds.
    private static let step: Int64 = 60_000

    /// How long a clock has to go on before it is believed.
    private let settle: Duration

    private struct State {
        /// The latest instant of a look since none lay ahead; `nil` before the first search.
        var latest: Timestamp?
        /// What the clock said last.
        var clock: Timestamp?
        /// Since when it has not gone back.
        var steadySince: ContinuousClock.Instant
    }

    private let state: Mutex<State>

    init(settle: Duration = .seconds(600), at own: ContinuousClock.Instant = .now) {
        self.settle = settle
        state = Mutex(State(steadySince: own))
    }

    /// What comes after this lies ahead.
    static func limit(of now: Timestamp) -> Timestamp { now.adding(milliseconds: tolerance) }

    static func isAhead(_ instant: Timestamp, of now: Timestamp) -> Bool { instant > limit(of: now) }

    /// The present, where the clock is believed; else `nil`, and then nothing lies ahead of it.
    func present(_ now: Timestamp, at own: ContinuousClock.Instant = .now) -> Timestamp? {
        state.withLock { state in
            if let last = state.clock, now < last.adding(milliseconds: -Self.step) { state.steadySince = own }
            state.clock = now
            return state.steadySince.duration(to: own) >= settle ? now : nil
        }
    }

    /// Whether some may have been.
    func isPossible(at present: Timestamp) -> Bool {
        state.withLock { state in state.latest.map { Self.isAhead($0, of: present) } ?? true }
    }

    /// Takes note that some are looked at now.
    func noteLook(at now: Timestamp) {
        state.withLock { state in state.latest = state.latest.map { max($0, now) } }
    }

    /// Takes note that they were searched, and that there is none.
    func noteNone(at now: Timestamp) { state.withLock { $0.latest = now } }
}
