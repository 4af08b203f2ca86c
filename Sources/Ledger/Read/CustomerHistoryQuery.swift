package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The most events one customer's history may have.
    package static let historyLimit = 50_000

    /// The events that bear on a customer, found by index, and the catalogs of then.
    package func history(
        of customer: CustomerID, environment: StoreEnvironment, knownAt: KnownAt = .head
    ) async throws -> CustomerHistory {
        try await read { connection in
            let results = try connection.pipeline([Statements.head, Statements.identity(of: customer.value)])
            let position = try settle(knownAt, head: results[0], on: connection)
            let identity = try results[1].first.map { IdentityRef(try $0.int(0)) }
            var query = CustomerHistoryQuery(environment: environment, upTo: position)
            if let identity { try query.gather(identity, on: connection) }
            try query.addCatalogs(latest: CustomerHistory.catalogLimit, on: connection)
            return CustomerHistory(
                of: identity, environment: environment, position: position, events: query.events.map(\.history))
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
    private var identities: Set<IdentityRef> = []
    private var byPosition: [Int64: DecodedEvent] = [:]

    init(environment: StoreEnvironment, upTo position: Int64) {
        self.environment = environment
        self.position = position
    }

    /// In the order of their positions.
    var events: [DecodedEvent] { byPosition.values.sorted { $0.record.position < $1.record.position } }

    mutating func gather(_ identity: IdentityRef, on connection: isolated PostgresConnection) throws {
        try addOwn(from: identity, on: connection)
        let originals = try connection.query(
            """
            SELECT DISTINCT event.original_transaction_id
            FROM unnest($2::bigint[]) AS key (number)
            JOIN event ON event.ledger_id = $1 AND event.identity = key.number AND event.environment = $3
            WHERE event.original_transaction_id IS NOT NULL AND event.position <= $4
            LIMIT \(LedgerReader.historyLimit)
            """,
            [
                .int(ledgerID), .intArray(identities.map(\.number).sorted()), .text(environment.rawValue),
                .int(position),
            ]
        ).rows.map { try $0.text(0) }
        guard !originals.isEmpty else { return }
        add(
            try rows(
                "unnest($2::text[])", "environment = $3 AND original_transaction_id = key.value", .textArray(originals),
                on: connection))
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

    /// Links, whatever identities they add, and grants.
    private mutating func addOwn(from identity: IdentityRef, on connection: isolated PostgresConnection) throws {
        var frontier: Set<IdentityRef> = [identity]
        while !frontier.isEmpty {
            identities.formUnion(frontier)
            let numbers = PostgresValue.intArray(frontier.map(\.number).sorted())
            var found: [DecodedEvent] = []
            for column in ["identity", "other_identity"] {
                found += try rows(
                    "unnest($2::bigint[])",
                    """
                    \(column) = key.value AND (environment = $3 OR environment IS NULL)
                        AND original_transaction_id IS NULL
                    """, numbers, on: connection)
            }
            add(found)
            var next: Set<IdentityRef> = []
            for event in found {
                if case .link(let link) = event.fact { next.formUnion([link.identity, link.customer]) }
            }
            frontier = next.subtracting(identities)
        }
    }

    /// The events that `condition` finds for each `key.value` of `keys`: one search of an index for each.
    private func rows(
        _ keys: String, _ condition: String, _ parameter: PostgresValue, on connection: isolated PostgresConnection
    ) throws -> [DecodedEvent] {
        let result = try connection.query(
            """
            SELECT \(EventColumns.list) FROM \(keys) AS key (value)
            JOIN event ON ledger_id = $1 AND position <= $4 AND \(condition)
            LIMIT \(LedgerReader.historyLimit + 1)
            """, [.int(ledgerID), parameter, .text(environment.rawValue), .int(position)])
        guard result.rows.count <= LedgerReader.historyLimit else {
            throw LedgerError(.invalid, "a customer has more than \(LedgerReader.historyLimit) events")
        }
        return try result.rows.map { try DecodedEvent(EventRecord($0)) }
    }

    private mutating func add(_ events: [DecodedEvent]) {
        for event in events { byPosition[event.record.position] = event }
    }
}
