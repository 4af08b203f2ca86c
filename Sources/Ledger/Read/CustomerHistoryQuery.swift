package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The most events one customer's history may have.
    package static let historyLimit = 50_000

    /// The events that bear on a customer, found by index, and the catalogs of then.
    ///
    /// - Parameter app: leaves out what is not about this app.
    package func history(
        of customer: CustomerID, environment: StoreEnvironment, knownAt: KnownAt = .head, app: AppScope? = nil
    ) async throws -> CustomerHistory {
        try await read { connection in
            let results = try connection.pipeline([Statements.head, Statements.identity(of: customer.value)])
            let position = try settle(knownAt, head: results[0], on: connection)
            let identity = try results[1].first.map { IdentityRef(try $0.int(0)) }
            var query = CustomerHistoryQuery(environment: environment, upTo: position)
            if let identity { try query.gather(identity, on: connection) }
            if app != nil { try query.addFirstStatements(on: connection) }
            try query.addCatalogs(latest: CustomerHistory.catalogLimit, on: connection)
            return CustomerHistory(
                of: identity, environment: environment, position: position, events: query.events.map(\.history),
                app: app)
        }
    }
}

/// An event of the log, and what its facts say.
struct DecodedEvent: Sendable {
    let record: EventRecord
    let fact: LedgerFact

    init(_ record: EventRecord) throws {
        self.record = record
        fact = try FactCodec.decode(record.facts)
    }

    var history: HistoryEvent { HistoryEvent(record, fact: fact) }
}

extension HistoryEvent {
    /// The event as explanations fold it.
    package init(_ record: EventRecord, fact: LedgerFact) {
        self.init(
            position: record.position, recordedAt: record.recordedAt, environment: record.environment,
            source: record.source.rawValue, statementSource: record.source.statementSource, type: record.type,
            occurredAt: record.occurredAt, fact: fact, evidenceHash: record.evidenceHash)
    }
}

/// Gathers the events among which `CustomerHistory` finds those that bear on a customer: those of every identity that
/// links lead to or from, and those of every original transaction that one of them is named in.
struct CustomerHistoryQuery {
    private let environment: StoreEnvironment
    private let position: Int64
    private var byPosition: [Int64: DecodedEvent] = [:]

    init(environment: StoreEnvironment, upTo position: Int64) {
        self.environment = environment
        self.position = position
    }

    /// In the order of their positions.
    var events: [DecodedEvent] { byPosition.values.sorted { $0.record.position < $1.record.position } }

    /// Adds all that links, ever made up to the position, connect with an identity: their ownership events and reports,
    /// and every event of the original transactions that name one of them.
    ///
    /// - Parameters:
    ///   - product: leaves out the original transactions that never were of this product.
    ///   - limit: the most events there may be.
    mutating func gather(
        _ identity: IdentityRef, about product: String? = nil, limit: Int = LedgerReader.historyLimit,
        on connection: isolated PostgresConnection
    ) throws {
        // Statements that came several at once name their products in their facts alone; so such an original is kept.
        let isOfProduct =
            product == nil
            ? ""
            : Statements.search(
                """
                SELECT FROM event AS sold
                WHERE sold.ledger_id = $1 AND sold.environment = $3 AND sold.original_transaction_id = part.original
                    AND sold.position <= $4 AND (sold.product_id = $6
                        OR (sold.product_id IS NULL AND sold.type NOT IN (
                            'claimed', 'transferred', 'transfer_undone', 'ownership_conflict')))
                LIMIT 1
                """, as: "sold")
        let result = try connection.query(
            """
            WITH RECURSIVE person (number, environment, own, identity) AS (
                SELECT 1::bigint, $3::smallint, true, $2::bigint
                UNION
                \(OwnershipQuery.neighbours(upTo: "$4"))
            ), named AS MATERIALIZED (
                SELECT DISTINCT name.environment, name.kind, name.original_transaction_id AS original,
                    CASE WHEN name.kind IN (\(NameKind.list(.ownership, .report))) THEN name.position END AS position
                FROM person \(Statements.search(
                    """
                    SELECT * FROM event_name AS stored
                    WHERE stored.ledger_id = $1 AND stored.identity = person.identity
                        AND stored.environment IN (0, $3)
                        AND stored.kind IN (\(NameKind.list(.owner, .ownership, .report))) AND stored.position <= $4
                    """, as: "name"))
            ), found (position) AS (
                SELECT named.position FROM named WHERE named.position IS NOT NULL
                UNION
                SELECT event.position FROM (
                    SELECT DISTINCT original FROM named
                    WHERE original <> '' AND kind IN (\(NameKind.list(.owner, .ownership)))) AS part
                \(isOfProduct)
                \(Statements.search(
                    """
                    SELECT position FROM event
                    WHERE event.ledger_id = $1 AND event.environment = $3
                        AND event.original_transaction_id = part.original AND event.position <= $4
                    """, as: "event"))
                LIMIT $5
            )
            SELECT \(EventColumns.list(of: "event")) FROM found
            \(Statements.search(
                "SELECT * FROM event WHERE event.ledger_id = $1 AND event.position = found.position", as: "event"))
            """,
            [
                .int(ledgerID), .int(identity.number), .int2(environment.number), .int(position),
                .int(Int64(limit + 1)),
            ] + (product.map { [.text($0)] } ?? []))
        guard result.rowCount <= limit else {
            throw LedgerError(
                .tooMuch,
                "This customer has more than \(limit) events, the most that an answer is folded from "
                    + "directly; only what they hold now can be told, to a key that is bound to no app.")
        }
        add(try result.rows.map { try DecodedEvent(EventRecord($0)) })
    }

    /// Adds what tells which app those original transactions are of about which only somebody's word was found.
    mutating func addFirstStatements(on connection: isolated PostgresConnection) throws {
        let groups = Dictionary(grouping: byPosition.values) { $0.record.originalKey }
        let unnamed = groups.compactMap { key, events in
            events.allSatisfy(\.fact.bundleIDs.isEmpty) ? key : nil
        }
        add(try OriginalApps.firstStatements(of: unnamed, on: connection).values.flatMap(\.self))
    }

    /// The last catalogs; `nil`: all of them.
    mutating func addCatalogs(latest limit: Int?, on connection: isolated PostgresConnection) throws {
        let result = try connection.query(
            """
            SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND type = 'catalog_applied' AND position <= $2
            ORDER BY position DESC LIMIT $3
            """, [.int(ledgerID), .int(position), .int(Int64(limit ?? LedgerReader.historyLimit))])
        add(try result.rows.map { try DecodedEvent(EventRecord($0)) })
    }

    private mutating func add(_ events: [DecodedEvent]) {
        for event in events { byPosition[event.record.position] = event }
    }
}
