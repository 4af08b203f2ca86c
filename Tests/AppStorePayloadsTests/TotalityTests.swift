import AppStorePayloads
import EntitlementCore
import Foundation
import SeededRandom
import Testing

@Suite("Decoding is total")
struct TotalityTests {
    private static let oddities: [@Sendable () -> Any] = [
        { NSNull() }, { true }, { false }, { 0 }, { -1 }, { 1 }, { Int64.max }, { Int64.min }, { UInt64.max },
        { 1e300 }, { -1e300 }, { 0.5 }, { -0.5 }, { 1_698_148_900_000.75 }, { "" }, { "\u{0}" }, { "a\u{7}é😀" },
        { String(repeating: "long", count: 300) }, { [Any]() }, { [1, "two", NSNull()] as [Any] },
        { Members() }, { ["k": ["k": ["k": 1]]] as Members },
    ]

    /// Replaces, removes or adds members, at random depth.
    private static func mutated(_ members: Members, using generator: inout SplitMix64) -> Members {
        var result = members
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let names = result.keys.sorted()
            guard let name = names.randomElement(using: &generator) else { return result }
            let oddity = oddities.randomElement(using: &generator)?() ?? NSNull()
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: result[name] = nil
            case 1: result["new\(Int.random(in: 0..<9, using: &generator))"] = oddity
            case 2 where result[name] is Members:
                result[name] = (result[name] as? Members).map { mutated($0, using: &generator) }
            default: result[name] = oddity
            }
        }
        return result
    }

    /// Decodes as all four kinds; what comes of it is either a payload or a `PayloadError`.
    private static func decode(_ bytes: [UInt8], seed: UInt64) {
        guard let object = try? JSONObject(parsing: bytes), let hash = Digest([UInt8](repeating: 1, count: 32))
        else { return }
        var remarks = RemarkList()
        var identities = IdentityList()
        if let payload = try? NotificationPayload(object) { remarks.formUnion(payload.remarks) }
        if let payload = try? TransactionPayload(object) {
            remarks.formUnion(payload.remarks)
            let fact = payload.fact(payloadHash: hash, fallbackSignedDate: nil, identities: &identities)
            let references = [fact.accountToken, fact.appTransaction].compactMap { $0?.number }
            #expect(references.allSatisfy { identities.customerIDs.indices.contains(Int($0)) }, "seed \(seed)")
        }
        if let payload = try? RenewalPayload(object) {
            remarks.formUnion(payload.remarks)
            _ = payload.fact(payloadHash: hash, fallbackSignedDate: nil, isGraceNotification: true)
        }
        if let payload = try? AppTransactionPayload(object) { remarks.formUnion(payload.remarks) }
        let texts = remarks.texts
        #expect(texts.count <= RemarkList.maximumCount, "seed \(seed)")
        #expect(texts == texts.sorted() || texts.last?.hasPrefix("more_remarks:") == true, "seed \(seed)")
    }

    @Test("no mutation of a payload's members crashes", arguments: (0 as UInt64)..<8)
    func mutatedMembers(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let refunded = Samples.transaction.merging(Samples.refund) { first, _ in first }
        var samples = [refunded, Samples.renewal, Samples.appTransaction, Samples.notification]
        samples += Samples.containers.map { Samples.notification.with("data", nil).with($0.name, $0.members) }
        for _ in 0..<250 {
            let sample = try #require(samples.randomElement(using: &generator))
            Self.decode(try bytes(Self.mutated(sample, using: &generator)), seed: seed)
        }
    }

    @Test("no mutation of a payload's bytes crashes", arguments: (100 as UInt64)..<108)
    func mutatedBytes(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let samples = try [Samples.transaction, Samples.renewal, Samples.notification].map { try bytes($0) }
        for _ in 0..<250 {
            var text = try #require(samples.randomElement(using: &generator))
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: text.indices, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: text[index] = UInt8.random(in: 0...255, using: &generator)
                case 1: text.remove(at: index)
                default: text.insert(Array("{}[]\",:-.0e".utf8)[Int.random(in: 0..<11, using: &generator)], at: index)
                }
            }
            Self.decode(text, seed: seed)
        }
    }
}
