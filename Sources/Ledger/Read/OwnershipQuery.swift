import EntitlementCore
import PostgresClient

/// Finds what links, claims, transfers and grants say, each by an index that holds nothing else.
///
/// The log itself is the ownership map: such events are few, so nothing beside it has to be kept, proven or rebuilt.
enum OwnershipQuery {
    /// A link, claim, transfer, its undoing, grant or revocation of one.
    struct Word: Sendable {
        let position: Int64
        let recordedAt: Timestamp
        let fact: LedgerFact

        /// Reads position, recorded time and facts.
        init(_ row: PostgresRow) throws {
            position = try row.int(0)
            recordedAt = Timestamp(milliseconds: try row.timestamp(1))
            fact = try FactCodec.decode(row.bytes(2))
        }
    }

    /// The query's first part: `person (number)`, everybody whom links of an environment, ever made, connect with the
    /// seeds.
    ///
    /// A link from or to a customer has an entry under each of its two ends, so the walk costs two searches a person. The
    /// inner search asks for all words, of which the outer keeps the links: asked for links alone, a planner that has seen
    /// none yet would read all links there ever are by the other index.
    static func connected(with seeds: String, environment: String, upTo position: String) -> String {
        """
        WITH RECURSIVE person (number) AS (
            \(seeds)
            UNION
            SELECT link.neighbour FROM person CROSS JOIN LATERAL (
                SELECT word.neighbour FROM (
                    SELECT other_identity AS neighbour, type FROM event
                    WHERE ledger_id = $1 AND identity = person.number
                        AND type IN ('linked', 'granted', 'grant_revoked')
                        AND (environment = \(environment) OR environment IS NULL) AND position <= \(position) OFFSET 0
                ) AS word WHERE word.type = 'linked'
                UNION ALL
                SELECT identity FROM event
                WHERE ledger_id = $1 AND other_identity = person.number AND type = 'linked'
                    AND (environment = \(environment) OR environment IS NULL) AND position <= \(position)
            ) AS link
        )
        """
    }

    /// The numbers of customer ids, looked up one after the other (see `AppendTransaction.knownIdentities`).
    static func numbers(of values: String) -> String {
        """
        SELECT known.identity FROM unnest(\(values)::text[]) AS key (value) CROSS JOIN LATERAL (
            SELECT identity FROM identity WHERE ledger_id = $1 AND identity.value = key.value OFFSET 0) AS known
        """
    }

