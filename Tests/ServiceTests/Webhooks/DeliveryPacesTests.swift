import Testing

@testable import Service

@Suite("How many deliveries an endpoint may have under way")
struct DeliveryPacesTests {
    @Test("more with each that is taken quickly, fewer with each that is slow or is not taken, and never none")
    func window() {
        var paces = DeliveryPaces()
        #expect(paces.window(of: "a") == DeliveryPaces.first)
        for _ in 0..<10 { paces.note("a", isTaken: true, after: .milliseconds(20)) }
        #expect(paces.window(of: "a") == 64)
        paces.note("a", isTaken: true, after: .seconds(2))
        #expect(paces.window(of: "a") == 32)
        paces.note("a", isTaken: false, after: .zero)
        #expect(paces.window(of: "a") == 16)
        for _ in 0..<10 { paces.note("a", isTaken: true, after: .seconds(14)) }
        #expect(paces.window(of: "a") == 1)
        #expect(paces.window(of: "b") == DeliveryPaces.first, "each by itself")
    }

    @Test("what is under way counts, and slow ones get no more than half of all places together")
    func full() {
        var paces = DeliveryPaces()
        for number in 0..<10 { for _ in 0..<4 { paces.note("slow\(number)", isTaken: true, after: .seconds(14)) } }
        paces.note("quick", isTaken: true, after: .zero)
        #expect(paces.full(beside: ["quick": 3, "new": 2, "slow0": 1], limit: 8).sorted() == ["new", "slow0"])
        let slow = Dictionary(uniqueKeysWithValues: (0..<4).map { ("slow\($0)", 1) })
        let full = paces.full(beside: slow, limit: 8)
        #expect(Set(full) == Set((0..<10).map { "slow\($0)" }) && full.count == 10)
    }
}
