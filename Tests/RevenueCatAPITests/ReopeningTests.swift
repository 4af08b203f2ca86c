import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// What is said of renewing while a purchase gives no access is told when it gives access again, or no receiver would know.
@Suite("RevenueCat's events: what gives access again")
struct ReopeningTests {
    /// A subscription from day 0 to day 30, whose money went back on day 5.
    private func refunded(off: Double? = nil, renews: Bool = true, as next: String = "pro") -> TestLog {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "pro"))
        if let off { log.notified(nil, renewal(signed: off, renews: false, as: "pro")) }
        log.notified(
            purchase("1000", from: 0, to: 30, signed: 5, revoked: 5), renewal(signed: 5, renews: renews, as: next))
        return log
    }

    /// The same after something was said of renewing on day 7, and the refund was taken back on day 10.
    private func reversed(_ refunded: TestLog, saying word: RenewalFact? = nil) -> TestLog {
        var log = refunded
        if let word { log.notified(nil, word) }
        log.notified(purchase("1000", from: 0, to: 30, signed: 10))
        return log
    }

    /// Whether a receiver takes it to renew, and what the API says.
    ///
    /// What gives access says that it renews, unless a CANCELLATION follows; and so with a failed charge.
    private func expectAgreement(_ told: [SentEvent], sourceLocation: SourceLocation = #_sourceLocation) {
        var (renews, fails) = (true, false)
        for event in told {
            switch event.type {
            case .initialPurchase, .renewal, .refundReversed: (renews, fails) = (true, false)
            case .subscriptionExtended where !renews && !event.isOpening(in: told): break
            case .subscriptionExtended: (renews, fails) = (true, false)
            case .uncancellation: (renews, fails) = (true, false)
            case .cancellation: renews = false
            case .billingIssue: fails = true
            default: break
            }
        }
        let entry = told.last?.document.subscriber.subscriptions["pro"]
        #expect(renews == (entry?.unsubscribeDetectedAt == nil && !fails), "\(told)", sourceLocation: sourceLocation)
        #expect(fails == (entry?.billingIssuesDetectedAt != nil), "\(told)", sourceLocation: sourceLocation)
    }

    private static let refund = ["CANCELLATION CUSTOMER_SUPPORT @5", "EXPIRATION CUSTOMER_SUPPORT @5"]

    @Test("a reversed refund restores the auto-renew setting")
    func reversed() throws {
        for (renews, after) in [(false, ["CANCELLATION UNSUBSCRIBE @10"]), (true, [])] {
            var log = refunded(renews: renews)
            log.notified(purchase("1000", from: 0, to: 30, signed: 10), renewal(signed: 10, renews: renews, as: "pro"))
            let told = try log.told(by: 20)
            #expect(told.map(\.description) == ["INITIAL_PURCHASE @0"] + Self.refund + ["REFUND_REVERSED @10"] + after)
            expectAgreement(told)
        }
    }

    @Test("auto-renewal that is turned off, or on again, after a refund still is so when the refund is reversed")
    func changedMeanwhile() throws {
        let off = reversed(refunded(), saying: renewal(signed: 7, renews: false, as: "pro"))
        #expect(
            try off.story(by: 20) == ["INITIAL_PURCHASE @0"] + Self.refund
                + ["REFUND_REVERSED @10", "CANCELLATION UNSUBSCRIBE @10"])
        expectAgreement(try off.told(by: 20))
        var on = reversed(refunded(off: 3, renews: false), saying: renewal(signed: 7, renews: true, as: "pro"))
        #expect(
            try on.story(by: 20) == ["INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @3"] + Self.refund
                + ["REFUND_REVERSED @10"])
        expectAgreement(try on.told(by: 20))
        // What is said after that is news again.
        on.notified(nil, renewal(signed: 12, renews: false, as: "pro"))
        #expect(try on.story(by: 20).last == "CANCELLATION UNSUBSCRIBE @12")
    }

    @Test("another product that is announced before, or while, the money is back is announced when that is reversed")
    func announced() throws {
        let log = reversed(refunded(), saying: renewal(signed: 7, renews: true, as: "basic"))
        #expect(
            try log.story(by: 20) == ["INITIAL_PURCHASE @0"] + Self.refund
                + ["REFUND_REVERSED @10", "PRODUCT_CHANGE basic @10"])
        var again = TestLog()
        again.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "basic"))
        again.notified(purchase("1000", from: 0, to: 30, signed: 5, revoked: 5))
        again = reversed(again)
        #expect(try again.story(by: 20).suffix(2) == ["REFUND_REVERSED @10", "PRODUCT_CHANGE basic @10"])
    }

    @Test("a lapsed customer who comes back with a change of product announced earlier is told of that change")
    func resubscribed() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(nil, renewal(signed: 31, renews: false, as: "basic"))
        log.notified(purchase("1001", from: 40, to: 70), renewal(signed: 40, renews: true, as: "basic"))
        #expect(
            try log.story(by: 50) == [
                "INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @30", "RENEWAL @40", "PRODUCT_CHANGE basic @40",
            ])
    }

    @Test("a family's share that comes back says whether it renews")
    func family() throws {
        func share(signed: Double, revoked: Double? = nil) -> TransactionFact {
            purchase(
                "1000", from: 0, to: 30, signed: signed, revoked: revoked, .familyRevoke, ownership: .familyShared)
        }
        var log = TestLog()
        log.notified(share(signed: 0), renewal(signed: 0, renews: true))
        log.notified(share(signed: 5, revoked: 5))
        log.notified(nil, renewal(signed: 7, renews: false))
        log.notified(share(signed: 10))
        #expect(try log.story(by: 20).suffix(2) == ["SUBSCRIPTION_EXTENDED @10", "CANCELLATION UNSUBSCRIBE @10"])
        expectAgreement(try log.told(by: 20))
        log.notified(share(signed: 12, revoked: 12))
        log.notified(nil, renewal(signed: 13, renews: true))
        log.notified(share(signed: 14))
        #expect(try log.story(by: 20).suffix(2) == ["EXPIRATION UNKNOWN @12", "SUBSCRIPTION_EXTENDED @14"])
        expectAgreement(try log.told(by: 20))
    }

    @Test("what the store extends after its end says whether it renews, and whether a charge fails")
    func extendedAfterEnd() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true))
        log.notified(nil, renewal(signed: 29, renews: false))
        log.notified(purchase("1000", from: 0, to: 40, signed: 32))
        #expect(
            try log.story(by: 50) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @29", "EXPIRATION UNSUBSCRIBE @30",
                "SUBSCRIPTION_EXTENDED @32", "CANCELLATION UNSUBSCRIBE @32", "EXPIRATION UNSUBSCRIBE @40",
            ])
        var failing = TestLog()
        failing.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true))
        failing.notified(nil, renewal(signed: 29, renews: true, retry: true))
        failing.notified(purchase("1000", from: 0, to: 40, signed: 32))
        #expect(
            try failing.story(by: 50) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @29", "CANCELLATION BILLING_ERROR @29",
                "EXPIRATION BILLING_ERROR @30", "SUBSCRIPTION_EXTENDED @32", "BILLING_ISSUE @32",
                "CANCELLATION BILLING_ERROR @32", "EXPIRATION BILLING_ERROR @40",
            ])
        expectAgreement(try failing.told(by: 35))
    }

    @Test("a dispute that is won says what Stripe said meanwhile of renewing", arguments: [true, false])
    func dispute(cancels: Bool) throws {
        func dispute(_ status: WebDisputeStatus) -> WebDispute {
            WebDispute(
                disputeID: "dp_1", status: .known(status), created: day(5), funds: nil, paymentIntent: "pi_1",
                charge: nil)
        }
        var log = TestLog()
        log.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30)
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        if !cancels { log.stripe(at: 3) { $0.subscription = stripeSubscription(.active, until: 30, cancels: true) } }
        log.stripe(at: 5) { $0.disputes = [dispute(.needsResponse)] }
        log.stripe(at: 7) { $0.subscription = stripeSubscription(.active, until: 30, cancels: cancels) }
        log.stripe(at: 10) { $0.disputes = [dispute(.won)] }
        let told = try log.told(by: 20)
        let earlier = cancels ? [] : ["CANCELLATION UNSUBSCRIBE @3"]
        let after = cancels ? ["CANCELLATION UNSUBSCRIBE @10"] : []
        #expect(
            told.map(\.description) == ["INITIAL_PURCHASE @0"] + earlier
                + ["EXPIRATION UNKNOWN @5", "SUBSCRIPTION_EXTENDED @10"] + after)
        expectAgreement(told)
    }

    @Test("what comes along with a transfer says whether it renews, and as what")
    func transferred() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(lifetime("L", at: 1))
        log.notified(nil, renewal(signed: 3, renews: false, as: "basic"))
        log.transferred(to: bob, at: 5)
        log.transferred(to: bob, at: 5, original: "L")
        func moment(_ count: Int) -> CustomerMoment {
            let history = CustomerHistory(
                of: bob, environment: log.environment, position: Int64(count), events: log.events)
            return CustomerMoment(
                history.facts(), knownAt: Int64(count), in: log.environment, names: [bob], at: day(5),
                hearings: PurchaseHearings(log.events))
        }
        func told(_ count: Int) throws -> [MessageType] {
            try EventTeller().changes(from: moment(count - 1), to: moment(count)).arrived.values.flatMap(\.transferred)
                .map(\.type)
        }
        let count = log.events.count
        #expect(try told(count - 1) == [.subscriptionExtended, .cancellation, .productChange])
        #expect(try told(count) == [.subscriptionExtended])
    }

    @Test("who lapsed on the web and has the same product again under another item has renewed")
    func anotherItem() throws {
        var log = TestLog()
        log.stripe(at: 0) { $0.invoices = paidLine("1", from: 0, to: 30) }
        log.stripe(at: 40) {
            $0.invoices = paidLine("2", from: 40, to: 70)
            $0.invoices[0].lines[0].item = "si_2"
        }
        let told = try log.told(by: 60)
        #expect(told.map(\.type).suffix(2) == [.expiration, .renewal] && told.first?.type == .initialPurchase)
    }

    @Test("a one-time purchase that comes back says nothing of renewing")
    func oneTime() throws {
        var log = TestLog()
        log.notified(lifetime("L", at: 0))
        log.notified(lifetime("L", at: 0, signed: 2, revoked: 2))
        log.notified(lifetime("L", at: 0, signed: 4))
        #expect(
            try log.story(by: 20) == [
                "NON_RENEWING_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @2", "EXPIRATION CUSTOMER_SUPPORT @2",
                "REFUND_REVERSED @4",
            ])
    }
}

extension SentEvent {
    /// Whether it is the first event of its purchase behind an EXPIRATION.
    fileprivate func isOpening(in told: [SentEvent]) -> Bool {
        told.last { $0.at < at || $0.at == at && $0.type == .expiration }?.type == .expiration
    }
}
