package import EntitlementCore
package import PostgresClient

/// How far the import of one list of transaction ids has come.
package struct ImportStanding: Sendable, Hashable {
    /// Ids of the list that are done, from its beginning.
    package var done: Int64 = 0
    /// Events that were recorded; what a page recorded in which it was stopped is not counted.
    package var recorded: Int64 = 0
    /// Ids that the store does not know.
    package var unknown: Int64 = 0
    /// Statements of the store's answers that were not believed.
    package var refused: Int64 = 0
    /// Ids among those done that the store could not be asked about; they are still to be asked about.
    package var failed: [String] = []

    package init() {}
}

/// An import of a list of transaction ids that is running, or was not brought to its end.
package struct UnfinishedImport: Sendable, Hashable {
    package let stream: StoreStream
    /// Ids of the list that are done, and how many it has.
    package let done: Int64
    package let total: Int64
    /// Ids among those done that the store could not be asked about.
    package let failed: Int64
    package let recorded: Int64
    package let startedAt: Timestamp
    /// When whoever works at it was last heard from.
    package let movedAt: Timestamp?
    package let isHeld: Bool
}

/// Who imports which list of transaction ids, one process at a time for each, and how far that has come.
package struct ImportRegister: Sendable {
    private let pool: PostgresPool
    private let stream: StoreStream
    private let file: Digest
    private let holder: String

    /// - Parameters:
    ///   - stream: the app and environment whose customers are imported.
    ///   - file: names the list: a hash of what is in it.
    ///   - holder: a name that no other process has.
    package init(pool: PostgresPool, stream: StoreStream, file: Digest, holder: String) {
        self.pool = pool
        self.stream = stream
        self.file = file
        self.holder = holder
    }

    /// Begins the import, or takes it up where it was left.
    ///
    /// - Parameters:
    ///   - total: how many ids the list has.
    ///   - isAnew: whether it begins at the first id whatever was done before.
    /// - Returns: `nil` where another process is at work.
    package func begin(total: Int64, isAnew: Bool = false) async throws -> ImportStanding? {
        try await pool.run(doing: "looking after an import") { connection in
            try connection.transaction { connection in
                let columns = "done, recorded, unknown, refused, failed"
                guard let begun = try row.take(columns, making: [("total", .int(total))], on: connection) else {
                    return nil
                }
                var standing = ImportStanding()
                guard !isAnew else {
                    try connection.query(
                        """
                        UPDATE store_import SET done = 0, recorded = 0, unknown = 0, refused = 0, failed = '{}'
                        WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND file_sha256 = $4
                        """, [.int(ledgerID)] + key.map(\.value))
                    return standing
                }
                standing.done = try begun.int(0)
                standing.recorded = try begun.int(1)
                standing.unknown = try begun.int(2)
                standing.refused = try begun.int(3)
                standing.failed = try begun.textArray(4).compactMap(\.self)
                return standing
            }
        }
    }

    /// Says that everything up to here is in the log.
    ///
    /// - Parameters:
    ///   - last: what was said last, or at the beginning.
    ///   - ends: where the log ended once it held what came since.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last, or what came since.
    package func note(
        _ standing: ImportStanding, after last: ImportStanding, restingOn ends: Set<EventMark> = []
    ) async throws {
        try await row.change(
            """
            done = $6, recorded = $7, unknown = $8, refused = $9, failed = $10,
                completed_at = CASE WHEN $6 >= total AND cardinality($10) = 0 THEN clock_timestamp() END
            """,
            [
                .int(standing.done), .int(standing.recorded), .int(standing.unknown), .int(standing.refused),
                .textArray(standing.failed),
            ], from: [("done", .int(last.done)), ("failed", .textArray(last.failed))], restingOn: ends)
    }

    /// Gives a sign of life.
    package func touch() async throws { try await row.change() }

    /// Gives the import up, so that another process may take it.
    package func release() async throws { try await row.letGo() }

    /// The import that moved last of each app and environment, where it is not at its end.
    package static func unfinished(_ pool: PostgresPool) async throws -> [UnfinishedImport] {
        try await pool.run(doing: "looking how far lists were imported") { connection in
            try connection.query(
                """
                SELECT app, environment, done, total, cardinality(failed), recorded, started_at, heartbeat_at,
                    holder IS NOT NULL AND \(Lease.isFresh("heartbeat_at", "$2"))
                FROM (
                    SELECT DISTINCT ON (app, environment) * FROM store_import WHERE ledger_id = $1
                    ORDER BY app, environment, heartbeat_at DESC NULLS LAST
                ) AS latest
                WHERE completed_at IS NULL ORDER BY app, environment
                """, [.int(ledgerID), .double(Lease.seconds)]
            ).rows.map { row in
                UnfinishedImport(
                    stream: StoreStream(app: try row.text(0), environment: try StoreEnvironment(stored: row.int(1))),
                    done: try row.int(2), total: try row.int(3), failed: try row.int(4), recorded: try row.int(5),
                    startedAt: try row.instant(6), movedAt: try row.optionalInstant(7), isHeld: try row.bool(8))
            }
        }
    }

    private var key: [(column: String, value: PostgresValue)] { stream.key + [("file_sha256", .bytes(file.bytes))] }

    private var row: LeasedRow { LeasedRow(pool, "store_import", key, holder: holder, work: "this import") }
}
