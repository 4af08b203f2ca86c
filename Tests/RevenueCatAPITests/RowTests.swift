import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// A receiver has one row for an original transaction and a product, however many items of a subscription are that product.
@Suite("RevenueCat's events: items that are one product")
struct RowTests {
    private static func line(
        _ id: String, of item: String, from start: Double, to end: Double, _ amount: Int64,
        price: String = "price_pro", isProration: Bool = false
    ) -> WebLine {
        WebLine(
            lineID: "il_\(id)", item: item, product: WebProduct(price: price, product: nil), start: day(start),
            end: day(end), isProration: isProration, amount: amount)
    }

    /// An invoice of some lines, paid in full.
    private static func pay(
        _ log: inout TestLog, _ number: Int, at paid: Double, _ lines: [WebLine],
        _ subscription: WebSubscription? = nil
    ) {
        let amount = lines.reduce(0) { $0 + $1.amount }
        log.stripe(at: paid) {
            $0.subscription = subscription
            $0.invoices = [
                WebInvoice(
                    invoiceID: "in_\(number)", paidAt: day(paid), amountPaid: amount, currency: "usd", lines: lines)
            ]
            $0.invoicePayments = [
                WebInvoicePayment(
                    paymentIntent: "pi_\(number)", charge: nil, invoice: "in_\(number)", amount: amount)
            ]
        }
    }

    private static func refund(
        _ log: inout TestLog, _ number: Int, _ amount: Int64, at created: Double, _ status: WebRefundStatus = .succeeded
    ) {
        log.stripe(at: created) {
            $0.refunds = [
                WebRefund(
                    refundID: "re_\(number)", amount: amount, currency: "usd", status: .known(status),
                    created: day(created), paymentIntent: "pi_\(number)", charge: nil)
            ]
        }
    }

    private static let items = ["si_1", "si_2"]

    /// A month and a year of one product, on one invoice.
    private static func monthAndYear() -> TestLog {
        var log = TestLog()
        pay(
            &log, 1, at: 0,
            [line("1", of: "si_1", from: 0, to: 30, 1000), line("2", of: "si_2", from: 0, to: 365, 5000)],
            stripeSubscription(.active, until: 365, items: items))
        return log
    }

