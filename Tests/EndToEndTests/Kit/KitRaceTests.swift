import EntitlementAPI
import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// The races an app loses without a library: each by name, with the real service behind it.
@Suite("Kit end to end: races between StoreKit, launch and server", .serialized, .timeLimit(.minutes(2)))
struct KitRaceTests {
    private typealias Product = StoreWorld.ProductID

    @Test("a purchase that settled while the app was closed gives access at launch")
    func settledWhileClosed() async throws {
        try await KitRig.race("settled while closed") { rig in
            let device = rig.device()
            await device.launch()
            await device.kill()
            let account = rig.account(device)
            try rig.store.perform { try $0.redeem(Product.proMonthly, account: account) }
            await device.launch()
            let state = await device.live("premium", gives: true)
            let bought = try rig.id(Product.proMonthly, device)
            await rig.store.waitForFinish(bought, on: device.number)
            try rig.expectDevice(device, state, as: rig.customer(device))
            try await rig.deliver()
            try await rig.expectServer(rig.customer(device))
        }
    }

    @Test("a purchase that settled in the very call in which the app died gives access at launch")
    func diedInPurchase() async throws {
        try await KitRig.race("died in the purchase") { rig in
            let device = rig.device()
            let kit = await device.launch()
            _ = await kit.refresh()
            let process = device.process
            rig.store.interrupt("purchase", on: device.number) { _ in
                process.kill()
                return []
            }
            _ = await kit.purchase(Product.lifetime)
            #expect(device.process.isDead)
            let bought = try rig.id(Product.lifetime, device)
            #expect(rig.store.finishCount(bought, on: device.number) == 0)
            await device.launch()
            await device.live("premium", gives: true)
            await rig.store.waitForFinish(bought, on: device.number)
        }
    }

    @Test("what a parent approved before the launch gives access at launch")
    func approvedBeforeLaunch() async throws {
        try await KitRig.race("approved before launch") { rig in
            let device = rig.device()
            rig.store.with { $0.change(device.number) { $0.asksToBuy = true } }
            let kit = await device.launch()
            #expect(await kit.purchase(Product.proMonthly) == .pending)
            #expect(await !kit.refresh().givesAccess(to: "premium"))
            await device.kill()
            try rig.store.perform { store in try store.approve(store.requests[0]) }
            await device.launch()
            await device.live("premium", gives: true)
            await rig.store.waitForFinish(try rig.id(Product.proMonthly, device), on: device.number)
        }
    }

    @Test("what a parent approves while the app runs gives access without a launch, and what one declines does not")
    func approvedAndDeclined() async throws {
        try await KitRig.race("approved and declined") { rig in
            let device = rig.device()
            rig.store.with { $0.change(device.number) { $0.asksToBuy = true } }
            let kit = await device.launch()
            #expect(await kit.purchase(Product.lifetime) == .pending)
            #expect(await kit.purchase(Product.newsMonthly) == .pending)
            try rig.store.perform { store in
                store.decline(store.requests[0])
                return try store.approve(store.requests[0])
            }
            await device.live("news", gives: true)
            let state = await kit.refresh()
            #expect(!state.givesAccess(to: "premium"))
            try rig.expectDevice(device, state, as: rig.customer(device))
        }
    }

    @Test(
        "what happens right after a stage of the launch has read the store is not lost",
        arguments: [
            "appTransaction", "currentEntitlements", "allTransactions", "unfinishedTransactions",
            "subscriptionStatuses",
        ])
    func betweenTheStages(stage: String) async throws {
        try await KitRig.race("after \(stage)") { rig in
            let device = rig.device()
            let account = rig.account(device)
            try rig.store.perform { try $0.redeem(Product.proMonthly, account: account) }
            await device.launch()
            await device.live("premium", gives: true)
            await device.kill()
            rig.store.interrupt(stage, on: device.number) { store in
                let key = store.originals(account: account)[0]
                return try store.refund(key) + store.redeem(Product.newsMonthly, account: account)
            }
            await device.launch()
            let state = await device.state {
                $0.isLive && $0.givesAccess(to: "news") && !$0.givesAccess(to: "premium")
            }
            #expect(state["premium"]?.state == .revoked)
            try rig.expectDevice(device, state, as: rig.customer(device))
            await rig.store.waitForFinish(try rig.id(Product.newsMonthly, device), on: device.number)
        }
    }

    @Test("a listener that is started twice does nothing twice")
    func startedTwice() async throws {
        try await KitRig.race("started twice") { rig in
            let device = rig.device()
            let kit = await device.launch()
            await kit.start()
            await kit.start()
            _ = await kit.refresh()
            let account = rig.account(device)
            try rig.store.perform { try $0.redeem(Product.newsMonthly, account: account) }
            await device.live("news", gives: true)
            let bought = try rig.id(Product.newsMonthly, device)
            await rig.store.waitForFinish(bought, on: device.number)
            _ = await kit.refresh()
            #expect(rig.store.finishCount(bought, on: device.number) == 1)
            #expect(device.proxy.answers.filter { $0.results.contains { $0.status == .recorded } }.count == 1)
        }
    }

    @Test("a refund takes access away while the app runs, and a refund taken back returns it")
    func revokedAfterRefund() async throws {
        try await KitRig.race("revoked after refund") { rig in
            let device = rig.device()
            let kit = await device.launch()
            guard case .success(let purchase) = await kit.purchase(Product.lifetime) else {
                Issue.record("the purchase failed")
                return
            }
            #expect(purchase.entitlements.givesAccess(to: "premium"))
            let key = try rig.original(Product.lifetime, device)
            rig.service.clock.advance(by: Span.day)
            try rig.store.perform { try $0.refund(key) }
            let revoked = await device.live("premium", gives: false)
            #expect(revoked["premium"]?.state == .revoked)
            rig.service.clock.advance(by: Span.day)
            try rig.store.perform { try $0.reverseRefund(key) }
            try await rig.deliver()
            let restored = await device.live("premium", gives: true)
            try rig.expectDevice(device, restored, as: rig.customer(device))
            try await rig.expectServer(rig.customer(device))
        }
    }

    @Test("what was never finished comes again at every launch, and is recorded once")
    func redelivered() async throws {
        try await KitRig.race("redelivered") { rig in
            let device = rig.device()
            let account = rig.account(device)
            try rig.store.perform { try $0.redeem(Product.lifetime, account: account) }
            let bought = try rig.id(Product.lifetime, device)
            // It reaches the server at each launch; the answer never reaches the device.
            device.proxy.weather = .answerLost
            for _ in 0..<3 {
                let kit = await device.launch()
                #expect(await kit.refresh().givesAccess(to: "premium"))
                #expect(rig.store.finishCount(bought, on: device.number) == 0)
            }
            device.proxy.weather = .fair
            await device.launch()
            await rig.store.waitForFinish(bought, on: device.number)
            let events = try await rig.service.admin.events()
            #expect(events.filter { $0["transaction_id"] as? String == bought }.count == 1, "\(events)")
        }
    }
}
