import EntitlementAPI
import EntitlementCore

/// Tells the time on a device whose calendar clock anybody can set.
///
/// A clock set back must not extend access, and one set forward by mistake must not end it for good. So the server's
/// word counts most: while the process runs, time goes on from it by uptime alone. Before it has spoken, the time is
/// the latest of the calendar clock, what is proven to have passed, and what the calendar clock was once seen to say;
/// from the last two time goes on by uptime. What the calendar clock once said may have been a mistake. It is forgotten
/// when the server speaks; when the calendar clock, set forward while the process runs, is where it would be without
/// that; and when it agrees with what the store has signed since.
struct ClockGuard: Encodable, Hashable, Sendable {
    /// The newest instant at which the store signed something.
    private(set) var signed = Timestamp.earliest
    /// The latest by the server's clock.
    private(set) var told = Timestamp.earliest
    /// The latest that it ever was by the server's clock, unless that was put right, as it was last kept.
    private var toldEver = Timestamp.earliest
    /// The same in this process, and the uptime from which time goes on from it.
    private var furthest: Anchor?
    /// The latest that the calendar clock said since the server last spoke, or that it has become by uptime since then.
    private(set) var claimed = Timestamp.earliest
    /// The server's instant, and the uptime in milliseconds at which it was heard; of this process alone.
    private var anchor: Anchor?
    /// What the calendar clock said when it was first not behind what is known to have passed, and the uptime at which
    /// it did; of this process alone.
    private var line: Anchor?
    /// Whether the calendar clock was set forward since.
    private var isAhead = false
    /// The latest of all that was signed, told or claimed, and the uptime from which time goes on from it; of this process
    /// alone.
    private var floor: Anchor?

    private struct Anchor: Hashable, Sendable {
        let instant: Timestamp
        let uptime: Int64

        func now(_ uptime: Int64) -> Timestamp { instant.adding(milliseconds: max(0, uptime - self.uptime)) }
    }

    /// How far what is on disk may lag behind, in milliseconds, so that it is not written to for every second.
    static let tolerance: Int64 = 60_000
    /// How far two servers' clocks may differ, in milliseconds; beyond it a clock was put right.
    static let disagreement: Int64 = 120_000
    /// How old something new of the store may be for the calendar clock to be held against it, in milliseconds: what was signed
    /// in the night is seen when the app is next opened, and somebody who sets a clock back gains no more than that.
    static let freshness: Int64 = 3 * 86_400_000

    init() {}

    /// Whether the server has said in this process what time it is, so that nobody here can set it.
    var isTold: Bool { anchor != nil }

    /// The time to evaluate at.
    ///
    /// - Parameter uptime: in milliseconds.
    func now(wall: Timestamp, uptime: Int64) -> Timestamp {
        if let anchor { return max(signed, anchor.now(uptime)) }
        return max(max(wall, latest), floor?.now(uptime) ?? .earliest)
    }

    /// How long it takes until it is an instant, in milliseconds: where the server's clock is behind what the store has
    /// signed, the time stands still until that clock has come there.
    func wait(until instant: Timestamp, wall: Timestamp, uptime: Int64) -> Int64 {
        let running = anchor?.now(uptime) ?? now(wall: wall, uptime: uptime)
        return instant.milliseconds - running.milliseconds
    }

    /// Whether store and server have said that it was later than an instant, or as late.
    func hasPassed(_ instant: Timestamp, uptime: Int64) -> Bool {
        instant <= max(signed, reachedByServer(uptime))
    }

    /// The latest that it ever was by the server's clock.
    private func reachedByServer(_ uptime: Int64) -> Timestamp { max(toldEver, furthest?.now(uptime) ?? .earliest) }

    private var latest: Timestamp { max(claimed, max(signed, told)) }

    /// The time without the calendar clock's present word.
    private func reached(_ uptime: Int64) -> Timestamp { max(claimed, floor?.now(uptime) ?? .earliest) }

    /// Time goes on from what is known to have passed, unless it has come further already.
    private mutating func raiseFloor(_ uptime: Int64) {
        if floor.map({ $0.now(uptime) < latest }) ?? true { floor = Anchor(instant: latest, uptime: uptime) }
    }

    /// The calendar clock is believed again, so what followed from what it said before does not count any more.
    private mutating func correct(claimed instant: Timestamp, _ uptime: Int64) {
        claimed = instant
        floor = Anchor(instant: latest, uptime: uptime)
    }

