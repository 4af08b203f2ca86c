package import EntitlementCore
package import PostgresClient
import Synchronization

/// The one clock that all instances date events by: this machine's as long as it agrees with the database's, else the
/// database's.
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
    /// What to add to this machine's clock, in milliseconds.
    private let correction = Atomic<Int64>(0)
    /// When the last event was recorded that this instance has heard of, in milliseconds.
    private let lastRecorded = Atomic<Int64>(.min)

    /// - Parameter own: this machine's clock.
    package init(_ own: @escaping @Sendable () -> Timestamp) { self.own = own }

    /// The present: not before what was heard of was recorded, unless that lies further ahead than the clocks of instances may
    /// be apart.
    package var now: @Sendable () -> Timestamp {
        { [self] in
            let here = own().adding(milliseconds: correction.load(ordering: .relaxed))
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
    package var skewMilliseconds: Int64 { -correction.load(ordering: .relaxed) }

    /// This machine's time, for `compare(with:asked:)`.
    func reading() -> Timestamp { own() }

    /// Takes note of the database's time.
    ///
    /// - Parameters:
    ///   - database: what its clock said at some instant after the question was asked and before now.
    ///   - asked: this machine's time when the question was asked.
    func compare(with database: Timestamp, asked: Timestamp) {
        let answered = own()
        // This machine's clock was set meanwhile.
        guard answered >= asked else { return }
        // By how much this machine's clock is ahead of the database's at least, and at most.
        let (least, most) = (
            asked.milliseconds - database.milliseconds, answered.milliseconds - database.milliseconds
        )
        if least > Self.toleranceMilliseconds {
            correction.store(-least, ordering: .relaxed)
        } else if most < -Self.toleranceMilliseconds {
            correction.store(-most, ordering: .relaxed)
        } else if least >= -Self.toleranceMilliseconds, most <= Self.toleranceMilliseconds {
            correction.store(0, ordering: .relaxed)
        }
        // Else the answer took too long to tell, such as one that waited for the log: what was known stands.
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
