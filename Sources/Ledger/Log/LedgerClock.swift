package import EntitlementCore
package import PostgresClient
import Synchronization

/// The one clock that all instances date events by: this machine's as long as it agrees with the database's, else the
/// database's.
///
/// Which of the two is right is decided by comparing them. From then on time passes as this machine counts it, so a clock
/// that is set, wrongly or right again, changes nothing before the next comparison, and no read needs one.
///
/// Comparing allows for the time that the question takes, so that a slow answer is not taken for a wrong clock. Within what
/// is tolerated the clocks of two instances may still differ, and what one has recorded must hold for who asks the other
/// right after: so it is never earlier than an event that was heard of, unless no clock that counts as right has dated it.
package final class LedgerClock: Sendable {
    /// How far a clock may be from the database's, and still count as right: 2 s, in milliseconds.
    static let toleranceMilliseconds: Int64 = 2000

    /// How far the clocks of two instances may be apart, and so an event dated ahead of whoever hears of it, although both
    /// count as right: 5 s, in milliseconds.
    ///
    /// They may be on opposite sides of the database's. The second on top is for what no comparison sees: the time that the
    /// question takes, and the millisecond by which batches are kept apart.
    package static let spreadMilliseconds = 2 * toleranceMilliseconds + 1000

    private let own: @Sendable () -> Timestamp
    private let elapsed: @Sendable () -> Int64
    /// The present when `elapsed` was 0, in milliseconds, as the last comparison has it; until the first, by this machine's
    /// clock as it began.
    private let start: Atomic<Int64>
    /// The same by this machine's clock, as it was when it was last looked at.
    private let ownStart: Atomic<Int64>
    /// By how much this machine's clock is ahead of the one that counts, in milliseconds.
    private let skew = Atomic<Int64>(0)
    /// When the last event was recorded that this instance has heard of, in milliseconds.
    private let lastRecorded = Atomic<Int64>(.min)

    /// - Parameters:
    ///   - own: this machine's clock.
    ///   - elapsed: milliseconds since some instant, suspended or not, whatever becomes of `own`.
    package init(
        _ own: @escaping @Sendable () -> Timestamp, elapsed: @escaping @Sendable () -> Int64 = LedgerClock.elapsed
    ) {
        (self.own, self.elapsed) = (own, elapsed)
        let start = own().milliseconds - elapsed()
        self.start = Atomic(start)
        ownStart = Atomic(start)
    }

    private static let origin = ContinuousClock.now

    /// Milliseconds that have passed in this process, also while the machine was suspended.
    package static let elapsed: @Sendable () -> Int64 = {
        let passed = origin.duration(to: .now).components
        return passed.seconds * 1000 + passed.attoseconds / 1_000_000_000_000_000
    }

    /// The present: not before what was heard of was recorded, unless that lies further ahead than the clocks of instances may
    /// be apart.
    package var now: @Sendable () -> Timestamp {
        { [self] in
            let here = Timestamp(milliseconds: start.load(ordering: .relaxed)).adding(milliseconds: elapsed())
            let last = lastRecorded.load(ordering: .relaxed)
            guard last > here.milliseconds, last <= here.adding(milliseconds: Self.spreadMilliseconds).milliseconds
            else { return here }
            return Timestamp(milliseconds: last)
        }
    }

    /// Takes note of when the last event of the log was recorded, by whichever instance.
    package func hear(of recordedAt: Timestamp) {
        lastRecorded.max(recordedAt.milliseconds, ordering: .relaxed)
    }

    /// What this machine's clock says, whatever the database's does.
    package var machineNow: @Sendable () -> Timestamp { own }

    /// By how much this machine's clock was ahead when it was last compared (behind, where negative), in milliseconds;
    /// 0 while it agrees.
    package var skewMilliseconds: Int64 { skew.load(ordering: .relaxed) }

    /// Whether this machine's clock was set, by more than may be tolerated, since this or a comparison last looked at it.
    package func wasSet() -> Bool {
        let now = own().milliseconds - elapsed()
        return (now - ownStart.exchange(now, ordering: .relaxed)).magnitude > UInt64(Self.toleranceMilliseconds)
    }

    /// This machine's count, for `compare(with:asked:)`.
    func reading() -> Int64 { elapsed() }

    /// Takes note of the database's time.
    ///
    /// - Parameters:
    ///   - database: what its clock said at some instant after the question was asked and before now.
    ///   - asked: this machine's count when the question was asked.
    func compare(with database: Timestamp, asked: Int64) {
        let (own, answered) = (own().milliseconds, elapsed())
        ownStart.store(own - answered, ordering: .relaxed)
        // By how much this machine's clock is ahead of the database's at most, and at least.
        let most = own - database.milliseconds
        let least = most - (answered - asked)
        let ahead: Int64
        if least > Self.toleranceMilliseconds {
            ahead = least
        } else if most < -Self.toleranceMilliseconds {
            ahead = most
        } else if least >= -Self.toleranceMilliseconds, most <= Self.toleranceMilliseconds {
            ahead = 0
        } else {
            // The answer took too long to tell, such as one that waited for the log: what was known stands.
            return
        }
        skew.store(ahead, ordering: .relaxed)
        start.store(own - ahead - answered, ordering: .relaxed)
    }

    /// Asks the database for its time.
    package func compare(through pool: PostgresPool) async throws {
        do {
            try await pool.withConnection { connection in
                let asked = reading()
                guard let row = try connection.query("SELECT clock_timestamp()", []).first else { return }
                compare(with: try row.instant(0), asked: asked)
            }
        } catch {
            throw LedgerError(error, doing: "reading the database's clock")
        }
    }
}
