package import EntitlementCore
package import PostgresClient

/// A difference between device, ledger and store.
package struct FoundDrift: Sendable, Hashable {
    /// What resolved it.
    package struct Resolution: Sendable, Hashable {
        package let at: Timestamp
        /// Of the event that did.
        package let position: Int64
        package let by: DriftEnd
    }

    /// Of the event that found it.
    package let position: Int64
    package let environment: StoreEnvironment
    package let comparison: DriftComparison
    package let cause: DriftCause
    /// `nil` for somebody who was forgotten, and where nobody is named.
    package let customerID: String?
    package let productID: String?
    package let originalTransactionID: String?
    package let app: String?
    package let foundAt: Timestamp
    /// What the device said, and what the ledger knew; `nil` where no device was asked.
    package let report: DriftFact?
    package let resolution: Resolution?
}

/// How many differences of one kind there are.
package struct DriftCount: Sendable, Hashable {
    package let environment: StoreEnvironment
    package let driftClass: DriftClass
    /// `nil` where nothing tells it.
    package let app: String?
    package let open: Int64
    /// Those that are open, and those that were resolved.
    package let found: Int64
    /// Of those that are open, how many are not told apart because more is known of the customer than is compared.
    package let notCompared: Int64
}

/// Which differences are asked for.
package struct DriftQuery: Sendable, Hashable {
    package var environment: StoreEnvironment
    /// `nil`: every class.
    package var driftClass: DriftClass?
    /// `nil`: resolved or not.
    package var isResolved: Bool?
    package var after: Int64
    package var limit: Int

    package init(
        _ environment: StoreEnvironment, driftClass: DriftClass? = nil, isResolved: Bool? = nil, after: Int64 = 0,
        limit: Int = 100
    ) {
        self.environment = environment
        self.driftClass = driftClass
        self.isResolved = isResolved
        self.after = after
        self.limit = limit
    }
}

/// A page of differences, in the order of the events that found them.
package struct FoundDriftPage: Sendable, Hashable {
    package let items: [FoundDrift]
    package let hasMore: Bool
    /// What the next page begins after.
    package let nextAfter: Int64
    /// How many of the environment are open and unexplained, of those that may be shown.
    package let unexplained: Int64
    /// How many of these were not compared, because too much is known of the customer.
    package let notCompared: Int64
    /// Up to which event the log was gone through.
    package let readTo: Int64
}

