import EntitlementCore
import OpenSSLCrypto
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// Forgetting looks for people in evidence that the database can read, and in evidence that it cannot because it is
/// compressed; it has to find the same in both.
@Suite("Ids in evidence")
struct EvidenceSearchTests {
    private static let token = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
    private static let terms = SearchTerms(identities: [token, "apple:7000000001", "apple:42", "an-app's-own-id"])

    @Test(
        "an id is found in whichever case, in a decoded payload and in an encoded one",
        arguments: [
            #"{"appAccountToken":"0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"}"#,
            #"{"appAccountToken":"0A1B2C3D-4E5F-4A6B-8C7D-9E0F1A2B3C4D"}"#,
            #"0a1b2C3D-4e5F-4a6b-8c7d-9e0f1A2b3c4d"#, #"{"appTransactionId":"7000000001"}"#, "7000000001", "42",
            "a42b", "\u{e9}42\u{e9}",
        ])
    func found(text: String) throws {
        #expect(Self.terms.areFound(in: Array(text.utf8)))
        guard text.hasPrefix("{") else { return }
        for count in 0..<3 {
            let encoded = Base64.encodeURL(Array((String(repeating: " ", count: count) + text).utf8))
            #expect(Self.terms.areFound(in: Array("header.\(encoded).signature".utf8)), "behind \(count)")
        }
    }

    @Test(
        "what is part of a longer number, cut short, or another id is not",
        arguments: [
            "", "4", "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4", #"{"appTransactionId":"70000000011"}"#, "17000000001",
            "423", "142",
            "an-app's-own-id", "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4e",
        ])
    func absent(text: String) throws {
        #expect(!Self.terms.areFound(in: Array(text.utf8)))
    }

    /// Bytes like those of steps, in which ids may stand, or nearly.
    private static func steps(of ids: [String], _ random: inout SplitMix64) -> [UInt8] {
        var bytes: [UInt8] = []
        for _ in 0...Int.random(in: 0..<6, using: &random) {
            var id = ids.randomElement(using: &random) ?? ""
            if id.hasPrefix("apple:") { id = String(id.dropFirst("apple:".count)) }
            switch Int.random(in: 0..<4, using: &random) {
            case 0: id = id.uppercased()
            case 1: id = String(id.map { Bool.random(using: &random) ? Character($0.uppercased()) : $0 })
            case 2: id.removeLast()
            default: break
            }
            let edges = ["", "\"", "0", "x", "-", "\\", "_"]
            let text = (edges.randomElement(using: &random) ?? "") + id + (edges.randomElement(using: &random) ?? "")
            if Bool.random(using: &random) {
                bytes += Array(text.utf8)
            } else {
                bytes += Array(Base64.encodeURL(Array("\"\(id)\"".utf8)).utf8)
            }
            // PostgreSQL spells bytes that are not printable in digits, so none of them stands beside a number here.
            let others = (0..<Int.random(in: 0..<8, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            bytes += [UInt8(ascii: "g")] + others.filter { !(0x30...0x39).contains($0) } + [UInt8(ascii: "g")]
        }
        return bytes
    }

    @Test("the database's regular expressions and the search in memory find the same", arguments: [1, 2] as [UInt64])
    func agreement(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        var found = 0
        for round in 0..<40 {
            let ids = (0..<4).map { number in
                number.isMultiple(of: 2)
                    ? random.uuid()
                    : "apple:\(Int.random(in: 1..<(round.isMultiple(of: 2) ? 99 : 1 << 50), using: &random))"
            }
            let terms = SearchTerms(identities: ids.prefix(2))
            let pieces = (0..<50).map { _ in Self.steps(of: ids, &random) }
            let matched = try await owner.query(
                """
                SELECT piece.number FROM unnest($1::bytea[]) WITH ORDINALITY AS piece (bytes, number)
                WHERE encode(piece.bytes, 'escape') ~* ANY ($2)
                """, [.bytesArray(pieces), .textArray(terms.patterns)]
            ).rows.map { Int(try $0.int(0)) - 1 }
            for (number, piece) in pieces.enumerated() {
                let isFound = terms.areFound(in: piece)
                #expect(
                    isFound == matched.contains(number),
                    "seed \(seed), round \(round): \(ids) in \(String(decoding: piece, as: UTF8.self))")
                found += isFound ? 1 : 0
            }
        }
        #expect(found > 200 && found < 1800, "found in \(found) of 2000 pieces")
    }
}
