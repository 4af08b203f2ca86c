import EntitlementAPI
import EntitlementCore

/// What time it is, by a device whose calendar clock anybody can set.
///
/// A clock set back must not extend access, and one set forward by mistake must not end it for good. So the server's
/// word counts most: while the process runs, time goes on from it by uptime alone. Before it has spoken, the time is
/// the latest of the calendar clock, what is proven to have passed, and what the calendar clock was once seen to say;
/// the last is forgotten when the server speaks, since it may have been a mistake.
struct ClockGuard: Encodable, Hashable, Sendable {
    /// The newest instant at which the store signed something.
    private(set) var signed = Timestamp.earliest
    /// The latest by the server's clock.
    private(set) var told = Timestamp.earliest
    /// The latest that the calendar clock said since the server last spoke.
    private(set) var claimed = Timestamp.earliest
    /// The server's instant, and the uptime in milliseconds at which it was heard; of this process alone.
    private var anchor: Anchor?

    private struct Anchor: Hashable, Sendable {
        let instant: Timestamp
        let uptime: Int64

        func now(_ uptime: Int64) -> Timestamp { instant.adding(milliseconds: max(0, uptime - self.uptime)) }
    }

    /// How far what is on disk may lag behind, in milliseconds, so that it is not written to for every second.
    static let tolerance: Int64 = 60_000
    /// How far two servers' clocks may differ, in milliseconds; beyond it a clock was put right.
    static let disagreement: Int64 = 120_000

    init() {}

    /// The time to evaluate at.
    ///
    /// - Parameter uptime: in milliseconds.
    func now(wall: Timestamp, uptime: Int64) -> Timestamp {
        if let anchor { return max(signed, anchor.now(uptime)) }
        return max(max(wall, claimed), max(signed, told))
    }

    /// The server answered, and said what time it was while the request was under way.
    ///
    /// - Parameters:
    ///   - sent: the uptime at which it was asked, in milliseconds.
    ///   - uptime: that at which the answer came.
    mutating func heard(_ instant: Timestamp, sent: Int64, uptime: Int64) {
        claimed = .earliest
        // It answered somewhere between the two; what fits into that is as good as its word.
        let latest = instant.adding(milliseconds: max(0, uptime - sent))
        if let current = anchor?.now(uptime), instant <= current,
            current <= latest.adding(milliseconds: Self.disagreement)
        {
            return
        }
        anchor = Anchor(instant: instant, uptime: uptime)
        told = instant
    }

    /// The store signed something at an instant, which has therefore passed.
    mutating func saw(signedDate: Timestamp) { signed = max(signed, signedDate) }

    /// Remembers how late it is, should the process end and the clock be set back.
    ///
    /// Returns whether that is worth keeping on disk.
    mutating func remember(wall: Timestamp, uptime: Int64) -> Bool {
        if let anchor {
            let now = anchor.now(uptime)
            guard now > told.adding(milliseconds: Self.tolerance) else { return false }
            told = now
        } else {
            guard wall > max(max(signed, told), claimed).adding(milliseconds: Self.tolerance) else { return false }
            claimed = wall
        }
        return true
    }

    /// The latest instant that is known to have been, as it was last kept; `nil` where nothing was.
    var lastKnown: Timestamp? {
        let latest = max(told, claimed)
        return latest == .earliest ? nil : latest
    }

    /// Takes what was kept on disk.
    mutating func restore(_ kept: ClockGuard) {
        signed = max(signed, kept.signed)
        // What the server said in this process is newer than what it said before.
        guard anchor == nil else { return }
        told = max(told, kept.told)
        claimed = max(claimed, kept.claimed)
    }

    /// Reads what was kept on disk.
    init(_ kept: WireValue) {
        signed = kept["signed"]?.instant ?? .earliest
        told = kept["told"]?.instant ?? .earliest
        claimed = kept["claimed"]?.instant ?? .earliest
    }

    private enum CodingKeys: String, CodingKey {
        case signed, told, claimed
    }
}
