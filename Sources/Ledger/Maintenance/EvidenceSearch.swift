import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// Looks for a person's ids in all the evidence there is: what the store signed about somebody else may name them, too.
///
/// Account tokens and app transaction ids are looked for wherever they stand. An app's own ids might be any word, and are
/// looked for where a web checkout names its customer. What a web checkout states may name somebody by their payment alone, as
/// refunds and disputes do, so it is looked for by Stripe's ids, too; and by a mail address, which proves nothing by itself.
struct EvidenceSearch: Sendable {
    /// Positions that one statement looks through, so that none takes long.
    private static let page: Int64 = 20_000
    /// Spellings that one regular expression looks for.
    private static let alternatives = 64
    /// The same of a web checkout's, which may be long.
    private static let webAlternatives = 16

    /// Whose ids are looked for.
    let identities: Set<IdentityRef>
    /// What Stripe calls this person, and what they bought and paid.
    let webIDs: Set<String>
    /// The addresses that a web checkout stated of this person, in lower case.
    let mailAddresses: Set<String>
    /// What finds them in evidence as PostgreSQL spells bytes, of a few ids each: one of very many would be refused.
    private let patterns: [String]
    /// The position up to which all evidence was looked through.
    private(set) var searchedTo: Int64 = 0
    private(set) var found: Set<Int64> = []
    /// What a web checkout stated in which one of the addresses stands, by the address.
    private(set) var foundByMail: [String: Set<Int64>] = [:]

    init(for scope: ForgettingScope) {
        let identities = scope.identities
        self.identities = Set(identities.map(\.ref))
        webIDs = scope.webIDs
        mailAddresses = scope.mailAddresses
        let ofApps = identities.flatMap { Self.patterns(of: $0.value) }
        let ofWeb = identities.map { WebEvidence.pattern(ofCustomer: $0.value) } + webIDs.sorted().map { "\"\($0)\"" }
        // Whatever case the operator disregards: other words are other ids.
        patterns =
            Self.joined(ofApps, Self.alternatives) + Self.joined(ofWeb, Self.webAlternatives).map { "(?c)" + $0 }
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
        if !patterns.isEmpty {
            let rows = try connection.query(
                """
                SELECT position FROM evidence WHERE ledger_id = $1 AND position > $2 AND position <= $3
                    AND encode(parts, 'escape') ~* ANY ($4)
                """, [.int(ledgerID), .int(searchedTo), .int(end), .textArray(patterns)]
            ).rows
            found.formUnion(try rows.map { try $0.int(0) })
        }
        if !mailAddresses.isEmpty { try findAddresses(upTo: end, on: connection) }
        searchedTo = end
        return true
    }

    private mutating func findAddresses(upTo end: Int64, on connection: isolated PostgresConnection) throws {
        let addresses = mailAddresses.sorted()
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
                .textArray(addresses.map { WebEvidence.pattern(ofMailAddress: $0) }),
            ]
        ).rows
        for row in rows {
            foundByMail[addresses[Int(try row.int(0)) - 1], default: []].insert(try row.int(1))
        }
    }

    /// Whether everything was looked for that belongs to a person.
    func covers(_ scope: ForgettingScope) -> Bool {
        identities.isSuperset(of: scope.identities.map(\.ref)) && webIDs.isSuperset(of: scope.webIDs)
            && mailAddresses.isSuperset(of: scope.mailAddresses)
    }

    /// How an id stands in evidence: in a decoded payload, in whatever case, or in one that was kept as it was received.
    private static func patterns(of value: String) -> [String] {
        let prefix = CustomerID.ofAppTransaction("")?.value ?? ""
        if value.hasPrefix(prefix) {
            let id = String(value.dropFirst(prefix.count))
            // Of another word it would say nothing; a longer number is another's.
            guard !id.isEmpty, id.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
                return []
            }
            return ["(?<![0-9])\(id)(?![0-9])"] + encodings(of: "\"\(id)\"")
        }
        guard CustomerID.isUUID(value) else { return [] }
        return [value] + encodings(of: "\"\(value.lowercased())\"") + encodings(of: "\"\(value.uppercased())\"")
    }

    private static func encodings(of text: String) -> [String] {
        (0..<3).map { String(decoding: base64(of: Array(text.utf8), behind: $0), as: UTF8.self) }
    }

    /// The characters that bytes certainly have in base64url, where so many bytes of a group of three stand before them.
    private static func base64(of bytes: [UInt8], behind count: Int) -> [UInt8] {
        let encoded = Array(Base64.encodeURL([UInt8](repeating: 0, count: count) + bytes).utf8)
        // The first character or two hold bits of what stands before, the last one of what comes after.
        let first = (count * 8 + 5) / 6
        let whole = (count + bytes.count) * 8 / 6
        return Array(encoded[first..<whole])
    }
}
