import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: refunds that store and server know at different times", .timeLimit(.minutes(1)))
struct RefundTests {
    private static func bought(revoked: Double? = nil, signed: Double) -> SignedStatement {
        Statements.transaction("1", product: "lifetime", until: nil, revoked: revoked, signed: signed)
    }

    /// The store tells the app's server by itself, and no device.
    private func notify(_ rig: KitRig, _ statement: SignedStatement) throws {
        let transaction = try DeviceTransaction(statement)
        rig.server.edit { _ = $0.hold(transaction, source: .notification) }
    }

    @Test("a reversal that the device states before the server has heard of it is asked about again, without a launch")
    func reversedBeforeTheServerKnows() async throws {
        let rig = KitRig { $0.current = [Self.bought(signed: 0)] }
        await rig.launch()
        #expect(await rig.gives("forever"))
        rig.device.push(Self.bought(revoked: 0.5, signed: 0.5))
        try notify(rig, Self.bought(revoked: 0.5, signed: 0.4))
        await rig.waitUntilGives(false, "forever")
        await rig.store.settled()
        // The store takes the refund back, and tells the device at once.
        rig.device.push(Self.bought(signed: 0.9))
        await eventually("the server is told") { rig.server.posts.count == 3 }
        await rig.store.settled()
        #expect(await !rig.gives("forever"))
        // A moment later the server hears of it, and nobody tells the device that.
        try notify(rig, Self.bought(signed: 0.8))
        await eventually("another look") { rig.clock.alarms.contains(.seconds(1)) }
        rig.clock.advance(.seconds(1))
        await rig.waitUntilGives(true, "forever")
        await rig.store.settled()
        // Then there is nothing left to ask.
        let posts = rig.server.posts.count
        rig.clock.advance(.seconds(400))
        await rig.store.settled()
        #expect(rig.server.posts.count == posts)
        #expect(rig.device.state.unfinished.isEmpty)
    }

    @Test("a server that never hears of the reversal is asked five times, and again when the app comes to the front")
    func neverHears() async throws {
        let rig = KitRig { $0.current = [Self.bought(signed: 0)] }
        await rig.launch()
        try notify(rig, Self.bought(revoked: 0.5, signed: 0.4))
        rig.device.push(Self.bought(signed: 0.9))
        for (number, delay) in [1, 5, 30, 300].enumerated() {
            await eventually("the look before \(delay) s") { rig.server.posts.count == number + 2 }
            await eventually("another look after \(delay) s") { rig.clock.alarms.contains(.seconds(delay)) }
            rig.clock.advance(.seconds(delay))
        }
        await eventually("the last look") { rig.server.posts.count == 6 }
        await rig.store.settled()
        rig.clock.advance(.seconds(1000))
        await rig.store.settled()
        await rig.store.applicationWillEnterForeground()
        await eventually("once more") { rig.server.posts.count == 7 }
    }

    @Test("a refund that the store tells offline counts at once, also where the server's answer rested on no proof")
    func offlineWithoutProof() async {
        let rig = KitRig {
            $0.current = [Self.bought(signed: 0)]
        } server: {
            $0.proof = .none
            $0.tellsFacts = false
        }
        await rig.launch()
        #expect(await rig.gives("forever"))
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Self.bought(revoked: 0.9, signed: 0.9))
        await rig.waitUntilGives(false, "forever")
        #expect(await rig.store.current["forever"]?.state == .revoked)
    }
}
