import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit: selling on the web in previews and tests of apps", .timeLimit(.minutes(1)))
struct PreviewWebTests {
    private static let catalog = [
        EntitlementConfiguration.Mapping(productID: "pro.monthly", entitlements: ["premium"]),
        EntitlementConfiguration.Mapping(productID: "pro.ever", entitlements: ["for.ever"]),
    ]

    @Test("a page that is paid gives what it sold, once, for as long as it was sold", arguments: ["month", nil])
    func pays(_ interval: String?) async throws {
        let clock = ManualClock()
        let server = PreviewServer(catalog: Self.catalog, clock: clock)
        let product = interval == nil ? "pro.ever" : "pro.monthly"
        let price = WebPrice(amount: Decimal(string: "3.99") ?? 0, currencyCode: "USD", interval: interval)
        await server.sell(product, for: price)
        let device = PreviewDeviceStore(products: [], clock: clock)
        let store = EntitlementStore.preview(
            catalog: Self.catalog, device: device, server: server,
            webCheckout: WebCheckout { page in
                #expect(await server.pay(page))
                #expect(!(await server.pay(page)))
                return .completed
            }, clock: clock)
        #expect(await store.products().first { $0.id == product }?.web == price)
        let purchase = try #require(await store.purchase(product, via: .web).outcome.purchase)
        let held = try #require(purchase.entitlements.all.first)
        #expect(held.givesAccess && held.source == .webCheckout && held.productID == product)
        #expect((held.until == nil) == (interval == nil))
        await device.setStorefront("DEU")
        #expect(await store.products().allSatisfy { $0.webUnavailability == .linkNotAllowed })
        await store.stop()
    }

    @Test("without prices there is no web checkout")
    func nothing() async {
        let server = PreviewServer(catalog: Self.catalog)
        let store = EntitlementStore.preview(
            catalog: Self.catalog, device: PreviewDeviceStore(products: []), server: server,
            webCheckout: WebCheckout { _ in .completed })
        #expect(await store.purchase("pro.monthly", via: .web).webUnavailability == .notOffered)
        await store.stop()
    }
}

@Suite("Kit: a server for previews and tests of an app", .timeLimit(.minutes(1)))
struct PreviewServerTests {
    private static let catalog = [
        EntitlementConfiguration.Mapping(productID: "monthly", entitlements: ["premium"]),
        EntitlementConfiguration.Mapping(productID: "lifetime", entitlements: ["forever"]),
    ]
    private static let products = [
        StoreProduct(
            id: "monthly", displayName: "Monthly", displayPrice: "$4.99", kind: .autoRenewable,
            subscription: StoreProduct.Subscription(groupID: "g", period: SubscriptionPeriod(1, .month))),
        StoreProduct(id: "lifetime", displayName: "Lifetime", displayPrice: "$99"),
    ]

    private let clock = ManualClock()
    private let server: PreviewServer

    init() { server = PreviewServer(catalog: Self.catalog, clock: clock) }

    private func device() -> PreviewDeviceStore { PreviewDeviceStore(products: Self.products, clock: clock) }

    private func store(
        _ device: PreviewDeviceStore, tokenProvider: EntitlementConfiguration.TokenProvider? = nil
    ) -> EntitlementStore {
        EntitlementStore.preview(
            catalog: Self.catalog, device: device, server: server, tokenProvider: tokenProvider, clock: clock)
    }

    @Test("what the server gives and takes back shows, and what is bought is finished once the server has it")
    func giving() async {
        let device = device()
        let store = store(device)
        #expect(await !store.refresh().givesAccess(to: "forever"))
        await server.grant("forever", to: PreviewDeviceStore.customerID)
        let given = await store.refresh()
        #expect(given.givesAccess(to: "forever") && given["forever"]?.source == .grant)
        await server.takeBack("forever", from: PreviewDeviceStore.customerID)
        #expect(await !store.refresh().givesAccess(to: "forever"))
        guard case .success(let purchase) = await store.purchase("monthly") else {
            Issue.record("the purchase failed")
            return
        }
        #expect(purchase.entitlements.givesAccess(to: "premium"))
        await eventually("finished") { await device.unfinishedTransactions().isEmpty }
        #expect(await server.requests.contains { $0.transactions == 1 })
        await store.stop()
    }

    @Test("a server that is away or busy takes nothing away, and what was bought meanwhile is finished when it is back")
    func away() async {
        let device = device()
        let store = store(device)
        await server.grant("forever", to: PreviewDeviceStore.customerID)
        _ = await store.refresh()
        await server.set(.isAway)
        let offline = await store.refresh()
        #expect(offline.givesAccess(to: "forever"))
        guard case .offline = offline.kind else {
            Issue.record("not offline: \(offline.kind)")
            return
        }
        guard case .success(let purchase) = await store.purchase("monthly") else {
            Issue.record("the purchase failed")
            return
        }
        #expect(purchase.entitlements.givesAccess(to: "premium"))
        #expect(await !device.unfinishedTransactions().isEmpty)
        await server.set(.answers)
        clock.advance(.seconds(400))
        _ = await store.refresh()
        await eventually("finished") { await device.unfinishedTransactions().isEmpty }
        await store.stop()
    }

    @Test("what one device buys, the other one has, before and after a login; another customer has nothing of it")
    func devices() async {
        let (first, second) = (store(device()), store(device()))
        guard case .success = await first.purchase("lifetime") else {
            Issue.record("the purchase failed")
            return
        }
        // A purchase succeeds on the device; the server may hear of it a moment later.
        await eventually("known to the server") { await second.refresh().givesAccess(to: "forever") }
        await first.identify(customerID: "c-1", token: "t")
        #expect(await first.refresh().givesAccess(to: "forever"))
        await second.identify(customerID: "c-2", token: "t")
        _ = await second.refresh()
        await eventually("told whose it is") { await !second.current.givesAccess(to: "forever") }
        await first.stop()
        await second.stop()
    }

    @Test("a refused token is asked for anew")
    func tokens() async {
        let asked = Mutex(0)
        let store = store(device()) { _ in
            asked.withLock { $0 += 1 }
            return CustomerToken("token")
        }
        await server.set(.refusesTokens)
        await server.grant("forever", to: "c-1")
        await store.identify(customerID: "c-1")
        _ = await store.refresh()
        await eventually("asked again") { asked.withLock { $0 } > 1 }
        #expect(await !store.current.givesAccess(to: "forever"))
        await server.set(.answers)
        clock.advance(.seconds(4000))
        _ = await store.refresh()
        await eventually("given") { await store.current.givesAccess(to: "forever") }
        #expect(await server.requests.contains { $0.token == "token" && $0.customerID == "c-1" })
        await store.stop()
    }
}
