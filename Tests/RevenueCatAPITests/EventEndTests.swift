import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// Until when a receiver is told that access lasts, which many go by; and what does not renew is told once.
@Suite("RevenueCat's events: until when")
struct EventEndTests {
    /// A subscription from day 0 to day 30.
    private func subscribed(_ policy: AccessPolicy = AccessPolicy()) -> TestLog {
        var log = TestLog(policy: policy)
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "pro"))
        return log
    }

    /// A subscription on the web from day 0 to day 30.
    private func subscribedOnWeb(_ policy: AccessPolicy = AccessPolicy()) -> TestLog {
        var log = TestLog(policy: policy)
        log.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30)
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        return log
    }

    /// Each event with the day until which it lets in.
    private func ends(_ told: [SentEvent]) -> [String] {
        told.map { event in
            guard case .int(let milliseconds)? = event["expiration_at_ms"] else { return "\(event) until ever" }
            let days = Double(milliseconds - day(0).milliseconds) / 86_400_000
            let hours = (days * 24).rounded()
            return "\(event) until \(Int(hours) / 24)" + (Int(hours) % 24 == 0 ? "" : " and \(Int(hours) % 24) h")
        }
    }

    private static let hour = 1.0 / 24

    @Test("a grace period that is known of ahead is in the end of every event")
    func graceAhead() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29, renews: true, graceEnd: 46, retry: true))
        log.notified(nil, renewal(signed: 29.5, renews: true, graceEnd: 46, retry: true, as: "basic"))
        let told = try log.told(by: 60)
        #expect(
            ends(told) == [
                "INITIAL_PURCHASE @0 until 30", "BILLING_ISSUE @29 until 46",
                "CANCELLATION BILLING_ERROR @29 until 46", "PRODUCT_CHANGE basic @29.5 until 46",
                "EXPIRATION BILLING_ERROR @46 until 46",
            ])
        #expect(told[1]["grace_period_expiration_at_ms"] == .int(day(46).milliseconds))
        #expect(told[1].document.subscriber.entitlements["premium"]?.expiresDate == shown(46))
    }

    @Test("a grace period that is heard of after the failed charge is told")
    func graceAfterwards() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29, renews: true, retry: true))
        log.notified(nil, renewal(signed: 29.5, renews: true, graceEnd: 36, retry: true))
        log.notified(nil, renewal(signed: 33, renews: true, graceEnd: 46, retry: true))
        #expect(
            ends(try log.told(by: 60)) == [
                "INITIAL_PURCHASE @0 until 30", "BILLING_ISSUE @29 until 30", "CANCELLATION BILLING_ERROR @29 until 30",
                "SUBSCRIPTION_EXTENDED @29.5 until 36", "SUBSCRIPTION_EXTENDED @33 until 46",
                "EXPIRATION BILLING_ERROR @46 until 46",
            ])
    }

    @Test("the policy's leeway is in the end from the first event on")
    func leeway() throws {
        var log = subscribed(AccessPolicy(leewaySeconds: 86_400))
        log.notified(nil, renewal(signed: 3, renews: false))
        #expect(
            ends(try log.told(by: 60)) == [
                "INITIAL_PURCHASE @0 until 31", "CANCELLATION UNSUBSCRIBE @3 until 31",
                "EXPIRATION UNSUBSCRIBE @31 until 31",
            ])
    }

    @Test("a policy that gives more time is told to those it concerns, and one that gives less ends them")
    func policyChange() throws {
        var log = subscribed()
        log.applied(AccessPolicy(), recorded: 5)
        log.applied(AccessPolicy(leewaySeconds: 172_800), recorded: 10)
        #expect(
            ends(try log.told(by: 29)) == ["INITIAL_PURCHASE @0 until 30", "SUBSCRIPTION_EXTENDED @10 until 32"])
        log.applied(AccessPolicy(), recorded: 31)
        #expect(ends(try log.told(by: 60)).suffix(1) == ["EXPIRATION UNKNOWN @31 until 30"])
    }

    @Test("on the web what is due is charged after the paid time, and that access goes on meanwhile is told")
    func openInvoice() throws {
        var log = subscribedOnWeb()
        log.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        log.stripe(at: 31) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        log.stripe(at: 36) {
            $0.invoices = paidLine("2", from: 30, to: 60)
            $0.subscription = stripeSubscription(.active, until: 60)
        }
        log.stripe(at: 40) { $0.subscription = stripeSubscription(.active, until: 60, cancels: true) }
        log.stripe(at: 41) { $0.subscription = stripeSubscription(.active, until: 60) }
        #expect(
            ends(try log.told(by: 90)) == [
                "INITIAL_PURCHASE @0 until 30 and 1 h", "SUBSCRIPTION_EXTENDED @30 until 33",
                "BILLING_ISSUE @31 until 37", "CANCELLATION BILLING_ERROR @31 until 37",
                "RENEWAL @36 until 60 and 1 h", "CANCELLATION UNSUBSCRIBE @40 until 60",
                "UNCANCELLATION @41 until 60 and 1 h", "EXPIRATION UNKNOWN @\(60 + Self.hour) until 60 and 1 h",
            ])
    }

    @Test("on the web a grace period that the policy gives no access in is none")
    func webGraceWithoutAccess() throws {
        var log = subscribedOnWeb(AccessPolicy(graceGivesAccess: false))
        log.stripe(at: 30.02) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        let told = try log.told(by: 60)
        #expect(told.map(\.type) == [.initialPurchase, .billingIssue, .cancellation, .expiration])
        #expect(told[1]["grace_period_expiration_at_ms"] == .null)
        #expect(told[1]["expiration_at_ms"] == .int(day(30).milliseconds))
    }

    @Test("what is paid for in advance on the web is told when it is paid, and renews when it begins")
    func paidInAdvance() throws {
        var log = subscribedOnWeb()
        log.stripe(at: 20) { $0.invoices = paidLine("2", from: 30, to: 60) }
        #expect(
            ends(try log.told(by: 40)) == [
                "INITIAL_PURCHASE @0 until 30 and 1 h", "SUBSCRIPTION_EXTENDED @20 until 60 and 1 h",
                "RENEWAL @30 until 60 and 1 h",
            ])
    }

    // MARK: - Cancellations

    @Test("what is paid for the first time on the web was not cancelled before, though Stripe says late that it runs")
    func firstPayment() throws {
        var log = TestLog()
        log.stripe(at: 0) { $0.subscription = stripeSubscription(.incomplete, until: 30) }
        log.stripe(at: 0.1) { $0.invoices = paidLine("1", from: 0, to: 30) }
        log.stripe(at: 0.2) { $0.subscription = stripeSubscription(.active, until: 30) }
        #expect(
            ends(try log.told(by: 1)) == [
                "INITIAL_PURCHASE @0.1 until 30", "SUBSCRIPTION_EXTENDED @0.2 until 30 and 1 h",
            ])
    }

    @Test("what was turned off and then cannot be charged is cancelled once")
    func unsubscribedThenFailed() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 3, renews: false))
        log.notified(nil, renewal(signed: 29.9, renews: false, graceEnd: 46, retry: true))
        log.notified(nil, renewal(signed: 31, renews: true, graceEnd: 46, retry: true))
        #expect(
            try log.story(by: 60) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @3", "BILLING_ISSUE @29.9",
                "EXPIRATION BILLING_ERROR @46",
            ])
    }

    @Test("what cannot be charged and is then turned off is cancelled once, by whomever")
    func failedThenUnsubscribed() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29.9, renews: true, graceEnd: 46, retry: true))
        log.notified(nil, renewal(signed: 31, renews: false, graceEnd: 46, retry: true))
        #expect(
            try log.story(by: 60) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @29.9", "CANCELLATION BILLING_ERROR @29.9",
                "EXPIRATION BILLING_ERROR @46",
            ])
        var web = subscribedOnWeb()
        web.stripe(at: 30.02) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        web.stripe(at: 33) {
            $0.subscription = stripeSubscription(.canceled, until: 60)
            $0.subscription?.endedAt = day(33)
        }
        #expect(
            try web.story(by: 60) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @30.02", "CANCELLATION BILLING_ERROR @30.02",
                "EXPIRATION BILLING_ERROR @33",
            ])
    }

    @Test("a refund is told though it was turned off before, for nothing else says that money went back")
    func unsubscribedThenRefunded() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 3, renews: false))
        log.notified(purchase("1000", from: 0, to: 30, signed: 10, revoked: 9), renewal(signed: 10, renews: false))
        log.notified(purchase("1000", from: 0, to: 30, signed: 11, revoked: 9), renewal(signed: 11, renews: false))
        #expect(
            try log.story(by: 60) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @3", "CANCELLATION CUSTOMER_SUPPORT @10",
                "EXPIRATION CUSTOMER_SUPPORT @10",
            ])
    }

    @Test("of more names than an event lists the customer's own is one")
    func manyNames() throws {
        let log = subscribed()
        let history = CustomerHistory(
            of: alice, environment: log.environment, position: Int64(log.events.count), events: log.events)
        let others = (100..<160).map { IdentityRef($0) }
        let moment = CustomerMoment(
            history.facts(), knownAt: history.position, in: log.environment, names: others + [alice],
            at: day(1), hearings: PurchaseHearings(log.events))
        let told = try EventTeller().changes(from: nil, to: moment).arrived.values.flatMap(\.news)
        let people = try EventMessage.people(in: try #require(told.first).body)
        #expect(people == [alice] + others.prefix(49))
    }

    @Test("a refund on the web that fails after the end is told as taken back, and lets nobody in")
    func failedRefundOnWeb() throws {
        var log = subscribedOnWeb()
        func refund(_ status: WebRefundStatus) -> WebRefund {
            WebRefund(
                refundID: "re_1", amount: 999, currency: "usd", status: .known(status), created: day(20),
                paymentIntent: "pi_1", charge: nil)
        }
        log.stripe(at: 1) {
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
        }
        log.stripe(at: 20) { $0.refunds = [refund(.succeeded)] }
        log.stripe(at: 25) { $0.subscription = stripeSubscription(.canceled, until: 30) }
        log.stripe(at: 40) { $0.refunds = [refund(.failed)] }
        #expect(try log.story(by: 60).suffix(2) == ["REFUND_REVERSED @40", "EXPIRATION UNSUBSCRIBE @40"])
    }

    @Test("in the sandbox's minutes what was said two periods ago ends nothing that was renewed since")
    func shortPeriods() throws {
        let minute = Self.hour / 60
        var log = TestLog(in: .sandbox)
        log.notified(purchase("1000", from: 0, to: 5 * minute), renewal(signed: 0, renews: true))
        log.notified(nil, renewal(signed: 2 * minute, renews: false))
        log.notified(nil, renewal(signed: 3 * minute, renews: true))
        log.notified(nil, renewal(signed: 4 * minute, renews: false))
        for number in 1...3 {
            log.notified(
                purchase(
                    "100\(number)", from: Double(number) * 5 * minute, to: Double(number + 1) * 5 * minute,
                    reason: .renewal))
        }
        let types = try log.told(by: 18 * minute).map(\.type).filter { $0 != .expiration }
        #expect(
            types == [
                .initialPurchase, .cancellation, .uncancellation, .cancellation, .renewal, .cancellation, .renewal,
                .renewal,
            ])
    }
}
