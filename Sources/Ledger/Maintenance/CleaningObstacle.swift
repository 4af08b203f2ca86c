import EntitlementCore
package import PostgresClient

/// What has long kept PostgreSQL from cleaning up old versions of the ledger's rows, by which appends become slower and slower.
package struct CleaningObstacle: Sendable, Hashable {
    private enum Kind: String {
        case session, standby, prepared, slot
    }

    private let kind: Kind
    private let name: String
    private let role: String
    private let application: String
    /// `nil` where the server has no time, or tells this role none.
    private let since: Timestamp?
    /// Since when all that was recorded is kept in every version.
    private let recordedAt: Timestamp

    private init(_ row: PostgresRow) throws {
        kind = try Kind(rawValue: row.text(0)) ?? .session
        name = try row.text(1)
        role = try row.optionalText(2) ?? "?"
        application = try row.optionalText(3) ?? ""
        since = try row.optionalInstant(4)
        recordedAt = try row.instant(5)
    }

    /// The one that reaches back the furthest of those that are older than this; `nil` where none is.
    ///
    /// Every role is told the numbers of transactions that others hold on to, but not since when. So an event of the log tells
    /// how long it is: one whose transaction a holder keeps in sight, and that was recorded then.
    package static func oldest(
        _ pool: PostgresPool, olderThan age: Duration = .seconds(3600)
    ) async throws -> CleaningObstacle? {
        try await pool.run(doing: "looking who keeps old rows") { connection in
            let then = try Statements.clock(on: connection)
                .adding(milliseconds: -Int64(age / .milliseconds(1)))
            let head = try Statements.headPosition(on: connection)
            let position = try Statements.lastPosition(recordedBy: then, head: head, on: connection)
            return try connection.query(search, [.int(ledgerID), .int(position), .timestamp(then.milliseconds)]).first
                .map { try CleaningObstacle($0) }
        }
    }

    /// A session that only reads is not to blame while a transaction runs whose number it took over.
    private static let search = """
        WITH running (xid) AS (
            SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL
            UNION ALL SELECT transaction FROM pg_prepared_xacts
        ), session AS (
            SELECT CASE WHEN EXISTS (SELECT FROM pg_stat_replication AS standby WHERE standby.pid = activity.pid)
                THEN 'standby' ELSE 'session' END AS kind, activity.*
            FROM pg_stat_activity AS activity
            WHERE pid <> pg_backend_pid() AND usename IS NOT NULL AND coalesce(datname, current_database()) = current_database()
                AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS vacuum WHERE vacuum.pid = activity.pid)
        ), holder (kind, name, role, application, since, xid) AS (
            SELECT kind, pid::text, usename::text, application_name, xact_start, backend_xid FROM session
            UNION ALL
            SELECT kind, pid::text, usename::text, application_name, xact_start, backend_xmin FROM session
            WHERE NOT EXISTS (SELECT FROM running WHERE running.xid = backend_xmin)
            UNION ALL
            SELECT 'prepared', gid, owner::text, NULL, prepared, transaction FROM pg_prepared_xacts
            WHERE database = current_database()
            UNION ALL
            SELECT 'slot', slot_name::text, NULL, NULL, NULL, xmin FROM pg_replication_slots
        )
        SELECT holder.kind, holder.name, holder.role, holder.application, holder.since, event.recorded_at
        FROM holder JOIN event ON event.ledger_id = $1 AND event.position = $2 AND age(event.xmin) <= age(holder.xid)
        WHERE holder.since IS NULL OR holder.since <= $3
        ORDER BY age(holder.xid) DESC, holder.since, holder.name LIMIT 1
        """
}

extension CleaningObstacle: CustomStringConvertible {
    /// For people: who it is, since when, and how to end it.
    package var description: String {
        let words = application.isEmpty ? "" : " (\(application))"
        let beginning = since.map { "since \($0)" } ?? "at least since \(recordedAt)"
        let (who, cure) =
            switch kind {
            case .session:
                (
                    "session \(name) of the role \(role)\(words) is in a transaction",
                    "have it end that, or end it by `SELECT pg_terminate_backend(\(name))`"
                )
            case .standby:
                (
                    "the standby of session \(name)\(words) is at a query",
                    "end that on the standby, or turn hot_standby_feedback off there"
                )
            case .prepared:
                (
                    "the transaction '\(name)' of the role \(role) is prepared",
                    "end it by `COMMIT PREPARED` or `ROLLBACK PREPARED`"
                )
            case .slot:
                (
                    "the replication slot \(name) holds on to old rows",
                    "have its reader go on, or drop it by `SELECT pg_drop_replication_slot('\(name)')`"
                )
            }
        return "\(who) \(beginning), and keeps PostgreSQL from cleaning up, which slows the log down: \(cure)"
    }
}
