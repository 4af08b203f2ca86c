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
            // Recorded time never decreases with position, so a search by halves over the primary key finds it.
            return try Statements.lastPosition(recordedBy: instant, head: head, on: connection)
        }
    }
}

/// One original transaction, with the customers who own its periods, or did.
package struct SubscriptionFacts: Sendable {
    package let key: OriginalKey
    package let state: OriginalState
    package let catalog: Catalog
    package let ownership: OwnershipMap
    package let customerIDs: [IdentityRef: String]
    /// The end of the log when this was read.
    package let end: EventMark

    /// Everybody whom its statements name, or whose it is or was, with whoever these are linked to.
    package var people: Set<IdentityRef> {
        let named =
            state.transactions.flatMap { [$0.fact.accountToken, $0.fact.appTransaction].compactMap(\.self) }
            + [state.web?.statedOwner].compactMap(\.self)
        return ownership.holders(of: key.originalTransactionID).union(named.flatMap(ownership.path(of:)))
    }

    /// The same of one purchase, the latest where none is named: whom a statement about it names, or whose it was since.
    ///
    /// Whose the earlier ones of its original transaction were does not count.
    package func people(ofPurchase transactionID: String? = nil) -> Set<IdentityRef> {
        let purchases = state.winningStatements()
        let purchase =
            transactionID.map { id in purchases.first { $0.transactionIDs.contains(id) } }
            ?? purchases.max { $0.fact.isBought(before: $1.fact) }
        guard let purchase, state.web == nil else { return people }
        let named = state.transactions.filter { purchase.transactionIDs.contains($0.fact.transactionID) }
            .flatMap { [$0.fact.accountToken, $0.fact.appTransaction].compactMap(\.self) }
        let transfers = ownership.transfers(of: key.originalTransactionID)
        let owners =
            transfers.lastIndex { $0.at <= purchase.fact.purchaseDate }.map { first in
                Set(transfers[first...].compactMap(\.customer).flatMap(ownership.path(of:)))
            } ?? ownership.holders(of: key.originalTransactionID)
        return owners.union(named.flatMap(ownership.path(of:)))
    }
}

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

    static func lastPosition(
        recordedBy instant: Timestamp, head: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        var low: Int64 = 0
        var high = head
        while low < high {
            let middle = low + (high - low + 1) / 2
            let row = try connection.query(
                "SELECT recorded_at FROM event WHERE ledger_id = $1 AND position = $2",
                [.int(ledgerID), .int(middle)]
            ).first
            guard let row else { throw LedgerError(.corrupt, "the log has no position \(middle)") }
            if try row.instant(0) <= instant { low = middle } else { high = middle - 1 }
        }
        return low
    }
}
