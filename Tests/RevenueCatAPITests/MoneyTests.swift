import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// A receiver that sums money by transaction has what was kept: it is told of no refund of a payment that it was not told of,
/// and of no reversal of a refund that it was not told of.
@Suite("RevenueCat's events: sums of money")
struct MoneyTests {
    private static let price = Money(thousandths: 9990, currency: "USD")

    /// A week that bears nobody's name.
    private func ownerless(signed: Double = 0, to end: Double = 7, revoked: Double? = nil) -> TransactionFact {
        purchase("1000", from: 0, to: end, signed: signed, revoked: revoked, of: nil, price: Self.price)
    }

    // MARK: - Whether the payment was told

    @Test("what is claimed seven days after its end stays untold, and so do its refund and its reversal")
    func claimedTooLate() throws {
        for (claimed, isTold) in [(13.9, true), (14, false)] {
            var log = TestLog()
            log.notified(ownerless(), renewal(signed: 0, renews: true))
            log.claimed(at: claimed)
            log.notified(ownerless(signed: 16, revoked: 16))
            log.notified(ownerless(signed: 18))
            let told = try log.told(by: 30)
            let expected: [MessageType] = [.initialPurchase, .expiration, .cancellation, .refundReversed, .expiration]
            #expect(told.map(\.type) == (isTold ? expected : []), "\(claimed): \(told)")
            #expect(told.money.isRight && told.money.sums == (isTold ? ["1000": 9.99] : [:]), "\(told)")
        }
    }

