import EntitlementCore
import PostgresClient

/// What several readings ask the database.
enum Statements {
    /// Joins what a subquery finds for each row before it.
    ///
    /// OFFSET 0 holds the planner to that order. A session keeps the plan that it made of a young ledger, or before the
    /// first ANALYZE: where a table had a few rows, it would rather read the whole index once and compare.
    static func search(_ subquery: String, as name: String) -> String {
        "CROSS JOIN LATERAL (\(subquery) OFFSET 0) AS \(name)"
    }

    static let head = PostgresStatement(
        "SELECT position, recorded_at, hash FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)])

    /// Where the log ends while no transaction that runs has its head; `nil` where one has it for so many seconds.
    ///
    /// Such a one may have dated its events long ago, and stall before it commits them. Whoever locks or changes a row has
    /// its table locked until what was committed is seen, so the locks are looked at first.
    static func end(
        on connection: isolated PostgresConnection, waitingUpTo seconds: Double
    ) throws -> Int64? {
        let pause = 0.01
        for attempt in 0...Int(seconds / pause) {
            if attempt > 0 { _ = try connection.query("SELECT pg_sleep($1)", [.double(pause)]) }
            let isHeld =
                try connection.query(
                    """
                    SELECT FROM pg_locks WHERE locktype = 'relation' AND relation = 'ledger_head'::regclass AND granted
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        AND mode IN ('RowShareLock', 'RowExclusiveLock') AND pid IS DISTINCT FROM pg_backend_pid() LIMIT 1
                    """
                ).first != nil
            if !isHeld { return try headPosition(on: connection) }
        }
        return nil
    }

    static let missingHead = LedgerError(.schema, "the ledger's head row is missing; run `rightful migrate`")

    static func identity(of value: String) -> PostgresStatement {
        PostgresStatement(
            "SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2", [.int(ledgerID), .text(value)])
    }

    /// Customer ids and their numbers, of those the ledger knows.
    static func identities(of values: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.value, known.identity FROM unnest($2::text[]) AS key (value)
            \(search("SELECT identity FROM identity WHERE ledger_id = $1 AND identity.value = key.value", as: "known"))
            """, [.int(ledgerID), .textArray(values)])
    }

    static func customerIDs(
        of identities: [IdentityRef], on connection: isolated PostgresConnection
    ) throws -> [IdentityRef: String] {
        guard !identities.isEmpty else { return [:] }
        let result = try connection.query(
            """
            SELECT key.number, known.value FROM unnest($2::bigint[]) AS key (number)
            \(search("SELECT value FROM identity WHERE ledger_id = $1 AND identity = key.number", as: "known"))
            """,
            [.int(ledgerID), .intArray(Set(identities.map(\.number)).sorted())])
        var values: [IdentityRef: String] = [:]
        for row in result.rows { values[IdentityRef(try row.int(0))] = try row.text(1) }
        return values
    }

    /// The position of the log's last event; 0 of an empty log.
    static func headPosition(on connection: isolated PostgresConnection) throws -> Int64 {
        try connection.query(head.sql, head.parameters).first?.int(0) ?? 0
    }

    /// The database's time of day.
    static func clock(on connection: isolated PostgresConnection) throws -> Timestamp {
        guard let row = try connection.query("SELECT clock_timestamp()", []).first else { throw missingHead }
        return try row.instant(0)
    }

    /// When an event was recorded; `nil` at position 0, and where there is none.
    static func recordedAt(_ position: Int64, on connection: isolated PostgresConnection) throws -> Timestamp? {
        try connection.query(
            "SELECT recorded_at FROM event WHERE ledger_id = $1 AND position = $2", [.int(ledgerID), .int(position)]
        ).first.map { try $0.instant(0) }
    }

    /// The last position up to `head` that was recorded at or before an instant.
    ///
    /// Recorded time never decreases with position, so a search by halves over the primary key finds it.
    static func lastPosition(
        recordedBy instant: Timestamp, head: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        var low: Int64 = 0
        var high = head
        while low < high {
            let middle = low + (high - low + 1) / 2
            guard let recordedAt = try recordedAt(middle, on: connection) else {
                throw LedgerError(.corrupt, "the log has no position \(middle)")
            }
            if recordedAt <= instant { low = middle } else { high = middle - 1 }
        }
        return low
    }
}
