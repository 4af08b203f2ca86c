import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// What a launch costs where nothing has happened since the last one: `deploy/test --filter KitLaunchCostTests` measures it.
@Suite("Kit end to end: what a launch costs", .serialized, .timeLimit(.minutes(2)))
struct KitLaunchCostTests {
    private typealias Product = StoreWorld.ProductID

    @Test("a launch without news is one request, of the size that the README says")
    func steadyLaunch() async throws {
        try await KitRig.race("the steady launch") { rig in
            let device = rig.device()
            let kit = await device.launch()
            _ = await kit.purchase(Product.newsMonthly)
            _ = await kit.purchase(Product.lifetime)
            let key = try rig.original(Product.newsMonthly, device)
            for _ in 1...12 {
                while !rig.store.with({ $0.mayRenew(key) }) { rig.service.clock.advance(by: Span.day) }
                try rig.store.perform { try $0.renew(key) }
            }
            await rig.store.waitForAllFinished(on: device.number)
            try await rig.deliver()
            // Once more, so that the server's own answer is known.
            _ = await (await device.launch()).refresh()
            var costs: [KitProxy.Traffic] = []
            for _ in 1...3 {
                let before = device.proxy.traffic
                rig.service.clock.advance(by: Span.hour)
                let next = await device.launch()
                await device.live("premium", gives: true)
                await rig.service.clock.passing { await next.settled() }
                let after = device.proxy.traffic
                costs.append(
                    KitProxy.Traffic(
                        requests: after.requests - before.requests, sent: after.sent - before.sent,
                        received: after.received - before.received))
            }
            print("launches without news, in bytes of the bodies: \(costs)")
            let (sent, received) = try Self.stated()
            for cost in costs {
                #expect(cost.requests == 1)
                // Signatures differ in length by a few bytes.
                #expect(abs(Double(cost.sent) / 1000 - sent) < 0.1, "\(cost); the README says \(sent) kB")
                #expect(abs(Double(cost.received) / 1000 - received) < 0.5, "\(cost); the README says \(received) kB")
            }
        }
    }

    /// The kilobytes that the README says to be sent and received.
    private static func stated() throws -> (sent: Double, received: Double) {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
        let found = try #require(text.firstMatch(of: /one request of ([0-9.]+) kB,\s+answered with ([0-9.]+) kB/))
        return (try #require(Double(found.1)), try #require(Double(found.2)))
    }
}
