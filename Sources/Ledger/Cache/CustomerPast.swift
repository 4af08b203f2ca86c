package import EntitlementCore
import PostgresClient

/// All that was ever known of a customer in one environment, so that what was known at any position can be folded
/// without asking the database again.
///
/// The facts stay encoded, for decoded they take several times the memory, and to decode them takes less time than to
/// fold them.
package final class CustomerPast: Sendable {
    /// The most events kept of one customer; whoever has more is read from the log each time.
    static let eventLimit = 2000
    /// The most catalogs told apart.
    static let catalogLimit = 256

    /// The end of the log up to which it is known.
    package let mark: EventMark
    package let environment: StoreEnvironment
    /// What a later event has to name to add to it.
    package let dependencies: CustomerDependencies
    /// What it takes in memory, in bytes, about.
    package let bytes: Int
    private let identity: IdentityRef
    /// In the order of their positions.
    private let events: [EncodedEvent]
    /// Where the customer was first known in each other environment.
    private let otherEnvironments: [StoreEnvironment: Int64]
    /// In ascending order; shared by all that were read together.
    private let catalogs: [EventMark]

    fileprivate init(_ part: PastPart, identity: IdentityRef, catalogs: [EventMark], mark: EventMark) {
        self.mark = mark
        environment = part.environment
        self.identity = identity
        events = part.events.values.sorted { $0.position < $1.position }
        otherEnvironments = part.otherEnvironments
        self.catalogs = catalogs
        bytes = 384 + events.reduce(0) { $0 + $1.bytes }
        dependencies = CustomerDependencies(
            identities: part.people.union([identity]), originals: part.originals, inEveryEnvironment: [identity])
    }

    /// What was known at a position, read with the catalog of then, which `catalog(knownAt:)` tells.
    ///
    /// - Throws: `LedgerError` of code `corrupt` for an event whose facts do not read.
    package func facts(knownAt position: Int64, _ catalog: Catalog) throws -> CustomerFacts {
        let events = try events.prefix { $0.position <= position }.map { try $0.decoded() }
        var facts = CustomerHistory(of: identity, environment: environment, position: position, events: events).facts()
        facts.catalog = catalog
        return facts
    }

    /// The events as they are folded, in the order of their positions.
    ///
    /// - Throws: `LedgerError` of code `corrupt` for an event whose facts do not read.
    func history() throws -> [HistoryEvent] { try events.map { try $0.decoded() } }

    /// Where the catalog was written that answers at a position.
    package func catalog(knownAt position: Int64) -> EventMark { catalogs.last { $0.position <= position } ?? .none }

    /// The other environments in which something of this customer was known at a position, in the order of their numbers.
    package func otherEnvironments(knownAt position: Int64) -> [StoreEnvironment] {
        StoreEnvironment.allCases.filter { otherEnvironments[$0].map { $0 <= position } ?? false }
    }
}

/// An event as the log holds it, as far as a fold needs it.
private struct EncodedEvent: Sendable {
    let position: Int64
    let recordedAt: Timestamp
    let environment: StoreEnvironment?
    let source: EventSource
    let facts: [UInt8]

    /// What it takes in memory, in bytes, about.
    var bytes: Int { 96 + facts.count }

    init(_ row: PostgresRow, position: Int64) throws {
        self.position = position
        environment = try row.optionalInt(3).map { try StoreEnvironment(stored: $0) }
        source = try EventSource(stored: row.int(4))
        recordedAt = try row.instant(5)
        facts = try row.bytes(6)
    }

    /// The event as it is folded: without its label, date and evidence, which only explanations cite.
    func decoded() throws -> HistoryEvent {
        do {
            return HistoryEvent(
                position: position, recordedAt: recordedAt, environment: environment, source: source.rawValue,
                statementSource: source.statementSource, type: "", occurredAt: nil, fact: try FactCodec.decode(facts))
        } catch {
            throw LedgerError(.corrupt, "event \(position) cannot be folded: \(error)")
        }
    }
}

/// What was read of one customer.
private struct PastPart {
    let environment: StoreEnvironment
    var identity: IdentityRef?
    var people: Set<IdentityRef> = []
    var originals: Set<String> = []
    var events: [Int64: EncodedEvent] = [:]
    var otherEnvironments: [StoreEnvironment: Int64] = [:]

    init(environment: StoreEnvironment) { self.environment = environment }

    /// Adds an event, and whom and what it names.
    mutating func add(_ event: EncodedEvent) throws {
        guard events.updateValue(event, forKey: event.position) == nil else { return }
        let fact = try event.decoded().fact
        people.formUnion(fact.identities)
        if let original = fact.originalTransactionID { originals.insert(original) }
    }
}

/// The most that is kept of what one statement brings.
private struct PastLimits {
    /// Of one customer.
    let events: Int
    let allEvents: Int
    let catalogs: Int
}

extension LedgerReader {
    /// The most customers of one statement, and the most events it brings.
    private static let pastsPerStatement = 64
    private static let pastEventLimit = 50_000
    private static let numberedEventLimit = 1_000_000

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

    /// The catalog written somewhere; before any an empty one.
    package func catalog(_ mark: EventMark) async throws -> Catalog {
        if let known = catalogs.known(mark) { return known }
        return try await read { try catalogs.catalog(mark, on: $0) }
    }

    private static func pasts(
        of customers: [(customer: CustomerID, environment: StoreEnvironment)],
        on connection: isolated PostgresConnection
    ) throws -> [CustomerPast?] {
        try pasts(
            in: customers.map(\.environment), .textArray(customers.map(\.customer.value)), pastsOfNames,
            limits: PastLimits(
                events: CustomerPast.eventLimit, allEvents: pastEventLimit, catalogs: CustomerPast.catalogLimit),
            on: connection)
    }

