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

    private static func refund(_ log: inout TestLog, _ number: Int, _ amount: Int64, at created: Double) {
        log.stripe(at: created) {
            $0.refunds = [
                WebRefund(
                    refundID: "re_\(number)", amount: amount, currency: "usd", status: .known(.succeeded),
                    created: day(created), paymentIntent: "pi_\(number)", charge: nil)
            ]
        }
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
