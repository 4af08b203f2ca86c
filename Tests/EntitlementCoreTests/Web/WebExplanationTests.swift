import Testing

@testable import EntitlementCore

@Suite("Web checkout: explained")
struct WebExplanationTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [WebTold]
        var policy = AccessPolicy()
        let at: Double
        /// Yes or no, the rule, and the events it rests on; the catalog is 1, whose it is 2, and what is told begins at 3.
        let expected: String
        let because: String
        let outlook: [Outlook.Code]
        /// What would change it says this, among the rest.
        var outlookSays: [String] = []
    }

    private static let month = paidLine("1", from: 0, to: 30, by: "pi_1")
    /// Something that gives nothing of `premium` is beside it, and remains.
    private static let both = says("active", at: 1, until: 30, items: ["si_1", "si_9"]).with {
        $0.subscription?.items[1].product = sold("basic")
    }
    private static let removed = says("active", at: 10, until: 30, items: ["si_9"]).with {
        $0.subscription?.items[0].product = sold("basic")
    }
    private static let pastDue = says("past_due", at: 30, until: 60)

    private static let payOpenInvoice =
        "The payment of the open invoice would open it from then on, for as long as the time that it is for lasts; the "
        + "customer pays it, or brings another card, in Stripe's customer portal."
    private static let givesUp =
        "If nothing is paid by 1 April 2026, 00:00 UTC, 60 days after it was due, it counts as given up here."
    private static let chargesAgain =
        "Stripe is to charge for pro again on 31 January 2026, 00:00 UTC, which would open it; to end it, cancel the "
        + "subscription sub_1 there."
    /// What the checkout would not refuse.
    private static let others =
        "A purchase of a product that gives premium would open it: coins, lifetime, pro.max, pro.yearly, season."

    static let cases: [Case] = [
        Case(
            testDescription: "paid", told: [month], at: 3, expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC",
            outlook: [.expiry, .refund]),
        Case(
            testDescription: "renewed, and paid an hour after it was due",
            told: [month, paidLine("2", from: 30, to: 60, at: 30 + hours(1))], at: 33,
            expected: "yes paid_period [1, 2, 4]",
            because: "pro is paid from 31 January 2026, 00:00 UTC until 2 March 2026, 00:00 UTC",
            outlook: [.expiry, .refund]),
        Case(
            testDescription: "paid late, after the card had failed",
            told: [month, pastDue, paidLine("2", from: 30, to: 60, at: 39)], at: 40,
            expected: "yes paid_period [1, 2, 3, 4, 5]",
            because: "pro is paid from 31 January 2026, 00:00 UTC until 2 March 2026, 00:00 UTC, and was paid on "
                + "9 February 2026, 00:00 UTC", outlook: [.renewal, .expiry, .refund]),
        Case(
            testDescription: "a free trial",
            told: [
                paidLine("1", from: 0, to: 14, amount: 0), says("trialing", at: 0, until: 14, trial: (from: 0, to: 14)),
            ], at: 3, expected: "yes paid_period [1, 2, 3, 4]",
            because: "the free trial of pro runs from 1 January 2026, 00:00 UTC until 15 January 2026, 00:00 UTC",
            outlook: [.renewal, .expiry],
            outlookSays: [
                "pro is to be charged for the first time on 15 January 2026, 00:00 UTC; that payment has not been heard of "
                    + "yet."
            ]),
        Case(
            testDescription: "a discount of all", told: [paidLine("1", from: 0, to: 30, amount: 0)], at: 3,
            expected: "yes paid_period [1, 2, 3]",
            because:
                "pro runs from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC, and nothing was charged "
                + "for it", outlook: [.expiry]),
        Case(
            testDescription: "paused inside the paid time",
            told: [month, says("active", at: 2, until: 30, pause: "void")], at: 3,
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC",
            outlook: [.expiry, .resumption, .refund],
            outlookSays: [
                "The subscription is paused: unless it is resumed, the paid period ends on 31 January 2026, 00:00 UTC.",
                "When the subscription to pro is resumed and paid for, it goes on.",
            ]),
        Case(
            testDescription: "to be ended inside the paid time",
            told: [month, says("active", at: 2, until: 30, cancelAt: 12)], at: 3,
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC",
            outlook: [.expiry, .knownNext, .refund],
            outlookSays: [
                "Stripe has announced that it ends the subscription to pro on 13 January 2026, 00:00 UTC, before the paid "
                    + "time is over."
            ]),
        Case(
            testDescription: "to be ended two periods later",
            told: [month, says("active", at: 2, until: 30, cancelAt: 90)], at: 3,
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC",
            outlook: [.renewal, .expiry, .knownNext, .refund],
            outlookSays: [
                "pro is to be renewed on 31 January 2026, 00:00 UTC; that payment has not been heard of yet.",
                "Without a renewal the paid period ends on 31 January 2026, 00:00 UTC.",
                "Stripe has announced that it ends the subscription to pro on 1 April 2026, 00:00 UTC.",
            ]),
        Case(
            testDescription: "paused, and to end with the paid time",
            told: [month, says("active", at: 2, until: 30, cancelsAtEnd: true, pause: "void")], at: 3,
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC",
            outlook: [.expiry, .refund],
            outlookSays: [
                "It is set not to renew, and the paid period ends on 31 January 2026, 00:00 UTC."
            ]),
        Case(
            testDescription: "taken out of the subscription", told: [month, both, removed], at: 12,
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC",
            outlook: [.expiry, .refund],
            outlookSays: [
                "It is no longer part of the subscription sub_1, and the paid period ends on 31 January 2026, 00:00 UTC."
            ]),
        Case(
            testDescription: "run out after it was taken out of the subscription", told: [month, both, removed], at: 31,
            expected: "no expired [1, 2, 3, 4, 5]",
            because: "pro ran out on 31 January 2026, 00:00 UTC: it was taken out of the subscription",
            outlook: [.purchase, .grant],
            outlookSays: [
                "A purchase of a product that gives premium would open it: coins, lifetime, pro, pro.max, pro.yearly, …."
            ]),
        Case(
            testDescription: "a part refunded", told: [month, refunded(at: 10, 300)], at: 12,
            expected: "no refunded [1, 2, 3, 4]",
            because: "a part of what was paid for pro was refunded on 11 January 2026, 00:00 UTC, and by the catalog's "
                + "policy that ends access", outlook: [.refundReversal, .policy, .purchase],
            outlookSays: [
                "A catalog whose policy keeps access when a part is refunded would open it, also for the past."
            ]),
        Case(
            testDescription: "refunded in parts until all was",
            told: [month, refunded("1", at: 10, 300), refunded("2", at: 11, 699)], at: 12,
            expected: "no refunded [1, 2, 3, 4]",
            because: "a part of what was paid for pro was refunded on 11 January 2026, 00:00 UTC, and by the catalog's "
                + "policy that ends access", outlook: [.refundReversal, .purchase]),
        Case(
            testDescription: "bought for ever", told: [paidOnce(at: 0, original: "sub_1")], at: 3,
            expected: "yes one_time_purchase [1, 2, 3]",
            because: "lifetime was paid for on 1 January 2026, 00:00 UTC and does not run out", outlook: [.refund]),
        Case(
            testDescription: "a renewal under way", told: [month, says("active", at: 30, until: 60)], at: 31,
            expected: "yes renewal_pending [1, 2, 3, 4]",
            because:
                "pro was paid until 31 January 2026, 00:00 UTC, and its renewal is not paid yet and has not failed",
            outlook: [.payment, .renewal, .knownNext]),
        Case(
            testDescription: "past due beyond the grace period", told: [month, pastDue], at: 39,
            expected: "no billing_retry [1, 2, 3, 4]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed, Stripe still tries to "
                + "collect it, and the grace period of the catalog's policy ended on 7 February 2026, 00:00 UTC",
            outlook: [.payment, .retryLimit, .policy], outlookSays: [payOpenInvoice, givesUp]),
        Case(
            testDescription: "unpaid", told: [month, pastDue, says("unpaid", at: 35, until: 60)], at: 39,
            expected: "no billing_retry [1, 2, 3, 5]",
            because: "what was due for pro on 31 January 2026, 00:00 UTC was not paid, and Stripe does not try to "
                + "collect it any more", outlook: [.payment, .retryLimit, .policy],
            outlookSays: [payOpenInvoice, givesUp]),
        Case(
            testDescription: "past due", told: [month, pastDue], at: 31, expected: "yes past_due [1, 2, 3, 4]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed and is tried again, and the "
                + "catalog's policy leaves a grace period until 7 February 2026, 00:00 UTC",
            outlook: [.payment, .graceEnd, .knownNext],
            outlookSays: [
                "The payment of the open invoice would keep it open; the customer pays it, or brings another card, in "
                    + "Stripe's customer portal."
            ]),
        Case(
            testDescription: "past due, and the policy is strict", told: [month, pastDue],
            policy: AccessPolicy(graceGivesAccess: false), at: 31, expected: "no past_due [1, 2, 3, 4]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed and is tried again, and the "
                + "catalog's policy leaves a grace period until 7 February 2026, 00:00 UTC, in which the catalog's "
                + "policy gives no access", outlook: [.payment, .graceEnd, .policy]),
        Case(
            testDescription: "given up", told: [month, pastDue], at: 95, expected: "no billing_given_up [1, 2, 3, 4]",
            because: "what was due for pro on 31 January 2026, 00:00 UTC was not paid within 60 days, after which it "
                + "counts as given up here, though Stripe has not ended the subscription and says past_due",
            outlook: [.payment, .purchase, .grant], outlookSays: [payOpenInvoice, others]),
        Case(
            testDescription: "unpaid for long", told: [month, says("unpaid", at: 30, until: 60)], at: 95,
            expected: "no billing_given_up [1, 2, 3, 4]",
            because: "what was due for pro on 31 January 2026, 00:00 UTC was not paid within 60 days, after which it "
                + "counts as given up here; Stripe has not ended the subscription, and does not try to collect it any "
                + "more", outlook: [.payment, .purchase, .grant], outlookSays: [payOpenInvoice]),
        Case(
            testDescription: "unpaid, and ended by Stripe",
            told: [month, pastDue, says("canceled", at: 38, ended: 38)], at: 40,
            expected: "no billing_given_up [1, 2, 3, 4, 5]",
            because: "what was due for pro on 31 January 2026, 00:00 UTC was not paid, and the subscription was ended "
                + "on 8 February 2026, 00:00 UTC", outlook: [.purchase, .grant]),
        Case(
            testDescription: "refunded", told: [month, refunded(at: 10)], at: 12,
            expected: "no refunded [1, 2, 3, 4]", because: "pro was refunded on 11 January 2026, 00:00 UTC",
            outlook: [.refundReversal, .purchase]),
        Case(
            testDescription: "refunded, and Stripe goes on to charge",
            told: [says("active", at: 0, until: 30), month, refunded(at: 10)], at: 12,
            expected: "no refunded [1, 2, 4, 5]", because: "pro was refunded on 11 January 2026, 00:00 UTC",
            outlook: [.refundReversal, .renewal, .purchase], outlookSays: [chargesAgain, others]),
        Case(
            testDescription: "refunded, and set to end",
            told: [says("active", at: 0, until: 30, cancelsAtEnd: true), month, refunded(at: 10)], at: 12,
            expected: "no refunded [1, 2, 4, 5]", because: "pro was refunded on 11 January 2026, 00:00 UTC",
            outlook: [.refundReversal, .purchase]),
        Case(
            testDescription: "refunded, and set to end two periods later",
            told: [says("active", at: 0, until: 30, cancelAt: 90), month, refunded(at: 10)], at: 12,
            expected: "no refunded [1, 2, 4, 5]", because: "pro was refunded on 11 January 2026, 00:00 UTC",
            outlook: [.refundReversal, .renewal, .purchase], outlookSays: [chargesAgain, others]),
        Case(
            testDescription: "refunded, and the card is tried again before it ends",
            told: [says("past_due", at: 0, until: 30, cancelsAtEnd: true), month, refunded(at: 10)], at: 12,
            expected: "no refunded [1, 2, 4, 5]", because: "pro was refunded on 11 January 2026, 00:00 UTC",
            outlook: [.refundReversal, .payment, .purchase],
            outlookSays: [
                "Stripe tries to collect what is due for pro, which would open it; to end it, cancel the subscription sub_1 "
                    + "there.", others,
            ]),
        Case(
            testDescription: "refunded, and paused",
            told: [says("active", at: 0, until: 30, pause: "void"), month, refunded(at: 10)], at: 12,
            expected: "no refunded [1, 2, 4, 5]", because: "pro was refunded on 11 January 2026, 00:00 UTC",
            outlook: [.refundReversal, .resumption, .purchase],
            outlookSays: [
                "When the subscription to pro is resumed and paid for, it opens again; to end it, cancel the subscription "
                    + "sub_1 there.", others,
            ]),
        Case(
            testDescription: "a dispute that was lost", told: [month, disputed(at: 10, told: 20, "lost")], at: 21,
            expected: "no dispute [1, 2, 3, 4]",
            because: "the payment for pro was disputed on 11 January 2026, 00:00 UTC, and the dispute was lost on "
                + "21 January 2026, 00:00 UTC", outlook: [.purchase]),
        Case(
            testDescription: "a lost dispute over what Stripe goes on to charge",
            told: [says("active", at: 0, until: 30), month, disputed(at: 10, told: 20, "lost")],
            policy: AccessPolicy(webDispute: .keepsAccess), at: 21, expected: "no dispute [1, 2, 4, 5]",
            because: "the payment for pro was disputed on 11 January 2026, 00:00 UTC, and the dispute was lost on "
                + "21 January 2026, 00:00 UTC", outlook: [.renewal, .purchase], outlookSays: [chargesAgain, others]),
        Case(
            testDescription: "disputed", told: [month, disputed(at: 10)], at: 12, expected: "no dispute [1, 2, 3, 4]",
            because: "the payment for pro was disputed on 11 January 2026, 00:00 UTC",
            outlook: [.disputeWon, .purchase]),
        Case(
            testDescription: "ended early", told: [month, says("canceled", at: 12, ended: 12)], at: 13,
            expected: "no cancelled [1, 2, 3, 4]",
            because: "the subscription to pro was ended on 13 January 2026, 00:00 UTC, before the time that was paid "
                + "for was over", outlook: [.purchase, .grant]),
        Case(
            testDescription: "paused", told: [month, says("paused", at: 30)], at: 31,
            expected: "no paused [1, 2, 3, 4]",
            because: "pro was paid until 31 January 2026, 00:00 UTC, and its subscription has been paused since",
            outlook: [.resumption, .grant]),
        Case(
            testDescription: "run out", told: [month], at: 31, expected: "no expired [1, 2, 3]",
            because: "pro ran out on 31 January 2026, 00:00 UTC and no renewal of it is known",
            outlook: [.renewal, .purchase, .grant],
            outlookSays: ["A renewal of pro would open it from when it is paid; none has been heard of."]),
        Case(
            testDescription: "run out, and ended", told: [month, says("canceled", at: 30, ended: 30)], at: 31,
            expected: "no expired [1, 2, 3, 4]",
            because: "pro ran out on 31 January 2026, 00:00 UTC: its subscription was ended",
            outlook: [.purchase, .grant]),
        Case(
            testDescription: "run out, and cancelled before", told: [month, says("active", at: 5, cancelsAtEnd: true)],
            at: 31,
            expected: "no expired [1, 2, 3, 4]",
            because: "pro ran out on 31 January 2026, 00:00 UTC: it was set not to renew",
            outlook: [.renewal, .purchase, .grant]),
    ]

    static func history(
        _ told: [WebTold], policy: AccessPolicy, of customer: IdentityRef = alice, transferred: Double? = nil
    ) -> CustomerHistory {
        let facts: [LedgerFact] =
            [.catalog(Catalog(products: webProducts, policy: policy)), .web(owned(by: alice).fact)]
            + told.map { .web($0.fact) }
        let transfers = transferred.map { _ in [transfer(to: bob, of: "sub_1")] } ?? []
        return history(facts + transfers, of: customer, recorded: transferred ?? 0)
    }

    private static func history(
        _ facts: [LedgerFact], of customer: IdentityRef, recorded: Double = 0
    ) -> CustomerHistory {
        let events = facts.enumerated().map { index, fact in
            HistoryEvent(
                position: Int64(index + 1), recordedAt: day(recorded), environment: fact.isWeb ? .production : nil,
                source: "stripe", statementSource: .notification, type: "told", occurredAt: nil, fact: fact)
        }
        return CustomerHistory(of: customer, environment: .production, position: Int64(events.count), events: events)
    }

    @Test("every rule, in words, with what would change it", arguments: cases)
    func rule(_ example: Case) {
        let explanation = Self.history(example.told, policy: example.policy).explanation(at: example.at)
        let decision = explanation.decision
        #expect("\(decision.givesAccess ? "yes" : "no") \(decision.rule.code) \(explanation.cited)" == example.expected)
        let opening = "On \(day(example.at).inWords), premium is \(decision.givesAccess ? "open" : "closed"), because "
        #expect(decision.sentence == opening + example.because + ".")
        #expect(explanation.outlook.map(\.code) == example.outlook)
        for sentence in example.outlookSays {
            #expect(explanation.outlook.map(\.sentence).contains(sentence))
        }
        #expect(decision.source == .webCheckout)
    }

    @Test("inside a period that was renewed the renewal is known, and a part refunded that ends nothing is told")
    func known() {
        let renewed = paid("2", line("2", from: 30, to: 60), at: 30.5)
        let history = Self.history([Self.month, says("active", at: 0, until: 30), renewed], policy: AccessPolicy())
        #expect(
            history.explanation(at: 10).outlook.first?.sentence
                == "It is known already that pro is renewed on 31 January 2026, 12:00 UTC.")
        var policy = AccessPolicy()
        policy.proratedRefund = .keepsAccess
        let part = Self.history([Self.month, refunded(at: 10, 300)], policy: policy).explanation(at: 12)
        #expect(part.decision.givesAccess)
        #expect(
            part.decision.sentence.contains(", and a part of that was refunded on 11 January 2026, 00:00 UTC, which"))
        #expect(part.cited == [1, 2, 3, 4])
    }

    @Test("a renewal that was transferred says since when, and only that one")
    func transferred() {
        let told = [Self.month, paidLine("2", from: 30, to: 60, at: 30 + hours(1))]
        func sentence(of customer: IdentityRef) -> String {
            let history = Self.history(told, policy: AccessPolicy(), of: customer, transferred: 40)
            return history.explanation(at: 45).decision.sentence
        }
        #expect(sentence(of: bob).hasSuffix("and has been this customer's since 10 February 2026, 00:00 UTC."))
        #expect(sentence(of: alice).hasSuffix("pro has been another customer's since 10 February 2026, 00:00 UTC."))
    }

    @Test("of several catalogs the one in force is cited, also where the search looks at everything")
    func catalogInForce() {
        let told = [Self.month, Self.pastDue, paidLine("2", from: 30, to: 60, at: 39)]
        let catalogs = [10, 20, 30].map { day in
            LedgerFact.catalog(Catalog(products: webProducts, policy: AccessPolicy(leewaySeconds: day)))
        }
        let facts: [LedgerFact] = [catalogs[0]] + told.map { .web($0.fact) } + [catalogs[1], catalogs[2]]
        let history = Self.history(facts + [.web(owned(by: alice).fact)], of: alice)
        #expect(history.explanation(at: 40).cited == [2, 3, 4, 6, 7])
        #expect(history.explanation(at: 33).cited == [2, 3, 6, 7])
    }

    @Test("what was known at a position stays what it was, whatever is heard later")
    func knownThen() {
        let told = [
            Self.month, refunded(at: 10, told: 10), refunded(at: 10, told: 12, status: "failed"),
            says("active", at: 1, until: 30), says("canceled", at: 14, ended: 14),
        ]
        let history = Self.history(told, policy: AccessPolicy())
        func state(at instant: Double, knownAt position: Int64) -> EntitlementState? {
            history.facts(believing: Set(1...position)).answers(at: day(instant)).first?.state
        }
        #expect(state(at: 20, knownAt: 3) == .active)
        #expect(state(at: 20, knownAt: 4) == .revoked)
        #expect(state(at: 20, knownAt: 5) == .active, "the refund never was")
        #expect(state(at: 20, knownAt: 7) == .expired)
        #expect(state(at: 13, knownAt: 7) == .active)
        #expect(state(at: 2, knownAt: 2) == nil)
    }

    @Test("what is not mapped, or another's, is named with its source")
    func alternatives() {
        let stranger = Self.month.with {
            $0.invoices[0].lines[0].product = WebProduct(price: "price_x", product: "prod_x")
        }
        let explanation = Self.history([stranger], policy: AccessPolicy()).explanation(at: 3)
        #expect(explanation.considered.map(\.loss) == [.productNotMapped])
        #expect(explanation.considered.map(\.source) == [.webCheckout])
        #expect(explanation.considered.first?.sentence.hasPrefix("prod_x is active") == true)
        #expect(
            Explainer(Self.history([Self.month], policy: AccessPolicy()), at: day(3)).products.map(\.productID) == [
                "pro"
            ])
    }
}

extension LedgerFact {
    fileprivate var isWeb: Bool {
        if case .web = self { true } else { false }
    }
}
