package import EntitlementCore
package import PostgresClient

/// How far a reading of everything that a Stripe account holds has come.
package struct WebImportStanding: Sendable, Hashable {
    /// Which of the lists is read, from 0 on; as many as there are where all were.
    package var list = 0
    /// The last object of the last page that is in the log, and when it was made; `nil` at the beginning of a list.
    package var cursor: String?
    package var cursorCreatedAt: Timestamp?
    /// Objects that were read.
    package var read: Int64 = 0
    /// Events that were recorded; what a page recorded in which it was stopped is not counted.
    package var recorded: Int64 = 0
    /// Objects that say nothing new.
    package var known: Int64 = 0
    /// Checkouts that nobody went through, and invoices that are not paid.
    package var unfinished: Int64 = 0
    /// Objects that are about nothing that is kept here, such as the refund of what was sold by no checkout.
    package var unrelated: Int64 = 0
    /// Objects that cannot be read.
    package var refused: Int64 = 0
    /// Objects that are of somebody who was forgotten.
    package var withheld: Int64 = 0
    /// Subscriptions and one-time payments that belong to nobody.
    package var unowned: Int64 = 0
    /// Objects that Stripe could not be asked about; they are still to be read.
    package var failed: [String] = []

    package init() {}
}

/// How such a reading stands, for whoever looks after the service.
package struct WebImportState: Sendable, Hashable {
    package let environment: StoreEnvironment
    package let ownerMetadata: String
    package let standing: WebImportStanding
    package let startedAt: Timestamp
    package let completedAt: Timestamp?
    package let lastError: String?
    package let isHeld: Bool
    /// When whoever works at it was last heard from.
    package let movedAt: Timestamp?
}

