import EntitlementAPI
import EntitlementCore
import TestSupport
import Testing

@testable import RevenueCatAPI

@Suite("RevenueCat's document: when it was noticed")
struct DetectionTests {
    @Test("a billing issue dates from when the ledger first heard of it, and is cleared when it is solved")
    func billingIssue() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30), renewal(signed: 0.1, renews: true))
        told.notified(
            purchase("1", from: 0, to: 30, signed: 30), renewal(signed: 30, renews: true, graceEnd: 46, retry: true),
            recorded: 31)
        // Signed anew, as at each launch.
        told.notified(
            purchase("1", from: 0, to: 30, signed: 35), renewal(signed: 35, renews: true, graceEnd: 46, retry: true))
        #expect(told.subscriber(at: 29).subscriptions["pro"]?.billingIssuesDetectedAt == nil)
        #expect(told.subscriber(at: 40).subscriptions["pro"]?.billingIssuesDetectedAt == shown(31))
        #expect(try !told.sdk(at: 40).willRenew("premium"))
        #expect(told.subscriber(at: 60).subscriptions["pro"]?.billingIssuesDetectedAt == shown(31))
        told.notified(purchase("2", from: 61, to: 91, reason: .renewal), renewal(signed: 61, renews: true))
        #expect(told.subscriber(at: 62).subscriptions["pro"]?.billingIssuesDetectedAt == nil)
        #expect(try told.sdk(at: 62).willRenew("premium"))
    }

    @Test(
        "a charge that went through within grace, for a period that begins where the last one ended, is no issue of that"
    )
    func recoveredWithoutGap() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30), renewal(signed: 0.1, renews: true))
        told.notified(nil, renewal(signed: 30.01, renews: true, graceEnd: 46, retry: true))
        #expect(told.subscriber(at: 31).subscriptions["pro"]?.billingIssuesDetectedAt == shown(30.01))
        told.notified(purchase("2", from: 30, to: 60, signed: 33, reason: .renewal), renewal(signed: 33, renews: true))
        #expect(told.subscriber(at: 34).subscriptions["pro"]?.billingIssuesDetectedAt == nil)
        #expect(try told.sdk(at: 34).willRenew("premium"))
        // The charge for what follows it fails in turn.
        told.notified(nil, renewal(signed: 59.9, renews: true, graceEnd: 76, retry: true))
        #expect(told.subscriber(at: 59.95).subscriptions["pro"]?.billingIssuesDetectedAt == shown(59.9))
    }

    @Test("the end of auto-renewal dates from when the ledger first heard of it, until it is on again")
    func unsubscribed() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30), renewal(signed: 0.1, renews: true))
        #expect(try told.sdk(at: 1).willRenew("premium"))
        told.notified(nil, renewal(signed: 5, renews: false), recorded: 6)
        told.notified(nil, renewal(signed: 7, renews: false))
        #expect(told.subscriber(at: 4).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
        #expect(told.subscriber(at: 8).subscriptions["pro"]?.unsubscribeDetectedAt == shown(6))
        #expect(try !told.sdk(at: 8).willRenew("premium") && told.sdk(at: 8).active == ["premium"])
        told.notified(nil, renewal(signed: 9, renews: true))
        #expect(told.subscriber(at: 10).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
        told.notified(nil, renewal(signed: 11, renews: false))
        #expect(told.subscriber(at: 12).subscriptions["pro"]?.unsubscribeDetectedAt == shown(11))
        #expect(told.subscriber(at: 40).subscriptions["pro"]?.unsubscribeDetectedAt == shown(11))
        // What was bought again later renews, as far as anybody said.
        told.notified(purchase("2", from: 50, to: 80))
        #expect(told.subscriber(at: 51).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
    }

    @Test("a refund ends it at its date, and dates from when the ledger first heard of it")
    func refunded() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        told.notified(purchase("1", from: 0, to: 30, signed: 11, revoked: 10), recorded: 12)
        told.notified(purchase("1", from: 0, to: 30, signed: 20, revoked: 10), recorded: 20)
        let entry = told.subscriber(at: 25).subscriptions["pro"]
        #expect(entry?.expiresDate == shown(10) && entry?.refundedAt == shown(12))
        #expect(told.subscriber(at: 9).subscriptions["pro"]?.refundedAt == nil)
        #expect(try told.sdk(at: 25).active.isEmpty && told.sdk(at: 9).active == ["premium"])
        told.notified(purchase("1", from: 0, to: 30, signed: 26))
        #expect(told.subscriber(at: 27).subscriptions["pro"]?.refundedAt == nil)
        #expect(try told.sdk(at: 27).active == ["premium"])
    }

    @Test("the end of family sharing is no refund")
    func familySharingEnded() {
        var told = TestLog()
        told.notified(
            purchase("1", from: 0, to: 30, signed: 11, revoked: 10, .familyRevoke, ownership: .familyShared))
        let entry = told.subscriber(at: 25).subscriptions["pro"]
        #expect(entry?.refundedAt == nil && entry?.expiresDate == shown(10))
    }

    @Test("the customer is seen when the ledger hears of what they bought or were given, and not when they are read")
    func seen() {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30), recorded: 3)
        told.notified(nil, renewal(signed: 4, renews: false), recorded: 8)
        for days in [10.0, 20, 1000] {
            #expect(told.subscriber(at: days).firstSeen == shown(3) && told.subscriber(at: days).lastSeen == shown(8))
        }
    }

    @Test("what Stripe sells and says reads alike: paid time, a cancellation, a failed charge, and that it was solved")
    func stripe() throws {
        var told = TestLog()
        told.stripe(at: 0) { fact in
            fact.invoices = paidLine("1", from: 0, to: 30)
            fact.subscription = stripeSubscription(.active, until: 30)
        }
        let entry = told.subscriber(at: 1).subscriptions["pro"]
        // What is due for the next period is charged about an hour after this one has ended.
        let hour = 1.0 / 24
        #expect(entry?.store == .stripe && entry?.storeTransactionID == "sub_1")
        #expect(entry?.expiresDate == shown(30 + hour))
        #expect(entry?.originalPurchaseDate == shown(0))
        #expect(try told.sdk(at: 1).willRenew("premium"))
        told.stripe(at: 5) { $0.subscription = stripeSubscription(.active, until: 30, cancels: true) }
        #expect(told.subscriber(at: 6).subscriptions["pro"]?.unsubscribeDetectedAt == shown(5))
        told.stripe(at: 7) { $0.subscription = stripeSubscription(.active, until: 30) }
        #expect(told.subscriber(at: 8).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
        told.stripe(at: 30.1, recorded: 30.2) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        let failed = told.subscriber(at: 31).subscriptions["pro"]
        #expect(failed?.billingIssuesDetectedAt == shown(30.2) && failed?.expiresDate == shown(37))
        #expect(failed?.gracePeriodExpiresDate == shown(37))
        #expect(try told.sdk(at: 31).active == ["premium"] && told.sdk(at: 38).active.isEmpty)
        told.stripe(at: 33) { fact in
            fact.invoices = paidLine("2", from: 30, to: 60)
            fact.subscription = stripeSubscription(.active, until: 60)
        }
        let solved = told.subscriber(at: 34).subscriptions["pro"]
        #expect(solved?.billingIssuesDetectedAt == nil && solved?.expiresDate == shown(60 + hour))
        #expect(solved?.originalPurchaseDate == shown(0) && solved?.purchaseDate == shown(30))
    }

    @Test("an item that was taken out of a subscription of Stripe's does not renew, though the subscription does")
    func stripeItemRemoved() throws {
        var told = TestLog()
        told.stripe(at: 0) { fact in
            fact.invoices = paidLine("1", from: 0, to: 30)
            fact.subscription = stripeSubscription(.active, until: 30, items: ["si_1", "si_9"])
        }
        told.stripe(at: 5, recorded: 6) { $0.subscription = stripeSubscription(.active, until: 30, items: ["si_9"]) }
        #expect(try told.sdk(at: 4).willRenew("premium") && !told.sdk(at: 7).willRenew("premium"))
        #expect(told.subscriber(at: 7).subscriptions["pro"]?.unsubscribeDetectedAt == shown(6))
        #expect(try told.sdk(at: 7).active == ["premium"])
    }

    @Test("a refund of Stripe's dates from when it was heard of, a dispute is none")
    func stripeRefund() {
        func told(_ change: (inout WebFact) -> Void) -> SubscriptionEntry? {
            var told = TestLog()
            told.stripe(at: 0) { fact in
                fact.invoices = paidLine("1", from: 0, to: 30)
                fact.invoicePayments = [
                    WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)
                ]
            }
            told.stripe(at: 10, recorded: 11, change)
            return told.subscriber(at: 20).subscriptions["pro"]
        }
        let refunded = told { fact in
            fact.refunds = [
                WebRefund(
                    refundID: "re_1", amount: 999, status: .known(.succeeded), created: day(10), paymentIntent: "pi_1",
                    charge: nil)
            ]
        }
        #expect(refunded?.expiresDate == shown(10) && refunded?.refundedAt == shown(11))
        let disputed = told { fact in
            fact.disputes = [
                WebDispute(
                    disputeID: "dp_1", status: .known(.needsResponse), created: day(10), funds: nil,
                    paymentIntent: "pi_1", charge: nil)
            ]
        }
        #expect(disputed?.expiresDate == shown(10) && disputed?.refundedAt == nil)
    }

    @Test("a one-time payment of Stripe's is a one-time purchase")
    func stripePayment() {
        var told = TestLog()
        told.stripe(at: 3, of: "pi_7") { fact in
            fact.payment = WebPayment(
                paidAt: day(3), isPaidByEvent: true, amount: 4999, catalogProductID: "lifetime", products: [])
        }
        let subscriber = told.subscriber(at: 4)
        let bought = subscriber.nonSubscriptions["lifetime"]?.first
        #expect(bought?.store == .stripe && bought?.storeTransactionID == "pi_7" && bought?.purchaseDate == shown(3))
        #expect(subscriber.entitlements["premium"]?.productIdentifier == "lifetime")
        #expect(told.subscriber(at: 2).nonSubscriptions.isEmpty)
    }
}
