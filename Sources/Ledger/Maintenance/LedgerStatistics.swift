import PostgresClient

/// A number of rows: counted, or PostgreSQL's own estimate where counting would take long.
package struct RowCount: Sendable, Equatable {
    package let rows: Int64
    package let isEstimate: Bool
}

/// How large the ledger is and how it stands, for operators.
package struct LedgerStatistics: Sendable {
    /// Bytes on disk, indexes and overhead included.
    package struct Sizes: Sendable, Equatable {
        /// The table of events alone, without its indexes.
        package let log: Int64
        package let logIndexes: Int64
        package let evidence: Int64
        /// All generations.
        package let views: Int64
        package let database: Int64
    }

    /// The role that answers, and who owns the log.
    package struct Roles: Sendable, Equatable {
        package let serving: String
        package let owner: String
    }

    package let serverVersion: String
    package let identitiesGiven: Int64
    package let originals: RowCount
    package let identities: RowCount
    /// Keys that were not revoked.
    package let keys: Int64
    package let sizes: Sizes
    package let roles: Roles
    package let rebuild: RebuildState?

    /// Up to how many rows are counted one by one.
    private static let countLimit: Int64 = 2_000_000
}

extension LedgerReader {
    /// Measures the ledger; it reads catalogs and small tables, and counts what is not too large to count.
    package func statistics() async throws -> LedgerStatistics {
        try await read { connection in try LedgerStatistics(on: connection) }
    }
}

extension LedgerStatistics {
    fileprivate init(on connection: isolated PostgresConnection) throws {
        let results = try connection.pipeline([
            PostgresStatement(
                """
                SELECT current_setting('server_version'), current_user::text,
                    (SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'event'::regclass),
                    (SELECT next_identity - 1 FROM ledger_head WHERE ledger_id = $1),
                    (SELECT count(*) FILTER (WHERE type = 'api_key_created')
                            - count(*) FILTER (WHERE type = 'api_key_revoked')
                        FROM event WHERE ledger_id = $1 AND type IN ('api_key_created', 'api_key_revoked'))
                """, [.int(ledgerID)]),
            PostgresStatement(
                """
                SELECT pg_table_size('event') + pg_table_size('event_name'),
                    pg_indexes_size('event') + pg_indexes_size('event_name'),
                    pg_total_relation_size('evidence') + pg_total_relation_size('jws_header'),
                    pg_total_relation_size('original_view'), pg_database_size(current_database())
                """),
        ])
        guard let facts = results[0].first, let sizes = results[1].first else {
            throw LedgerError(.corrupt, "the database does not say how large it is")
        }
        serverVersion = try facts.text(0)
        roles = Roles(serving: try facts.text(1), owner: try facts.optionalText(2) ?? "?")
        identitiesGiven = try facts.int(3)
        keys = try facts.int(4)
        self.sizes = Sizes(
            log: try sizes.int(0), logIndexes: try sizes.int(1), evidence: try sizes.int(2), views: try sizes.int(3),
            database: try sizes.int(4))
        originals = try Self.countOriginals(on: connection)
        identities = try Self.count("identity", on: connection)
        rebuild = try RebuildState.read(on: connection)
    }

    /// Counts distinct original transactions while the log is short, else takes the planner's statistics.
    private static func countOriginals(on connection: isolated PostgresConnection) throws -> RowCount {
        let row = try connection.query(
            """
            SELECT head.position, class.reltuples::float8, stats.n_distinct::float8
            FROM ledger_head AS head
            LEFT JOIN pg_class AS class ON class.oid = 'event'::regclass
            LEFT JOIN pg_stats AS stats ON stats.tablename = 'event' AND stats.attname = 'original_transaction_id'
            WHERE head.ledger_id = $1
            """, [.int(ledgerID)]
        ).first
        if let row, try row.int(0) > countLimit, let distinct = try row.optionalDouble(2) {
            // Below zero it is a fraction of the rows.
            let rows = distinct < 0 ? -distinct * (try row.optionalDouble(1) ?? 0) : distinct
            return RowCount(rows: Int64(max(0, rows)), isEstimate: true)
        }
        let counted = try connection.query(
            """
            SELECT count(*) FROM (
                SELECT DISTINCT environment, original_transaction_id FROM event
                WHERE ledger_id = $1 AND original_transaction_id IS NOT NULL
            ) AS original
            """, [.int(ledgerID)]
        ).first?.int(0)
        return RowCount(rows: counted ?? 0, isEstimate: false)
    }

    private static func count(_ table: String, on connection: isolated PostgresConnection) throws -> RowCount {
        let estimate =
            try connection.query(
                "SELECT reltuples::bigint FROM pg_class WHERE oid = $1::text::regclass", [.text(table)]
            )
            .first?.int(0) ?? 0
        if estimate > countLimit { return RowCount(rows: estimate, isEstimate: true) }
        // One more than the limit, so that an estimate of long ago does not make the count long.
        let counted = try connection.query(
            "SELECT count(*) FROM (SELECT FROM \(table) WHERE ledger_id = $1 LIMIT $2) AS counted",
            [.int(ledgerID), .int(countLimit + 1)]
        ).first?.int(0)
        return RowCount(rows: counted ?? 0, isEstimate: (counted ?? 0) > countLimit)
    }
}
