import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what is told of a purchase on the web is true", .timeLimit(.minutes(1)))
struct WebWordsTests {
    /// What the payment provider says of a month that was paid on the first day, and why there is no access at last.
    struct Ending: Sendable, CustomTestStringConvertible {
        let name: String
        let reason: Entitlement.ExpirationReason?
        /// When it is said, and when it is asked, in days.
        var said = 5.0
        var asked = 32.0
        /// Said before it.
        var before: WebSubscription?
        var subscription: WebSubscription?
        var dispute: WebDisputeStatus?
        var isRefunded = false

        var testDescription: String { name }
    }

    private static func day(_ day: Double) -> Timestamp { Timestamp(Statements.date(day)) }

    /// - Parameter end: of the item's period, in days.
    private static func says(
        _ status: WebSubscriptionStatus, until end: Double = 31, _ edit: (inout WebSubscription) -> Void = { _ in }
    ) -> WebSubscription {
        var said = WebSubscription(
            status: .known(status),
            items: [
                WebItem(
                    item: "si_", product: WebProduct(price: "price_monthly", product: nil), periodStart: day(1),
                    periodEnd: day(end))
            ])
        edit(&said)
        return said
    }

    static let endings = [
        Ending(name: "nobody says anything", reason: .ranOut),
        Ending(name: "it renews, and nothing more is heard", reason: .ranOut, subscription: says(.active)),
        Ending(
            name: "cancelled at the period's end", reason: .cancelled,
            subscription: says(.active) { $0.cancelsAtPeriodEnd = true }),
        Ending(
            name: "cancelled for the period's end", reason: .cancelled,
            subscription: says(.active) { $0.cancelAt = day(31) }),
        Ending(
            name: "taken out of a subscription that goes on", reason: .cancelled,
            before: says(.active) { $0.items.append($0.items[0].besides) },
            subscription: says(.active) { $0.items = [$0.items[0].besides] }),
        Ending(
            name: "cancelled two periods on, and nothing more is heard", reason: .ranOut,
            subscription: says(.active) { $0.cancelAt = day(91) }),
        Ending(
            name: "paused, and cancelled at the period's end", reason: .cancelled,
            subscription: says(.active) { ($0.collectionPause, $0.cancelsAtPeriodEnd) = ("void", true) }),
        Ending(
            name: "ended when the period did", reason: .cancelled, said: 31,
            subscription: says(.canceled) { $0.endedAt = day(31) }),
        Ending(
            name: "ended within the period", reason: .cancelled, asked: 10,
            subscription: says(.canceled) { $0.endedAt = day(5) }),
        Ending(
            name: "paused before the period's end", reason: .paused,
            subscription: says(.active) { $0.collectionPause = "void" }),
        Ending(
            name: "paused when the period was over", reason: .paused, said: 31.5,
            subscription: says(.active, until: 61) { $0.collectionPause = "void" }),
        Ending(name: "unpaid", reason: .billingError, said: 31.5, subscription: says(.unpaid, until: 61)),
        Ending(
            name: "past due, and given up", reason: .billingError, said: 31.5, asked: 100,
            subscription: says(.pastDue, until: 61)),
        Ending(name: "disputed", reason: .disputed, asked: 10, dispute: .needsResponse),
        Ending(name: "a dispute that was lost", reason: .disputed, asked: 10, dispute: .lost),
        Ending(name: "a dispute that was won", reason: nil, asked: 10, dispute: .won),
        Ending(name: "refunded", reason: .refunded, asked: 10, isRefunded: true),
    ]

