import PostgresClient
import Synchronization

/// Sessions that hold rows of the ledger while their program does not move.
///
/// The server's own timeouts end a session that is idle in a transaction, and one whose statement takes long. One whose
/// program stopped half-way through sending a statement or the rows of a copy, or whose machine vanished then, is neither, and
/// would hold what it has locked until the program goes on, or until TCP finds out, which it never does of a frozen one.
enum StalledSessions {
    /// How long the server must have waited for a program.
    static let limit = Duration.seconds(5)

    /// Ends those of this role and program that have locked rows of the ledger's tables.
    ///
    /// PostgreSQL does not say which rows these are; but no program that moves takes seconds to send the rest of a statement.
    /// Copying is one statement however long it takes, and does not stall while the server goes on reading rows: so where
    /// somebody copies this takes half of `limit`, to see whether it does.
    ///
    /// - Parameter limit: how long the server must have waited for the program.
    static func end(stalledFor limit: Duration = limit, on connection: isolated PostgresConnection) throws {
        let copies = try end(stalledFor: limit, orStillAt: [], on: connection)
        guard !copies.isEmpty else { return }
        connection.sleep(for: limit / 2)
        _ = try end(stalledFor: limit, orStillAt: copies, on: connection)
    }

    /// Ends the stalled sessions that do not copy, and those that copy and were seen before where they are.
    ///
    /// - Parameter copies: what was returned before.
    /// - Returns: which sessions wait for rows to copy, and how far each has come.
    static func end(
        stalledFor limit: Duration, orStillAt copies: [String], on connection: isolated PostgresConnection
    ) throws -> [String] {
        // Within a transaction the server would tell again what it told before.
        try connection.query("SELECT pg_stat_clear_snapshot()", [])
        return try connection.query(
            """
            WITH stalled AS MATERIALIZED (
                SELECT activity.pid, CASE WHEN copy.pid IS NOT NULL THEN
                    concat_ws(' ', copy.pid, activity.state_change, copy.relid, copy.bytes_processed) END AS copied
                FROM pg_stat_activity AS activity LEFT JOIN pg_stat_progress_copy AS copy ON copy.pid = activity.pid
                WHERE activity.datname = current_database() AND activity.usename = current_user
                    AND (activity.application_name = current_setting('application_name')
                        OR starts_with(activity.application_name, 'rightful'))
                    AND activity.state = 'active' AND activity.wait_event IN ('ClientRead', 'ClientWrite')
                    AND activity.state_change < clock_timestamp() - $1 * interval '1 millisecond'
                    AND EXISTS (
                        SELECT FROM pg_locks AS lock JOIN pg_class AS class ON class.oid = lock.relation
                        WHERE lock.pid = activity.pid AND lock.locktype = 'relation' AND lock.granted
                            AND lock.mode IN ('RowShareLock', 'RowExclusiveLock') AND class.relnamespace = (
                                SELECT relnamespace FROM pg_class WHERE oid = 'ledger_head'::regclass))
            )
            SELECT copied, CASE WHEN copied IS NULL OR copied = ANY ($2) THEN pg_terminate_backend(pid) END FROM stalled
            """, [.double(limit / .milliseconds(1)), .textArray(copies)]
        ).rows.compactMap { try $0.optionalText(0) }
    }
}

/// Notices that rows which are skipped while another process has them stay with it although it does not get on, and ends
/// its session if that is stalled: whoever skips never waits, and so never waits for too long.
package final class SkippedRows: Sendable {
    private struct State {
        /// How far the other process had come.
        let mark: Int64
        let since: ContinuousClock.Instant
        var lookedAt: ContinuousClock.Instant
    }

    private let patience: Duration
    private let limit: Duration
    private let state = Mutex<State?>(nil)

    /// - Parameters:
    ///   - patience: how long the other process may have them without getting on.
    ///   - limit: how long its session must have stalled.
    package init(patience: Duration = .seconds(10), stalledFor limit: Duration = .seconds(5)) {
        (self.patience, self.limit) = (patience, limit)
    }

    /// They are not skipped any more.
    func noteTaken() { state.withLock { $0 = nil } }

    /// They are skipped.
    ///
    /// - Parameter mark: reads how far the other process has come; asked for a few times within the patience.
    func noteSkipped(
        on connection: isolated PostgresConnection, mark: (isolated PostgresConnection) throws -> Int64
    ) throws {
        let now = ContinuousClock.now
        guard state.withLock({ $0.map { $0.lookedAt.duration(to: now) >= patience / 10 } ?? true }) else { return }
        let mark = try mark(connection)
        let isStuck = state.withLock { state in
            guard let last = state, last.mark == mark else {
                state = State(mark: mark, since: now, lookedAt: now)
                return false
            }
            state?.lookedAt = now
            guard last.since.duration(to: now) >= patience else { return false }
            state = nil
            return true
        }
        if isStuck { try StalledSessions.end(stalledFor: limit, on: connection) }
    }
}