/// Reads what `DriftProjector` keeps.
package struct DriftRegister: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// A page of those that may be shown to somebody.
    ///
    /// That a customer has something in the other environment is told to nobody who is bound to one.
    package func page(_ query: DriftQuery, only scope: LogScope = .whole) async throws -> FoundDriftPage {
        let limit = min(max(query.limit, 1), LedgerReader.pageLimit)
        let classes = DriftClass.allCases.filter { driftClass in
            query.driftClass.map { $0 == driftClass } ?? true
                && (driftClass != .environment || scope.environment == nil)
        }
        let states = [true, false].filter { isOpen in query.isResolved.map { $0 != isOpen } ?? true }
        return try await pool.run(doing: "reading the differences") { connection in
            let readTo = try connection.query(
                "SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = $2 AND version = $3",
                [.int(ledgerID), .text(DriftProjector.row.name), .int4(Int32(DriftProjector.row.version))]
            ).first?.int(0)
            let counts = try Self.counts(on: connection)
            // One search of the index for each kind there is, whatever the number of rows.
            let rows = try connection.query(
                """
                SELECT \(DriftRow.columns(of: "page")), event.facts, known.value
                FROM (
                    SELECT stored.* FROM drift_count AS kind CROSS JOIN unnest($4::boolean[]) AS state (is_open)
                    \(Statements.search(
                        """
                        SELECT * FROM drift
                        WHERE drift.ledger_id = $1 AND drift.environment = kind.environment AND drift.class = kind.class
                            AND drift.app = kind.app AND drift.is_open = state.is_open AND drift.position > $6
                        ORDER BY drift.position LIMIT $7
                        """, as: "stored"))
                    WHERE kind.ledger_id = $1 AND kind.environment = $2 AND kind.class = ANY ($3)
                        AND ($5::text IS NULL OR kind.app = $5)
                    ORDER BY stored.position LIMIT $7
                ) AS page
                \(Self.beside("page"))
                ORDER BY page.position
                """,
                [
                    .int(ledgerID), .int2(query.environment.number), .int2Array(classes.map(\.number)),
                    .boolArray(states), .text(scope.app?.bundleID), .int(query.after), .int(Int64(limit + 1)),
                ]
            ).rows
            let items = try rows.prefix(limit).map { try FoundDrift($0) }
            let unexplained = counts.filter { count in
                count.driftClass == .unexplained && count.environment == query.environment
                    && scope.app.map { $0.bundleID.utf8.elementsEqual((count.app ?? "").utf8) } ?? true
            }
            return FoundDriftPage(
                items: items, hasMore: rows.count > limit, nextAfter: items.last?.position ?? query.after,
                unexplained: unexplained.map(\.open).reduce(0, +),
                notCompared: unexplained.map(\.notCompared).reduce(0, +), readTo: readTo ?? 0)
        }
    }

    // MARK: - Telling of them

    /// Those that events between two positions found, the first excluded, with whom they are about.
    static func found(
        after start: Int64, upTo end: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [(drift: FoundDrift, identity: IdentityRef?)] {
        try connection.query(
            """
            SELECT \(DriftRow.columns(of: "stored")), event.facts, known.value FROM drift AS stored
            \(Self.beside("stored"))
            WHERE stored.ledger_id = $1 AND stored.position > $2 AND stored.position <= $3
            ORDER BY stored.position LIMIT \(limit)
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows.map { (try FoundDrift($0), try $0.optionalInt(3).map { IdentityRef($0) }) }
    }

    // MARK: - Questions to the store

    /// How long a question holds before the same is asked again, in seconds.
    private static let askedSeconds = 24 * 3600.0

    /// Takes an unexplained difference of a stream upon this process, of those about which the store was not asked lately.
    ///
    /// Differences about which it was never asked come first, the oldest before the others, so that one which fails
    /// again and again delays no other.
    ///
    /// - Returns: `nil` where there is none. What is asked about is its original transaction.
    package func takeUnexplained(_ stream: StoreStream) async throws -> FoundDrift? {
        try await pool.run(doing: "looking what is unexplained") { connection in
            let position = try connection.query(
                """
                UPDATE drift SET asked_at = clock_timestamp()
                WHERE ledger_id = $1 AND position = (
                    SELECT position FROM drift
                    WHERE ledger_id = $1 AND environment = $2 AND class = $3 AND app = $4 AND is_open
                        AND original_transaction_id IS NOT NULL AND comparison = 1 AND cause = $5
                        AND (asked_at IS NULL OR asked_at < clock_timestamp() - make_interval(secs => $6))
                    ORDER BY asked_at NULLS FIRST, position LIMIT 1 FOR UPDATE SKIP LOCKED)
                RETURNING position
                """,
                [
                    .int(ledgerID), .int2(stream.environment.number), .int2(DriftClass.unexplained.number),
                    .text(stream.app), .int2(DriftCause.none.number), .double(Self.askedSeconds),
                ]
            ).first?.int(0)
            guard let position else { return nil }
            return try connection.query(
                """
                SELECT \(DriftRow.columns(of: "stored")), event.facts, known.value FROM drift AS stored
                \(Self.beside("stored"))
                WHERE stored.ledger_id = $1 AND stored.position = $2
                """, [.int(ledgerID), .int(position)]
            ).first.map { try FoundDrift($0) }
        }
    }

    /// How many seconds after a failed question the difference is taken again; until then all others come first.
    private static let retrySeconds = 3600.0

    /// Gives back a difference about which the store could not be asked.
    ///
    /// - Parameter isAtOnce: whether the store could be asked about nothing at all; then this difference comes first
    ///   again.
    package func giveBack(_ drift: FoundDrift, isAtOnce: Bool) async throws {
        try await pool.run(doing: "noting what is unexplained still") { connection in
            _ = try connection.query(
                """
                UPDATE drift SET asked_at =
                    CASE WHEN NOT $4 THEN clock_timestamp() - make_interval(secs => $3) END
                WHERE ledger_id = $1 AND position = $2
                """,
                [
                    .int(ledgerID), .int(drift.position), .double(Self.askedSeconds - Self.retrySeconds),
                    .bool(isAtOnce),
                ])
        }
    }

    /// Joins a row's event, and who the customer is.
    private static func beside(_ row: String) -> String {
        """
        LEFT JOIN LATERAL (
            SELECT facts FROM event
            WHERE event.ledger_id = $1 AND event.position = \(row).position AND \(row).comparison = 1 OFFSET 0
        ) AS event ON true
        LEFT JOIN LATERAL (
            SELECT value FROM identity
            WHERE identity.ledger_id = $1 AND identity.identity = \(row).identity OFFSET 0
        ) AS known ON true
        """
    }

    // MARK: - Counts

    /// How many there are of each kind that was ever found.
    package func counts() async throws -> [DriftCount] {
        try await pool.run(doing: "counting the differences") { try Self.counts(on: $0) }
    }

    private static func counts(on connection: isolated PostgresConnection) throws -> [DriftCount] {
        try connection.query(
            "SELECT environment, class, app, open, found, not_compared FROM drift_count WHERE ledger_id = $1 ORDER BY 1, 2, 3",
            [.int(ledgerID)]
        ).rows.map { row in
            let app = try row.text(2)
            return DriftCount(
                environment: try StoreEnvironment(stored: row.int(0)), driftClass: try DriftClass(stored: row.int(1)),
                app: app.isEmpty ? nil : app, open: try row.int(3), found: try row.int(4),
                notCompared: try row.int(5))
        }
    }
}

extension FoundDrift {
    /// Reads the columns of a row, the event's facts and the customer's id.
    fileprivate init(_ stored: PostgresRow) throws {
        let row = try DriftRow(stored)
        position = row.position
        environment = row.environment
        comparison = row.comparison
        cause = row.cause
        productID = row.productID
        originalTransactionID = row.originalTransactionID
        app = row.app.isEmpty ? nil : row.app
        foundAt = row.foundAt
        resolution = row.end.map { Resolution(at: $0.at, position: $0.position, by: $0.by) }
        if let bytes = try stored.optionalBytes(12), case .drift(let fact) = try FactCodec.decode(bytes) {
            report = fact
        } else {
            report = nil
        }
        customerID = try stored.optionalText(13)
    }
}

extension LedgerReader {
    /// The differences that were found in the same log.
    package var driftRegister: DriftRegister { DriftRegister(pool: pool) }
}
