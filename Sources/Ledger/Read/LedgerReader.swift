package import EntitlementCore
package import PostgresClient

/// Up to which position the log is believed.
package enum KnownAt: Sendable, Hashable {
    /// Everything committed by now.
    case head
    case position(Int64)
    /// The last position recorded at or before an instant.
    case recorded(Timestamp)
}

/// Why a `KnownAt` names no position.
package enum KnownAtError: Error, Sendable, Equatable {
    case beyondHead(head: Int64)
    /// A commit could still be recorded at that instant.
    case notSettled
}

/// Reads the log, and folds answers from it; views only save work.
///
/// Each read first fixes the position it believes and then looks at nothing beyond it, so a read is consistent without
/// a long snapshot.
package struct LedgerReader: Sendable {
    let pool: PostgresPool
    private let now: @Sendable () -> Timestamp
    /// Hears of each end of the log that is read, when its event was recorded.
    let hear: @Sendable (Timestamp) -> Void
    let catalogs = CatalogCache()

    package init(pool: PostgresPool, now: @escaping @Sendable () -> Timestamp) {
        self.pool = pool
        self.now = now
        hear = { _ in }
    }

    /// Whoever asks the clock for the time after a read is not told one before what was read was recorded.
    package init(pool: PostgresPool, clock: LedgerClock) {
        self.pool = pool
        now = clock.now
        hear = { clock.hear(of: $0) }
    }

    /// What is known of the streams of the same log.
    package var streamRegister: StreamRegister { StreamRegister(pool: pool) }

    /// What the log speaks of, as far as it was counted, the products that a catalog knows left out.
    package func seen(besides catalog: Catalog) async throws -> SeenSummary {
        try await SeenProjector(pool: pool).summary(besides: catalog)
    }

    /// The tree over the same log.
    package var tree: LogTree { LogTree(pool: pool) }

    /// How long after an instant a commit may still be recorded at it: 20 s, in milliseconds.
    ///
    /// The clocks of instances that write to one ledger may be apart, and a writer that stalls may keep the head for 10 s (the
    /// connection's limit for idling in a transaction) and then take some time to commit.
    private static let settlingMilliseconds = LedgerClock.spreadMilliseconds + 15_000

    /// How long a transaction that has the log's head is waited for.
    private static let restingSeconds = 0.5

    /// Everything that bears on a customer, and the position it rests on.
    ///
    /// What is known now is looked up in one round trip and one snapshot, through the views. What was known then is
    /// folded from the log, with the catalog, links and transfers of then; and so is what is about one app.
    package func customerFacts(
        _ customer: CustomerID, environment: StoreEnvironment, knownAt: KnownAt = .head, app: AppScope? = nil
    ) async throws -> (facts: CustomerFacts, position: Int64) {
        guard knownAt == .head, app == nil else {
            let history = try await history(of: customer, environment: environment, knownAt: knownAt, app: app)
            return (history.facts(), history.position)
        }
        let snapshot = try await snapshot(LedgerQuestion(of: customer, environment))
        return (snapshot.facts, snapshot.position)
    }

    /// The environments other than `environment` in which something of this customer was known at a position.
    package func otherEnvironments(
        of customer: CustomerID, than environment: StoreEnvironment, upTo position: Int64, app: AppScope? = nil
    ) async throws -> [StoreEnvironment] {
        if let app {
            var known: [StoreEnvironment] = []
            for other in StoreEnvironment.allCases where other != environment {
                let history = try await history(
                    of: customer, environment: other, knownAt: .position(position), app: app)
                if history.knowsCustomer { known.append(other) }
            }
            return known
        }
        return try await read { connection in
            let result = try connection.query(
                """
                SELECT other.environment FROM unnest($3::smallint[]) AS other (environment)
                CROSS JOIN LATERAL (
                    SELECT FROM event_name AS name
                    WHERE name.ledger_id = $1
                        AND name.identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)
                        AND name.environment = other.environment
                        AND name.kind IN (\(NameKind.list(.owner, .ownership, .report))) AND name.position <= $4
                    LIMIT 1) AS known
                ORDER BY 1
                """,
                [
                    .int(ledgerID), .text(customer.value),
                    .int2Array(StoreEnvironment.allCases.filter { $0 != environment }.map(\.number)), .int(position),
                ])
            return try result.rows.map { try StoreEnvironment(stored: $0.int(0)) }
        }
    }

    /// One original transaction as known at a position; `nil` when nothing is known of it.
    ///
    /// - Parameter app: leaves out what is not about this app.
    package func subscription(
        _ originalTransactionID: String, environment: StoreEnvironment, knownAt: KnownAt = .head, app: AppScope? = nil
    ) async throws -> (subscription: SubscriptionFacts?, position: Int64) {
        try await read { connection in
            let head = try connection.query(Statements.head.sql, Statements.head.parameters)
            let position = try settle(knownAt, head: head, on: connection)
            guard let row = head.first else { throw Statements.missingHead }
            let end = EventMark(position: try row.int(0), hash: try row.digest(2))
            let catalog = try catalogs.catalog(at: position, on: connection)
            let key = OriginalKey(environment: environment, originalTransactionID: originalTransactionID)
            guard let state = try StateQuery.states(of: [key], upTo: position, app: app, on: connection)[key] else {
                return (nil, position)
            }
            let ownership = try OwnershipQuery.ownership(
                of: [originalTransactionID: state], environment, upTo: position, on: connection)
            // Whoever asks of an instant before a transfer is told whose it was then.
            let owners =
                state.winningStatements().map { ownership.owner(of: $0.fact) }
                + ownership.transfers(of: originalTransactionID).map { $0.customer.map(ownership.customer(of:)) }
            let customers = try Statements.customerIDs(of: Array(Set(owners.compactMap(\.self))), on: connection)
            return (
                SubscriptionFacts(
                    key: key, state: state, catalog: catalog, ownership: ownership, customerIDs: customers, end: end),
                position
            )
        }
    }

    /// The catalog that answers at a position, and the position it was written at (0 before any).
    package func catalog(
        knownAt: KnownAt = .head
    ) async throws -> (catalog: Catalog, writtenAt: Int64, position: Int64) {
        try await read { connection in
            let head = try connection.query(Statements.head.sql, Statements.head.parameters)
            let position = try settle(knownAt, head: head, on: connection)
            let (writtenAt, catalog) = try catalogs.entry(at: position, on: connection)
            return (catalog, writtenAt, position)
        }
    }

    /// The position of the log's last event; 0 of an empty log.
    package func headPosition() async throws -> Int64 { try await read { try Statements.headPosition(on: $0) } }

    package func status() async throws -> LedgerStatus {
        try await read { connection in
            let results = try connection.pipeline([
                Statements.head,
                PostgresStatement(
                    "SELECT name, checkpoint, version FROM projection WHERE ledger_id = $1 ORDER BY name",
                    [.int(ledgerID)]),
            ])
            guard let head = results[0].first else { throw Statements.missingHead }
            return LedgerStatus(
                position: try head.int(0), recordedAt: try head.instant(1),
                hash: try head.digest(2),
                projections: try results[1].rows.map {
                    LedgerStatus.Projection(
                        name: try $0.text(0), checkpoint: try $0.int(1), version: try $0.int(2))
                })
        }
    }

    func read<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await pool.withConnection(body)
        } catch let error as KnownAtError {
            throw error
        } catch {
            throw LedgerError(error, doing: "reading the ledger")
        }
    }

    /// The position that `knownAt` stands for.
    func settle(
        _ knownAt: KnownAt, head result: PostgresResult, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        guard let row = result.first else { throw Statements.missingHead }
        let head = try row.int(0)
        let headRecordedAt = try row.instant(1)
        hear(headRecordedAt)
        switch knownAt {
        case .head:
            return head
        case .position(let position):
            guard position <= head else { throw KnownAtError.beyondHead(head: head) }
            return position
        case .recorded(let instant):
            // The next batch is recorded later than the head, whatever its clock says.
            if instant > headRecordedAt {
                // This machine's clock may have been set since it was compared with the database's.
                let present = min(now(), try Statements.clock(on: connection))
                guard instant < present.adding(milliseconds: -Self.settlingMilliseconds),
                    let end = try Statements.end(on: connection, waitingUpTo: Self.restingSeconds),
                    try end == head || Statements.lastPosition(recordedBy: instant, head: end, on: connection) == head
                else { throw KnownAtError.notSettled }
                return head
            }
            return try Statements.lastPosition(recordedBy: instant, head: head, on: connection)
        }
    }
}
