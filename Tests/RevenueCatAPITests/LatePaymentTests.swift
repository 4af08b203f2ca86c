import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// A payment that is heard of after what it paid for has ended is told all the same: whoever sums money by transaction would
/// else have what went back, or could not be charged, without what was paid.
@Suite("RevenueCat's events: payments that are heard of late")
struct LatePaymentTests {
    private static let minute = 1.0 / 24 / 60
    private static let price = Money(thousandths: 9990, currency: "USD")

    /// A week that was told in time, and one that is heard of so many days after its end.
    private func renewed(_ late: Double, revoked: Double? = nil, as product: String = "pro") -> TestLog {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7, price: Self.price), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(
            purchase("1001", product, from: 7, to: 14, revoked: revoked, reason: .renewal, price: Self.price),
            recorded: 14 + late)
        return log
    }

    private static let week = ["INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @7"]

    // MARK: - Subscriptions

    @Test(
        "a week that is heard of after its end is RENEWAL and EXPIRATION, once, and dated as it was",
        arguments: [0.1, 6.9])
    func lateRenewal(late: Double) throws {
        var log = renewed(late)
        let told = try log.told(by: 40)
        let at = try #require(told.last?.description.split(separator: "@").last)
        #expect(told.map(\.description) == Self.week + ["RENEWAL @\(at)", "EXPIRATION UNKNOWN @\(at)"])
        for event in told.suffix(2) {
            #expect(event["transaction_id"] == .string("1001"))
            #expect(event["purchased_at_ms"] == .int(day(7).milliseconds))
            #expect(event["expiration_at_ms"] == .int(day(14).milliseconds))
        }
        #expect(told.suffix(2).first?["price"] == .double(9.99))
        // It is said again, as stores do, and is no news.
        log.notified(purchase("1001", from: 7, to: 14, signed: 15, reason: .renewal, price: Self.price), recorded: 22)
        #expect(try log.told(by: 40).count == told.count)
    }

    @Test(
        "what is heard of seven days after its end stays untold, and so do its refund, its reversal and its failed charge"
    )
    func tooLate() throws {
        var log = renewed(7)
        #expect(try log.story(by: 40) == Self.week)
        log.notified(nil, renewal(signed: 21.5, renews: true, retry: true))
        log.notified(
            purchase("1001", from: 7, to: 14, signed: 22, revoked: 22, reason: .renewal, price: Self.price))
        log.notified(purchase("1001", from: 7, to: 14, signed: 23, reason: .renewal, price: Self.price))
        #expect(try log.story(by: 40) == Self.week)
        // The next payment is told as ever.
        log.notified(
            purchase("1002", from: 24, to: 31, price: Self.price), renewal(signed: 24, renews: true))
        #expect(try log.story(by: 40).dropFirst(2) == ["RENEWAL @24", "EXPIRATION UNKNOWN @31"])
    }

    @Test("the refund of what was told late, or long ago, is told whenever it comes", arguments: [0.5, 60])
    func refund(later: Double) throws {
        var log = renewed(0.5)
        let refunded = 14.5 + later
        log.notified(
            purchase("1001", from: 7, to: 14, signed: refunded, revoked: refunded, reason: .renewal, price: Self.price))
        var told = try log.told(by: 100)
        #expect(told.map(\.type).suffix(3) == [.renewal, .expiration, .cancellation])
        #expect(told.last?["price"] == .double(-9.99))
        #expect(told.money.sums == ["1000": 9.99, "1001": 0] && told.money.isRight)
        // The store repeats itself at the end of billing retry, which says nothing of when it was first heard of.
        log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7, price: Self.price))
        log.notified(purchase("1000", from: 0, to: 7, signed: 60, price: Self.price))
        log.notified(purchase("1000", from: 0, to: 7, signed: 70, revoked: 70, price: Self.price))
        told = try log.told(by: 100)
        #expect(told.map(\.type) == [.initialPurchase, .expiration, .cancellation] && told.money.sums == ["1000": 0])
    }

    @Test(
        "the first week that is heard of after its end is INITIAL_PURCHASE and EXPIRATION; with its refund it is nothing"
    )
    func first() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7), renewal(signed: 0, renews: true), recorded: 8)
        #expect(try log.story(by: 40) == ["INITIAL_PURCHASE @8", "EXPIRATION UNKNOWN @8"])
        log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7, signed: 8, revoked: 7.5))
        #expect(try log.story(by: 40) == [])
        #expect(try renewed(1, revoked: 13).story(by: 40) == Self.week)
    }

    @Test(
        "the charge that fails after it, heard with it or later, is one BILLING_ISSUE and one CANCELLATION for each payment"
    )
    func failedCharge() throws {
        func failing(_ signed: Double) -> RenewalFact {
            renewal(signed: signed, renews: true, retry: true)
        }
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7))
        log.notified(nil, failing(7.25))
        let first = [
            "INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @7", "BILLING_ISSUE @7.25", "CANCELLATION BILLING_ERROR @7.25",
        ]
        var together = log
        log.notified(purchase("1001", from: 8, to: 15, reason: .renewal), recorded: 15.25)
        log.notified(nil, failing(15.5))
        #expect(
            try log.story(by: 40) == first + [
                "RENEWAL @15.25", "EXPIRATION UNKNOWN @15.25", "BILLING_ISSUE @15.5",
                "CANCELLATION BILLING_ERROR @15.5",
            ])
        together.notified(purchase("1001", from: 8, to: 15, reason: .renewal), failing(15.25), recorded: 15.5)
        together.notified(nil, failing(15.75))
        #expect(
            try together.story(by: 40) == first + [
                "RENEWAL @15.5", "BILLING_ISSUE @15.5", "CANCELLATION BILLING_ERROR @15.5",
                "EXPIRATION BILLING_ERROR @15.5",
            ])
        // Of what came too late the failed charge is not told either: else CANCELLATION would come twice in a row.
        var late = TestLog()
        late.notified(purchase("1000", from: 0, to: 7))
        late.notified(nil, failing(7.25))
        late.notified(purchase("1001", from: 8, to: 15, reason: .renewal), recorded: 22.5)
        late.notified(nil, failing(22.75))
        #expect(try late.story(by: 40) == first)
    }

    @Test("of several periods that become known at once the latest alone is told, and one after the other each")
    func several() throws {
        var log = TestLog(in: .sandbox)
        log.notified(purchase("1000", from: 0, to: 5 * Self.minute))
        let renewals = (1...3).map { number in
            purchase(
                "100\(number)", from: Double(5 * number) * Self.minute, to: Double(5 * number + 5) * Self.minute,
                reason: .renewal)
        }
        var atOnce = log
        atOnce.stated(renewals, recorded: 1)
        #expect(try atOnce.told(by: 2).map { $0["transaction_id"] }.suffix(2) == [.string("1003"), .string("1003")])
        #expect(try atOnce.told(by: 2).map(\.type).suffix(3) == [.expiration, .renewal, .expiration])
        for renewal in renewals { log.notified(renewal, recorded: 1) }
        #expect(
            try log.told(by: 2).map(\.type) == [
                .initialPurchase, .expiration, .renewal, .expiration, .renewal, .expiration, .renewal, .expiration,
            ])
    }

    @Test("another product that came and went unheard while the old one ran is PRODUCT_CHANGE, RENEWAL and EXPIRATION")
    func otherProduct() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30))
        log.notified(purchase("1001", "basic", from: 9, to: 16), recorded: 17)
        let told = try log.told(by: 40)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "PRODUCT_CHANGE basic @17", "RENEWAL @17", "EXPIRATION UNKNOWN @17",
            ])
        #expect(told.map { $0["product_id"] }.suffix(3) == [.string("pro"), .string("basic"), .string("basic")])
        #expect(told.dropFirst().first?["expiration_at_ms"] == .int(day(9).milliseconds))
    }

    @Test("what was heard of too late and then gives access is told as the payment that it is, and its refund too")
    func givesAccessAfterAll() throws {
        var log = renewed(8)
        log.notified(purchase("1001", from: 7, to: 40, signed: 25, reason: .renewal, price: Self.price))
        log.notified(
            purchase("1001", from: 7, to: 40, signed: 30, revoked: 30, reason: .renewal, price: Self.price))
        let told = try log.told(by: 60)
        #expect(
            told.map(\.description) == Self.week + [
                "RENEWAL @25", "CANCELLATION CUSTOMER_SUPPORT @30", "EXPIRATION CUSTOMER_SUPPORT @30",
            ])
        #expect(told.money.sums == ["1000": 9.99, "1001": 0])
        var first = TestLog()
        first.notified(purchase("1000", from: 0, to: 7), recorded: 15)
        first.notified(purchase("1000", from: 0, to: 40, signed: 25))
        #expect(try first.story(by: 30) == ["INITIAL_PURCHASE @25"])
    }

    // MARK: - What else is sold

    @Test("coins and a pass that ended: late but within seven days they are told, later neither they nor their refunds")
    func oneTime() throws {
        func coins(signed: Double, revoked: Double? = nil) -> TransactionFact {
            purchase(
                "C", "coins", from: 0, .consumable, signed: signed, revoked: revoked, original: "C", price: Self.price)
        }
        func season(signed: Double, revoked: Double? = nil) -> TransactionFact {
            purchase(
                "S", "season", from: 0, .nonRenewing, signed: signed, revoked: revoked, original: "S", price: Self.price
            )
        }
        for (heard, isTold) in [(6.9, true), (7, false)] {
            var log = TestLog()
            log.notified(coins(signed: 0), recorded: heard)
            log.notified(coins(signed: 50, revoked: 50))
            log.notified(season(signed: 0), recorded: 90 + heard)
            log.notified(season(signed: 150, revoked: 150))
            let told = try log.told(by: 200)
            let expected: [MessageType] = [
                .nonRenewingPurchase, .cancellation, .nonRenewingPurchase, .expiration, .cancellation,
            ]
            #expect(told.map(\.type) == (isTold ? expected : []), "\(heard): \(told)")
            #expect(told.money.isRight)
        }
    }

    @Test(
        "on the web, too: a period that is heard of after its end, and what is refunded of it", arguments: [6.5, 7.5])
    func web(late: Double) throws {
        var log = TestLog()
        func refund(_ at: Double) -> WebRefund {
            WebRefund(
                refundID: "re_1", amount: 999, currency: "usd", status: .known(.succeeded), created: day(at),
                paymentIntent: "pi_1", charge: nil)
        }
        log.stripe(at: 0, recorded: 30 + late) {
            $0.invoices = paidLine("1", from: 0, to: 30, currency: "usd")
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
        }
        log.stripe(at: 50) { $0.refunds = [refund(50)] }
        let told = try log.told(by: 60)
        #expect(told.map(\.type) == (late < 7 ? [.initialPurchase, .expiration, .cancellation] : []), "\(told)")
        #expect(told.money.isRight)
    }

    @Test(
        "a grant that is over is nobody's payment, and what was bought before it came to somebody is told in its seven days"
    )
    func arrived() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7, of: bob))
        log.transferred(to: alice, at: 8)
        #expect(try log.story(by: 20) == ["INITIAL_PURCHASE @8", "EXPIRATION UNKNOWN @8"])
        var grant = TestLog()
        grant.granted(at: 0, until: 1)
        grant.linked(alice, to: bob, at: 2)
        #expect(try grant.story(of: bob, by: 20) == [])
    }

    @Test("a payment that was told is not told again, however early a refund that is taken back would have ended it")
    func reversed() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30), recorded: 36.5)
        log.notified(purchase("1000", from: 0, to: 30, signed: 36.6, revoked: 28))
        log.notified(purchase("1000", from: 0, to: 30, signed: 36.9))
        #expect(
            try log.told(by: 50).map(\.type) == [
                .initialPurchase, .expiration, .cancellation, .refundReversed, .expiration,
            ])
    }
}
