import EntitlementCore
import PostgresClient

/// Reads all that bears on some customers as of the head of the log, in one statement and so in one snapshot of the
/// database, however many customers are asked for.
///
/// The walk is: customer ids → their numbers → everybody whom links connect with them → the original transactions that
/// name one of those → each original's snapshot and later events.
enum CustomerQuery {
    static func statement(for questions: [LedgerQuestion]) -> PostgresStatement {
        var asked = AskedValues()
        for (number, question) in questions.enumerated() { asked.add(question, number: Int64(number)) }
        return PostgresStatement(
            sql,
            [
                .int(ledgerID), .intArray(asked.numbers), .int2Array(asked.environments), .boolArray(asked.areOwn),
                .textArray(asked.values), .intArray(asked.originalNumbers), .int2Array(asked.originalEnvironments),
                .textArray(asked.originals), .int4(Int32(OriginalState.foldVersion)),
            ])
    }

    /// The parameters of the statement, one array a column.
    private struct AskedValues {
        var numbers: [Int64] = []
        var environments: [Int16?] = []
        var areOwn: [Bool?] = []
        var values: [String?] = []
        var originalNumbers: [Int64] = []
        var originalEnvironments: [Int16?] = []
        var originals: [String?] = []

        mutating func add(_ question: LedgerQuestion, number: Int64) {
            func add(_ value: String, isOwn: Bool?) {
                numbers.append(number)
                environments.append(question.environment.number)
                areOwn.append(isOwn)
                values.append(value)
            }
            if let customer = question.customer { add(customer.value, isOwn: true) }
            for customer in question.customers { add(customer, isOwn: false) }
            for customer in question.numbered { add(customer, isOwn: nil) }
            for original in question.originals {
                originalNumbers.append(number)
                originalEnvironments.append(question.environment.number)
                originals.append(original)
            }
        }
    }

    /// What a row of the result tells of.
    enum RowKind: Int64 {
        case head = 0
        case identity = 1
        case snapshot = 2
        case event = 3
        case ownership = 4
        case catalog = 5
    }

    // Columns: kind, number of the question, position, source, text, bytes, recorded at.
    private static let sql = """
        WITH RECURSIVE known AS MATERIALIZED (
            SELECT asked.number, asked.environment, asked.own, found.identity, asked.value
            FROM unnest($2::bigint[], $3::smallint[], $4::boolean[], $5::text[])
                AS asked (number, environment, own, value)
            \(Statements.search("SELECT identity FROM identity WHERE ledger_id = $1 AND value = asked.value", as: "found"))
        ), walked AS MATERIALIZED (
            SELECT * FROM known WHERE own IS NOT NULL
        ), named (number, environment, own, kind, original, position) AS (
            \(OwnershipQuery.names(of: "walked"))
        ), part AS MATERIALIZED (
            SELECT number, environment, original FROM named WHERE own AND original <> ''
            UNION
            SELECT * FROM unnest($6::bigint[], $7::smallint[], $8::text[])
        ), life AS MATERIALIZED (
            SELECT part.number, part.environment, part.original, view.last_position, view.state
            FROM part \(StateQuery.snapshotJoin(of: "part", version: "$9"))
        )
        SELECT 0::smallint, NULL::bigint, position, NULL::smallint, NULL::text, hash, recorded_at
        FROM ledger_head WHERE ledger_id = $1
        UNION ALL
        SELECT 5, NULL, event.position, NULL, NULL, event.hash, NULL
        FROM ledger_head AS head JOIN event ON event.ledger_id = $1 AND event.position = head.catalog_position
        WHERE head.ledger_id = $1
        UNION ALL
        SELECT 1, number, identity, NULL, value, NULL, NULL FROM known
        UNION ALL
        SELECT 2, number, last_position, NULL, original, state, NULL FROM life WHERE state IS NOT NULL
        UNION ALL
        SELECT 3, life.number, event.position, event.source, life.original, event.facts, event.recorded_at
        FROM life \(StateQuery.tailJoin(of: "life"))
        UNION ALL
        SELECT 4, named.number, event.position, NULL, NULL, event.facts, event.recorded_at
        FROM named \(Statements.search(
            """
            SELECT position, facts, recorded_at FROM event
            WHERE event.ledger_id = $1 AND event.position = named.position
            """, as: "event"))
        WHERE named.kind = \(NameKind.ownership.rawValue) AND named.original = ''
        """

