import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// The App Store charges for a renewal up to a day before it begins, and much may happen until then.
///
/// Its payment is told once, and what became of its money with it. What a subscription on the web is to become is announced, too.
@Suite("RevenueCat's events: what is announced")
struct AnnouncedTests {
    private static let price = Money(thousandths: 9990, currency: "USD")

    private func first(
        signed: Double = 0, revoked: Double? = nil, _ revocation: RevocationKind = .refundFull
    ) -> TransactionFact {
        purchase("1000", from: 0, to: 30, signed: signed, revoked: revoked, revocation, price: Self.price)
    }

    private func next(_ product: String = "pro", signed: Double, revoked: Double? = nil) -> TransactionFact {
        purchase(
            "1001", product, from: 30, to: 60, signed: signed, revoked: revoked, reason: .renewal, price: Self.price)
    }

    /// A month whose renewal is announced on day 29.25.
    private func announced(_ policy: AccessPolicy = AccessPolicy()) -> TestLog {
        var log = TestLog(policy: policy)
        log.notified(first(), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(next(signed: 29.25))
        return log
    }

    private static let beginning = ["INITIAL_PURCHASE @0", "RENEWAL @29.25"]

    @Test("where the running period is refunded meanwhile, what begins is told as access, and not as bought again")
    func refundedMeanwhile() throws {
        var log = announced()
        log.notified(first(signed: 29.5, revoked: 29.5))
        log.notified(nil, renewal(signed: 31, renews: false))
        let told = try log.told(by: 70)
        #expect(
            told.map(\.description) == Self.beginning + [
                "CANCELLATION CUSTOMER_SUPPORT @29.5", "EXPIRATION CUSTOMER_SUPPORT @29.5", "SUBSCRIPTION_EXTENDED @30",
                "CANCELLATION UNSUBSCRIBE @31", "EXPIRATION UNSUBSCRIBE @60",
            ])
        #expect(told[4]["transaction_id"] == .string("1001"))
        #expect(told[4]["expiration_at_ms"] == .int(day(60).milliseconds))
        #expect(told.money.isRight && told.money.sums == ["1000": 0, "1001": 9.99])
    }

