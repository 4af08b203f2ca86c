package import EntitlementCore
import PostgresClient

/// Everything that forgetting a customer erases.
package struct ForgettingScope: Sendable {
    /// The ids in clear, the customer asked for first.
    package let identities: [(value: String, ref: IdentityRef)]
    /// The events whose evidence goes, ascending.
    package private(set) var evidencePositions: [Int64]
    /// What finds the ids in evidence; where the log knows nobody of the one asked for, what finds a statement of it.
    let terms: SearchTerms
    /// The ids to look for where a web checkout names its customer, as they may be written there.
    let webCustomers: [String]
    /// App transactions that statements of other customers bear, too.
    package let sharedAppTransactions: [IdentityRef]
    /// Those among the aliases that stay because they stand for somebody else, too.
    package let keptAliases: [KeptAlias]
    /// Every event that names one of the identities, ascending.
    let positions: [Int64]
    /// What was bought on the web and names one of the identities.
    private let webOriginals: [OriginalKey]
    /// What Stripe calls this person, and what they bought and paid, by the evidence that goes.
    private(set) var webIDs: Set<String>
    /// The addresses that Stripe gives for this person in that evidence, in lower case.
    private(set) var mailAddresses: Set<ExactText>
    /// How many of these stand in what is other customers', too.
    package private(set) var sharedMailAddresses = 0
    /// The evidence that ids lead to, whatever addresses stand in it.
    private var identified: Set<Int64>

    /// Evidence that one event lists at most; more of it takes more events.
    private static let positionsPerEvent = 10_000

    /// How many aliases stay beside app transactions.
    package var keptCustomers: Int { keptAliases.count { !$0.isAppTransaction } }

    /// Whether there is nothing to forget.
    var isEmpty: Bool { identities.isEmpty && evidencePositions.isEmpty }

    /// The events to append; their identities are references into the list of each.
    var drafts: [EventDraft] {
        listed
            + webOriginals.map { key in
                EventDraft(
                    environment: key.environment, source: .operatorCommand, occurredAt: nil,
                    fact: .forgetting(
                        ForgettingFact(
                            identities: identities.indices.map { IdentityRef(Int64($0)) }, evidencePositions: [],
                            originalTransactionID: key.originalTransactionID)),
                    identities: identities.map(\.ref.name), deduplication: .unique)
            }
    }

    /// The events that undo links from who stays to who is erased: without them the one would go on being the other.
    var unlinking: [EventDraft] {
        keptAliases.flatMap { alias in
            alias.linkedIn.map { environment in
                EventDraft(
                    environment: environment, source: .operatorCommand, occurredAt: nil,
                    fact: .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(0))),
                    identities: [alias.ref.name], deduplication: .unique)
            }
        }
    }

    /// Those that list the evidence.
    private var listed: [EventDraft] {
        let starts = Array(stride(from: 0, to: max(evidencePositions.count, 1), by: Self.positionsPerEvent))
        return starts.map { start in
            let listed = evidencePositions[start..<min(start + Self.positionsPerEvent, evidencePositions.count)]
            return EventDraft(
                environment: nil, source: .operatorCommand, occurredAt: nil,
                fact: .forgetting(
                    ForgettingFact(
                        identities: identities.indices.map { IdentityRef(Int64($0)) },
                        evidencePositions: Array(listed))),
                identities: identities.map(\.ref.name), deduplication: .unique)
        }
    }

    /// Before anything is looked for in the evidence.
    init(of customer: CustomerID, on connection: isolated PostgresConnection) throws {
        let asked = Statements.identity(of: customer.value)
        guard let row = try connection.query(asked.sql, asked.parameters).first else {
            // Signed renewal information, or a checkout that was abandoned, may name somebody whom no event names: that stands in
            // the evidence alone.
            terms = SearchTerms(statedIdentity: customer.value)
            webCustomers = Self.spellings(of: customer.value)
            (identities, sharedAppTransactions, keptAliases) = ([], [], [])
            (positions, webOriginals, evidencePositions, identified) = ([], [], [], [])
            (webIDs, mailAddresses) = ([], [])
            return
        }
        let first = IdentityRef(try row.int(0))
        let links = try PersonLinks(of: first, on: connection)
        keptAliases = try links.kept(on: connection)
        let kept = Set(keptAliases.map(\.ref))
        var person = links.person.subtracting(kept)
        let (own, shared) = try Self.appTransactions(of: person, on: connection)
        person.formUnion(own.subtracting(kept))
        sharedAppTransactions =
            shared.union(keptAliases.filter(\.isAppTransaction).map(\.ref)).subtracting(person).sorted()
        let values = try Statements.customerIDs(of: Array(person), on: connection)
        identities =
            [(customer.value, first)]
            + values.filter { $0.key != first }.sorted { $0.key < $1.key }.map { ($0.value, $0.key) }
        terms = SearchTerms(identities: identities.map(\.value))
        webCustomers = identities.flatMap { Self.spellings(of: $0.value) }
        let numbers = person.map(\.number).sorted()
        positions = try Self.events(naming: numbers, on: connection)
        webOriginals = try Self.webOriginals(naming: numbers, on: connection)
        evidencePositions = try Self.evidence(of: numbers, on: connection)
        identified = Set(evidencePositions)
        webIDs = try WebEvidence.ids(in: evidencePositions, ofNobody: false, on: connection)
        mailAddresses = try WebEvidence.mailAddresses(
            in: evidencePositions, of: identities.map(\.ref), on: connection)
    }

    /// A UUID is the same id in either case.
    private static func spellings(of id: String) -> [String] {
        CustomerID.isUUID(id) ? [id, id.uppercased()] : [id]
    }

    /// Adds the evidence of others that names this person.
    ///
    /// Where that names no customer at all, as a refund does, what it is about is this person's, too.
    mutating func add(_ search: EvidenceSearch, on connection: isolated PostgresConnection) throws {
        let found = try Self.held(search.found, on: connection)
        identified.formUnion(found)
        webIDs.formUnion(try WebEvidence.ids(in: found, ofNobody: true, on: connection))
        mailAddresses.formUnion(try WebEvidence.mailAddresses(in: found, of: identities.map(\.ref), on: connection))
        // An address proves nothing: it counts only where it is nobody else's, and for what is nobody else's.
        var unclaimed: Set<Int64> = []
        sharedMailAddresses = 0
        for (_, positions) in search.foundByMail {
            let others = try Self.held(positions.subtracting(identified), on: connection)
            if try isSomebodyElses(others, on: connection) {
                sharedMailAddresses += 1
            } else {
                unclaimed.formUnion(others)
            }
        }
        evidencePositions = identified.union(unclaimed).sorted()
    }

    /// Those of some positions that have evidence, ascending: another forgetting may have erased it since it was found.
    private static func held(_ positions: Set<Int64>, on connection: isolated PostgresConnection) throws -> [Int64] {
        guard !positions.isEmpty else { return [] }
        return try connection.query(
            "SELECT position FROM evidence WHERE ledger_id = $1 AND position = ANY ($2) ORDER BY position",
            [.int(ledgerID), .intArray(positions.sorted())]
        ).rows.map { try $0.int(0) }
    }

    /// Whether one of some events names another customer, or is about an original that another event says is another's.
    private func isSomebodyElses(_ positions: [Int64], on connection: isolated PostgresConnection) throws -> Bool {
        guard !positions.isEmpty else { return false }
        return try connection.query(
            """
            SELECT EXISTS (
                SELECT FROM unnest($2::bigint[]) AS found (position)
                JOIN event ON event.ledger_id = $1 AND event.position = found.position
                CROSS JOIN LATERAL (
                    SELECT event.identity, event.other_identity
                    UNION ALL
                    SELECT stated.identity, stated.other_identity FROM event AS stated
                    WHERE stated.ledger_id = $1 AND stated.environment = event.environment
                        AND stated.original_transaction_id = event.original_transaction_id
                ) AS named
                CROSS JOIN LATERAL (VALUES (named.identity), (named.other_identity)) AS owner (identity)
                JOIN identity ON identity.ledger_id = $1 AND identity.identity = owner.identity
                WHERE owner.identity <> ALL ($3))
            """, [.int(ledgerID), .intArray(positions), .intArray(identities.map(\.ref.number))]
        ).first?.bool(0) ?? false
    }

    /// The app transactions that this person's statements bear: those that are theirs alone, and the others.
    private static func appTransactions(
        of person: Set<IdentityRef>, on connection: isolated PostgresConnection
    ) throws -> (own: Set<IdentityRef>, shared: Set<IdentityRef>) {
        let numbers = PostgresValue.intArray(person.map(\.number).sorted())
        let borne = try connection.query(
            """
            \(ownEvents)
            SELECT DISTINCT event.other_identity FROM own
            JOIN event ON event.ledger_id = $1 AND event.position = own.position
            WHERE event.other_identity IS NOT NULL AND event.identity = ANY ($2)
                AND event.original_transaction_id IS NOT NULL
            """, [.int(ledgerID), numbers])
        let several = try connection.query(
            """
            \(ownEvents)
            SELECT event.facts FROM own JOIN event ON event.ledger_id = $1 AND event.position = own.position
            WHERE event.transaction_id IS NULL AND event.original_transaction_id IS NOT NULL
            """, [.int(ledgerID), numbers])
        var candidates = try Set(borne.rows.map { IdentityRef(try $0.int(0)) })
        for row in several.rows {
            for stated in try FactCodec.decode(row.bytes(0)).transactions
            where stated.accountToken.map(person.contains) ?? false {
                candidates.formUnion([stated.appTransaction].compactMap(\.self))
            }
        }
        // Shared is what somebody is named by as the owner or by a link in force, or bears beside the token of somebody else
        // who is not forgotten.
        let owners = try PersonLinks.owners(among: candidates, in: [nil] + StoreEnvironment.allCases, on: connection)
        let linked = try PersonLinks.linked(among: candidates, on: connection)
        let shared = try owners.union(linked)
            .union(borneBesideOthers(candidates, person: person, on: connection))
        return (candidates.subtracting(shared), shared)
    }

    /// Which of some app transactions stand in a statement beside the account token of somebody else who is not forgotten.
    static func borneBesideOthers(
        _ candidates: Set<IdentityRef>, person: Set<IdentityRef>, on connection: isolated PostgresConnection
    ) throws -> Set<IdentityRef> {
        guard !candidates.isEmpty else { return [] }
        let rows = try connection.query(
            """
            SELECT candidate.number FROM unnest($2::bigint[]) AS candidate (number)
            WHERE EXISTS (
                SELECT FROM event_name AS name
                JOIN event ON event.ledger_id = $1 AND event.environment = name.environment
                    AND event.original_transaction_id = name.original_transaction_id
                    AND event.other_identity = candidate.number AND event.identity <> ALL ($3)
                JOIN identity ON identity.ledger_id = $1 AND identity.identity = event.identity
                WHERE name.ledger_id = $1 AND name.identity = candidate.number
                    AND name.environment IN (1, 2) AND name.kind = \(NameKind.besideToken.rawValue))
            """,
            [
                .int(ledgerID), .intArray(candidates.map(\.number).sorted()),
                .intArray(person.map(\.number).sorted()),
            ])
        return try Set(rows.rows.map { IdentityRef(try $0.int(0)) })
            .union(bearers(of: candidates, beside: person, on: connection))
    }

    /// Which of some app transactions stand beside somebody else's token in a statement that its event's row does not bear.
    private static func bearers(
        of candidates: Set<IdentityRef>, beside person: Set<IdentityRef>, on connection: isolated PostgresConnection
    ) throws -> Set<IdentityRef> {
        let rows = try connection.query(
            """
            SELECT DISTINCT event.position, event.facts FROM unnest($2::bigint[]) AS candidate (number)
            JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = candidate.number
                AND name.environment IN (1, 2) AND name.kind = \(NameKind.besideToken.rawValue)
            JOIN event ON event.ledger_id = $1 AND event.environment = name.environment
                AND event.original_transaction_id = name.original_transaction_id AND event.transaction_id IS NULL
            """, [.int(ledgerID), .intArray(candidates.map(\.number).sorted())]
        ).rows
        let stated = try rows.flatMap { try FactCodec.decode($0.bytes(1)).transactions }.compactMap { stated in
            stated.accountToken.flatMap { token in
                stated.appTransaction.map { (token: token, appTransaction: $0) }
            }
        }.filter { candidates.contains($0.appTransaction) && !person.contains($0.token) }
        // Whoever was forgotten is nobody.
        let known = try Statements.customerIDs(of: Array(Set(stated.map(\.token))), on: connection)
        return Set(stated.filter { known[$0.token] != nil }.map(\.appTransaction))
    }

    /// `own (position)`: every event whose columns or names hold one of the identities $2; $1 is the ledger.
    private static let ownEvents = """
        WITH name AS MATERIALIZED (
            SELECT DISTINCT name.environment, name.kind, name.original_transaction_id AS original, name.position
            FROM unnest($2::bigint[]) AS key (number)
            JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = key.number
                AND name.environment IN (0, 1, 2)
                AND name.kind IN (\(NameKind.list(.owner, .besideToken, .ownership, .report)))
        ), own (position) AS (
            SELECT position FROM name WHERE kind IN (\(NameKind.list(.ownership, .report)))
            UNION
            SELECT event.position FROM (SELECT DISTINCT environment, original FROM name WHERE original <> '') AS part
            JOIN event ON event.ledger_id = $1 AND event.environment = part.environment
                AND event.original_transaction_id = part.original
                AND (event.identity = ANY ($2) OR event.other_identity = ANY ($2))
        )
        """

    /// The row of a name leads to the first event that bears it beside the original.
    private static func webOriginals(
        naming identities: [Int64], on connection: isolated PostgresConnection
    ) throws -> [OriginalKey] {
        let rows = try connection.query(
            """
            SELECT DISTINCT event.environment, event.original_transaction_id, event.facts
            FROM unnest($2::bigint[]) AS key (number)
            JOIN event_name AS name ON name.ledger_id = $1 AND name.identity = key.number
                AND name.environment IN (1, 2)
                AND name.kind = \(NameKind.owner.rawValue) AND name.original_transaction_id <> ''
            JOIN event ON event.ledger_id = $1 AND event.position = name.position
            """, [.int(ledgerID), .intArray(identities)]
        ).rows
        var found: Set<OriginalKey> = []
        for row in rows where try FactCodec.decode(row.bytes(2)).isOfWeb {
            found.insert(
                OriginalKey(
                    environment: try StoreEnvironment(stored: row.int(0)), originalTransactionID: try row.text(1)))
        }
        return found.sorted()
    }

    private static func events(
        naming identities: [Int64], on connection: isolated PostgresConnection
    ) throws -> [Int64] {
        try connection.query(
            ownEvents + " SELECT position FROM own ORDER BY position", [.int(ledgerID), .intArray(identities)]
        ).rows.map { try $0.int(0) }
    }

    /// A statement without a transaction names nobody in its facts, but its signed bytes may.
    private static func evidence(
        of identities: [Int64], on connection: isolated PostgresConnection
    ) throws -> [Int64] {
        try connection.query(
            """
            \(ownEvents), nameless AS (
                SELECT event.position
                FROM (SELECT DISTINCT environment, original FROM name WHERE original <> '') AS part
                JOIN event ON event.ledger_id = $1 AND event.environment = part.environment
                    AND event.original_transaction_id = part.original
                    AND event.identity IS NULL AND event.other_identity IS NULL
            )
            SELECT evidence.position FROM (SELECT position FROM own UNION SELECT position FROM nameless) AS erased
            JOIN evidence ON evidence.ledger_id = $1 AND evidence.position = erased.position
            ORDER BY evidence.position
            """, [.int(ledgerID), .intArray(identities)]
        ).rows.map { try $0.int(0) }
    }
}

extension IdentityRef {
    /// Stands for the id where only the number matters: a draft that names the known needs no id in clear.
    var name: String { String(number) }
}
