package import EntitlementCore
import PostgresClient
import Synchronization

/// All that was ever known of a customer in one environment, so that what was known at any position can be folded
/// without asking the database again.
package final class CustomerPast: Sendable {
    /// The most events kept of one customer; whoever has more is read from the log each time.
    static let eventLimit = 2000
    /// The most catalogs told apart.
    static let catalogLimit = 256

    /// The position up to which it is known.
    package let position: Int64
    package let environment: StoreEnvironment
    /// What a later event has to name to add to it.
    package let dependencies: CustomerDependencies
    /// What it takes in memory, in bytes, about.
    package let bytes: Int
    private let identity: IdentityRef
    private let events: [HistoryEvent]
    /// Where the customer was first known in each other environment.
    private let otherEnvironments: [StoreEnvironment: Int64]
    /// In ascending order.
    private let catalogPositions: [Int64]
    private let folded = Mutex<[Version: PastReading]>([:])
    private let foldedLimit: Int

    /// What tells one state of the knowledge from another.
    private struct Version: Hashable {
        let event: Int64
        let catalog: Int64
    }

    fileprivate init(_ part: PastPart, identity: IdentityRef, catalogPositions: [Int64], position: Int64) {
        self.position = position
        environment = part.environment
        self.identity = identity
        events = part.events.values.sorted { $0.position < $1.position }
        otherEnvironments = part.otherEnvironments
        self.catalogPositions = catalogPositions
        // A fold takes about as much as the events that it holds.
        foldedLimit = events.count <= 16 ? 8 : 1
        bytes = 512 + part.bytes * (1 + foldedLimit / 2) + 8 * catalogPositions.count
        var identities = part.people.union([identity])
        for event in events { identities.formUnion(event.fact.identities) }
        dependencies = CustomerDependencies(
            identities: identities, originals: Set(events.compactMap(\.fact.originalTransactionID)),
            inEveryEnvironment: [identity])
    }

    /// What was known at a position, read with the catalog of then, which `catalogPosition(knownAt:)` tells.
    ///
    /// Only events and catalogs make a difference, so few positions of many have to be folded.
    package func reading(knownAt position: Int64, _ catalog: Catalog) -> PastReading {
        let version = Version(
            event: events.last { $0.position <= position }?.position ?? 0, catalog: catalogPosition(knownAt: position))
        if let known = folded.withLock({ $0[version] }) { return known }
        var facts = CustomerHistory(of: identity, environment: environment, position: position, events: events).facts()
        facts.catalog = catalog
        let reading = PastReading(facts: facts, timelines: facts.timelines())
        folded.withLock { folded in
            if folded.count >= foldedLimit { folded.removeAll() }
            folded[version] = reading
        }
        return reading
    }

    /// Where the catalog was written that answers at a position; 0 before any.
    package func catalogPosition(knownAt position: Int64) -> Int64 { catalogPositions.last { $0 <= position } ?? 0 }

    /// The other environments in which something of this customer was known at a position, in the order of their numbers.
    package func otherEnvironments(knownAt position: Int64) -> [StoreEnvironment] {
        StoreEnvironment.allCases.filter { otherEnvironments[$0].map { $0 <= position } ?? false }
    }
}

/// What was known of a customer at a position, folded.
package struct PastReading: Sendable {
    fileprivate let facts: CustomerFacts
    fileprivate let timelines: [EntitlementTimeline]

    /// What the customer holds, or held, at an instant.
    package func answers(at instant: Timestamp) -> [EntitlementAnswer] {
        timelines.compactMap { facts.answer(from: $0, at: instant) }
    }
}

/// What was read of one customer.
private struct PastPart {
    let environment: StoreEnvironment
    var identity: IdentityRef?
    var people: Set<IdentityRef> = []
    var events: [Int64: HistoryEvent] = [:]
    var otherEnvironments: [StoreEnvironment: Int64] = [:]
    var bytes = 0

    init(environment: StoreEnvironment) { self.environment = environment }

    mutating func add(_ event: HistoryEvent, factsCount: Int) {
        guard events.updateValue(event, forKey: event.position) == nil else { return }
        // Decoded facts take some times their encoded size.
        bytes += 320 + 4 * factsCount
    }
}

extension LedgerReader {
    /// The most customers of one statement, and the most events it brings.
    private static let pastsPerStatement = 64
    private static let pastEventLimit = 50_000

    /// All that was ever known of some customers, in their order, as of a position read after this was called.
    ///
    /// `nil` for whom the ledger does not know, and for whoever has more events than are kept.
    package func pasts(
        of customers: [(customer: CustomerID, environment: StoreEnvironment)]
    ) async throws -> [CustomerPast?] {
        var pasts: [CustomerPast?] = []
        for start in stride(from: 0, to: customers.count, by: Self.pastsPerStatement) {
            let part = Array(customers[start..<min(start + Self.pastsPerStatement, customers.count)])
            pasts += try await read { try Self.pasts(of: part, on: $0) }
        }
        return pasts
    }

    /// The catalog written at a position; at 0 an empty one.
    package func catalog(writtenAt position: Int64) async throws -> Catalog {
        if let known = catalogs.known(writtenAt: position) { return known }
        return try await read { try catalogs.catalog(writtenAt: position, on: $0) }
    }

