import EntitlementCore
import PostgresClient

/// An event that decides ownership: a link, a claim, a transfer or its undoing, a grant or its revocation.
struct OwnershipEvent: Sendable {
    let position: Int64
    let recordedAt: Timestamp
    let fact: LedgerFact
}

/// Finds ownership events: those of identities through the log's names, those of original transactions among the
/// original's own events.
enum OwnershipQuery {
    /// The identities that links, ever made up to a position, connect with `person (number, environment, own, identity)`:
    /// the recursive term of that common table expression; $1 is the ledger.
    ///
    /// A link has a name under each of its two ends, so the walk costs two searches a person.
    static func neighbours(upTo position: String? = nil) -> String {
        """
        SELECT person.number, person.environment, person.own, neighbour.identity
        FROM person
        \(generalNames(upTo: position))
        \(Statements.search(
            """
            SELECT identity, other_identity FROM event
            WHERE event.ledger_id = $1 AND event.position = name.position AND event.type = 'linked'
            """, as: "event"))
        CROSS JOIN LATERAL (VALUES (event.identity), (event.other_identity)) AS neighbour (identity)
        """
    }

    /// The names of some people, and of everybody whom links, ever made, connect with them: the terms of a recursive
    /// common table expression `named (number, environment, own, kind, original, position)`; $1 is the ledger.
    ///
    /// Each person's names are searched for once; links are among them, and so the walk goes on. Names under original
    /// transactions are searched for only where `own` says so: what is asked about a stranger must cost the same,
    /// whatever the stranger has.
    ///
    /// - Parameters:
    ///   - people: rows with columns `number`, `environment`, `own` and `identity`.
    ///   - kinds: the kinds of names wanted under original transactions, as a list.
    ///   - generalKinds: those wanted of names under none; `ownership` must be one of them.
    static func names(
        of people: String, kinds: String = NameKind.list(.owner, .ownership),
        generalKinds: String = NameKind.list(.ownership)
    ) -> String {
        func names(of person: String, _ rows: String) -> String {
            Statements.search(
                """
                SELECT kind, original_transaction_id AS original, position FROM event_name AS stored
                WHERE stored.ledger_id = $1 AND stored.identity = \(person).identity
                    AND stored.environment = ANY (ARRAY[0::smallint, \(rows).environment])
                    AND stored.kind IN (\(generalKinds)) AND stored.original_transaction_id = ''
                UNION ALL
                SELECT kind, original_transaction_id, position FROM event_name AS stored
                WHERE \(rows).own AND stored.ledger_id = $1 AND stored.identity = \(person).identity
                    AND stored.environment = \(rows).environment
                    AND stored.kind IN (\(kinds)) AND stored.original_transaction_id > ''
                """, as: "name")
        }
        return """
            SELECT \(people).number, \(people).environment, \(people).own, name.*
            FROM \(people) \(names(of: people, people))
            UNION
            SELECT named.number, named.environment, named.own, name.*
            FROM named
            \(Statements.search(
                """
                SELECT identity, other_identity FROM event
                WHERE event.ledger_id = $1 AND event.position = named.position AND event.type = 'linked'
                """, as: "event"))
            CROSS JOIN LATERAL (VALUES (event.identity), (event.other_identity)) AS neighbour (identity)
            \(names(of: "neighbour", "named"))
            WHERE named.kind = \(NameKind.ownership.rawValue) AND named.original = ''
            """
    }

    /// Joins the names under which a person of `person (number, environment, own, identity)` is linked or granted
    /// something.
    private static func generalNames(upTo position: String?) -> String {
        Statements.search(
            """
            SELECT position FROM event_name AS stored
            WHERE stored.ledger_id = $1 AND stored.identity = person.identity
                AND stored.environment = ANY (ARRAY[0::smallint, person.environment])
                AND stored.kind = \(NameKind.ownership.rawValue)
                AND stored.original_transaction_id = '' \(position.map { "AND stored.position <= \($0)" } ?? "")
            """, as: "name")
    }

