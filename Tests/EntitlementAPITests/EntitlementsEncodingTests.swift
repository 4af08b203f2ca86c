import EntitlementCore
import SeededRandom
import Testing

@testable import EntitlementAPI

@Suite("Encoding entitlements")
struct EntitlementsEncodingTests {
    @Test("is what the general encoder writes, byte for byte", arguments: 1...40 as ClosedRange<UInt64>)
    func bytes(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let value = Self.document(&random)
        let document = try WireJSON.decode(EntitlementsDocument.self, from: try WireJSON.encode(value))
        let encoded = try document.encoded()
        let expected = try WireJSON.encode(document)
        #expect(String(decoding: encoded.bytes, as: UTF8.self) == String(decoding: expected, as: UTF8.self))
        #expect(encoded.bytes == expected, "seed \(seed)")
        #expect(String(decoding: encoded.bytes[encoded.at], as: UTF8.self) == document.at.description)
        #expect(String(decoding: encoded.bytes[encoded.knownAt], as: UTF8.self) == String(document.knownAt))
        #expect(Array(encoded.bytes[encoded.entitlements]) == (try WireJSON.encode(document.entitlements)))
    }

    private static func document(_ random: inout SplitMix64) -> WireValue {
        var members: [String: WireValue] = [
            "object": .string("entitlements"), "customer_id": text(&random),
            "environment": .string(random.pick(StoreEnvironment.allCases).rawValue), "at": instant(&random),
            "known_at": .int(random.number(in: 0...Int64.max)), "fold_version": .int(1),
            "entitlements": .array((0..<random.number(in: 0...3)).map { _ in entitlement(&random) }),
        ]
        if random.chance(30) {
            members["also_in"] = .array(
                StoreEnvironment.allCases.prefix(Int(random.number(in: 1...2))).map { .string($0.rawValue) })
        }
        return .object(members)
    }

    private static func entitlement(_ random: inout SplitMix64) -> WireValue {
        .object([
            "id": text(&random), "gives_access": .bool(random.chance(50)),
            "state": .string(random.pick(EntitlementState.allCases).rawValue), "since": instant(&random),
            "until": perhaps(&random, instant), "product_id": perhaps(&random, text),
            "source": .string(random.pick([EntitlementOrigin.appStore, .grant, .webCheckout]).rawValue),
            "ownership": perhaps(&random) { .string($0.chance(50) ? "purchased" : "family_shared") },
            "original_transaction_id": perhaps(&random, text),
            "will_renew": perhaps(&random) { .bool($0.chance(50)) },
            "offer": perhaps(&random) { .object(["type": text(&$0), "discount": perhaps(&$0, text)]) },
            "reason": .object([
                "code": .string(random.pick(ReasonCode.allCases).rawValue),
                "positions": .array((0..<random.number(in: 0...3)).map { _ in .int(random.number(in: 1...999_999)) }),
            ]),
        ])
    }

    private static func perhaps(
        _ random: inout SplitMix64, _ value: (inout SplitMix64) -> WireValue
    ) -> WireValue { random.chance(40) ? .null : value(&random) }

    private static func instant(_ random: inout SplitMix64) -> WireValue {
        .string(Timestamp(milliseconds: random.number(in: -62_135_596_800_000...253_402_300_799_999)).description)
    }

    /// Texts of which most need no escape, and others hold whatever a client may have sent.
    private static func text(_ random: inout SplitMix64) -> WireValue {
        guard random.chance(50) else { return .string("com.example.\(random.number(in: 0...99))") }
        let scalars = (0..<random.number(in: 0...8)).map { _ in
            random.pick([
                "\"", "\\", "/", "\n", "\r", "\t", "\u{8}", "\u{c}", "\u{0}", "\u{1f}", "\u{7f}", "\u{80}", "é",
                "e\u{301}",
                "\u{2028}", "𝄞", "\u{fffd}", "a", "<", "&",
            ])
        }
        return .string(scalars.joined())
    }
}
