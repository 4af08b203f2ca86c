import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: paywalls, previews and what an entitlement tells", .timeLimit(.minutes(1)))
struct PreviewTests {
    private static let catalog = [
        EntitlementConfiguration.Mapping(productID: "monthly", entitlements: ["premium"]),
        EntitlementConfiguration.Mapping(productID: "lifetime", entitlements: ["forever"]),
    ]
    private static let trial = SubscriptionOffer(
        id: nil, discount: "free_trial", price: 0, displayPrice: "$0.00", period: SubscriptionPeriod(1, .week))

    private static func products(isEligible: Bool = true) -> [StoreProduct] {
        [
            StoreProduct(
                id: "monthly", displayName: "Monthly", displayPrice: "$4.99", kind: .autoRenewable,
                price: Decimal(string: "4.99"), currencyCode: "USD",
                subscription: StoreProduct.Subscription(
                    groupID: "g", period: SubscriptionPeriod(1, .month), introductoryOffer: trial,
                    isEligibleForIntroductoryOffer: isEligible)),
            StoreProduct(id: "lifetime", displayName: "Lifetime", displayPrice: "$99", price: 99, currencyCode: "USD"),
        ]
    }

    @Test("a preview gives what it owns, and sells the rest")
    func preview() async {
        let store = EntitlementStore.preview(catalog: Self.catalog, owned: ["lifetime"])
        await store.start()
        await eventually("owned") { await store.current.givesAccess(to: "forever") }
        #expect(await !store.current.givesAccess(to: "premium"))
        guard case .success(let purchase) = await store.purchase("monthly") else {
            Issue.record("the purchase failed")
            return
        }
        #expect(purchase.entitlements.givesAccess(to: "premium"))
        #expect(await store.products().map(\.storeKitAvailable) == [true, true])
        await store.stop()
    }

    @Test("a test of an app lets purchases be cancelled, wait, fail, and be approved, renewed and refunded")
    func behaviors() async {
        let clock = ManualClock()
        let device = PreviewDeviceStore(products: Self.products(isEligible: false), clock: clock)
        let store = EntitlementStore.preview(catalog: Self.catalog, device: device, clock: clock)
        await device.set(.isCancelled)
        #expect(await store.purchase("monthly") == .userCancelled)
        await device.set(.fails(PurchaseError(.notAllowed)))
        #expect(await store.purchase("monthly") == .failed(PurchaseError(.notAllowed, of: "monthly")))
        await device.set(.waitsForApproval)
        #expect(await store.purchase("monthly") == .pending)
        #expect(await !store.current.givesAccess(to: "premium"))
        await device.approve()
        await eventually("approved") { await store.current.givesAccess(to: "premium") }
        await eventually("finished") { await device.unfinishedTransactions().isEmpty }
        await device.renew("monthly")
        await eventually("renewed") {
            await store.current["premium"]?.until == Statements.date(1 + 31 + 28)
        }
        #expect(await store.current["premium"]?.originalPurchaseDate == Statements.date(1))
        await device.refund("monthly")
        await device.set(.succeeds)
        _ = await store.purchase("lifetime")
        for share in [0.4, 1] {
            clock.advance(days: 1)
            await device.refund("lifetime", percentage: share < 1 ? share * 100 : nil)
            await eventually("refunded") {
                await store.history().first { $0.productID == "lifetime" }?.revokedShare == share
            }
        }
        await eventually("refunded") { await !store.current.givesAccess(to: "forever") }
        #expect(await store.current["forever"]?.expirationReason == .refunded)
        await store.stop()
    }

    @Test("a paywall has the price as a number, its currency, the period, and the offer that this customer may have")
    func paywall() async throws {
        let device = PreviewDeviceStore(products: Self.products())
        let store = EntitlementStore.preview(catalog: Self.catalog, device: device)
        let product = try #require(await store.products().first?.storeProduct)
        #expect(product.price == Decimal(string: "4.99") && product.currencyCode == "USD")
        #expect(product.subscription?.period == SubscriptionPeriod(1, .month))
        #expect(product.subscription?.offerForThisCustomer == Self.trial)
        #expect(Self.products(isEligible: false)[0].subscription?.offerForThisCustomer == nil)
        _ = await store.purchase("monthly")
        let trial = try #require(await store.current["premium"])
        #expect(trial.isInTrial && trial.givesAccess && trial.expirationReason == nil)
        await store.stop()
    }

    @Test(
        "an entitlement that ended tells why, in words that may become more",
        arguments: [
            (1, Entitlement.ExpirationReason.cancelled), (2, .billingError), (3, .priceIncrease),
            (4, .productUnavailable), (5, .ranOut), (99, .ranOut),
        ])
    func expirationReason(intent: Int, reason: Entitlement.ExpirationReason) async {
        let rig = KitRig(day: 40) {
            $0.all = [Statements.transaction("1")]
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 31, autoRenews: false, intent: intent))
            ]
        }
        await rig.launch()
        let ended = await rig.store.current["premium"]
        #expect(ended?.givesAccess == false && ended?.expirationReason == reason)
        #expect(ended?.originalPurchaseDate == Statements.date(0) && ended?.gracePeriodEndDate == nil)
    }

    @Test("grace has a date")
    func grace() async {
        let rig = KitRig(day: 35) {
            $0.all = [Statements.transaction("1")]
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 31, retry: true, graceUntil: 46))
            ]
        }
        await rig.launch()
        #expect(await rig.store.current["premium"]?.gracePeriodEndDate == Statements.date(46))
    }
}