    /// The server answered, and said what time it was while the request was under way.
    ///
    /// - Parameters:
    ///   - sent: the uptime at which it was asked, in milliseconds.
    ///   - uptime: that at which the answer came.
    ///   - isNewest: whether it is known to be later than all before it: where it is earlier by the server's clock, that clock
    ///     was put right.
    mutating func heard(_ instant: Timestamp, sent: Int64, uptime: Int64, isNewest: Bool = true) {
        claimed = .earliest
        if isNewest || reachedByServer(uptime) < instant {
            (toldEver, furthest) = (instant, Anchor(instant: instant, uptime: uptime))
        }
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
    ///
    /// What is newer than anything it signed before came over the network, from a clock that nobody here can set.
    mutating func saw(signedDate: Timestamp, wall: Timestamp, uptime: Int64) {
        guard signedDate > signed else { return }
        signed = signedDate
        let age = wall.milliseconds - signedDate.milliseconds
        let isFresh = (-Self.disagreement...Self.freshness).contains(age)
        if isFresh, reached(uptime) > max(wall, signedDate) {
            correct(claimed: min(claimed, max(wall, signedDate)), uptime)
        } else {
            raiseFloor(uptime)
        }
    }

    /// The newest that the store signed and the last that the server answered, as they were kept.
    ///
    /// Those instants have passed, whatever became of the file that told so. The server's clock may have been wrong then, so
    /// its next word replaces it.
    mutating func witness(signed instant: Timestamp?, told: Timestamp?, uptime: Int64) {
        signed = max(signed, instant ?? .earliest)
        if anchor == nil { self.told = max(self.told, told ?? .earliest) }
        raiseFloor(uptime)
    }

    /// Remembers how late it is, should the process end and the clock be set back.
    ///
    /// Returns whether that is worth keeping on disk.
    mutating func remember(wall: Timestamp, uptime: Int64) -> Bool {
        if let anchor {
            let now = anchor.now(uptime)
            guard now > told.adding(milliseconds: Self.tolerance) else { return false }
            told = now
            toldEver = reachedByServer(uptime)
        } else {
            if hasReturned(wall, uptime: uptime) {
                correct(claimed: min(claimed, wall), uptime)
                return true
            }
            // Behind a clock that was set back time has passed all the same.
            let now = now(wall: wall, uptime: uptime)
            guard now > latest.adding(milliseconds: Self.tolerance) else { return false }
            claimed = now
            raiseFloor(uptime)
        }
        return true
    }

    /// Whether the calendar clock, which was set forward, is back where it would be without that.
    ///
    /// Where it began behind what is known to have passed, it was wrong then, and coming back to that proves nothing.
    private mutating func hasReturned(_ wall: Timestamp, uptime: Int64) -> Bool {
        guard let line else {
            if wall.adding(milliseconds: Self.disagreement) >= latest { line = Anchor(instant: wall, uptime: uptime) }
            return false
        }
        let gap = wall.milliseconds - line.now(uptime).milliseconds
        if gap > Self.disagreement { isAhead = true }
        guard isAhead, abs(gap) <= Self.disagreement else { return false }
        isAhead = false
        return reached(uptime) > wall
    }

    /// The latest instant that is known to have been, as it was last kept; `nil` where nothing was.
    var lastKnown: Timestamp? {
        let latest = max(told, claimed)
        return latest == .earliest ? nil : latest
    }

    /// Takes what was kept on disk.
    mutating func restore(_ kept: ClockGuard, uptime: Int64) {
        signed = max(signed, kept.signed)
        toldEver = max(toldEver, kept.toldEver)
        // What the server said in this process is newer than what it said before.
        guard anchor == nil else { return }
        told = max(told, kept.told)
        claimed = max(claimed, kept.claimed)
        raiseFloor(uptime)
    }

    /// Reads what was kept on disk.
    init(_ kept: WireValue) {
        signed = kept["signed"]?.instant ?? .earliest
        told = kept["told"]?.instant ?? .earliest
        claimed = kept["claimed"]?.instant ?? .earliest
        toldEver = kept["toldEver"]?.instant ?? told
    }

    private enum CodingKeys: String, CodingKey {
        case signed, told, claimed, toldEver
    }
}
