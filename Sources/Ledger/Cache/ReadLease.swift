import EntitlementCore
import PostgresClient
import Synchronization

/// Proves for a fifth of a second that the log ends where it ended, so that an answer in memory needs no question to the
/// database.
///
/// As long as an instance holds the lease, nobody else moves the head of the log: whoever else appends finds the lease
/// in the head's row, keeps that row's lock until everything that was proven has run out, and takes the lease away with
/// its commit (`outlast`). So an event is seen nowhere before every instance can know of it. What the holder appends, it
/// knows itself: from before such a commit is sent until its outcome is known, nothing is proven.
///
/// Instances that append in turn would wait for each other all the time. So nobody gets the lease for a while after it
/// was taken away, and that while grows; until then reads ask the database, as they do without a lease.
///
/// Of clocks it takes one thing for granted: that a fifth of a second on one machine is over before a quarter of a second
/// is on another. No times of day are compared but to decide who may ask for the lease.
package final class ReadLease: Sendable {
    package struct Limits: Sendable {
        /// How long a proof holds, from before it was asked for.
        package var proves = Duration.milliseconds(200)
        /// How long others wait before they append; longer than a proof holds.
        package var outlasts = Duration.milliseconds(250)
        /// How often the holder asks for another proof.
        package var renewsEvery = Duration.milliseconds(80)
        /// When somebody who did not get the lease asks again; where a commit of its own came in between; where the database
        /// failed, or only reads.
        package var asksAgainAfter = Duration.milliseconds(250)
        package var asksAfterCommit = Duration.milliseconds(20)
        package var triesAgainAfter = Duration.seconds(5)
        /// How many reads must come within the time of a proof for the lease to be worth its cost.
        package var leastReads = 16

        package init() {}
    }

    /// The name of a holder in the head's row, by which its commits are recognised.
    typealias Holder = Int64

    private struct State {
        var holder = Holder.random(in: 1...Holder.max)
        /// The last event of the log.
        var end: EventMark?
        var provenUntil: ContinuousClock.Instant?
        var commitsUnderWay = 0
        var commitsBegun = 0
        var isRenewing = false
        var renewsAt = ContinuousClock.now
        var reads = 0
        var countsSince = ContinuousClock.now
        /// Whether the lease was asked for under this name.
        var mayHold = false

        /// Goes on under another name, to which nothing is proven.
        mutating func startAnew() {
            holder = .random(in: 1...Holder.max)
            provenUntil = nil
            end = nil
            mayHold = false
        }
    }

    private let limits: Limits
    private let state = Mutex(State())

    package init(limits: Limits = Limits()) { self.limits = limits }

    // MARK: - Reading

    /// Whether the log ends at `mark`, for everybody.
    ///
    /// - Parameter now: read just before, and not before the reads that are to be answered arrived.
    package func proves(_ mark: LogMark, at now: ContinuousClock.Instant) -> Bool {
        state.withLock { state in
            guard let until = state.provenUntil, now < until, state.commitsUnderWay == 0 else { return false }
            return state.end == EventMark(position: mark.position, hash: mark.hash)
        }
    }

    /// Counts reads; `true` when they come so often that they are worth another proof, which the caller then has to ask for.
    package func isWorthRenewing(after reads: Int, at now: ContinuousClock.Instant) -> Bool {
        state.withLock { state in
            if now - state.countsSince > limits.proves { (state.reads, state.countsSince) = (0, now) }
            state.reads += reads
            guard state.reads >= limits.leastReads, !state.isRenewing, state.commitsUnderWay == 0, state.renewsAt <= now
            else { return false }
            state.isRenewing = true
            return true
        }
    }

    /// Asks for the lease, or for another proof; nothing is proven where that fails.
    func renew(through pool: PostgresPool) async {
        let start = state.withLock { state in
            state.isRenewing = state.commitsUnderWay == 0
            guard state.isRenewing else { return nil as (holder: Holder, commits: Int)? }
            state.mayHold = true
            return (state.holder, state.commitsBegun)
        }
        guard let start else { return }
        let found: (end: EventMark, asked: ContinuousClock.Instant)?
        let pause: Duration
        do {
            found = try await pool.withConnection { try Self.take(start.holder, on: $0) }
            pause = limits.asksAgainAfter
        } catch {
            found = nil
            pause = limits.triesAgainAfter
        }
        state.withLock { state in
            state.isRenewing = false
            (state.reads, state.countsSince) = (0, .now)
            // Whether this end of the log has a commit that began meanwhile, nobody can tell.
            guard state.holder == start.holder, state.commitsBegun == start.commits else {
                state.renewsAt = .now + limits.asksAfterCommit
                return
            }
            state.renewsAt = found.map { $0.asked + limits.renewsEvery } ?? .now + pause
            guard let found else { return }
            (state.end, state.provenUntil) = (found.end, found.asked + limits.proves)
        }
    }

    /// Gives the lease back, for an orderly stop; nothing is proven any more.
    func release(through pool: PostgresPool) async {
        let held = state.withLock { state in
            let held = state.mayHold ? state.holder : nil
            state.startAnew()
            return held
        }
        guard let held else { return }
        _ = try? await pool.withConnection { connection in
            try connection.query(
                "UPDATE ledger_head SET lease_holder = NULL WHERE ledger_id = $1 AND lease_holder = $2",
                [.int(ledgerID), .int(held)])
        }
    }

    /// Locks the head's row for a moment.
    ///
    /// Whoever is outlasting earlier proofs holds it so that this passes by. A commit ahead of the head does not, and need
    /// not: another's is refused while there is a lease, and of its own the holder knows.
    private static func take(
        _ holder: Holder, on connection: isolated PostgresConnection
    ) throws -> (end: EventMark, asked: ContinuousClock.Instant)? {
        let asked = ContinuousClock.now
        do {
            // That this holder has the lease is durable; that it asked again need not be.
            let held = try connection.pipeline([
                PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED"),
                PostgresStatement("SET LOCAL synchronous_commit = off"),
                PostgresStatement(
                    """
                    SELECT position, hash FROM ledger_head WHERE ledger_id = $1 AND lease_holder = $2
                    FOR KEY SHARE SKIP LOCKED
                    """, [.int(ledgerID), .int(holder)]),
                PostgresStatement("COMMIT"),
            ])[2].first
            let row =
                try held
                ?? connection.query(
                    """
                    WITH free AS (
                        SELECT ledger_id FROM ledger_head
                        WHERE ledger_id = $1 AND lease_holder IS NULL AND lease_free_at <= clock_timestamp()
                        FOR UPDATE SKIP LOCKED)
                    UPDATE ledger_head AS head SET lease_holder = $2 FROM free WHERE head.ledger_id = free.ledger_id
                    RETURNING head.position, head.hash
                    """, [.int(ledgerID), .int(holder)]
                ).first
            return try row.map { (try EventMark($0, 0), asked) }
        } catch {
            // If even this fails the connection is broken, and the server rolls back by itself.
            if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
            throw error
        }
    }

    // MARK: - Appending

    /// Names whose commits leave the lease as it is.
    var holder: Holder { state.withLock { $0.holder } }

    /// Commits what moves the head, and proves nothing meanwhile.
    ///
    /// Where the outcome stays unknown, the holder goes on under another name: then the lease is somebody else's to it, and
    /// a commit that arrives late is refused or waited for like a stranger's.
    func whileCommitting(
        to head: LedgerHead, _ commit: () throws(PostgresError) -> Void
    ) throws(PostgresError) {
        state.withLock { state in
            state.commitsUnderWay += 1
            state.commitsBegun += 1
        }
        do throws(PostgresError) {
            try commit()
            state.withLock { state in
                state.commitsUnderWay -= 1
                if state.end.map({ $0.position < head.position }) ?? true {
                    state.end = head.mark
                }
            }
        } catch {
            state.withLock { state in
                state.commitsUnderWay -= 1
                if error.kind == .connection { state.startAnew() }
            }
            throw error
        }
    }

    /// Waits until nothing is proven any more to `holder`, where that is another; with the head's lock held, so that
    /// nothing more can be.
    ///
    /// It is this process that waits, and the database that sees it idle: should it be killed, the lock is let go at once.
    ///
    /// - Returns: whether it waited.
    @discardableResult
    func outlast(_ holder: Holder?, on connection: isolated PostgresConnection) -> Bool {
        guard let holder, holder != self.holder else { return false }
        connection.sleep(for: limits.outlasts)
        return true
    }

    /// What a commit that moves the head writes besides: a lease of anybody but `$holder` ends.
    static func setsLease(unlessOf holder: String) -> String {
        let isTaken = "lease_holder <> \(holder)"
        let pause = """
            CASE WHEN lease_free_at + interval '10 minutes' < clock_timestamp() THEN interval '1 second'
                ELSE least(2 * lease_pause, interval '10 minutes') END
            """
        return """
            lease_holder = CASE WHEN lease_holder = \(holder) THEN lease_holder END,
            lease_pause = CASE WHEN \(isTaken) THEN \(pause) ELSE lease_pause END,
            lease_free_at = CASE WHEN \(isTaken) THEN clock_timestamp() + \(pause) ELSE lease_free_at END
            """
    }
}