    /// A device of somebody who has paid a page on the first day.
    private static func bought(_ product: String = "monthly") async throws -> (KitRig, WebShop.Page) {
        let payer = Payer()
        let rig = KitRig.web(payer)
        await payer.set { [server = rig.server] page in
            server.pay(page.checkoutID)
            server.hear(page.checkoutID)
            return .completed
        }
        #expect(await rig.buy(product, via: .web, payer).outcome.purchase != nil)
        return (rig, try #require(rig.server.state.shop.pages.last))
    }

    @Test("why there is no access is what the payment provider has told", arguments: endings)
    func reason(_ ending: Ending) async throws {
        let (rig, page) = try await Self.bought()
        if ending.isRefunded { rig.server.refund(page.id) }
        rig.server.edit { script in
            for (at, said) in [(2, ending.before), (ending.said, ending.subscription)] {
                guard var said else { continue }
                for index in said.items.indices { said.items[index].item += page.id }
                script.tellWeb("customer.subscription.updated", page, at: Self.day(at)) { $0.subscription = said }
            }
            if let status = ending.dispute {
                script.tellWeb("charge.dispute.created", page, at: Self.day(ending.said)) {
                    $0.disputes = [
                        WebDispute(
                            disputeID: "dp_1", status: .known(status), created: Self.day(ending.said), funds: nil,
                            paymentIntent: "pi_\(page.id)", charge: nil)
                    ]
                }
            }
        }
        rig.clock.advance(days: ending.asked - 1)
        let held = try #require(await rig.store.refresh()["premium"])
        #expect(held.givesAccess == (ending.reason == nil), "\(held)")
        #expect(held.expirationReason == ending.reason)
        #expect(held.originalPurchaseDate.map { abs($0.timeIntervalSince(Statements.date(1))) < 600 } == true)
        #expect(held.originalTransactionID == "sub_\(page.id)")
    }

    @Test("history calls what was bought on the web as the catalog does, and tells renewals from purchases")
    func history() async throws {
        let (rig, page) = try await Self.bought()
        func tellLine(_ number: Int, _ price: String, _ from: Double, _ until: Double, isProration: Bool = false) {
            rig.server.edit { script in
                script.tellWeb("invoice.paid", page, at: Self.day(from)) {
                    let line = WebLine(
                        lineID: "il_\(number)", item: "si_\(page.id)",
                        product: WebProduct(price: price, product: "prod_pro"), start: Self.day(from),
                        end: Self.day(until), isProration: isProration, amount: 399)
                    $0.invoices = [
                        WebInvoice(invoiceID: "in_\(number)", paidAt: Self.day(from), amountPaid: 399, lines: [line])
                    ]
                }
            }
        }
        tellLine(2, "price_monthly", 31.01, 61)
        tellLine(3, "price_nobody_knows", 40, 70, isProration: true)
        rig.clock.advance(days: 45)
        _ = await rig.store.refresh()
        let history = await rig.store.history()
        #expect(history.map(\.transactionID) == ["il_3", "il_2", "il_\(page.id)"])
        #expect(history.map(\.productID) == ["prod_pro", "monthly", "monthly"])
        #expect(history.map(\.isRenewal) == [false, true, false])
        #expect(history.map(\.isUpgraded) == [false, true, false])
        #expect(history.allSatisfy { $0.source == .webCheckout && $0.kind == PurchaseKind.autoRenewable.rawValue })
        #expect(history.allSatisfy { $0.originalTransactionID == "sub_\(page.id)" })
    }

    @Test("a payment that was made once is one purchase, by the catalog's name and with its date")
    func once() async throws {
        let (rig, page) = try await Self.bought("lifetime")
        let history = await rig.store.history()
        #expect(history.map(\.productID) == ["lifetime"] && history.map(\.isRenewal) == [false])
        #expect(history.map(\.kind) == [PurchaseKind.nonConsumable.rawValue])
        let held = try #require(await rig.store.current["forever"])
        #expect(held.originalPurchaseDate == history.first?.purchaseDate && held.originalPurchaseDate != nil)
        #expect(held.originalTransactionID == "pi_\(page.id)")
    }
}

extension WebItem {
    /// Another product in the same subscription.
    fileprivate var besides: WebItem {
        var other = self
        (other.item, other.product) = ("si_other_", WebProduct(price: "price_other", product: nil))
        return other
    }
}
