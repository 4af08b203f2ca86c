import EntitlementCore
import Testing

@testable import EntitlementKit

@Suite("Kit: when a transaction is finished")
struct FinishGateTests {
    private let bought = PortableSHA256.hash([1])
    private let refunded = PortableSHA256.hash([2])

    private func gate(needsServer: Bool = true, offering content: Digest? = nil) -> FinishGate {
        var gate = FinishGate(needsServer: needsServer)
        gate.offer("1", content: content ?? bought, reading: nil)
        return gate
    }

    private func pass(_ gate: inout FinishGate, _ content: Digest) {
        gate.stored { _ in content }
        gate.published { _ in content }
        gate.answered(["1": content], allowed: ["1"])
    }

    private func ready(_ gate: inout FinishGate, at uptime: Int64 = 0) -> [String] {
        gate.takeReady(uptime: uptime).map(\.id)
    }

    @Test(
        "a transaction is finished only when it is on disk, published and listed by the server",
        arguments: 0..<8, [true, false])
    func table(_ bits: Int, _ needsServer: Bool) {
        let (stored, published, allowed) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)
        var gate = gate(needsServer: needsServer)
        if stored { gate.stored { _ in bought } }
        if published { gate.published { _ in bought } }
        gate.answered(["1": bought], allowed: allowed ? ["1"] : [])
        let answer = ready(&gate)
        #expect(answer == (stored && published && (allowed || !needsServer) ? ["1"] : []))
    }

    @Test("a refund that is taken back while the store is told of it goes through the gate, as the purchase did before")
    func takenBackUnderWay() {
        var gate = gate()
        for (content, next) in [(bought, refunded), (refunded, bought), (bought, refunded)] {
            pass(&gate, content)
            let first = ready(&gate)
            #expect(first == ["1"])
            gate.offer("1", content: next, reading: nil, isUnacknowledged: true)
            gate.ended("1", content: content, isDone: true, reading: 1, uptime: 0)
            #expect(gate.unacknowledged == ["1"])
            gate.acknowledged("1")
        }
    }

    @Test("a transaction that the store did not list as unfinished is not finished, and none is finished twice")
    func once() {
        var gate = gate()
        gate.stored { _ in bought }
        gate.published { _ in bought }
        gate.answered(["1": bought, "2": bought], allowed: ["1", "2"])
        let first = ready(&gate)
        #expect(first == ["1"])
        let underWay = ready(&gate)
        #expect(underWay.isEmpty)
        gate.ended("1", content: bought, isDone: true, reading: 3, uptime: 0)
        // An update, and a list that was read before, say nothing new; a later list does.
        for reading in [nil, 2, 3] {
            gate.offer("1", content: bought, reading: reading)
            pass(&gate, bought)
            let again = ready(&gate)
            #expect(again.isEmpty, "\(String(describing: reading))")
        }
        gate.offer("1", content: bought, reading: 4)
        pass(&gate, bought)
        let later = ready(&gate)
        #expect(later == ["1"])
    }

    @Test("what says something new goes through the gate again, and nothing that was said of the old counts")
    func reopens() {
        var gate = gate()
        pass(&gate, bought)
        _ = gate.takeReady(uptime: 0)
        gate.ended("1", content: bought, isDone: true, reading: 1, uptime: 0)
        gate.offer("1", content: refunded, reading: nil)
        pass(&gate, bought)
        let early = ready(&gate)
        #expect(early.isEmpty)
        #expect(gate.unasked == ["1"])
        pass(&gate, refunded)
        let late = ready(&gate)
        #expect(late == ["1"])
    }

    @Test(
        "a store that finds nothing to finish is asked again for a while, and then when it shows the transaction again")
    func retries() {
        var gate = gate()
        pass(&gate, bought)
        var now: Int64 = 0
        for delay in FinishGate.delays {
            let due = ready(&gate, at: now)
            #expect(due == ["1"])
            gate.ended("1", content: bought, isDone: false, reading: 1, uptime: now)
            let early = ready(&gate, at: now + delay - 1)
            #expect(early.isEmpty && gate.nextDue == now + delay)
            now += delay
        }
        _ = gate.takeReady(uptime: now)
        gate.ended("1", content: bought, isDone: false, reading: 1, uptime: now)
        #expect(gate.nextDue == nil)
        gate.offer("1", content: bought, reading: 1)
        pass(&gate, bought)
        let shown = ready(&gate, at: now)
        #expect(shown == ["1"])
    }

    @Test("the server is asked once about each, and again after a rest")
    func asking() {
        var gate = gate()
        #expect(gate.unasked == ["1"])
        gate.answered(["1": bought], allowed: [])
        #expect(gate.unasked.isEmpty)
        gate.askAgain()
        #expect(gate.unasked == ["1"])
    }
}
