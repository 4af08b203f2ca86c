import EntitlementCore
import PostgresClient

/// An event that decides whose something is: a link, claim, transfer, its undoing, grant or revocation of one.
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
        JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = person.identity
            AND name.environment = ANY (ARRAY[0::smallint, person.environment]) AND name.kind = 2
            AND name.original_transaction_id = '' \(position.map { "AND name.position <= \($0)" } ?? "")
        JOIN event ON event.ledger_id = $1 AND event.position = name.position AND event.type = 'linked'
        CROSS JOIN LATERAL (VALUES (event.identity), (event.other_identity)) AS neighbour (identity)
        """
    }

    /// The claims and transfers of original transactions.
    static func events(
        onOriginals originals: [String], _ environment: StoreEnvironment, upTo position: Int64
    ) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT event.position, event.recorded_at, event.facts FROM unnest($2::text[]) AS key (original)
            JOIN event ON event.ledger_id = $1 AND event.environment = $3
                AND event.original_transaction_id = key.original AND event.position <= $4
                AND event.type IN ('claimed', 'transferred', 'transfer_undone')
            """,
            [.int(ledgerID), .textArray(originals), .int2(environment.number), .int(position)])
    }

    /// The links and grants of everybody whom links connect with some identities.
    static func events(
        connectedWith identities: [IdentityRef], _ environment: StoreEnvironment, upTo position: Int64
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
            JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = person.identity
                AND name.environment = ANY (ARRAY[0::smallint, person.environment]) AND name.kind = 2
                AND name.original_transaction_id = '' AND name.position <= $4
            JOIN event ON event.ledger_id = $1 AND event.position = name.position
            """,
            [.int(ledgerID), .intArray(identities.map(\.number)), .int2(environment.number), .int(position)])
    }

    /// Reads rows of position, recorded time and facts.
    static func events(from result: PostgresResult) throws -> [OwnershipEvent] {
        try result.rows.map { row in
            OwnershipEvent(
                position: try row.int(0), recordedAt: Timestamp(milliseconds: try row.timestamp(1)),
                fact: try FactCodec.decode(row.bytes(2)))
        }
    }

    /// Who was found claiming somebody else's original transactions; of each the first thousand.
    static func conflicts(on originals: [String], _ environment: StoreEnvironment) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.original, conflict.identity FROM unnest($2::text[]) AS key (original)
            CROSS JOIN LATERAL (
                SELECT identity FROM event
                WHERE ledger_id = $1 AND environment = $3 AND original_transaction_id = key.original
                    AND type = 'ownership_conflict' ORDER BY position LIMIT \(LedgerReader.conflictLimit)
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
        for event in found { named.formUnion(event.fact.identities) }
        let links = events(connectedWith: named.sorted(), environment, upTo: position)
        return OwnershipMap(try events(from: connection.query(links.sql, links.parameters)) + found)
    }

    /// Where customers were last named by an ownership event or a report.
    static func lastPositions(about customers: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.value, max(name.position) FROM unnest($2::text[]) AS key (value)
            JOIN identity ON identity.ledger_id = $1 AND identity.value = key.value
            JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = identity.identity
                AND name.environment IN (0, 1, 2) AND name.kind IN (2, 3)
            GROUP BY key.value
            """, [.int(ledgerID), .textArray(customers)])
    }

    /// Where original transactions were last claimed, transferred or found in conflict.
    static func lastPositions(about originals: [OriginalKey]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.environment, key.original, max(event.position)
            FROM unnest($2::smallint[], $3::text[]) AS key (environment, original)
            JOIN event ON event.ledger_id = $1 AND event.environment = key.environment
                AND event.original_transaction_id = key.original
                AND event.type IN ('claimed', 'transferred', 'transfer_undone', 'ownership_conflict')
            GROUP BY key.environment, key.original
            """,
            [
                .int(ledgerID), .int2Array(originals.map(\.environment.number)),
                .textArray(originals.map(\.originalTransactionID)),
            ])
    }
}

extension OwnershipMap {
    /// The map that ownership events, whatever their order, draw.
    init(_ events: [OwnershipEvent]) {
        self.init()
        for event in events.sorted(by: { $0.position < $1.position }) {
            apply(event.fact, position: event.position, recordedAt: event.recordedAt)
        }
    }
}

extension GrantBook {
    /// The grants that ownership events, whatever their order, tell of.
    init(_ events: [OwnershipEvent]) {
        self.init()
        for event in events.sorted(by: { $0.position < $1.position }) {
            apply(event.fact, position: event.position, recordedAt: event.recordedAt)
        }
    }
}
