import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// Whether a purchase renews is said of the period that is shown; what is said of the next one is told with that.
@Suite("RevenueCat's events: whether it renews")
struct RenewingTests {
    private static let hour = 1.0 / 24

    /// A subscription on the web from day 0 to day 30.
    private func subscribedOnWeb(_ policy: AccessPolicy = AccessPolicy()) -> TestLog {
        var log = TestLog(policy: policy)
        log.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30, currency: "usd")
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        return log
    }

    /// What Stripe says of a subscription that is to be cancelled at an instant.
    private func ending(_ status: WebSubscriptionStatus, until end: Double, at day: Timestamp) -> WebSubscription {
        var subscription = stripeSubscription(status, until: end)
        subscription.cancelAt = day
        return subscription
    }

    @Test("an end that is set for with or in the next period is told when that is paid, and once", arguments: [45, 60])
    func endOfNextPeriod(end: Double) throws {
        var log = subscribedOnWeb()
        log.stripe(at: 3) { $0.subscription = ending(.active, until: 30, at: day(end)) }
        log.stripe(at: 30) { $0.subscription = ending(.active, until: 60, at: day(end)) }
        #expect(log.subscriber(at: 30.01).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
        log.stripe(at: 30.25) { $0.invoices = paidLine("2", from: 30, to: 60) }
        #expect(
            try log.story(by: 35) == [
                "INITIAL_PURCHASE @0", "SUBSCRIPTION_EXTENDED @30", "RENEWAL @30.25", "CANCELLATION UNSUBSCRIBE @30.25",
            ])
        #expect(log.subscriber(at: 35).subscriptions["pro"]?.unsubscribeDetectedAt != nil)
    }

    @Test("who cancels while the next period is being charged is told of behind its RENEWAL")
    func cancelledWhileCharged() throws {
        var log = subscribedOnWeb()
        log.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        log.stripe(at: 30.125) { $0.subscription = stripeSubscription(.active, until: 60, cancels: true) }
        log.stripe(at: 30.25) { $0.invoices = paidLine("2", from: 30, to: 60) }
        #expect(
            try log.story(by: 35) == [
                "INITIAL_PURCHASE @0", "SUBSCRIPTION_EXTENDED @30", "RENEWAL @30.25", "CANCELLATION UNSUBSCRIBE @30.25",
            ])
        // What is over, or collects nothing, is charged for no more.
        var over = subscribedOnWeb()
        over.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        over.stripe(at: 30.125) { $0.subscription = stripeSubscription(.canceled, until: 60) }
        #expect(
            try over.story(by: 35).suffix(2) == ["CANCELLATION UNSUBSCRIBE @30.125", "EXPIRATION UNSUBSCRIBE @30.125"])
    }

    @Test("a failed charge that is dropped is taken back, unless somebody turned renewing off")
    func chargeDropped() throws {
        var log = subscribedOnWeb()
        log.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        log.stripe(at: 31) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        var cancelled = log
        log.stripe(at: 32) { $0.subscription = stripeSubscription(.active, until: 60) }
        let failed = [
            "INITIAL_PURCHASE @0", "SUBSCRIPTION_EXTENDED @30", "BILLING_ISSUE @31", "CANCELLATION BILLING_ERROR @31",
        ]
        #expect(try log.story(by: 32.5) == failed + ["UNCANCELLATION @32"])
        let entry = log.subscriber(at: 32.5).subscriptions["pro"]
        #expect(entry?.billingIssuesDetectedAt == nil && entry?.unsubscribeDetectedAt == nil)
        cancelled.stripe(at: 32) {
            $0.subscription = stripeSubscription(.active, until: 60)
            $0.subscription?.items[0].periodEnd = day(30)
            $0.subscription?.cancelsAtPeriodEnd = true
        }
        #expect(try cancelled.story(by: 32).filter { $0.hasPrefix("UNCANCELLATION") } == [])
    }

    @Test("a charge that fails and goes through later is no more than RENEWAL, whichever is heard of first")
    func chargePaid() throws {
        var log = subscribedOnWeb()
        log.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        log.stripe(at: 31) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        log.stripe(at: 32) {
            $0.invoices = paidLine("2", from: 30, to: 60)
            $0.invoices[0].paidAt = day(32)
        }
        log.stripe(at: 32.5) { $0.subscription = stripeSubscription(.active, until: 60) }
        #expect(try log.story(by: 35).suffix(2) == ["CANCELLATION BILLING_ERROR @31", "RENEWAL @32"])
    }

    @Test("what ends with what was taken back is no unsubscription, and what is only refunded still is")
    func withdrawn() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30, ownership: .familyShared), renewal(signed: 0, renews: true))
        log.notified(
            purchase("1000", from: 0, to: 30, signed: 5, revoked: 5, .familyRevoke, ownership: .familyShared),
            renewal(signed: 5, renews: false))
        #expect(try log.story(by: 20) == ["INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @5"])
        var refunded = TestLog()
        refunded.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true))
        refunded.notified(purchase("1000", from: 0, to: 30, signed: 5, revoked: 5), renewal(signed: 5, renews: false))
        #expect(
            try refunded.story(by: 20) == [
                "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @5", "EXPIRATION CUSTOMER_SUPPORT @5",
            ])
        var kept = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        kept.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true))
        kept.notified(purchase("1000", from: 0, to: 30, signed: 5, revoked: 5, .refundProrated))
        kept.notified(nil, renewal(signed: 7, renews: false))
        #expect(
            try kept.story(by: 20).suffix(2) == ["CANCELLATION CUSTOMER_SUPPORT @5", "CANCELLATION UNSUBSCRIBE @7"])
    }

    @Test("what is said after a downgrade's renewal was announced is about that, and told when it begins")
    func downgradeAnnounced() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "pro"))
        log.notified(nil, renewal(signed: 5, renews: true, as: "basic"))
        log.notified(
            purchase("1001", "basic", from: 30, to: 60, signed: 29.5, reason: .renewal),
            renewal(signed: 29.5, renews: true, as: "basic"))
        log.notified(
            purchase("1001", "basic", from: 30, to: 60, signed: 29.75, reason: .renewal),
            renewal(signed: 29.75, renews: false, as: "basic"))
        #expect(log.subscriber(at: 29.8).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
        #expect(
            try log.story(by: 40) == [
                "INITIAL_PURCHASE @0", "PRODUCT_CHANGE basic @5", "RENEWAL @30", "CANCELLATION UNSUBSCRIBE @30",
            ])
        // Where its money goes back before it begins there is nothing that follows.
        log.notified(
            purchase("1001", "basic", from: 30, to: 60, signed: 29.875, revoked: 29.875, reason: .renewal),
            renewal(signed: 29.875, renews: false, as: "basic"))
        #expect(try log.story(by: 29.9).last == "CANCELLATION UNSUBSCRIBE @29.875")
    }

    @Test("a part of the money on the web that comes back is told, though another part still ends access")
    func partTakenBack() throws {
        var log = subscribedOnWeb()
        func refund(_ number: Int, _ amount: Int64, at created: Double, _ status: WebRefundStatus) -> WebRefund {
            WebRefund(
                refundID: "re_\(number)", amount: amount, currency: "usd", status: .known(status),
                created: day(created), paymentIntent: "pi_1", charge: nil)
        }
        log.stripe(at: 5) { $0.refunds = [refund(1, 300, at: 5, .succeeded)] }
        log.stripe(at: 7) { $0.refunds = [refund(2, 699, at: 7, .succeeded)] }
        log.stripe(at: 10) { $0.refunds = [refund(2, 699, at: 7, .failed)] }
        #expect(
            try log.story(by: 20) == [
                "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @5", "EXPIRATION CUSTOMER_SUPPORT @5",
                "CANCELLATION CUSTOMER_SUPPORT @7", "REFUND_REVERSED @10", "EXPIRATION CUSTOMER_SUPPORT @10",
            ])
    }
}
