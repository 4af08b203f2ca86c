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
        try await run { connection in
            try connection.query(
                """
                INSERT INTO store_import AS job (
                    ledger_id, app, environment, file_sha256, total, holder, heartbeat_at)
                VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
                ON CONFLICT (ledger_id, app, environment, file_sha256) DO UPDATE
                SET holder = excluded.holder, heartbeat_at = excluded.heartbeat_at,
                    done = CASE WHEN $8 THEN 0 ELSE job.done END,
                    recorded = CASE WHEN $8 THEN 0 ELSE job.recorded END,
                    unknown = CASE WHEN $8 THEN 0 ELSE job.unknown END,
                    refused = CASE WHEN $8 THEN 0 ELSE job.refused END,
                    failed = CASE WHEN $8 THEN '{}' ELSE job.failed END
                WHERE job.holder IS NULL OR job.holder = excluded.holder
                    OR NOT (\(Lease.isFresh("job.heartbeat_at", "$7")))
                RETURNING done, recorded, unknown, refused, failed
                """,
                [.int4(Int32(ledgerID))] + key.map(\.value) + [
                    .int(total), .text(holder), .double(Lease.seconds), .bool(isAnew),
                ]
            ).first.map { row in
                var standing = ImportStanding()
                standing.done = try row.int(0)
                standing.recorded = try row.int(1)
                standing.unknown = try row.int(2)
                standing.refused = try row.int(3)
                standing.failed = try row.textArray(4).compactMap(\.self)
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

    private var key: [(column: String, value: PostgresValue)] {
        [
            ("app", .text(stream.app)), ("environment", .int2(stream.environment.number)),
            ("file_sha256", .bytes(file.bytes)),
        ]
    }

    private var row: LeasedRow { LeasedRow(pool, "store_import", key, holder: holder, work: "this import") }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "looking after an import", body)
    }
}
