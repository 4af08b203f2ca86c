import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// Whose purchases these are: testers, families, and devices with two Apple accounts.
@Suite("Kit end to end: testers, families, and two Apple accounts", .serialized, .timeLimit(.minutes(2)))
struct KitAccountTests {
    private typealias Product = StoreWorld.ProductID

    @Test(
        "an app in TestFlight buys, syncs and finishes with the key that the released app has, in its own environment")
    func testFlight() async throws {
        try await KitRig.race("TestFlight") { rig in
            let (tester, customer) = (rig.device(environment: .sandbox), rig.device())
            for device in [tester, customer] {
                let kit = await device.launch()
                guard case .success(let purchase) = await kit.purchase(Product.lifetime) else {
                    Issue.record("the purchase failed")
                    return
                }
                let state = await device.live("premium", gives: true)
                await rig.store.waitForFinish(purchase.transactionID, on: device.number)
                #expect(state.environment == (device === tester ? .sandbox : .production))
                try rig.expectDevice(device, state, as: rig.customer(device))
            }
            try await rig.deliver()
            try await rig.expectServer(rig.customer(tester), in: .sandbox)
            try await rig.expectServer(rig.customer(tester), in: .production)
            try await rig.expectServer(rig.customer(customer))
        }
    }

    @Test("what is bought with another Apple account than the app's is shown here, finished, and its own customer's")
    func anotherAppleAccount() async throws {
        try await KitRig.race("another Apple account") { rig in
            let device = rig.device()
            let other = rig.device()
            let buyer = rig.account(other)
            rig.store.with { $0.change(device.number) { $0.buyer = buyer } }
            let kit = await device.launch()
            guard case .success(let purchase) = await kit.purchase(Product.lifetime) else {
                Issue.record("the purchase failed")
                return
            }
            #expect(purchase.entitlements.givesAccess(to: "premium"))
            await rig.store.waitForFinish(purchase.transactionID, on: device.number)
            #expect(await kit.refresh().givesAccess(to: "premium"))
            // It is the buyer's on their other devices, and nobody else's on the ledger.
            await other.launch()
            let state = await other.live("premium", gives: true)
            try rig.expectDevice(other, state, as: rig.customer(other))
            try await rig.deliver()
            try await rig.expectServer(rig.customer(other))
            try await rig.expectServer(rig.customer(device))
        }
    }

    @Test("what a family member shares, and what an offer code brings, is there without a login, and ends with it")
    func family() async throws {
        try await KitRig.race("family") { rig in
            let device = rig.device()
            let account = rig.account(device)
            let kit = await device.launch()
            _ = await kit.refresh()
            try rig.store.perform { try $0.share(Product.lifetime, with: account) }
            try rig.store.perform { try $0.redeem(Product.newsMonthly, account: account) }
            _ = await device.live("premium", gives: true)
            let state = await device.live("news", gives: true)
            try rig.expectDevice(device, state, as: rig.customer(device))
            await rig.store.waitForAllFinished(on: device.number)
            let key = try rig.original(Product.lifetime, device)
            rig.service.clock.advance(by: Span.hour)
            try rig.store.perform { try $0.refund(key) }
            await device.live("premium", gives: false)
            try await rig.deliver()
            try rig.expectDevice(device, await kit.refresh(), as: rig.customer(device))
            try await rig.expectServer(rig.customer(device))
        }
    }
}