    /// The same of identities by their numbers, whatever they were called and however many events they have.
    ///
    /// - Throws: `LedgerError` of code `tooMuch` where they have more events together than are read at once.
    static func pasts(
        of identities: [(identity: IdentityRef, environment: StoreEnvironment)],
        on connection: isolated PostgresConnection
    ) throws -> [CustomerPast] {
        let pasts = try pasts(
            in: identities.map(\.environment), .intArray(identities.map(\.identity.number)), pastsOfNumbers,
            limits: PastLimits(events: numberedEventLimit, allEvents: numberedEventLimit, catalogs: .max),
            on: connection
        ).compactMap(\.self)
        guard pasts.count == identities.count else {
            throw LedgerError(
                .tooMuch, "these customers have more than \(numberedEventLimit) events, the most that are read at once")
        }
        return pasts
    }

    private static func pasts(
        in environments: [StoreEnvironment], _ asked: PostgresValue, _ statement: String,
        limits: PastLimits, on connection: isolated PostgresConnection
    ) throws -> [CustomerPast?] {
        let result = try connection.query(
            statement,
            [
                .int(ledgerID), .intArray(environments.indices.map { Int64($0) }),
                .int2Array(environments.map(\.number)), asked,
            ])
        var parts = environments.map { PastPart(environment: $0) }
        var mark: EventMark?
        var catalogs: [EventMark] = []
        var eventCount = 0
        for row in result.rows {
            let number = Int(try row.optionalInt(1) ?? 0)
            guard let kind = PastRowKind(rawValue: try row.int(0)), parts.indices.contains(number) else { continue }
            let value = try row.int(2)
            switch kind {
            case .head: mark = EventMark(position: value, hash: try row.digest(6))
            case .catalog: catalogs.append(EventMark(position: value, hash: try row.digest(6)))
            case .identity: parts[number].identity = IdentityRef(value)
            case .otherEnvironment: parts[number].otherEnvironments[try StoreEnvironment(stored: row.int(3))] = value
            case .event:
                eventCount += 1
                try parts[number].add(EncodedEvent(row, position: value))
            }
        }
        guard let mark else { throw Statements.missingHead }
        guard eventCount <= limits.allEvents, catalogs.count <= limits.catalogs else {
            return environments.map { _ in nil }
        }
        catalogs.sort { $0.position < $1.position }
        return parts.map { part in
            guard let identity = part.identity, part.events.count <= limits.events else { return nil }
            return CustomerPast(part, identity: identity, catalogs: catalogs, mark: mark)
        }
    }

    /// What a row of the statement tells of.
    private enum PastRowKind: Int64 {
        case head = 0
        case identity = 1
        case otherEnvironment = 2
        case event = 3
        case catalog = 4
    }

    // Columns: kind, number of the customer, position or identity, environment, source, recorded at, facts (of the head and a catalog: the hash).
    private static func pastStatement(_ known: String, limit: Int) -> String {
        """
        WITH RECURSIVE known AS MATERIALIZED (
            \(known)
        ), named (number, environment, own, kind, original, position) AS (
            \(OwnershipQuery.names(
                of: "known", kinds: NameKind.list(.owner, .ownership, .report),
                generalKinds: NameKind.list(.ownership, .report)))
        )
        SELECT 0::smallint, NULL::bigint, position, NULL::smallint, NULL::smallint, NULL::timestamptz, hash
        FROM ledger_head WHERE ledger_id = $1
        UNION ALL
        SELECT 1, number, identity, NULL, NULL, NULL, NULL FROM known
        UNION ALL
        SELECT 2, known.number, other.position, other.environment, NULL, NULL, NULL
        FROM known CROSS JOIN LATERAL (
            SELECT name.environment, min(name.position) AS position FROM event_name AS name
            WHERE name.ledger_id = $1 AND name.identity = known.identity AND name.environment IN (1, 2)
                AND name.environment <> known.environment
                AND name.kind IN (\(NameKind.list(.owner, .ownership, .report)))
            GROUP BY name.environment
        ) AS other
        UNION ALL
        SELECT 3, named.number, event.position, event.environment, event.source, event.recorded_at, event.facts
        FROM named \(Statements.search(
            "SELECT * FROM event WHERE event.ledger_id = $1 AND event.position = named.position", as: "event"))
        WHERE named.kind IN (\(NameKind.list(.ownership, .report)))
        UNION ALL
        (SELECT 3, part.number, event.position, event.environment, event.source, event.recorded_at, event.facts
        FROM (
            SELECT DISTINCT number, environment, original FROM named
            WHERE original <> '' AND kind IN (\(NameKind.list(.owner, .ownership)))
        ) AS part
        \(Statements.search(
            """
            SELECT * FROM event
            WHERE event.ledger_id = $1 AND event.environment = part.environment
                AND event.original_transaction_id = part.original
            """, as: "event"))
        LIMIT \(limit + 1))
        UNION ALL
        (SELECT 4, NULL, position, NULL, NULL, NULL, hash FROM event
        WHERE ledger_id = $1 AND type = 'catalog_applied' ORDER BY position DESC LIMIT \(CustomerPast.catalogLimit + 1))
        """
    }
    private static let pastsOfNames = pastStatement(
        """
        SELECT asked.number, asked.environment, true AS own, found.identity
        FROM unnest($2::bigint[], $3::smallint[], $4::text[]) AS asked (number, environment, value)
        \(Statements.search("SELECT identity FROM identity WHERE ledger_id = $1 AND value = asked.value", as: "found"))
        """, limit: pastEventLimit)

    private static let pastsOfNumbers = pastStatement(
        """
        SELECT asked.number, asked.environment, true AS own, asked.identity
        FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS asked (number, environment, identity)
        """, limit: numberedEventLimit)
}