    /// The links and grants that name some customers themselves.
    ///
    /// Where no link is among them there is nobody to be connected with.
    static func words(
        about customers: [String], _ environment: StoreEnvironment, bound: Int64
    ) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT word.position, word.recorded_at, word.facts FROM unnest($2::text[]) AS key (value)
            CROSS JOIN LATERAL (
                SELECT identity FROM identity WHERE ledger_id = $1 AND identity.value = key.value OFFSET 0) AS known
            CROSS JOIN LATERAL (
                SELECT position, recorded_at, facts FROM event
                WHERE ledger_id = $1 AND identity = known.identity
                    AND type IN ('linked', 'granted', 'grant_revoked')
                    AND (environment = $3 OR environment IS NULL) AND position <= $4
                UNION ALL
                SELECT position, recorded_at, facts FROM event
                WHERE ledger_id = $1 AND other_identity = known.identity AND type = 'linked'
                    AND (environment = $3 OR environment IS NULL) AND position <= $4
            ) AS word
            """, [.int(ledgerID), .textArray(customers), .text(environment.rawValue), .int(bound)])
    }

    /// The links and grants of everybody connected with some customers.
    static func words(
        ofCustomers values: [String], numbers: [IdentityRef] = [], _ environment: StoreEnvironment,
        upTo position: Int64
    ) -> PostgresStatement {
        let seeds = """
            \(Self.numbers(of: "$2"))
            UNION
            SELECT unnest($3::bigint[])
            """
        return PostgresStatement(
            """
            \(connected(with: seeds, environment: "$4", upTo: "$5"))
            SELECT word.position, word.recorded_at, word.facts FROM person CROSS JOIN LATERAL (
                SELECT position, recorded_at, facts FROM event
                WHERE ledger_id = $1 AND identity = person.number
                    AND type IN ('linked', 'granted', 'grant_revoked')
                    AND (environment = $4 OR environment IS NULL) AND position <= $5 OFFSET 0
            ) AS word
            ORDER BY word.position
            """,
            [
                .int(ledgerID), .textArray(values), .intArray(numbers.map(\.number)), .text(environment.rawValue),
                .int(position),
            ])
    }

    /// The claims and transfers of original transactions.
    static func words(
        onOriginals originals: [String], _ environment: StoreEnvironment, upTo position: Int64
    ) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT word.position, word.recorded_at, word.facts FROM unnest($2::text[]) AS key (original)
            CROSS JOIN LATERAL (
                SELECT position, recorded_at, facts FROM event
                WHERE ledger_id = $1 AND environment = $3 AND original_transaction_id = key.original
                    AND type IN ('claimed', 'transferred', 'transfer_undone') AND position <= $4 OFFSET 0
            ) AS word
            ORDER BY word.position
            """,
            [.int(ledgerID), .textArray(originals), .text(environment.rawValue), .int(position)])
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
            """, [.int(ledgerID), .textArray(originals), .text(environment.rawValue)])
    }

    /// All that decides whose the periods of some original transactions are.
    static func ownership(
        of states: [String: OriginalState], _ environment: StoreEnvironment, upTo position: Int64,
        on connection: isolated PostgresConnection
    ) throws -> OwnershipMap {
        let direct = Self.words(onOriginals: states.keys.sorted(), environment, upTo: position)
        let words = try connection.query(direct.sql, direct.parameters).rows.map { try Word($0) }
        var named = Set(states.values.flatMap { $0.transactions.compactMap(\.fact.statedOwner) })
        for word in words { named.formUnion(word.fact.identities) }
        let links = Self.words(ofCustomers: [], numbers: named.sorted(), environment, upTo: position)
        return OwnershipMap(try connection.query(links.sql, links.parameters).rows.map { try Word($0) } + words)
    }

    /// Where customers were last linked, granted something, or found drifted.
    static func lastWords(of customers: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.value, max(word.position) FROM unnest($2::text[]) AS key (value)
            CROSS JOIN LATERAL (
                SELECT identity FROM identity WHERE ledger_id = $1 AND identity.value = key.value OFFSET 0) AS known
            CROSS JOIN LATERAL (
                SELECT position FROM event
                WHERE ledger_id = $1 AND identity = known.identity AND type IN ('linked', 'granted', 'grant_revoked')
                UNION ALL
                SELECT position FROM event
                WHERE ledger_id = $1 AND other_identity = known.identity AND type = 'linked'
                UNION ALL
                SELECT position FROM event WHERE ledger_id = $1 AND identity = known.identity AND type = 'drift'
            ) AS word
            GROUP BY key.value
            """, [.int(ledgerID), .textArray(customers)])
    }

    /// Where original transactions were last claimed, transferred or found in conflict.
    static func lastWords(on originals: [OriginalKey]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.environment, key.original, max(word.position)
            FROM unnest($2::text[], $3::text[]) AS key (environment, original)
            CROSS JOIN LATERAL (
                SELECT position FROM event
                WHERE ledger_id = $1 AND event.environment = key.environment
                    AND original_transaction_id = key.original
                    AND type IN ('claimed', 'transferred', 'transfer_undone', 'ownership_conflict') OFFSET 0
            ) AS word
            GROUP BY key.environment, key.original
            """,
            [
                .int(ledgerID), .textArray(originals.map(\.environment.rawValue)),
                .textArray(originals.map(\.originalTransactionID)),
            ])
    }
}

extension OwnershipMap {
    /// The map that words, whatever their order, draw.
    init(_ words: [OwnershipQuery.Word]) {
        self.init()
        for word in words.sorted(by: { $0.position < $1.position }) {
            apply(word.fact, position: word.position, recordedAt: word.recordedAt)
        }
    }
}

extension GrantBook {
    /// The grants that words, whatever their order, tell of.
    init(_ words: [OwnershipQuery.Word]) {
        self.init()
        for word in words.sorted(by: { $0.position < $1.position }) {
            apply(word.fact, position: word.position, recordedAt: word.recordedAt)
        }
    }
}