/// Who reads everything that Stripe's account of an environment holds, one process at a time, and how far that has come.
package struct WebImportRegister: Sendable {
    /// What was begun longer ago than this is begun anew: what was made since stands in no list of events any more.
    static let longestDays = 28

    private let pool: PostgresPool
    private let environment: StoreEnvironment
    private let ownerMetadata: String
    private let owners: String
    private let holder: String

    /// - Parameters:
    ///   - ownerMetadata: another key of metadata under which is written whose a purchase is; with another key all is read
    ///     again.
    ///   - owners: names a team's own list of whose what is; with another one all is read again.
    ///   - holder: a name that no other process has.
    package init(
        pool: PostgresPool, environment: StoreEnvironment, ownerMetadata: String?, owners: Digest? = nil, holder: String
    ) {
        self.pool = pool
        self.environment = environment
        self.ownerMetadata = ownerMetadata ?? ""
        self.owners = owners?.hex ?? ""
        self.holder = holder
    }

    /// Begins, or takes up what was left.
    ///
    /// - Parameter isAnew: whether it begins at the first list whatever was done before; so it does where all was done.
    /// - Returns: `nil` where another process is at work.
    package func begin(isAnew: Bool = false) async throws -> WebImportStanding? {
        try await pool.run(doing: "beginning to read Stripe's lists") { connection in
            try connection.transaction { connection in
                let columns = """
                    completed_at IS NOT NULL OR started_at < clock_timestamp() - interval '\(Self.longestDays) days', \(Self.columns)
                    """
                guard let begun = try row.take(columns, on: connection) else { return nil }
                guard try isAnew || begun.bool(0) else { return try Self.standing(begun, from: 1) }
                try connection.query(
                    """
                    UPDATE web_import SET list = 0, cursor = NULL, cursor_created_at = NULL, read = 0, recorded = 0, known = 0,
                        unfinished = 0, unrelated = 0, refused = 0, withheld = 0, unowned = 0, failed = '{}',
                        started_at = clock_timestamp(), completed_at = NULL, last_error = NULL, last_error_at = NULL
                    WHERE ledger_id = $1 AND environment = $2 AND owner_metadata = $3 AND owners = $4
                    """, [.int(ledgerID), .int2(environment.number), .text(ownerMetadata), .text(owners)])
                return WebImportStanding()
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
        _ standing: WebImportStanding, after last: WebImportStanding, restingOn ends: Set<EventMark> = []
    ) async throws {
        try await row.change(
            """
            list = $6, cursor = $7, cursor_created_at = $8, read = $9, recorded = $10, known = $11,
                unfinished = $12, unrelated = $17,
                refused = $13, withheld = $14, unowned = $15, failed = $16, last_error = NULL, last_error_at = NULL
            """,
            [
                .int2(Int16(clamping: standing.list)), .text(standing.cursor),
                .timestamp(standing.cursorCreatedAt?.milliseconds), .int(standing.read), .int(standing.recorded),
                .int(standing.known), .int(standing.unfinished), .int(standing.refused), .int(standing.withheld),
                .int(standing.unowned), .textArray(standing.failed), .int(standing.unrelated),
            ], from: Self.place(last), restingOn: ends)
    }

    /// Says that everything is in the log, and lets go.
    ///
    /// What Stripe's list of events had not reached back to is known with that, where it was noticed before this began.
    ///
    /// - Parameter last: what was said last.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last.
    package func complete(after last: WebImportStanding) async throws {
        try await row.change(
            "completed_at = clock_timestamp(), last_error = NULL, last_error_at = NULL", from: Self.place(last))
        _ = try await pool.run(doing: "closing the gap before Stripe's list of events") { connection in
            try connection.query(
                """
                UPDATE web_stream AS stream SET gap_from = NULL, gap_until = NULL, gap_since = NULL
                FROM web_import AS job
                WHERE stream.ledger_id = $1 AND stream.environment = $2 AND job.ledger_id = $1 AND job.environment = $2
                    AND job.owner_metadata = $3 AND job.owners = $4 AND job.completed_at IS NOT NULL
                    AND stream.gap_since <= job.started_at
                """, [.int(ledgerID), .int2(environment.number), .text(ownerMetadata), .text(owners)])
        }
        try await row.letGo()
    }

    /// Says why nothing goes on at the moment.
    package func note(outage reason: String) async throws {
        try await row.change(
            "last_error = $6, last_error_at = clock_timestamp()", [.reason(reason)])
    }

    /// Gives a sign of life.
    package func touch() async throws { try await row.change() }

    /// Leaves it to whoever comes.
    package func letGo(_ reason: String?) async throws {
        try await row.letGo(
            "last_error = coalesce($6, last_error), last_error_at = CASE WHEN $6 IS NULL THEN last_error_at ELSE clock_timestamp() END",
            [.reason(reason)])
    }

    private static func place(_ standing: WebImportStanding) -> [(column: String, value: PostgresValue)] {
        [
            ("list", .int2(Int16(clamping: standing.list))), ("cursor", .text(standing.cursor)),
            ("failed", .textArray(standing.failed)),
        ]
    }

    private var row: LeasedRow {
        LeasedRow(
            pool, "web_import",
            [
                ("environment", .int2(environment.number)), ("owner_metadata", .text(ownerMetadata)),
                ("owners", .text(owners)),
            ], holder: holder, work: "reading Stripe's lists")
    }

    // MARK: - Standing

    /// How all of them stand, in the order of environments.
    package static func states(_ pool: PostgresPool) async throws -> [WebImportState] {
        try await pool.run(doing: "looking how far Stripe's lists were read") { connection in
            try connection.query(
                """
                SELECT environment, owner_metadata, started_at, completed_at, last_error,
                    holder IS NOT NULL AND \(Lease.isFresh("heartbeat_at", "$2")), heartbeat_at, \(columns)
                FROM web_import WHERE ledger_id = $1 ORDER BY environment, owner_metadata
                """, [.int(ledgerID), .double(Lease.seconds)]
            ).rows.map { row in
                WebImportState(
                    environment: try StoreEnvironment(stored: row.int(0)), ownerMetadata: try row.text(1),
                    standing: try standing(row, from: 7), startedAt: try row.instant(2),
                    completedAt: try row.optionalInstant(3),
                    lastError: try row.optionalText(4), isHeld: try row.bool(5), movedAt: try row.optionalInstant(6))
            }
        }
    }

    private static let columns =
        "list, cursor, cursor_created_at, read, recorded, known, unfinished, refused, withheld, unowned, failed, unrelated"

    private static func standing(_ row: PostgresRow, from first: Int) throws -> WebImportStanding {
        var standing = WebImportStanding()
        standing.list = Int(try row.int(first))
        standing.cursor = try row.optionalText(first + 1)
        standing.cursorCreatedAt = try row.optionalInstant(first + 2)
        standing.read = try row.int(first + 3)
        standing.recorded = try row.int(first + 4)
        standing.known = try row.int(first + 5)
        standing.unfinished = try row.int(first + 6)
        standing.unrelated = try row.int(first + 11)
        standing.refused = try row.int(first + 7)
        standing.withheld = try row.int(first + 8)
        standing.unowned = try row.int(first + 9)
        standing.failed = try row.textArray(first + 10).compactMap(\.self)
        return standing
    }
}
