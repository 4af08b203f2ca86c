import EntitlementCore
import PostgresClient
import Synchronization

/// A transaction of somebody else's that holds what every append needs.
package struct LogHolder: Error, Sendable, Hashable {
    /// By what the server knows the transaction as long as it goes on.
    let transaction: String
    private let process: Int64?
    private let preparedAs: String?
    private let role: String
    private let application: String
    /// As the server calls it; `nil` where it tells this role neither that nor the time.
    private let state: String?
    private let since: Timestamp?

    private init(_ row: PostgresRow) throws {
        transaction = try row.text(0)
        process = try row.optionalInt(1)
        preparedAs = try row.optionalText(2)
        role = try row.optionalText(3) ?? "?"
        application = try row.optionalText(4) ?? ""
        state = try row.optionalText(5)
        since = try row.optionalInstant(6)
    }

    /// Whom a session waits for; of those who wait for one another the one who waits for nobody.
    ///
    /// - Returns: `nil` where it waits for nobody, or the server does not say.
    static func blocking(_ process: Int, on connection: isolated PostgresConnection) throws -> LogHolder? {
        try connection.query(
            """
            WITH RECURSIVE blocker (pid) AS (
                SELECT unnest(pg_blocking_pids($1))
                UNION
                SELECT unnest(pg_blocking_pids(pid)) FROM blocker WHERE pid <> 0
            )
            SELECT lock.virtualtransaction, blocker.pid, NULL AS gid, activity.usename::text, activity.application_name,
                activity.state, activity.xact_start AS since
            FROM blocker JOIN pg_locks AS lock ON lock.pid = blocker.pid AND lock.locktype = 'virtualxid'
                AND lock.virtualxid = lock.virtualtransaction AND lock.granted
            LEFT JOIN pg_stat_activity AS activity ON activity.pid = blocker.pid
            WHERE cardinality(pg_blocking_pids(blocker.pid)) = 0
            UNION ALL
            -- The server calls all prepared transactions by the number 0.
            SELECT lock.virtualtransaction, NULL, prepared.gid, prepared.owner::text, NULL, NULL, prepared.prepared
            FROM pg_prepared_xacts AS prepared JOIN pg_locks AS lock ON lock.pid IS NULL
                AND lock.locktype = 'transactionid' AND lock.transactionid = prepared.transaction
            WHERE prepared.database = current_database() AND EXISTS (SELECT FROM blocker WHERE pid = 0)
                AND EXISTS (
                    SELECT FROM pg_locks AS held JOIN pg_class AS class ON class.oid = held.relation
                    WHERE held.virtualtransaction = lock.virtualtransaction AND class.relnamespace = (
                        SELECT relnamespace FROM pg_class WHERE oid = 'ledger_head'::regclass))
            ORDER BY since, pid LIMIT 1
            """, [.int4(Int32(process))]
        ).first.map { try LogHolder($0) }
    }

    /// Whether the transaction goes on, and so holds what it held.
    func isThere(on connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE virtualtransaction = $1)", [.text(transaction)]
        ).first?.bool(0) ?? false
    }
}

extension LogHolder: CustomStringConvertible {
    /// For people: who it is, since when, and how to end it.
    package var description: String {
        let beginning = since.map { " since \($0)" } ?? ""
        if let preparedAs {
            return "the prepared transaction '\(preparedAs)' of the role \(role) holds the log\(beginning), so that "
                + "nothing can be recorded: end it by `COMMIT PREPARED` or `ROLLBACK PREPARED`"
        }
        let words = [application, state ?? ""].filter { !$0.isEmpty }.joined(separator: ", ")
        let number = process ?? 0
        return "session \(number) of the role \(role)\(words.isEmpty ? "" : " (\(words))") holds the log\(beginning), "
            + "so that nothing can be recorded: have it end its transaction, or end it by `SELECT pg_terminate_backend(\(number))`"
    }
}
