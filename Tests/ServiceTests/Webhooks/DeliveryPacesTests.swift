import Ledger
import Testing

@testable import Service

@Suite("How many deliveries an endpoint may have under way")
struct DeliveryPacesTests {
    @Test("more with each that is taken, slowly or quickly, fewer with each that is not, and never none")
    func window() {
        var paces = DeliveryPaces(limit: 1024)
        #expect(paces.window(of: "a") == DeliveryPaces.first)
        for _ in 0..<10 { paces.note("a", .delivered, after: .milliseconds(20)) }
        #expect(paces.window(of: "a") == 64)
        for _ in 0..<10 { paces.note("a", .delivered, after: .seconds(2)) }
        #expect(paces.window(of: "a") == 64, "it is slow, and takes everything")
        paces.note("a", .failed(pause: 1), after: .zero)
        #expect(paces.window(of: "a") == 32)
        for _ in 0..<3 { paces.note("a", .dropped, after: .zero) }
        #expect(paces.window(of: "a") == 32, "nothing was sent")
        for _ in 0..<10 { paces.note("a", .failed(pause: 1), after: .seconds(15)) }
        #expect(paces.window(of: "a") == 1)
        #expect(paces.window(of: "b") == DeliveryPaces.first, "each by itself")
        for _ in 0..<10 { paces.note("b", .delivered, after: .seconds(1.2)) }
        #expect(paces.window(of: "b") == 64, "one that was slow from the first")
    }

    @Test("the slow share half of all places, and get no more of them together")
    func shares() {
        var paces = DeliveryPaces(limit: 64)
        for number in 0..<8 { for _ in 0..<10 { paces.note("slow\(number)", .delivered, after: .seconds(14)) } }
        for _ in 0..<10 { paces.note("quick", .delivered, after: .zero) }
        #expect(paces.window(of: "slow0") == 4 && paces.window(of: "quick") == 64)
        #expect(paces.full(beside: ["quick": 63, "new": 2, "slow0": 4, "slow1": 3]).sorted() == ["new", "slow0"])
        for _ in 0..<10 { paces.note("slow7", .delivered, after: .zero) }
        #expect(paces.window(of: "slow7") == 64, "it is slow no more")
        #expect(paces.window(of: "slow0") == 4, "32 places, and 7 of them")
        for number in 8..<100 { for _ in 0..<10 { paces.note("slow\(number)", .delivered, after: .seconds(14)) } }
        #expect(paces.window(of: "slow0") == 1)
        let underWay = Dictionary(uniqueKeysWithValues: (8..<40).map { ("slow\($0)", 1) })
        let full = paces.full(beside: underWay)
        #expect(full.count == 99 && !full.contains("slow7"), "32 places are taken: no other slow one gets any")
    }
}