    private static func pasts(
        of customers: [(customer: CustomerID, environment: StoreEnvironment)],
        on connection: isolated PostgresConnection
    ) throws -> [CustomerPast?] {
        let result = try connection.query(
            pastStatement,
            [
                .int(ledgerID), .intArray(customers.indices.map { Int64($0) }),
                .int2Array(customers.map(\.environment.number)), .textArray(customers.map(\.customer.value)),
            ])
        var parts = customers.map { PastPart(environment: $0.environment) }
        var position: Int64?
        var catalogPositions: [Int64] = []
        var eventCount = 0
        for row in result.rows {
            let number = Int(try row.optionalInt(1) ?? 0)
            guard let kind = PastRowKind(rawValue: try row.int(0)), parts.indices.contains(number) else { continue }
            let value = try row.int(2)
            switch kind {
            case .head: position = value
            case .catalog: catalogPositions.append(value)
            case .identity: parts[number].identity = IdentityRef(value)
            case .person: parts[number].people.insert(IdentityRef(value))
            case .otherEnvironment: parts[number].otherEnvironments[try StoreEnvironment(stored: row.int(3))] = value
            case .event:
                eventCount += 1
                let facts = try row.bytes(8)
                parts[number].add(
                    try HistoryEvent(pastRow: row, position: value, facts: facts), factsCount: facts.count)
            }
        }
        guard let position else { throw Statements.missingHead }
        guard eventCount <= pastEventLimit, catalogPositions.count <= CustomerPast.catalogLimit else {
            return customers.map { _ in nil }
        }
        catalogPositions.sort()
        return parts.map { part in
            guard let identity = part.identity, part.events.count <= CustomerPast.eventLimit else { return nil }
            return CustomerPast(part, identity: identity, catalogPositions: catalogPositions, position: position)
        }
    }

    /// What a row of the statement tells of.
    private enum PastRowKind: Int64 {
        case head = 0
        case identity = 1
        case person = 2
        case otherEnvironment = 3
        case event = 4
        case catalog = 5
    }

    // Columns: kind, number of the customer, position or identity, environment, source, type, recorded at, occurred at,
    // facts.
    private static let pastStatement = """
        WITH RECURSIVE known AS MATERIALIZED (
            SELECT asked.number, asked.environment, true AS own, identity.identity
            FROM unnest($2::bigint[], $3::smallint[], $4::text[]) AS asked (number, environment, value)
            JOIN identity ON identity.ledger_id = $1 AND identity.value = asked.value
        ), person (number, environment, own, identity) AS (
            SELECT * FROM known
            UNION
            \(OwnershipQuery.neighbours())
        ), named AS MATERIALIZED (
            SELECT DISTINCT person.number, person.environment, name.kind, name.original_transaction_id AS original,
                CASE WHEN name.kind IN (2, 3) THEN name.position END AS position
            FROM person
            JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = person.identity
                AND name.environment = ANY (ARRAY[0::smallint, person.environment]) AND name.kind IN (0, 2, 3)
        )
        SELECT 0::smallint, NULL::bigint, position, NULL::smallint, NULL::smallint, NULL::text, NULL::timestamptz,
            NULL::timestamptz, NULL::bytea
        FROM ledger_head WHERE ledger_id = $1
        UNION ALL
        SELECT 1, number, identity, NULL, NULL, NULL, NULL, NULL, NULL FROM known
        UNION ALL
        SELECT 2, number, identity, NULL, NULL, NULL, NULL, NULL, NULL FROM person
        UNION ALL
        SELECT 3, known.number, other.position, other.environment, NULL, NULL, NULL, NULL, NULL
        FROM known CROSS JOIN LATERAL (
            SELECT name.environment, min(name.position) AS position FROM event_name AS name
            WHERE name.ledger_id = $1 AND name.identity = known.identity AND name.environment IN (1, 2)
                AND name.environment <> known.environment AND name.kind IN (0, 2, 3)
            GROUP BY name.environment
        ) AS other
        UNION ALL
        SELECT 4, named.number, event.position, event.environment, event.source, event.type, event.recorded_at,
            event.occurred_at, event.facts
        FROM named JOIN event ON event.ledger_id = $1 AND event.position = named.position
        UNION ALL
        (SELECT 4, part.number, event.position, event.environment, event.source, event.type, event.recorded_at,
            event.occurred_at, event.facts
        FROM (
            SELECT DISTINCT number, environment, original FROM named WHERE original <> '' AND kind IN (0, 2)
        ) AS part
        JOIN event ON event.ledger_id = $1 AND event.environment = part.environment
            AND event.original_transaction_id = part.original
        LIMIT \(pastEventLimit + 1))
        UNION ALL
        (SELECT 5, NULL, position, NULL, NULL, NULL, NULL, NULL, NULL FROM event
        WHERE ledger_id = $1 AND type = 'catalog_applied' ORDER BY position DESC LIMIT \(CustomerPast.catalogLimit + 1))
        """
}

extension HistoryEvent {
    /// Reads a row of the statement; without the hash of the evidence, which only explanations cite.
    fileprivate init(pastRow row: PostgresRow, position: Int64, facts: [UInt8]) throws {
        let source = try EventSource(stored: row.int(4))
        let fact: LedgerFact
        do {
            fact = try FactCodec.decode(facts)
        } catch {
            throw LedgerError(.corrupt, "event \(position) cannot be folded: \(error)")
        }
        self.init(
            position: position, recordedAt: Timestamp(milliseconds: try row.timestamp(6)),
            environment: try row.optionalInt(3).map { try StoreEnvironment(stored: $0) }, source: source.rawValue,
            statementSource: source.statementSource, type: try row.text(5),
            occurredAt: try row.optionalTimestamp(7).map { Timestamp(milliseconds: $0) }, fact: fact)
    }
}