    /// Runs the statement and joins what it finds.
    static func run(
        _ questions: [LedgerQuestion], catalogs: CatalogCache, on connection: isolated PostgresConnection
    ) throws -> [LedgerSnapshot] {
        let statement = statement(for: questions)
        let found = try Found(connection.query(statement.sql, statement.parameters), questions: questions)
        let catalog = try catalogs.catalog(found.catalog, on: connection)
        return try zip(questions, found.parts).map { question, part in
            try snapshot(question, part, found, catalog, on: connection)
        }
    }

    private static func snapshot(
        _ question: LedgerQuestion, _ part: Part, _ found: Found, _ catalog: Catalog,
        on connection: isolated PostgresConnection
    ) throws -> LedgerSnapshot {
        let position = found.head.position
        var states: [String: OriginalState] = [:]
        var unproven: [OriginalKey] = []
        for (original, life) in part.lives {
            if let state = try life.state() {
                states[original] = state
            } else {
                unproven.append(OriginalKey(environment: question.environment, originalTransactionID: original))
            }
        }
        if !unproven.isEmpty {
            for (key, state) in try StateQuery.fold(unproven, upTo: position, on: connection) {
                states[key.originalTransactionID] = state
            }
        }
        var events = Array(part.ownership.values)
        // The claims and transfers may lie before the snapshot's end.
        let disputed = states.filter(\.value.hasOwnershipEvents).map(\.key).sorted()
        if !disputed.isEmpty {
            let more = OwnershipQuery.events(onOriginals: disputed, question.environment, upTo: position)
            events += try OwnershipQuery.events(from: connection.query(more.sql, more.parameters))
        }
        var connected = Set(part.identities.values)
        for event in part.ownership.values { connected.formUnion(event.fact.identities) }
        if !question.numbered.isEmpty {
            // The wanted original transactions may belong to people whom the walk has not reached.
            let strangers = Set(events.flatMap(\.fact.identities)).subtracting(connected)
            if !strangers.isEmpty {
                let more = OwnershipQuery.events(
                    connectedWith: strangers.sorted(), question.environment, upTo: position)
                let found = try OwnershipQuery.events(from: connection.query(more.sql, more.parameters))
                for event in found { connected.formUnion(event.fact.identities) }
                events += found
                connected.formUnion(strangers)
            }
        }
        let ownership = OwnershipMap(events)
        let own = question.customer.flatMap { part.identities[ExactText($0.value)] } ?? LedgerSnapshot.nobody
        var links: [RecordedLink] = []
        for event in events {
            if case .link(let fact) = event.fact { links.append(RecordedLink(position: event.position, fact: fact)) }
        }
        return LedgerSnapshot(
            mark: found.head, recordedAt: found.recordedAt,
            facts: CustomerFacts(
                customer: ownership.customer(of: own), originals: states,
                grants: Array(GrantBook(events).grants.values), ownership: ownership, catalog: catalog),
            catalogPosition: found.catalog.position, identities: part.identities, connected: connected,
            links: links.sorted { $0.position < $1.position })
    }

    /// What was found of one question.
    private struct Part {
        var identities: [ExactText: IdentityRef] = [:]
        var lives: [String: Life] = [:]
        var ownership: [Int64: OwnershipEvent] = [:]
    }

    private struct Found {
        let head: EventMark
        let recordedAt: Timestamp
        /// Where the catalog in force was written.
        private(set) var catalog = EventMark.none
        private(set) var parts: [Part]

        init(_ result: PostgresResult, questions: [LedgerQuestion]) throws {
            var head: (mark: EventMark, recordedAt: Timestamp)?
            var parts = [Part](repeating: Part(), count: questions.count)
            for row in result.rows {
                guard let kind = RowKind(rawValue: try row.int(0)) else { continue }
                let number = Int(try row.optionalInt(1) ?? 0)
                guard parts.indices.contains(number) else { continue }
                switch kind {
                case .head:
                    head = (
                        EventMark(position: try row.int(2), hash: try row.digest(5)),
                        try row.instant(6)
                    )
                case .catalog: catalog = EventMark(position: try row.int(2), hash: try row.digest(5))
                case .identity:
                    parts[number].identities[ExactText(try row.text(4))] = IdentityRef(try row.int(2))
                case .snapshot, .event:
                    let original = try row.text(4)
                    try parts[number].lives[original, default: Life(originalTransactionID: original)].add(
                        position: row.int(2), source: row.optionalInt(3), bytes: row.bytes(5))
                case .ownership:
                    let position = try row.int(2)
                    parts[number].ownership[position] = OwnershipEvent(
                        position: position, recordedAt: try row.instant(6),
                        fact: try FactCodec.decode(row.bytes(5)))
                }
            }
            guard let head else { throw Statements.missingHead }
            (self.head, recordedAt) = head
            self.parts = parts
        }
    }
}
