import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// Looks for a person's ids in all the evidence there is: what the store signed about somebody else may name them, too.
///
/// Only ids that stand in signed statements are looked for, account tokens and app transaction ids; an app's own ids do
/// not, and might be any word.
struct EvidenceSearch: Sendable {
    /// Positions that one statement looks through, so that none takes long.
    private static let page: Int64 = 20_000

    /// Whose ids are looked for.
    let identities: Set<IdentityRef>
    private let patterns: [[UInt8]]
    /// The position up to which all evidence was looked through.
    private(set) var searchedTo: Int64 = 0
    private(set) var found: Set<Int64> = []

    init(for identities: [(value: String, ref: IdentityRef)]) {
        self.identities = Set(identities.map(\.ref))
        patterns = identities.flatMap { Self.patterns(of: $0.value) }
    }

    /// Looks through the next page before `head`; `false` when there is none.
    mutating func advance(to head: Int64, on connection: isolated PostgresConnection) throws -> Bool {
        guard searchedTo < head else { return false }
        let end = min(searchedTo + Self.page, head)
        if !patterns.isEmpty {
            let rows = try connection.query(
                """
                SELECT position FROM evidence WHERE ledger_id = $1 AND position > $2 AND position <= $3
                    AND EXISTS (SELECT FROM unnest($4::bytea[]) AS pattern WHERE position(pattern IN parts) > 0)
                """, [.int(ledgerID), .int(searchedTo), .int(end), .bytesArray(patterns)]
            ).rows
            found.formUnion(try rows.map { try $0.int(0) })
        }
        searchedTo = end
        return true
    }

    /// How an id stands in evidence: as a text in a decoded payload, or in one that was kept as it was received.
    private static func patterns(of value: String) -> [[UInt8]] {
        let prefix = CustomerID.ofAppTransaction("")?.value ?? ""
        let spellings: Set<String>
        if value.hasPrefix(prefix) {
            spellings = [String(value.dropFirst(prefix.count))]
        } else if CustomerID.isUUID(value) {
            spellings = [value.lowercased(), value.uppercased()]
        } else {
            return []
        }
        return spellings.flatMap { spelling in
            let text = Array("\"\(spelling)\"".utf8)
            return [text] + (0..<3).map { base64(of: text, behind: $0) }
        }
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
