import Testing

@testable import EntitlementKit

@Suite("Kit: when a transaction is finished")
struct FinishGateTests {
    @Test(
        "a transaction is finished only when it is on disk, published and listed by the server",
        arguments: 0..<8, [true, false])
    func table(_ bits: Int, _ needsServer: Bool) {
        let (stored, published, allowed) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)
        var gate = FinishGate(needsServer: needsServer)
        gate.offer("1")
        if stored { gate.stored(["1"]) }
        if published { gate.published(["1"]) }
        gate.answered(["1"], allowed: allowed ? ["1"] : [])
        let isReady = stored && published && (allowed || !needsServer)
        let answer1 = gate.takeReady()
        #expect(answer1 == (isReady ? ["1"] : []))
    }

    @Test("a transaction that the store did not list as unfinished is not finished, and none is finished twice")
    func once() {
        var gate = FinishGate(needsServer: true)
        for _ in 0..<3 {
            gate.stored(["1", "2"])
            gate.published(["1", "2"])
            gate.answered(["1", "2"], allowed: ["1", "2"])
            gate.offer("1")
        }
        gate.stored(["1"])
        gate.published(["1"])
        gate.answered(["1"], allowed: ["1"])
        let answer2 = gate.takeReady()
        #expect(answer2 == ["1"])
        gate.offer("1")
        gate.stored(["1"])
        gate.published(["1"])
        gate.answered(["1"], allowed: ["1"])
        let answer3 = gate.takeReady()
        #expect(answer3.isEmpty)
    }

    @Test("the server is asked once about each, and again after a rest")
    func asking() {
        var gate = FinishGate(needsServer: true)
        gate.offer("1")
        #expect(gate.unasked == ["1"])
        gate.answered(["1"], allowed: [])
        #expect(gate.unasked.isEmpty)
        gate.askAgain()
        #expect(gate.unasked == ["1"])
    }
}
