import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a product without end, for somebody who has what it gives", .timeLimit(.minutes(1)))
struct BoughtForGoodTests {
    /// What the customer has, and what becomes of buying in the App Store what gives the same without end.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        var product = "once"
        /// `nil`: it is sold.
        let refusal: PurchaseError.Reason?
        let prepare: @Sendable (KitRig) async -> Void

        var testDescription: String { name }
    }

    static let situations = [
        Situation(name: "a subscription of the store", refusal: nil) { subscribe($0) },
        Situation(name: "a subscription of the store in billing retry", refusal: nil) { rig in
            let old = Statements.transaction("1", from: -30, until: 0.5)
            let retry = Statements.renewal(original: "1", signed: 0.6, retry: true)
            rig.device.edit { $0.subscriptions = [SubscriptionStatement(transaction: old, renewal: retry)] }
        },
        Situation(
            name: "a subscription of the store, for another subscription", product: "weekly", refusal: .alreadyOwned
        ) {
            subscribe($0)
        },
        Situation(name: "a subscription of the web", refusal: .alreadyOwned) { $0.server.subscribe("apple:A") },
        Situation(name: "a subscription of the web that ends", refusal: nil) { rig in
            rig.server.subscribe("apple:A") { $0.cancelsAtPeriodEnd = true }
        },
        Situation(name: "both", refusal: .alreadyOwned) { rig in
            subscribe(rig)
            rig.server.subscribe("apple:A")
        },
        Situation(name: "another product without end", refusal: .alreadyOwned) { rig in
            rig.device.edit { $0.current = [Statements.transaction("1", product: "bundle", until: nil)] }
        },
        Situation(name: "the same product on the web", product: "lifetime", refusal: .alreadyOwned) { rig in
            let page = rig.server.shop { $0.begin("apple:A", "lifetime", key: "l", at: rig.server.now) }
            rig.server.pay(page.id)
            rig.server.hear(page.id)
        },
    ]

    private static func subscribe(_ rig: KitRig) {
        let renewal = Statements.renewal(original: "1", signed: 0)
        rig.device.edit { $0.subscriptions = [.init(transaction: Statements.transaction("1"), renewal: renewal)] }
    }

    private static func sell(_ script: inout ScriptedStore.Script) {
        script.products = ["monthly", "weekly"].map {
            var product = StoreProduct(id: $0, displayName: $0, displayPrice: "$1", kind: .autoRenewable)
            product.subscription = StoreProduct.Subscription(groupID: $0, period: SubscriptionPeriod(1, .month))
            return product
        }
        for id in ["once", "lifetime", "bundle"] {
            script.products.append(StoreProduct(id: id, displayName: id, displayPrice: "$99", kind: .nonConsumable))
        }
        script.purchase = .success(.success(Statements.transaction("9", product: "once", from: 1, until: nil)))
    }

    private static func map(_ script: inout ScriptedServer.Script) {
        let more = ["weekly", "once", "bundle"].map { CatalogProduct(productID: $0, entitlements: ["premium"]) }
        script.catalog = Catalog(products: script.catalog.products + more)
    }

    @Test("it is sold where all that is held ends in the App Store, or by itself", arguments: situations)
    func situation(_ situation: Situation) async {
        let rig = KitRig.web(Payer(), device: Self.sell, server: Self.map)
        await situation.prepare(rig)
        await rig.launch()
        _ = await rig.store.refresh()
        let outcome = await rig.store.purchase(situation.product)
        switch (outcome, situation.refusal) {
        case (.success, nil): break
        case (.failed(let error), let refusal?): #expect(error.reason == refusal)
        case (_, _): Issue.record("\(outcome)")
        }
        #expect(rig.device.state.purchases.count == (situation.refusal == nil ? 1 : 0))
    }

    @Test("an app that sells in the App Store alone sells it to a subscriber, and tells what goes on being charged")
    func tellsWhatRenews() async {
        let rig = KitRig(device: Self.sell, server: Self.map)
        Self.subscribe(rig)
        await rig.launch()
        await rig.waitUntilGives()
        let held = await rig.store.purchase("once").purchase?.entitlements["premium"]
        #expect(held?.productID == "once" && held?.until == nil)
        #expect(held?.alsoRenews.map(\.productID) == ["monthly"])
    }
}