    /// The claims and transfers of original transactions.
    static func events(
        onOriginals originals: [String], _ environment: StoreEnvironment, upTo position: Int64
    ) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT event.position, event.recorded_at, event.facts FROM unnest($2::text[]) AS key (original)
            \(Statements.search(
                """
                SELECT position, recorded_at, facts FROM event
                WHERE event.ledger_id = $1 AND event.environment = $3
                    AND event.original_transaction_id = key.original AND event.position <= $4
                    AND event.type IN ('claimed', 'transferred', 'transfer_undone')
                """, as: "event"))
            """,
            [.int(ledgerID), .textArray(originals), .int2(environment.number), .int(position)])
    }

    /// The links and grants of everybody whom links connect with some identities.
    static func events(
        connectedWith identities: [IdentityRef], _ environment: StoreEnvironment, upTo position: Int64
    ) -> PostgresStatement {
        events(connectedWith: identities, environment, upTo: position, where: "")
    }

    /// The links of everybody whom links connect with some identities.
    static func links(
        connectedWith identities: [IdentityRef], _ environment: StoreEnvironment, upTo position: Int64
    ) -> PostgresStatement {
        events(connectedWith: identities, environment, upTo: position, where: "AND event.type = 'linked'")
    }

    private static func events(
        connectedWith identities: [IdentityRef], _ environment: StoreEnvironment, upTo position: Int64,
        where condition: String
    ) -> PostgresStatement {
        PostgresStatement(
            """
            WITH RECURSIVE person (number, environment, own, identity) AS (
                SELECT 1::bigint, $3::smallint, true, seed FROM unnest($2::bigint[]) AS seed
                UNION
                \(neighbours(upTo: "$4"))
            )
            SELECT DISTINCT event.position, event.recorded_at, event.facts
            FROM person
            \(generalNames(upTo: "$4"))
            \(Statements.search(
                """
                SELECT position, recorded_at, facts FROM event
                WHERE event.ledger_id = $1 AND event.position = name.position \(condition)
                """, as: "event"))
            """,
            [.int(ledgerID), .intArray(identities.map(\.number)), .int2(environment.number), .int(position)])
    }

    /// Reads rows of position, recorded time and facts.
    static func events(from result: PostgresResult) throws -> [OwnershipEvent] {
        try result.rows.map { row in
            OwnershipEvent(
                position: try row.int(0), recordedAt: try row.instant(1),
                fact: try FactCodec.decode(row.bytes(2)))
        }
    }

    /// Who was found claiming somebody else's original transactions since these last changed hands; of each the first
    /// thousand.
    static func conflicts(on originals: [String], _ environment: StoreEnvironment) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.original, conflict.identity FROM unnest($2::text[]) AS key (original)
            CROSS JOIN LATERAL (
                SELECT coalesce(max(position), 0) AS position FROM event
                WHERE ledger_id = $1 AND environment = $3 AND original_transaction_id = key.original
                    AND type IN ('claimed', 'transferred', 'transfer_undone')
            ) AS handed
            CROSS JOIN LATERAL (
                SELECT identity FROM event
                WHERE ledger_id = $1 AND environment = $3 AND original_transaction_id = key.original
                    AND type = 'ownership_conflict' AND position > handed.position
                ORDER BY position LIMIT \(LedgerReader.conflictLimit)
            ) AS conflict
            """, [.int(ledgerID), .textArray(originals), .int2(environment.number)])
    }

    /// All that decides whose the periods of some original transactions are.
    static func ownership(
        of states: [String: OriginalState], _ environment: StoreEnvironment, upTo position: Int64,
        on connection: isolated PostgresConnection
    ) throws -> OwnershipMap {
        var found: [OwnershipEvent] = []
        let disputed = states.filter(\.value.hasOwnershipEvents).map(\.key).sorted()
        if !disputed.isEmpty {
            let direct = events(onOriginals: disputed, environment, upTo: position)
            found = try events(from: connection.query(direct.sql, direct.parameters))
        }
        var named = Set(states.values.flatMap { $0.transactions.compactMap(\.fact.statedOwner) })
        named.formUnion(states.values.flatMap { $0.web?.owners.map(\.value.customer) ?? [] })
        for event in found { named.formUnion(event.fact.identities) }
        let links = events(connectedWith: named.sorted(), environment, upTo: position)
        return OwnershipMap(try events(from: connection.query(links.sql, links.parameters)) + found)
    }

    /// Where customers were last named by an ownership event or a report.
    static func lastPositions(about customers: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.value, named.position FROM unnest($2::text[]) AS key (value)
            \(Statements.search("SELECT identity FROM identity WHERE ledger_id = $1 AND identity.value = key.value", as: "known"))
            CROSS JOIN LATERAL (
                SELECT max(position) AS position FROM event_name AS name
                WHERE name.ledger_id = $1 AND name.identity = known.identity AND name.environment IN (0, 1, 2)
                    AND name.kind IN (\(NameKind.list(.ownership, .report)))
            ) AS named
            WHERE named.position IS NOT NULL
            """, [.int(ledgerID), .textArray(customers)])
    }

    /// Where original transactions were last claimed, transferred, found in conflict, or about to be extended, and where the
    /// store was last told, or about to be told, how much of them was used.
    static func lastPositions(about originals: [OriginalKey]) -> PostgresStatement {
        lastPositions(
            originals,
            where: """
                AND event.type IN ('claimed', 'transferred', 'transfer_undone', 'ownership_conflict',
                    'extension_requested', 'consumption_ordered', 'consumption_settled')
                """)
    }

    /// Where anything was last recorded about original transactions.
    static func lastPositions(ofAllAbout originals: [OriginalKey]) -> PostgresStatement {
        lastPositions(originals, where: "")
    }

    private static func lastPositions(_ originals: [OriginalKey], where condition: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.environment, key.original, event.position
            FROM unnest($2::smallint[], $3::text[]) AS key (environment, original)
            CROSS JOIN LATERAL (
                SELECT max(position) AS position FROM event
                WHERE event.ledger_id = $1 AND event.environment = key.environment
                    AND event.original_transaction_id = key.original \(condition)
            ) AS event
            WHERE event.position IS NOT NULL
            """,
            [
                .int(ledgerID), .int2Array(originals.map(\.environment.number)),
                .textArray(originals.map(\.originalTransactionID)),
            ])
    }
}

extension OwnershipMap {
    /// The map that results from ownership events, given in any order.
    init(_ events: [OwnershipEvent]) {
        self.init()
        for event in events.sorted(by: { $0.position < $1.position }) {
            apply(event.fact, position: event.position, recordedAt: event.recordedAt)
        }
    }
}

extension GrantBook {
    /// The grants that result from ownership events, given in any order.
    init(_ events: [OwnershipEvent]) {
        self.init()
        for event in events.sorted(by: { $0.position < $1.position }) {
            apply(event.fact, position: event.position, recordedAt: event.recordedAt)
        }
    }
}
