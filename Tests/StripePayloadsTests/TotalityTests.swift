import AppStorePayloads
import EntitlementCore
import SeededRandom
import Testing

@testable import StripePayloads

@Suite("Whatever bytes come, they are read or refused", .timeLimit(.minutes(5)))
struct TotalityTests {
    private static let events = Sample.all.map { Array(Sample.event($0.type, $0.object).utf8) }

    /// Reads an event and all it carries in each way there is; what is read is whole.
    private func tryAll(_ bytes: [UInt8], _ seed: UInt64) {
        if let event = try? StripeEvent(parsing: bytes, sha256: sha256) {
            let written = FactCodec.encode(.web(event.fact))
            #expect((try? FactCodec.decode(written)) == .web(event.fact), "seed \(seed)")
            #expect(event.fact.remarks.count <= RemarkList.maximumCount, "seed \(seed)")
            #expect(event.followUps.allSatisfy { $0.lookup.path.hasPrefix("/v1/") }, "seed \(seed)")
            let named = Set(event.fact.owners.map(\.customer.number))
            #expect(named == Set(event.identities.customerIDs.indices.map(Int64.init)), "seed \(seed)")
        }
        var reading = StripeReading(environment: .production, readAt: instant(At.later))
        if (try? reading.add(subject: bytes)) != nil, let (fact, _) = try? reading.fact(sha256: sha256) {
            let again = try? StripeReading(evidence: reading.evidence)
            #expect((try? again?.fact(sha256: sha256).0) == fact, "seed \(seed)")
        }
        _ = try? StripeList(parsing: bytes)
        _ = try? StripeReading(evidence: bytes)
    }

    @Test("cut anywhere", arguments: Sample.all.indices)
    func truncated(index: Int) {
        let bytes = Self.events[index]
        for cut in stride(from: 0, to: bytes.count, by: 5) { tryAll(Array(bytes[..<cut]), UInt64(cut)) }
    }

    @Test("with bytes changed, doubled or left out", arguments: 0..<20 as Range<UInt64>)
    func mutated(block: UInt64) {
        for seed in block * 40..<(block + 1) * 40 {
            var random = SplitMix64(seed: seed)
            var bytes = random.pick(Self.events)
            for _ in 0..<Int(random.next() % 6) + 1 {
                let index = Int(random.next() % UInt64(bytes.count))
                switch random.next() % 4 {
                case 0: bytes[index] ^= 1 << UInt8(random.next() % 8)
                case 1: bytes[index] = random.pick(Array("0123456789-{}[]\",:eE.null".utf8))
                case 2: bytes.remove(at: index)
                default: bytes.insert(contentsOf: bytes[index..<min(bytes.count, index + 20)], at: index)
                }
            }
            tryAll(bytes, seed)
        }
    }

    @Test("with values put in each other's place", arguments: 0..<20 as Range<UInt64>)
    func swapped(block: UInt64) {
        let values = [
            "null", "true", "0", "-1", "9223372036854775807", "1e400", "\"\"", "{}", "[]", "[[]]", "\"\\u0000\"",
        ]
        for seed in block * 40..<(block + 1) * 40 {
            var random = SplitMix64(seed: seed)
            let (type, object) = random.pick(Sample.all)
            var parts = Sample.event(type, object).split(separator: ":", omittingEmptySubsequences: false).map(
                String.init)
            for _ in 0..<2 {
                let index = Int(random.next() % UInt64(parts.count - 1)) + 1
                let rest = parts[index].drop { $0 != "," && $0 != "}" }
                if !parts[index].hasPrefix("{") { parts[index] = random.pick(values) + rest }
            }
            tryAll(Array(parts.joined(separator: ":").utf8), seed)
        }
    }

    @Test("nested as deep as anybody likes")
    func nested() {
        for depth in [10, 500, 511, 512, 513, 100_000] {
            let deep = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            let objects = String(repeating: #"{"data":"#, count: depth) + "1" + String(repeating: "}", count: depth)
            for text in [deep, objects] {
                tryAll(Array(Sample.event("invoice.paid", text).utf8), UInt64(depth))
                tryAll(Array(Sample.invoice(payments: #","deep":\#(text)"#).utf8), UInt64(depth))
            }
        }
        var expanded = Sample.subscription()
        for _ in 0..<20 {
            expanded = Sample.subscription().replacing(
                #""latest_invoice":"in_1""#, with: #""latest_invoice":\#(Sample.invoice(subscription: expanded))"#)
        }
        tryAll(Array(Sample.event("customer.subscription.updated", expanded).utf8), 0)
    }
}
