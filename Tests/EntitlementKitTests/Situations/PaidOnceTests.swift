import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: nobody pays twice", .timeLimit(.minutes(1)))
struct PaidOnceTests {
    /// What the customer has, and what becomes of another attempt to buy.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        var product = "monthly"
        /// What each of the three ways comes to: `nil`: it is sold.
        let onWeb: PurchaseError.Reason?
        let inStore: PurchaseError.Reason?
        var prepare: @Sendable (KitRig, Payer) async throws -> Void = { _, _ in }

        var testDescription: String { name }
    }

    /// Opens a page for a product, and leaves it in some way.
    private static func open(
        _ product: String = "monthly", _ rig: KitRig, _ payer: Payer, _ how: CheckoutReturn = .left
    ) async throws -> String {
        await payer.set { _ in how }
        let report = await rig.buy(product, via: .web, payer)
        #expect(report.outcome == (how == .cancelled ? .userCancelled : .pending))
        return try #require(rig.server.lastPage)
    }

    private static func onWeb(_ rig: KitRig, _ customerID: String = "apple:A", _ product: String = "monthly") {
        let page = rig.server.shop { shop in
            shop.begin(
                customerID, product, key: product == "monthly" ? "elsewhere" : product, at: Timestamp(rig.clock.now()))
        }
        rig.server.pay(page.id)
        rig.server.hear(page.id)
    }

    /// The customer has a product that the store does not show, and wants one of the group `pro`.
    private static func subscribesToLegacy(_ rig: KitRig, group: String) async {
        let plan = StoreProduct.Subscription(groupID: "pro", period: SubscriptionPeriod(1, .month))
        rig.device.edit {
            $0.products = [StoreProduct(id: "monthly", displayName: "m", displayPrice: "$1", subscription: plan)]
        }
        rig.device.push(
            Statements.transaction("1", product: "yearly", offer: ["subscriptionGroupIdentifier": group]))
        await rig.waitUntilGives()
    }

    static let situations = [
        Situation(name: "nothing", onWeb: nil, inStore: nil),
        Situation(name: "something else", product: "lifetime", onWeb: nil, inStore: nil) { rig, _ in
            rig.device.push(Statements.transaction("1"))
        },
        Situation(name: "bought in the store", onWeb: .alreadyOwned, inStore: nil) { rig, _ in
            rig.device.push(Statements.transaction("1"))
            await rig.waitUntilGives()
        },
        Situation(
            name: "a subscription of another group of the store", product: "weekly", onWeb: .alreadyOwned,
            inStore: .alreadyOwned
        ) { rig, _ in
            rig.device.push(Statements.transaction("1"))
            await rig.waitUntilGives()
        },
        Situation(name: "bought in the store, by another product of the group", onWeb: .alreadyOwned, inStore: nil) {
            rig, _ in
            let plan = StoreProduct.Subscription(groupID: "pro", period: SubscriptionPeriod(1, .month))
            rig.device.edit {
                $0.products = ["monthly", "yearly"].map {
                    var product = StoreProduct(id: $0, displayName: $0, displayPrice: "$1")
                    product.subscription = plan
                    return product
                }
            }
            rig.device.push(Statements.transaction("1", product: "yearly"))
            await rig.waitUntilGives()
        },
        Situation(name: "bought for good, and not on sale any more", onWeb: .alreadyOwned, inStore: .alreadyOwned) {
            rig, _ in
            rig.device.edit { $0.products.removeAll { $0.id == "once" } }
            rig.device.push(Statements.transaction("1", product: "once", until: nil))
            await rig.waitUntilGives()
        },
        Situation(
            name: "a subscription of another group that is not on sale any more", onWeb: .alreadyOwned,
            inStore: .alreadyOwned
        ) { rig, _ in
            await subscribesToLegacy(rig, group: "legacy")
        },
        Situation(
            name: "a subscription of the group that is not on sale any more", onWeb: .alreadyOwned, inStore: nil
        ) { rig, _ in
            await subscribesToLegacy(rig, group: "pro")
        },
        Situation(name: "bought in the store, and in billing retry", onWeb: .inBillingRetry, inStore: nil) { rig, _ in
            let old = Statements.transaction("1", from: -30, until: 0.5)
            rig.device.edit {
                $0.subscriptions = [
                    SubscriptionStatement(
                        transaction: old, renewal: Statements.renewal(original: "1", signed: 0.6, retry: true))
                ]
            }
            _ = await rig.store.refresh()
            #expect(await rig.store.current["premium"]?.state == .inBillingRetry)
        },
        Situation(name: "less than it gives, on the web", product: "bundle", onWeb: nil, inStore: nil) { rig, _ in
            onWeb(rig)
        },
        Situation(name: "less than it gives, in the store", product: "bundle", onWeb: nil, inStore: nil) { rig, _ in
            rig.device.push(Statements.transaction("1"))
            await rig.waitUntilGives()
        },
        Situation(name: "more than it gives", product: "weekly", onWeb: .alreadyOwned, inStore: .alreadyOwned) {
            rig, _ in
            rig.device.edit { $0.products.append(StoreProduct(id: "bundle", displayName: "All", displayPrice: "$1")) }
            rig.device.push(Statements.transaction("1", product: "bundle"))
            await rig.waitUntilGives()
        },
        Situation(
            name: "all that it gives, in two purchases", product: "bundle", onWeb: .alreadyOwned, inStore: .alreadyOwned
        ) { rig, _ in
            onWeb(rig)
            onWeb(rig, "apple:A", "lifetime")
        },
        Situation(
            name: "a part of what it gives, and another part in billing retry", product: "bundle",
            onWeb: .inBillingRetry,
            inStore: .inBillingRetry
        ) { rig, _ in
            onWeb(rig, "apple:A", "lifetime")
            let old = Statements.transaction("1", from: -30, until: 0.5)
            let retry = Statements.renewal(original: "1", signed: 0.6, retry: true)
            rig.device.edit {
                $0.products.append(StoreProduct(id: "bundle", displayName: "All", displayPrice: "$1"))
                $0.subscriptions = [SubscriptionStatement(transaction: old, renewal: retry)]
            }
            _ = await rig.store.refresh()
        },
        Situation(name: "expired", onWeb: nil, inStore: nil) { rig, _ in
            rig.device.push(Statements.transaction("1", from: -30, until: 0.5))
        },
        Situation(name: "refunded", onWeb: nil, inStore: nil) { rig, _ in
            rig.device.push(Statements.transaction("1", revoked: 0.5, signed: 0.6))
        },
        Situation(name: "given by hand", onWeb: nil, inStore: nil) { rig, _ in
            rig.server.edit { $0.grants = [.forever("premium", of: $0.number(of: "apple:A").number)] }
            _ = await rig.store.refresh()
            #expect(await rig.gives())
        },
        Situation(name: "given by hand, and bought in the store", onWeb: .alreadyOwned, inStore: nil) { rig, _ in
            rig.server.edit { $0.grants = [.forever("premium", of: $0.number(of: "apple:A").number)] }
            rig.device.push(Statements.transaction("1"))
            await eventually("posted") { !rig.server.posts.isEmpty }
        },
        Situation(name: "bought on the web, on another device", onWeb: .alreadyOwned, inStore: .alreadyOwned) {
            rig, _ in
            onWeb(rig)
        },
        Situation(name: "bought on the web by somebody else", onWeb: nil, inStore: nil) { rig, _ in
            onWeb(rig, "c-9")
        },
        Situation(name: "bought on the web, and refunded", onWeb: nil, inStore: nil) { rig, _ in
            onWeb(rig)
            rig.server.refund("cs_elsewhere")
        },
        Situation(name: "a page is open elsewhere", onWeb: nil, inStore: .checkoutUnfinished) { rig, payer in
            _ = try await open("monthly", rig, payer)
        },
        Situation(name: "a page says that it was paid", onWeb: .checkoutUnfinished, inStore: .checkoutUnfinished) {
            rig, payer in
            _ = try await open("monthly", rig, payer, .completed)
        },
        Situation(
            name: "a page for what gives the same is open", onWeb: .checkoutUnfinished, inStore: .checkoutUnfinished
        ) {
            rig, payer in
            _ = try await open("yearly", rig, payer)
        },
        Situation(name: "a page was cancelled", onWeb: nil, inStore: nil) { rig, payer in
            _ = try await open("monthly", rig, payer, .cancelled)
        },
        Situation(name: "a page was given up", onWeb: nil, inStore: nil) { rig, payer in
            _ = try await open("monthly", rig, payer, .completed)
            #expect(await rig.store.abandonCheckout(of: "monthly"))
        },
        Situation(name: "a page is over", onWeb: nil, inStore: nil) { rig, payer in
            _ = try await open("monthly", rig, payer)
            rig.clock.advance(days: 1.1)
        },
        Situation(
            name: "a page was paid yesterday, and a bank takes its time", onWeb: .checkoutUnfinished,
            inStore: .checkoutUnfinished
        ) { rig, payer in
            _ = try await open("monthly", rig, payer, .completed)
            rig.clock.advance(days: 1.1)
        },
        Situation(name: "a page was paid a week ago, and nothing came of it", onWeb: nil, inStore: nil) { rig, payer in
            _ = try await open("monthly", rig, payer, .completed)
            rig.clock.advance(days: 8)
        },
        Situation(name: "somebody has yet to approve it", onWeb: .purchasePending, inStore: nil) { rig, _ in
            rig.device.edit { $0.purchase = .success(.pending) }
            #expect(await rig.store.purchase("monthly") == .pending)
        },
        Situation(name: "nobody has approved it in a day", onWeb: nil, inStore: nil) { rig, _ in
            rig.device.edit { $0.purchase = .success(.pending) }
            #expect(await rig.store.purchase("monthly") == .pending)
            rig.clock.advance(days: 1.1)
        },
        Situation(name: "the store shows what the device could not verify", onWeb: .purchasePending, inStore: nil) {
            rig, _ in
            rig.device.edit { $0.unfinished = [Statements.transaction("1", unverified: "no root")] }
        },
        Situation(
            name: "a season pass that the store sells again and again", product: "pass", onWeb: .alreadyOwned,
            inStore: .alreadyOwned
        ) { rig, _ in
            rig.device.push(Statements.transaction("1", product: "pass", until: nil, type: "Non-Renewing Subscription"))
            await rig.waitUntilGives(true, "season")
        },
        Situation(name: "coins, as often as one likes", product: "coins", onWeb: nil, inStore: nil) { rig, _ in
            rig.device.push(Statements.transaction("1", product: "coins", until: nil, type: "Consumable"))
        },
    ]

    static func rig(_ payer: Payer) -> KitRig {
        KitRig.web(payer) {
            var weekly = StoreProduct(id: "weekly", displayName: "Weekly", displayPrice: "$1")
            weekly.subscription = StoreProduct.Subscription(groupID: "other", period: SubscriptionPeriod(1, .week))
            let once = StoreProduct(id: "once", displayName: "Once", displayPrice: "$1", kind: .nonConsumable)
            $0.products += [weekly, once]
        } server: {
            let more = [
                CatalogProduct(productID: "yearly", entitlements: ["premium"]),
                CatalogProduct(productID: "weekly", entitlements: ["premium"]),
                CatalogProduct(productID: "once", entitlements: ["premium"]),
                CatalogProduct(productID: "bundle", entitlements: ["premium", "forever"]),
                CatalogProduct(
                    productID: "pass", entitlements: ["season"], duration: CalendarDuration(iso8601: "P90D")),
                CatalogProduct(productID: "coins", entitlements: []),
            ]
            $0.catalog = Catalog(products: $0.catalog.products + more)
            $0.shop.prices = [
                "monthly": 399, "yearly": 3900, "lifetime": 4900, "bundle": 9900, "pass": 900, "coins": 100,
                "weekly": 99,
                "once": 9900,
            ]
        }
    }

    @Test("what a page, and what the store's sheet, comes to", arguments: situations)
    func situation(_ situation: Situation) async throws {
        for onWeb in [true, false] {
            let payer = Payer()
            let rig = Self.rig(payer)
            await rig.launch()
            try await situation.prepare(rig, payer)
            await rig.store.settled()
            rig.device.edit { $0.purchase = .success(.userCancelled) }
            await payer.set { _ in .cancelled }
            let (pages, sheets) = (await payer.pages.count, rig.device.state.purchases.count)
            let channels: [PurchaseChannel] = onWeb ? [.web, .webFirst] : [.storeKit]
            let expected = onWeb ? situation.onWeb : situation.inStore
            for channel in channels {
                let report = await rig.buy(situation.product, via: channel, payer)
                #expect(report.channel == (onWeb ? .web : .storeKit) && report.webUnavailability == nil)
                if let expected {
                    guard case .failed(let error) = report.outcome else {
                        Issue.record("\(channel): \(report.outcome)")
                        continue
                    }
                    #expect(error.reason == expected && error.productID == situation.product, "\(error)")
                    #expect((error.unfinishedCheckout != nil) == (expected == .checkoutUnfinished))
                } else {
                    #expect(report.outcome == .userCancelled, "\(channel)")
                }
            }
            let opened = expected == nil ? channels.count : 0
            #expect(await payer.pages.count - pages == (onWeb ? opened : 0))
            #expect(rig.device.state.purchases.count - sheets == (onWeb ? 0 : opened))
            // Whoever wants it all the same is let through.
            let asked = onWeb ? await payer.pages.count : rig.device.state.purchases.count
            _ = await rig.buy(
                situation.product, via: channels[0], payer, options: PurchaseOptions(evenIfOwned: true))
            let askedNow = onWeb ? await payer.pages.count : rig.device.state.purchases.count
            #expect(askedNow == asked + 1)
        }
    }

    /// How a device comes to a purchase while the server is away.
    enum Acquaintance: CaseIterable {
        case neverHeard
        case heardOfSomebodyElse
        case heardBefore
        case sellsNothingOnTheWeb
        case sellsAllTheSame
        case inXcode
    }

    @Test(
        "where the app wants it so, nothing is sold in the store while nobody can say what was bought on the web",
        arguments: Acquaintance.allCases, [PurchaseChannel.storeKit, .webFirst])
    func unknownOwnership(_ acquaintance: Acquaintance, _ channel: PurchaseChannel) async {
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.userCancelled)
        } server: {
            if [.neverHeard, .sellsNothingOnTheWeb, .sellsAllTheSame, .inXcode].contains(acquaintance) {
                $0.mood = .unreachable
            }
        } configuration: {
            $0.webCheckout?.refusesUnknownOwnership = acquaintance != .sellsAllTheSame
            if acquaintance == .sellsNothingOnTheWeb { $0.webCheckout = nil }
            if acquaintance == .inXcode { $0.environment = .xcode }
        }
        if [.heardOfSomebodyElse, .heardBefore].contains(acquaintance) {
            await rig.launch()
            rig.server.edit { $0.mood = .unreachable }
        }
        if acquaintance == .heardOfSomebodyElse { await rig.store.identify(customerID: "c-2", token: "t") }
        let outcome = await rig.store.purchase("monthly", via: channel).outcome
        guard [.neverHeard, .heardOfSomebodyElse].contains(acquaintance) else {
            #expect(outcome == .userCancelled && rig.device.state.purchases.count == 1)
            return
        }
        guard case .failed(let error) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(error.reason == .ownershipUnknown && rig.device.state.purchases.isEmpty)
        let insists = PurchaseOptions(evenIfOwned: true)
        #expect(await rig.store.purchase("monthly", via: channel, options: insists).outcome == .userCancelled)
        #expect(rig.device.state.purchases.count == 1)
        rig.server.edit { $0.mood = .answers }
        #expect(await rig.store.purchase("monthly", via: .storeKit).outcome == .userCancelled, "it has answered")
    }

    @Test("a page that is opened again is the same page, which can be paid once")
    func samePage() async throws {
        let payer = Payer { _ in .left }
        let rig = KitRig.web(payer)
        for how in [CheckoutReturn.left, .cancelled, .left] {
            await payer.set { _ in how }
            _ = await rig.buy("monthly", via: .webFirst, payer)
        }
        #expect(rig.server.state.shop.pages.count == 1)
        let shown = await payer.pages.map(\.url)
        #expect(Set(shown).count == 1 && shown.count == 3)
        rig.clock.advance(days: 1.1)
        let later = await rig.buy("monthly", via: .web, payer)
        #expect(rig.server.state.shop.pages.count == 2, "one that is over cannot be paid: \(later)")
    }

    @Test("two buttons pressed at once open one page, and no sheet beside it")
    func doubleTap() async {
        let door = Door()
        let payer = Payer { _ in
            await door.pass()
            return .cancelled
        }
        let rig = Self.rig(payer)
        await rig.launch()
        let store = rig.store
        let attempts = [
            ("monthly", PurchaseChannel.webFirst), ("monthly", .web), ("monthly", .storeKit), ("yearly", .web),
            ("yearly", .storeKit),
        ]
        let reports = await rig.whileTimePasses(afterPageOf: payer) {
            await withTaskGroup(of: PurchaseReport.self) { group in
                for (product, channel) in attempts {
                    group.addTask { await store.purchase(product, via: channel) }
                }
                group.addTask {
                    await eventually("a page") { await payer.pages.count == 1 }
                    await door.open()
                    return PurchaseReport(outcome: .pending, channel: .web)
                }
                var reports: [PurchaseReport] = []
                for await report in group { reports.append(report) }
                return reports
            }
        }
        let refused = reports.filter {
            if case .failed(let error) = $0.outcome { error.reason == .alreadyUnderWay } else { false }
        }
        #expect(refused.count >= attempts.count - 2)
        #expect(await payer.pages.count + rig.device.state.purchases.count == 1)
    }
}
