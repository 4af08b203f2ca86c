import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// What another catalog makes of purchases that were told.
@Suite("RevenueCat's events: another catalog")
struct CatalogEventTests {
    private static let others = TestLog.products.filter { $0.productID != "season" }

    /// What runs for 90 days from day 5, as its catalog says.
    private func season(onWeb: Bool) -> TestLog {
        var log = TestLog()
        if onWeb {
            log.stripe(at: 5, of: "pi_1") { fact in
                fact.payment = WebPayment(
                    paidAt: day(5), isPaidByEvent: true, amount: 999, catalogProductID: "season", products: [])
            }
        } else {
            log.notified(purchase("S", "season", from: 5, .nonRenewing, original: "S"))
        }
        return log
    }

    private func end(of event: SentEvent) -> WireValue? { event["expiration_at_ms"] }

    @Test(
        "what the catalog gives no time any more has ended, and goes on when it does again", arguments: [false, true])
    func withdrawn(onWeb: Bool) throws {
        var log = season(onWeb: onWeb)
        log.applied(AccessPolicy(), Self.others, recorded: 20)
        log.applied(recorded: 30)
        let told = try log.told(by: 200)
        #expect(
            told.map(\.description) == [
                "NON_RENEWING_PURCHASE @5", "EXPIRATION UNKNOWN @20", "SUBSCRIPTION_EXTENDED @30",
                "EXPIRATION UNKNOWN @95",
            ])
        #expect(told.map(end) == [95, 20, 95, 95].map { .int(day($0).milliseconds) })
        #expect(told.allSatisfy { $0["entitlement_ids"] == .array([.string("premium")]) }, "also of what has ended")
    }

    @Test("a product that loses its duration has ended, and what is over is ended once")
    func untimed() throws {
        var log = season(onWeb: false)
        let untimed = CatalogProduct(productID: "season", entitlements: ["premium"])
        log.applied(AccessPolicy(), Self.others + [untimed], recorded: 20)
        #expect(try log.story(by: 200) == ["NON_RENEWING_PURCHASE @5", "EXPIRATION UNKNOWN @20"])
        var over = season(onWeb: true)
        over.applied(AccessPolicy(), Self.others, recorded: 100)
        #expect(try over.story(by: 200) == ["NON_RENEWING_PURCHASE @5", "EXPIRATION UNKNOWN @95"])
    }

    @Test("another name for what is sold on the web is no change of product, and a change is one under any name")
    func renamed() throws {
        var log = TestLog()
        log.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30)
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        let renamed = CatalogProduct(
            productID: "pro.web", entitlements: ["premium"],
            stripe: StripeProduct(price: "price_pro", mode: .subscription))
        log.applied(AccessPolicy(), TestLog.products.filter { $0.productID != "pro" } + [renamed], recorded: 10)
        #expect(try log.story(by: 15) == ["INITIAL_PURCHASE @0"])
        log.stripe(at: 20) { $0.subscription = stripeSubscription(.active, until: 30, price: "price_yearly") }
        let told = try log.told(by: 25)
        #expect(told.map(\.description) == ["INITIAL_PURCHASE @0", "PRODUCT_CHANGE pro.yearly @20"])
        #expect(told.last?["product_id"] == .string("pro.web"))
    }
}
