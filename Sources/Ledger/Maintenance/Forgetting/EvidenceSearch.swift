import EntitlementCore
import PostgresClient

/// Looks for a person's ids in all the evidence there is: what the store signed about somebody else may name them, too.
///
/// Account tokens and app transaction ids are looked for wherever they stand. An app's own ids might be any word, and are
/// looked for where a web checkout names its customer. What a web checkout states may name somebody by their payment alone, as
/// refunds and disputes do, so it is looked for by Stripe's ids, too; and by a mail address, which proves nothing by itself.
struct EvidenceSearch: Sendable {
    /// Positions that one statement looks through, so that none takes long.
    private static let page: Int64 = 20_000
    /// Bytes of compressed evidence that are fetched at once, but for the last piece.
    private static let fetched: Int64 = 4 << 20
    /// Spellings that one regular expression looks for.
    private static let alternatives = 64
    /// The same of a web checkout's, which may be long.
    private static let webAlternatives = 16

    /// Whose ids are looked for.
    let identities: Set<IdentityRef>
    /// What Stripe calls this person, and what they bought and paid.
    let webIDs: Set<String>
    /// The addresses that a web checkout stated of this person, in lower case.
    let mailAddresses: Set<ExactText>
    /// What finds them in what the store signed.
    private let terms: SearchTerms
    /// What finds them in evidence as PostgreSQL spells bytes, of a few ids each: one of very many would be refused.
    private let patterns: [String]
    /// The position up to which all evidence was looked through.
    private(set) var searchedTo: Int64 = 0
    private(set) var found: Set<Int64> = []
    /// What is compressed and does not decompress, so that nobody can say whom it names.
    private var unreadable: Set<Int64> = []
    /// What a web checkout stated in which one of the addresses stands, by the address.
    private(set) var foundByMail: [ExactText: Set<Int64>] = [:]

    /// What does not read and is not erased all the same, by position.
    func unreadable(besides scope: ForgettingScope) -> [Int64] {
        unreadable.subtracting(scope.evidencePositions).sorted()
    }

    init(for scope: ForgettingScope) {
        let identities = scope.identities
        self.identities = Set(identities.map(\.ref))
        webIDs = scope.webIDs
        mailAddresses = scope.mailAddresses
        terms = scope.terms
        let ofWeb = scope.webCustomers.map(WebEvidence.pattern(ofCustomer:)) + webIDs.sorted().map { "\"\($0)\"" }
        // Whatever case the operator disregards: other words are other ids.
        let patternsOfWeb = Self.joined(ofWeb, Self.webAlternatives).map { "(?c)" + $0 }
        patterns = Self.joined(terms.patterns, Self.alternatives) + patternsOfWeb
    }

    private static func joined(_ patterns: [String], _ count: Int) -> [String] {
        stride(from: 0, to: patterns.count, by: count).map {
            patterns[$0..<min($0 + count, patterns.count)].joined(separator: "|")
        }
    }

    /// Looks through the next page before `head`; `false` when there is none.
    mutating func advance(to head: Int64, on connection: isolated PostgresConnection) throws -> Bool {
        guard searchedTo < head else { return false }
        let end = min(searchedTo + Self.page, head)
        if !patterns.isEmpty { try findInText(upTo: end, on: connection) }
        if !terms.isEmpty { try findInCompressed(upTo: end, on: connection) }
        if !mailAddresses.isEmpty { try findAddresses(upTo: end, on: connection) }
        searchedTo = end
        return true
    }

    /// Looks through what is stored as it is: all that web checkouts state, and any JWS too short or too long to compress.
    private mutating func findInText(upTo end: Int64, on connection: isolated PostgresConnection) throws {
        let rows = try connection.query(
            """
            SELECT position FROM evidence WHERE ledger_id = $1 AND position > $2 AND position <= $3
                AND substr(parts, 1, 1) <> $5 AND encode(parts, 'escape') ~* ANY ($4)
            """,
            [
                .int(ledgerID), .int(searchedTo), .int(end), .textArray(patterns),
                .bytes([EvidenceParts.Step.compressed]),
            ]
        ).rows
        found.formUnion(try rows.map { try $0.int(0) })
    }

    private mutating func findInCompressed(upTo end: Int64, on connection: isolated PostgresConnection) throws {
        var after = searchedTo
        while true {
            let rows = try connection.query(
                """
                SELECT position, parts FROM (
                    SELECT position, parts, sum(octet_length(parts)) OVER (ORDER BY position) - octet_length(parts) AS before
                    FROM evidence WHERE ledger_id = $1 AND position > $2 AND position <= $3 AND substr(parts, 1, 1) = $4
                ) AS piece WHERE before < $5 ORDER BY position
                """,
                [
                    .int(ledgerID), .int(after), .int(end), .bytes([EvidenceParts.Step.compressed]),
                    .int(Self.fetched),
                ]
            ).rows
            for row in rows {
                after = try row.int(0)
                if let steps = try? EvidenceParts.steps(of: row.bytes(1)) {
                    if terms.areFound(in: steps) { found.insert(after) }
                } else {
                    unreadable.insert(after)
                }
            }
            guard !rows.isEmpty else { return }
        }
    }

    private mutating func findAddresses(upTo end: Int64, on connection: isolated PostgresConnection) throws {
        let addresses = Array(mailAddresses)
        let rows = try connection.query(
            """
            SELECT mail.number, evidence.position FROM event
            JOIN evidence ON evidence.ledger_id = $1 AND evidence.position = event.position
            CROSS JOIN LATERAL (SELECT encode(evidence.parts, 'escape') AS text OFFSET 0) AS body
            JOIN unnest($4::text[]) WITH ORDINALITY AS mail (pattern, number) ON body.text ~* mail.pattern
            WHERE event.ledger_id = $1 AND event.position > $2 AND event.position <= $3
                AND event.source IN (\(EventSource.stripeNotification.number), \(EventSource.stripeAPI.number))
            """,
            [
                .int(ledgerID), .int(searchedTo), .int(end),
                .textArray(addresses.map { WebEvidence.pattern(ofMailAddress: $0.text) }),
            ]
        ).rows
        for row in rows {
            foundByMail[addresses[Int(try row.int(0)) - 1], default: []].insert(try row.int(1))
        }
    }

    /// Whether these are the ids that were looked for: what was found by any other may be somebody else's.
    func isFor(_ identities: [(value: String, ref: IdentityRef)]) -> Bool {
        self.identities == Set(identities.map(\.ref))
    }

    /// Whether everything was looked for that belongs to a person, and nothing else.
    func isFor(_ scope: ForgettingScope) -> Bool {
        isFor(scope.identities) && webIDs == scope.webIDs && mailAddresses == scope.mailAddresses
    }
}