    @Test("where another product takes its place meanwhile, it is told as access when that ends, and as bought once")
    func upgradedMeanwhile() throws {
        var log = announced()
        log.notified(purchase("1002", "pro.yearly", from: 29.5, to: 36.5, price: Self.price))
        let told = try log.told(by: 70)
        #expect(
            told.map(\.description) == Self.beginning + [
                "PRODUCT_CHANGE pro.yearly @29.5", "RENEWAL @29.5", "EXPIRATION UNKNOWN @36.5",
                "SUBSCRIPTION_EXTENDED @36.5", "EXPIRATION UNKNOWN @60",
            ])
        #expect(told.map { $0["product_id"] }.suffix(3) == [.string("pro.yearly"), .string("pro"), .string("pro")])
    }

    @Test("what was announced when the running period was refunded already is told as bought when it begins, once")
    func announcedLater() throws {
        var log = TestLog()
        log.notified(first())
        log.notified(first(signed: 20, revoked: 20))
        log.notified(next(signed: 29.25))
        #expect(
            try log.story(by: 70) == [
                "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @20", "EXPIRATION CUSTOMER_SUPPORT @20",
                "RENEWAL @30", "EXPIRATION UNKNOWN @60",
            ])
    }

    @Test("money that goes back before the period begins, and comes back, is told as that", arguments: [29.75, 40])
    func reversed(at back: Double) throws {
        var log = announced()
        log.notified(next(signed: 29.5, revoked: 29.5))
        log.notified(next(signed: back))
        let told = try log.told(by: 70)
        let end = back < 30 ? [] : ["EXPIRATION CUSTOMER_SUPPORT @30"]
        #expect(
            told.map(\.description) == Self.beginning + ["CANCELLATION CUSTOMER_SUPPORT @29.5"] + end + [
                "REFUND_REVERSED @\(back == 40 ? "40" : "29.75")", "EXPIRATION UNKNOWN @60",
            ])
        #expect(told.money.isRight && told.money.sums == ["1000": 9.99, "1001": 9.99])
    }

    @Test("the money of both goes back before the second begins")
    func bothRefunded() throws {
        var log = announced()
        log.notified(first(signed: 29.5, revoked: 29.5))
        log.notified(next(signed: 29.75, revoked: 29.75))
        let told = try log.told(by: 70)
        #expect(
            told.map(\.description) == Self.beginning + [
                "CANCELLATION CUSTOMER_SUPPORT @29.5", "EXPIRATION CUSTOMER_SUPPORT @29.5",
                "CANCELLATION CUSTOMER_SUPPORT @29.75",
            ])
        #expect(told.money.isRight && told.money.sums == ["1000": 0, "1001": 0])
    }

    @Test("the running period's own refund is told once, though what follows it comes and goes")
    func refundedOnce() throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        log.notified(first(), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(first(signed: 10, revoked: 10, .refundProrated))
        log.notified(next(signed: 29.25))
        log.notified(next(signed: 29.5, revoked: 29.5))
        let told = try log.told(by: 70)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @10", "RENEWAL @29.25",
                "CANCELLATION CUSTOMER_SUPPORT @29.5", "EXPIRATION CUSTOMER_SUPPORT @30",
            ])
        #expect(told.map { $0["transaction_id"] }.suffix(2).first == .string("1001"))
    }

    @Test("another product that is charged early and refunded before it begins is neither bought nor refunded")
    func otherProduct() throws {
        var log = TestLog()
        log.notified(first(), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(nil, renewal(signed: 5, renews: true, as: "basic"))
        log.notified(next("basic", signed: 29.25))
        log.notified(next("basic", signed: 29.5, revoked: 29.5))
        let beginning = ["INITIAL_PURCHASE @0", "PRODUCT_CHANGE basic @5"]
        #expect(try log.story(by: 70) == beginning + ["EXPIRATION CUSTOMER_SUPPORT @30"])
        // What is taken back before it begins never was, and what is later is bought then.
        for (back, told) in [(29.75, ["RENEWAL @30"]), (35, ["EXPIRATION CUSTOMER_SUPPORT @30", "RENEWAL @35"])] {
            var log = log
            log.notified(next("basic", signed: back))
            #expect(try log.story(by: 70) == beginning + told + ["EXPIRATION UNKNOWN @60"])
            #expect(try log.told(by: 70).money.isRight)
        }
    }

    // MARK: - On the web

    /// A month on the web from day 0, and what Stripe says of its price.
    private func onWeb(_ words: [(at: Double, price: String, cancels: Bool)]) -> TestLog {
        var log = TestLog()
        log.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30)
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        for word in words {
            log.stripe(at: word.at) {
                $0.subscription = stripeSubscription(.active, until: 30, cancels: word.cancels, price: word.price)
            }
        }
        return log
    }

    @Test("on the web another price is announced as soon as Stripe has it, and RENEWAL comes with its first invoice")
    func webChange() throws {
        var log = onWeb([(5, "price_yearly", false), (6, "price_yearly", false)])
        log.stripe(at: 30) {
            $0.subscription = stripeSubscription(.active, until: 395, price: "price_yearly")
        }
        log.stripe(at: 30.0625) { $0.invoices = paidLine("2", from: 30, to: 395, price: "price_yearly") }
        let told = try log.told(by: 60)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "PRODUCT_CHANGE pro.yearly @5", "SUBSCRIPTION_EXTENDED @30", "RENEWAL @30.0625",
            ])
        #expect(told.map { $0["product_id"] }.prefix(3).allSatisfy { $0 == .string("pro") })
        #expect(told[3]["product_id"] == .string("pro.yearly"))
    }

    @Test("a change on the web that is taken back is told, and one of what is to end is not")
    func webChangeTakenBack() throws {
        #expect(
            try onWeb([(5, "price_yearly", false), (7, "price_pro", false)]).story(by: 20) == [
                "INITIAL_PURCHASE @0", "PRODUCT_CHANGE pro.yearly @5", "PRODUCT_CHANGE pro @7",
            ])
        #expect(
            try onWeb([(5, "price_yearly", true)]).story(by: 20) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @5",
            ])
        // Whichever of the two comes first.
        for (stated, paid) in [(10.0, 10.0625), (10.0625, 10.0)] {
            var log = onWeb(stated < paid ? [(stated, "price_yearly", false)] : [])
            log.stripe(at: paid) {
                $0.invoices = paidLine("2", from: 10, to: 375, price: "price_yearly", isProration: true)
            }
            if paid < stated {
                log.stripe(at: stated) {
                    $0.subscription = stripeSubscription(.active, until: 375, price: "price_yearly")
                }
            }
            let announced = stated < paid ? ["PRODUCT_CHANGE pro.yearly @10"] : []
            #expect(
                try log.story(by: 20) == ["INITIAL_PURCHASE @0"] + announced + [
                    "PRODUCT_CHANGE pro.yearly @\(paid == 10 ? "10" : "10.0625")",
                    "RENEWAL @\(paid == 10 ? "10" : "10.0625")",
                ])
        }
    }
}
