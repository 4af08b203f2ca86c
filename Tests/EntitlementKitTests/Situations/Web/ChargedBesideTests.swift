import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: the web goes on charging for what gives nothing now", .timeLimit(.minutes(1)))
struct ChargedBesideTests {
    /// What the payment provider says of a subscription that was bought on the first day, of which a month is paid.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        var said: @Sendable (inout WebSubscription) -> Void = { _ in }
        var isRefunded = false
        var day = 2.0
        /// Whether the server is away from the second day on.
        var isAway = false
        /// What is bought.
        var product = "monthly"
        /// Another subscription that the App Store has sold.
        var alsoHeld: String?
        let isSold: Bool

        var testDescription: String { name }
    }

    static let situations = [
        Situation(name: "paused", said: { $0.collectionPause = "void" }, day: 32, isSold: false),
        Situation(
            name: "paused, and the server is away", said: { $0.collectionPause = "void" }, day: 32, isAway: true,
            isSold: false),
        Situation(name: "a charge was refunded, and it goes on", isRefunded: true, isSold: false),
        Situation(
            name: "refunded, and it ends with its period", said: { $0.cancelsAtPeriodEnd = true }, isRefunded: true,
            isSold: true),
        Situation(name: "it has ended", said: { $0.cancelsAtPeriodEnd = true }, day: 32, isSold: true),
        Situation(
            name: "it was cancelled while it was paused",
            said: { ($0.status, $0.endedAt) = (.known(.canceled), Timestamp(Statements.date(1.5))) }, day: 32,
            isSold: true),
        Situation(name: "nobody knows whether it was renewed", day: 33, isAway: true, isSold: true),
        Situation(
            name: "paused, and another plan is bought", said: { $0.collectionPause = "void" }, day: 32,
            product: "yearly", isSold: false),
        Situation(
            name: "paused, and the same without end is bought", said: { $0.collectionPause = "void" }, day: 32,
            product: "once", isSold: false),
        Situation(name: "refunded, and another plan is bought", isRefunded: true, product: "yearly", isSold: false),
        Situation(
            name: "refunded and to end, and another plan is bought", said: { $0.cancelsAtPeriodEnd = true },
            isRefunded: true, product: "yearly", isSold: true),
        Situation(
            name: "paused, and what gives more is bought", said: { $0.collectionPause = "void" }, day: 32,
            product: "bundle", isSold: true),
        Situation(
            name: "paused, and what gives more is bought, of which the App Store has sold the rest",
            said: { $0.collectionPause = "void" }, day: 32, product: "bundle", alsoHeld: "addition", isSold: false),
        Situation(
            name: "paused, and something else is bought", said: { $0.collectionPause = "void" }, day: 32,
            product: "addition", isSold: true),
    ]

    private static let more = [
        CatalogProduct(productID: "yearly", entitlements: ["premium"]),
        CatalogProduct(productID: "once", entitlements: ["premium"]),
        CatalogProduct(productID: "bundle", entitlements: ["premium", "extra"]),
        CatalogProduct(productID: "addition", entitlements: ["extra"]),
    ]

    @Test("the App Store does not sell it beside that", arguments: situations)
    func inStore(_ situation: Situation) async throws {
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.userCancelled)
            $0.current = situation.alsoHeld.map { [Statements.transaction("1", product: $0, until: 60)] } ?? []
            for product in Self.more {
                let kind: PurchaseKind = product.productID == "once" ? .nonConsumable : .autoRenewable
                $0.products.append(
                    StoreProduct(
                        id: product.productID, displayName: product.productID, displayPrice: "$9.99", kind: kind))
            }
        } server: {
            $0.catalog = Catalog(products: $0.catalog.products + Self.more)
        }
        await rig.launch()
        rig.server.subscribe("apple:A", situation.said)
        if situation.isRefunded { rig.server.refund(try #require(rig.server.lastPage)) }
        rig.clock.advance(days: 0.9)
        _ = await rig.store.refresh()
        await rig.store.settled()
        if situation.isAway { rig.server.edit { $0.mood = .unreachable } }
        rig.clock.advance(days: situation.day - 1.9)
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase(situation.product) }
        rig.expectSheet(situation.isSold, outcome)
    }

    @Test("nor is a page opened for another plan", arguments: [true, false])
    func onWeb(isPaused: Bool) async throws {
        let payer = Payer()
        let rig = KitRig.web(
            payer,
            server: {
                $0.catalog = Catalog(products: $0.catalog.products + Self.more)
                $0.shop.prices["yearly"] = 3999
            })
        await rig.launch()
        rig.server.subscribe("apple:A") { if isPaused { $0.collectionPause = "void" } }
        if !isPaused { rig.server.refund(try #require(rig.server.lastPage)) }
        rig.clock.advance(days: isPaused ? 31 : 1)
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
        rig.expectSheet(false, await rig.buy("yearly", payer).outcome)
        #expect(await payer.pages.isEmpty)
    }

    @Test(
        "what was not paid is sold once nothing is tried any more, and not before",
        arguments: [
            (WebSubscriptionStatus.active, false), (.active, true), (.pastDue, false), (.pastDue, true),
            (.unpaid, false), (.unpaid, true),
        ], [PurchaseChannel.storeKit, .web])
    func inBillingRetry(_ said: (status: WebSubscriptionStatus, ends: Bool), channel: PurchaseChannel) async throws {
        let status = said.status
        let payer = Payer { _ in .cancelled }
        let rig = KitRig.web(payer) { $0.purchase = .success(.userCancelled) }
        await rig.launch()
        rig.server.subscribe("apple:A")
        rig.clock.advance(days: 30.1)
        let (now, page) = (rig.server.now, try #require(rig.server.state.shop.pages.last))
        let item = WebItem(
            item: "si_\(page.id)", product: WebProduct(price: "price_monthly", product: nil), periodStart: now,
            periodEnd: now.adding(milliseconds: 30 * Statements.day))
        rig.server.edit {
            $0.tellWeb("customer.subscription.updated", page, at: now) {
                $0.subscription = WebSubscription(
                    status: .known(status), items: [item], cancelsAtPeriodEnd: said.ends)
            }
        }
        rig.clock.advance(days: 14)
        #expect(await rig.store.refresh()["premium"]?.state == .inBillingRetry)
        let outcome = await rig.buy(via: channel, payer).outcome
        let shown = await (rig.device.state.purchases.count, payer.pages.count)
        if status == .unpaid {
            #expect(outcome == .userCancelled && shown == (channel == .web ? (0, 1) : (1, 0)), "\(outcome)")
        } else if case .failed(let error) = outcome {
            #expect(error.reason == .inBillingRetry && shown == (0, 0), "\(error)")
        } else {
            Issue.record("\(outcome)")
        }
    }

    @Test("what is paused is not sold, whatever else awaits its renewal while the server is away")
    func besideAnother() async {
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.userCancelled)
        } server: {
            let news = CatalogProduct(
                productID: "news", entitlements: ["news"],
                stripe: StripeProduct(price: "price_news", mode: .subscription))
            $0.catalog = Catalog(products: $0.catalog.products + [news])
        }
        await rig.launch()
        rig.server.subscribe("apple:A") { $0.collectionPause = "void" }
        let begin = rig.server.now
        let end = begin.adding(milliseconds: 30 * Statements.day)
        rig.server.edit { script in
            let product = WebProduct(price: "price_news", product: nil)
            script.position += 1
            var fact = WebFact(
                type: "customer.subscription.updated", eventID: "evt_news", statedAt: begin,
                payloadHash: PortableSHA256.hash(Array("news".utf8)), originalTransactionID: "sub_news")
            fact.owners = [WebOwner(place: .purchase, customer: script.number(of: "apple:A"))]
            let line = WebLine(
                lineID: "il_news", item: "si_news", product: product, start: begin, end: end, isProration: false,
                amount: 399)
            fact.invoices = [WebInvoice(invoiceID: "in_news", paidAt: begin, amountPaid: 399, lines: [line])]
            fact.subscription = WebSubscription(
                status: .known(.active),
                items: [WebItem(item: "si_news", product: product, periodStart: begin, periodEnd: end)])
            script.states["sub_news", default: OriginalState()].join(
                .web(fact), originalTransactionID: "sub_news", source: .notification, position: script.position)
        }
        rig.clock.advance(days: 28.9)
        #expect(await rig.store.refresh().givesAccess(to: "news"))
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 2.5)
        await rig.store.refresh()
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly") }
        rig.expectSheet(false, outcome)
    }
}
