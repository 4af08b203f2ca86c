import EntitlementKit
import Foundation
import StoreSimulator
import TestSupport
import Testing

/// The real app library, the real service and a simulated Stripe behind it.
@Suite("Kit end to end: the web checkout", .serialized, .timeLimit(.minutes(5)))
struct KitWebStoryTests {
    private typealias Product = StoreWorld.ProductID

    /// A world in which somebody is logged in on two devices.
    private static func scene(
        _ name: String, _ body: (_ rig: KitRig, _ shop: KitShop, _ customer: String) async throws -> Void
    ) async throws {
        let service = try await KitService.start(isOnWeb: true)
        let shop = try #require(service.shop)
        let rig = try KitRig(service, context: name)
        for account in [nil, 0] {
            let device = rig.device(account: account) { configuration in
                configuration.webCheckout = KitShop.checkout(shop)
                configuration.tokenProvider = { CustomerToken(try await service.token($0.customerID)) }
            }
            let kit = await device.launch()
            _ = await kit.identify(customerID: "c-1", token: try await service.token("c-1"))
        }
        do {
            try await body(rig, shop, "c-1")
        } catch {
            await rig.close()
            throw error
        }
        rig.expectNoViolation()
        await rig.close()
        await service.stop()
        await shop.stop()
    }

    @Test("what is paid on a page is held on every device; it is sold once, managed on its portal, and refunded")
    func wholeLife() async throws {
        try await Self.scene("whole life") { rig, shop, _ in
            let (first, second) = (rig.devices[0], rig.devices[1])
            let kit = first.kit
            let products = await kit.products()
            let shown = try #require(products.first { $0.id == Product.proMonthly }?.webPrice)
            #expect(shown.contains("9.99"), "\(shown)")
            shop.expect(.pays) { [service = rig.service] in await shop.deliverMeanwhile(to: service) }
            let report = await rig.service.buy(Product.proMonthly, via: .webFirst, on: kit)
            #expect(report.channel == .web, "\(report)")
            guard case .success(let purchase) = report.outcome else {
                Issue.record("\(report)")
                return
            }
            #expect(purchase.entitlements["premium"]?.source == .webCheckout)
            #expect(await second.kit.refresh().givesAccess(to: "premium"))
            for channel in [PurchaseChannel.web, .webFirst, .storeKit] {
                let again = await rig.service.buy(Product.proYearly, via: channel, on: second.kit)
                guard case .failed(let error) = again.outcome else {
                    Issue.record("\(channel): \(again)")
                    continue
                }
                #expect(error.reason == .alreadyOwned)
            }
            #expect(shop.pages.count == 1)
            let portal = try await kit.managementURL(
                returningTo: try #require(URL(string: "https://example.com/plans")))
            #expect(shop.stripe.portal(portal.lastPathComponent) != nil)
            let bought = purchase.originalTransactionID
            rig.service.clock.advance(by: Span.hour)
            shop.stripe.act(.refund, on: bought)
            try await shop.deliver(to: rig.service)
            for device in [first, second] {
                let state = await device.kit.refresh()
                #expect(
                    state["premium"]?.state == .revoked && !state.givesAccess(to: "premium"), "\(bought): \(state)")
            }
        }
    }

    @Test(
        "an app that dies while its page is open has what was paid there at its next launch, and asks for no second page"
    )
    func diesBehindThePage() async throws {
        try await Self.scene("dies behind the page") { rig, shop, _ in
            let device = rig.devices[0]
            let process = device.process
            let kit = device.kit
            shop.expect(.paysAndLeaves) { process.kill() }
            let dying = Task { [service = rig.service] in await service.buy(Product.proYearly, via: .web, on: kit) }
            await rig.service.clock.passing { while !process.isDead { try? await Task.sleep(for: .milliseconds(5)) } }
            await device.launch()
            dying.cancel()
            #expect(await device.kit.unfinishedCheckouts().map(\.productID) == [Product.proYearly])
            let second = await rig.service.buy(Product.proYearly, via: .storeKit, on: device.kit)
            guard case .failed(let error) = second.outcome else {
                Issue.record("\(second)")
                return
            }
            #expect(error.reason == .checkoutUnfinished)
            try await shop.deliver(to: rig.service)
            let state = await device.state { $0.givesAccess(to: "premium") }
            #expect(state["premium"]?.source == .webCheckout)
            #expect(await device.kit.unfinishedCheckouts().isEmpty)
            #expect(shop.pages.count == 1)
        }
    }

    @Test("where Stripe cannot be asked, web-first goes on with the App Store, and says why")
    func fallback() async throws {
        try await Self.scene("fallback") { rig, shop, _ in
            let kit = rig.devices[0].kit
            _ = await kit.products()
            shop.stripe.failAlways(.status(503), about: "checkout")
            let report = await rig.service.buy(Product.newsMonthly, via: .webFirst, on: kit)
            #expect(report.channel == .storeKit && report.webUnavailability == .serverFailed, "\(report)")
            #expect(await kit.current["news"]?.source == .appStore)
            #expect(shop.pages.isEmpty)
        }
    }

    @Test("somebody whom only the app transaction names buys on the web, and keeps it after a login")
    func loginAfterwards() async throws {
        try await Self.scene("login afterwards") { rig, shop, _ in
            let device = rig.device { $0.webCheckout = KitShop.checkout(shop) }
            let kit = await device.launch()
            shop.expect(.pays) { [service = rig.service] in await shop.deliverMeanwhile(to: service) }
            let report = await rig.service.buy(Product.proMonthly, via: .web, on: kit)
            guard case .success = report.outcome else {
                Issue.record("\(report)")
                return
            }
            #expect(await kit.refresh()["premium"]?.source == .webCheckout)
            _ = await kit.identify(customerID: "c-2", token: try await rig.service.token("c-2"))
            let state = await kit.refresh()
            #expect(state.customerID == "c-2" && state["premium"]?.source == .webCheckout, "\(state)")
        }
    }

    @Test(
        "however purchases in both stores, pages and webhooks interleave, device, server and both records agree",
        arguments: 0..<UInt64(Campaign.factor * 2))
    func lives(batch: UInt64) async throws {
        for seed in batch * 2 + 1...batch * 2 + 2 {
            let service = try await KitService.start(isOnWeb: true, seed: seed)
            try await KitWebStory.live(service, seed: seed, steps: 30)
            await service.stop()
            await service.shop?.stop()
        }
    }
}