    @Test("what was claimed too late stays untold whoever gets it, and what was told stays so")
    func moved() throws {
        var log = TestLog()
        log.notified(ownerless())
        log.claimed(by: bob, at: 20)
        log.transferred(to: alice, at: 21)
        log.notified(ownerless(signed: 22, revoked: 22))
        #expect(try log.story(of: alice, by: 30) == [] && log.story(of: bob, by: 30) == [])
        log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7, of: bob, price: Self.price))
        log.transferred(to: alice, at: 21)
        log.notified(purchase("1000", from: 0, to: 7, signed: 22, revoked: 22, of: bob, price: Self.price))
        log.notified(purchase("1000", from: 0, to: 7, signed: 24, of: bob, price: Self.price))
        #expect(
            try log.story(of: alice, by: 30) == [
                "CANCELLATION CUSTOMER_SUPPORT @22", "REFUND_REVERSED @24", "EXPIRATION UNKNOWN @24",
            ])
    }

    @Test("what was heard of too late and turns out to have ended later is told then")
    func endsLater() throws {
        var log = TestLog()
        log.notified(ownerless())
        log.claimed(at: 15)
        log.notified(ownerless(signed: 16, to: 10))
        log.notified(ownerless(signed: 17, to: 10, revoked: 17))
        let told = try log.told(by: 30)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @16", "EXPIRATION UNKNOWN @16", "CANCELLATION CUSTOMER_SUPPORT @17",
            ])
        #expect(told.money.isRight && told.money.sums == ["1000": 0])
    }

    @Test("what is first heard of with its refund is told as bought when that is taken back", arguments: [12, 32])
    func reversedUntold(taken: Double) throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30, signed: 10, revoked: 9, price: Self.price))
        log.notified(purchase("1000", from: 0, to: 30, signed: taken, price: Self.price))
        let told = try log.told(by: 50)
        #expect(told.map(\.type) == [.initialPurchase, .expiration], "\(told)")
        #expect(told.money.isRight && told.money.sums == ["1000": 9.99])
    }

    // MARK: - Whether the refund was

    @Test("a refund of what was told is told however late it is heard of, and so is the reversal of it")
    func lateRefund() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 7, price: Self.price))
        log.notified(purchase("1000", from: 0, to: 7, signed: 9, revoked: 9, price: Self.price), recorded: 30)
        var told = try log.told(by: 35)
        #expect(told.map(\.type) == [.initialPurchase, .expiration, .cancellation])
        #expect(told.money.isRight && told.money.sums == ["1000": 0])
        log.notified(purchase("1000", from: 0, to: 7, signed: 40, price: Self.price), recorded: 60)
        told = try log.told(by: 70)
        #expect(told.map(\.type).suffix(2) == [.refundReversed, .expiration])
        #expect(told.money.isRight && told.money.sums == ["1000": 9.99])
    }

    @Test("a refund on the web that fails is told with what it was of")
    func failedPart() throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        paid(&log, recorded: 1)
        log.stripe(at: 50, recorded: 80) { $0.refunds = [refund(1, 301, at: 50), refund(2, 200, at: 50)] }
        log.stripe(at: 51, recorded: 90) { $0.refunds = [refund(1, 301, at: 50, .failed)] }
        let told = try log.told(by: 100)
        #expect(told.map { $0["price"] }.suffix(3) == [.double(-5.01), .double(3.01), .double(9.99)], "\(told)")
        #expect(told.money.isRight && told.money.sums == ["in_1": 7.99])
    }

    // MARK: - Parts

    private func paid(_ log: inout TestLog, recorded: Double, refunds: [WebRefund] = []) {
        log.stripe(at: 1, recorded: recorded) {
            $0.invoices = paidLine("1", from: 1, to: 31, currency: "usd")
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
            $0.refunds = refunds
        }
    }

    private func refund(
        _ number: Int, _ amount: Int64, at created: Double, _ status: WebRefundStatus = .succeeded
    ) -> WebRefund {
        WebRefund(
            refundID: "re_\(number)", amount: amount, currency: "usd", status: .known(status), created: day(created),
            paymentIntent: "pi_1", charge: nil)
    }

    @Test("a payment that is first heard of when a part went back is told, and then the part", arguments: [5, 33])
    func firstHeardInPart(heard: Double) throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        paid(&log, recorded: heard, refunds: [refund(1, 301, at: 3)])
        log.stripe(at: heard + 1) { $0.refunds = [refund(2, 500, at: heard + 1)] }
        let told = try log.told(by: 40)
        #expect(
            told.filter { $0.type != .expiration }.map { $0["price"] } == [
                .double(9.99), .double(-3.01), .int(-5),
            ], "\(told)")
        #expect(told.money.isRight && told.money.sums == ["in_1": 1.98])
        #expect(told.count { $0.type == .expiration } == 1)
    }

    @Test("where a part that went back ends access, what is first heard of with it is not told, nor is another part")
    func firstHeardEnded() throws {
        var log = TestLog()
        paid(&log, recorded: 5, refunds: [refund(1, 301, at: 3)])
        log.stripe(at: 8) { $0.refunds = [refund(2, 500, at: 8)] }
        #expect(try log.story(by: 40) == [])
        // One that turns out not to have gone back leaves the other.
        log.stripe(at: 10) { $0.refunds = [refund(2, 500, at: 8, .failed), refund(1, 301, at: 3, .failed)] }
        let told = try log.told(by: 40)
        #expect(told.map(\.type) == [.initialPurchase, .expiration], "\(told)")
        #expect(told.money.isRight && told.money.sums == ["in_1": 9.99])
    }

    @Test("the App Store's part that leaves the access, heard of with the payment, is told behind it")
    func firstHeardProrated() throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        log.notified(
            purchase("1000", from: 0, to: 30, signed: 10, revoked: 9, .refundProrated, price: Self.price),
            renewal(signed: 10, renews: false))
        let told = try log.told(by: 20)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @10", "CANCELLATION CUSTOMER_SUPPORT @10", "CANCELLATION UNSUBSCRIBE @10",
            ])
    }

    @Test("what comes to somebody with a part gone back that was told is no second refund")
    func arrivedInPart() throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        paid(&log, recorded: 1)
        log.stripe(at: 3) { $0.refunds = [refund(1, 301, at: 3)] }
        log.transferred(to: bob, at: 5, original: "sub_1")
        let told = try log.told(of: alice, by: 10) + log.told(of: bob, by: 10)
        #expect(told.map(\.type) == [.initialPurchase, .cancellation, .expiration, .initialPurchase], "\(told)")
        #expect(told.money.isRight && told.money.sums == ["in_1": 6.98])
    }
}
