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
        /// Both view tables.
        package let views: Int64
        package let database: Int64
    }

    package struct Partitions: Sendable, Equatable {
        package let count: Int64
        /// The last position that has a partition.
        package let through: Int64
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
    package let partitions: Partitions
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
        let live = try ViewTable.live(on: connection)
        let results = try connection.pipeline([
            PostgresStatement(
                """
                SELECT current_setting('server_version'), current_user::text,
                    (SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'event'::regclass),
                    (SELECT next_identity - 1 FROM ledger_head WHERE ledger_id = $1),
                    (SELECT count(*) FROM api_key WHERE ledger_id = $1 AND revoked_at IS NULL)
                """, [.int(ledgerID)]),
            PostgresStatement(
                """
                SELECT coalesce(sum(pg_table_size(relid)) FILTER (WHERE root = 'event'), 0)::bigint,
                    coalesce(sum(pg_indexes_size(relid)) FILTER (WHERE root = 'event'), 0)::bigint,
                    coalesce(sum(pg_total_relation_size(relid)) FILTER (WHERE root = 'evidence'), 0)::bigint
                        + pg_total_relation_size('jws_header'),
                    pg_total_relation_size('original_view') + pg_total_relation_size('original_view_second'),
                    pg_database_size(current_database())
                FROM (VALUES ('event'), ('evidence')) AS log (root),
                    LATERAL pg_partition_tree(root::regclass) AS part WHERE part.isleaf
                """),
            PostgresStatement(
                """
                SELECT count(*), coalesce(max(substring(pg_get_expr(part.relpartbound, part.oid)
                    FROM 'TO \\(''?(\\d+)''?\\)')::bigint), 0) - 1
                FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid
                WHERE inhparent = 'event'::regclass
                """),
        ])
        guard let facts = results[0].first, let sizes = results[1].first, let parts = results[2].first else {
            throw LedgerError(.corrupt, "the database does not say how large it is")
        }
        serverVersion = try facts.text(0)
        roles = Roles(serving: try facts.text(1), owner: try facts.optionalText(2) ?? "?")
        identitiesGiven = try facts.int(3)
        keys = try facts.int(4)
        self.sizes = Sizes(
            log: try sizes.int(0), logIndexes: try sizes.int(1), evidence: try sizes.int(2), views: try sizes.int(3),
            database: try sizes.int(4))
        partitions = Partitions(count: try parts.int(0), through: try parts.int(1))
        originals = try Self.count(live.name, on: connection)
        identities = try Self.count("identity", on: connection)
        rebuild = try RebuildState.read(on: connection)
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