    @Test("one of two items ends, and nobody is told of an end before the other's")
    func oneEnds() throws {
        var log = Self.monthAndYear()
        log.stripe(at: 10) {
            $0.subscription = stripeSubscription(.active, until: 365, cancels: true, items: ["si_2"])
        }
        let told = try log.told(by: 400)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @10", "EXPIRATION UNSUBSCRIBE @365",
            ])
        #expect(told.allSatisfy { $0["expiration_at_ms"] ?? .null >= day(365) }, "\(told)")
        #expect(told.money.isRight && told.money.sums == ["in_1": 60])
        #expect(log.subscriber(at: 40).subscriptions["pro"]?.price?.amount == 60)
    }

    @Test("what renews beside what lasts longer is a payment with the row's end")
    func renewsBeside() throws {
        var log = Self.monthAndYear()
        Self.pay(&log, 2, at: 30, [Self.line("3", of: "si_1", from: 30, to: 60, 1000)])
        Self.refund(&log, 2, 1000, at: 40)
        let told = try log.told(by: 100)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "RENEWAL @30", "CANCELLATION CUSTOMER_SUPPORT @40",
            ])
        #expect(told.allSatisfy { $0["expiration_at_ms"] ?? .null >= day(365) }, "\(told)")
        #expect(told.money.isRight && told.money.sums == ["in_1": 60, "in_2": 0])
    }

    @Test("an item that is added is a payment, and its refund leaves what the first one gives")
    func addedAndRefunded() throws {
        var log = TestLog()
        Self.pay(
            &log, 1, at: 0, [Self.line("1", of: "si_1", from: 0, to: 30, 1000)],
            stripeSubscription(.active, until: 30, cancels: true))
        Self.pay(
            &log, 2, at: 5, [Self.line("2", of: "si_2", from: 5, to: 30, 800, isProration: true)],
            stripeSubscription(.active, until: 30, cancels: true, items: Self.items))
        Self.refund(&log, 2, 800, at: 8)
        let told = try log.told(by: 60)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @0", "RENEWAL @5", "CANCELLATION UNSUBSCRIBE @5",
                "CANCELLATION CUSTOMER_SUPPORT @8", "EXPIRATION UNSUBSCRIBE @30",
            ])
        #expect(told.money.isRight && told.money.sums == ["in_1": 10, "in_2": 0])
    }

    @Test(
        "a refund that fails after the end is taken back, and the end follows, whichever item the row shows",
        arguments: [1, 2])
    func failedRefund(number: Int) throws {
        var log = TestLog()
        for number in 1...2 {
            Self.pay(
                &log, number, at: 0, [Self.line("\(number)", of: "si_\(number)", from: 0, to: 30, 1000)],
                stripeSubscription(.active, until: 30, items: Self.items))
        }
        Self.refund(&log, number, 1000, at: 20)
        log.stripe(at: 25) { $0.subscription = stripeSubscription(.canceled, until: 30, items: Self.items) }
        Self.refund(&log, number, 1000, at: 40, .failed)
        #expect(try log.story(by: 60).suffix(2) == ["REFUND_REVERSED @40", "EXPIRATION UNSUBSCRIBE @40"])
    }

    @Test("where one of two items becomes another product, that takes nothing's place")
    func oneChanges() throws {
        var log = TestLog()
        Self.pay(
            &log, 1, at: 0,
            [Self.line("1", of: "si_1", from: 0, to: 30, 1000), Self.line("2", of: "si_2", from: 0, to: 30, 1000)],
            stripeSubscription(.active, until: 30, items: Self.items))
        var changed = stripeSubscription(.active, until: 30, items: Self.items)
        changed.items[0].product = WebProduct(price: "price_yearly", product: nil)
        log.stripe(at: 9) { $0.subscription = changed }
        Self.pay(
            &log, 2, at: 10,
            [Self.line("3", of: "si_1", from: 10, to: 30, 5000, price: "price_yearly", isProration: true)], changed)
        let told = try log.told(by: 20)
        #expect(told.map(\.description) == ["INITIAL_PURCHASE @0", "RENEWAL @10"], "\(told)")
        #expect(told.last?["product_id"] == .string("pro.yearly"))
        #expect(told.money.isRight && told.money.sums == ["in_1": 20, "in_2": 50])
    }

    @Test("where the item that has a row becomes another product, what had ended of the row before ends no second time")
    func lapsedBefore() throws {
        var log = TestLog()
        Self.pay(&log, 1, at: 0, [Self.line("1", of: "si_1", from: 0, to: 30, 1000)])
        Self.pay(
            &log, 2, at: 40, [Self.line("2", of: "si_2", from: 40, to: 70, 1000)],
            stripeSubscription(.active, until: 70, items: ["si_2"]))
        Self.pay(
            &log, 3, at: 50,
            [Self.line("3", of: "si_2", from: 50, to: 70, 5000, price: "price_yearly", isProration: true)],
            stripeSubscription(.active, until: 70, items: ["si_2"], price: "price_yearly"))
        let told = try log.told(by: 60)
        #expect(
            told.map(\.description).suffix(3) == ["RENEWAL @40", "PRODUCT_CHANGE pro.yearly @50", "RENEWAL @50"],
            "\(told)")
    }

    @Test("both items come to somebody else as one row")
    func transferred() throws {
        var log = Self.monthAndYear()
        log.transferred(to: bob, at: 5, original: "sub_1")
        #expect(try log.story(of: alice, by: 10) == ["INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @5"])
        #expect(try log.story(of: bob, by: 10) == ["INITIAL_PURCHASE @5"])
    }

    @Test("a price in tiers bills one period by several lines, and all of its money is told", arguments: [0, 400])
    func tiers(first: Int64) throws {
        var log = TestLog()
        Self.pay(
            &log, 1, at: 0,
            [
                Self.line("1", of: "si_1", from: 0, to: 30, first),
                Self.line("2", of: "si_1", from: 0, to: 30, 1000 - first),
            ])
        let price = log.subscriber(at: 5).subscriptions["pro"]?.price?.amount
        #expect(price == 10)
        Self.refund(&log, 1, 1000, at: 10)
        let told = try log.told(by: 60)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @10", "EXPIRATION CUSTOMER_SUPPORT @10",
            ])
        #expect(told.map { $0["price"] }.prefix(2) == [.int(10), .int(-10)])
        #expect(told.allSatisfy { $0["purchased_at_ms"] == .int(day(0).milliseconds) })
        #expect(log.subscriber(at: 20).subscriptions["pro"]?.refundedAt == shown(10))
    }
}

extension WireValue {
    fileprivate static func >= (value: WireValue, instant: Timestamp) -> Bool {
        if case .int(let milliseconds) = value { milliseconds >= instant.milliseconds } else { false }
    }
}
