import Testing

@testable import EntitlementCore

@Suite("Web checkout: what was bought and is not paid, explained")
struct UnpaidPurchaseTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [WebTold]
        var at = 1.0
        let because: String
        let considered: [Alternative.Loss]
        /// What comes first of what would change it, and whether a purchase of the same product is advised.
        let first: String
        let isSold: Bool
        /// The events it rests on, beside the catalog, which is 1; what is told begins at 2.
        let cited: [Int64]
    }

    private static func tells(_ type: String, at created: Double) -> WebTold {
        WebTold(type, at: created) { $0.mentioned = ["in_1"] }
    }

    private static func session(_ type: String, at created: Double) -> WebTold {
        WebTold(type, at: created, of: "pi_1") { fact in
            fact.payment = WebPayment(
                paidAt: nil, isPaidByEvent: false, amount: 4999, catalogProductID: "lifetime", products: [])
            fact.owners = [WebOwner(place: .session, customer: alice)]
        }
    }

    private static func subscribed(_ status: String, at created: Double, ended: Double? = nil)
        -> WebTold
    {
        says(status, at: created, until: 30, ended: ended).with {
            $0.owners = [WebOwner(place: .purchase, customer: alice)]
        }
    }

    static let cases: [Case] = [
        Case(
            testDescription: "a bank debit on its way",
            told: [session("checkout.session.completed", at: 0)],
            because:
                "the payment for lifetime, which was bought on 1 January 2026, 00:00 UTC, has not arrived",
            considered: [.unpaid], first: "When the payment for lifetime arrives, it opens.",
            isSold: false, cited: [2]),
        Case(
            testDescription: "a bank debit that failed",
            told: [
                session("checkout.session.completed", at: 0),
                session("checkout.session.async_payment_failed", at: 0.5),
            ],
            because:
                "the payment for lifetime, which was bought on 1 January 2026, 00:00 UTC, failed, and was given up on "
                + "1 January 2026, 12:00 UTC", considered: [.paymentFailed], first: others, isSold: true,
            cited: [2, 3]),
        Case(
            testDescription: "a subscription whose first payment is on its way",
            told: [subscribed("incomplete", at: 0)],
            because:
                "the payment for pro, which was bought on 1 January 2026, 00:00 UTC, has not arrived",
            considered: [.unpaid], first: "When the payment for pro arrives, it opens.", isSold: false,
            cited: [2]),
        Case(
            testDescription: "a trial whose invoice has not come", told: [subscribed("trialing", at: 0)],
            because:
                "the free trial of pro, which began on 1 January 2026, 00:00 UTC, opens with an invoice of its own, and that "
                + "one has not been heard of", considered: [.notBilledYet],
            first: "When the invoice of the free trial of pro arrives, it opens.", isSold: false, cited: [2]),
        Case(
            testDescription: "a payment that the bank wants to be confirmed",
            told: [subscribed("incomplete", at: 0), tells("invoice.payment_action_required", at: 0)],
            because:
                "the payment for pro, which was bought on 1 January 2026, 00:00 UTC, waits for the customer to confirm "
                + "it", considered: [.unpaid],
            first: "When the customer confirms the payment for pro and it succeeds, it opens.",
            isSold: false,
            cited: [2, 3]),
        Case(
            testDescription: "a card that was declined",
            told: [subscribed("incomplete", at: 0), tells("invoice.payment_failed", at: 0.5)],
            because: "the payment for pro, which was bought on 1 January 2026, 00:00 UTC, failed on "
                + "1 January 2026, 12:00 UTC", considered: [.paymentFailed],
            first:
                "When the open invoice for pro is paid after all, it opens; until Stripe gives it up the customer can pay "
                + "it.", isSold: false, cited: [2, 3]),
        Case(
            testDescription: "a first payment that Stripe gave up",
            told: [
                subscribed("incomplete", at: 0), tells("invoice.payment_failed", at: 0),
                subscribed("incomplete_expired", at: 1),
            ], at: 2,
            because:
                "the payment for pro, which was bought on 1 January 2026, 00:00 UTC, failed, and was given up on "
                + "2 January 2026, 00:00 UTC", considered: [.paymentFailed], first: others, isSold: true,
            cited: [2, 4]),
        Case(
            testDescription: "a change of plan that comes with the next invoice",
            told: [
                paidLine("1", "basic", from: 0, to: 30),
                subscribed("active", at: 10),
            ], at: 12,
            because:
                "pro is part of the subscription sub_1 since 11 January 2026, 00:00 UTC, and no invoice for it was "
                + "paid yet", considered: [.productNotMapped, .notBilledYet],
            first:
                "When the next invoice for pro, which is due on 31 January 2026, 00:00 UTC, is paid, it opens.",
            isSold: false, cited: [2, 3]),
    ]

    private static let others =
        "A purchase of a product that gives premium would open it: coins, lifetime, pro, pro.max, pro.yearly, …."

    private static func history(_ told: [WebTold], of customer: IdentityRef = alice)
        -> CustomerHistory
    {
        let catalog = HistoryEvent(
            position: 1, recordedAt: day(0), environment: nil, source: "operator",
            statementSource: .notification,
            type: "catalog_applied", occurredAt: nil, fact: .catalog(Catalog(products: webProducts)))
        let events = told.enumerated().map { index, item in
            HistoryEvent(
                position: Int64(index + 2), recordedAt: day(0), environment: .production, source: "stripe",
                statementSource: .notification, type: "told", occurredAt: nil, fact: .web(item.fact))
        }
        return CustomerHistory(
            of: customer, environment: .production, position: Int64(events.count + 1),
            events: [catalog] + events)
    }

    @Test("the payment is told, and comes first of what would open it", arguments: cases)
    func unpaid(_ example: Case) {
        let explanation = Self.history(example.told).explanation(at: example.at)
        let opening = "On \(day(example.at).inWords), premium is closed, because "
        #expect(explanation.decision.sentence == opening + example.because + ".")
        #expect(explanation.decision.rule == .neverHeld && explanation.answer == nil)
        #expect(explanation.considered.map(\.loss) == example.considered)
        #expect(explanation.outlook.first?.sentence == example.first)
        let advised = explanation.outlook.first { $0.code == .purchase }?.sentence ?? ""
        let product = example.because.contains("lifetime") ? " lifetime," : " pro,"
        #expect(advised.contains(product) == example.isSold, "\(advised)")
        #expect(explanation.cited == [1] + example.cited)
    }

    @Test("before it was bought, when it was paid, and of somebody else's nothing is told")
    func silence() {
        let bought = Self.subscribed("incomplete", at: 5)
        let nothing = "nothing that this customer bought or was given gives premium."
        #expect(Self.history([bought]).explanation(at: 4).decision.sentence.hasSuffix(nothing))
        let paid = [bought, paidLine("1", from: 5, to: 35), Self.subscribed("active", at: 5)]
        #expect(Self.history(paid).explanation(at: 6).considered == [])
        let bobs = [bought.with { $0.owners = [WebOwner(place: .purchase, customer: bob)] }]
        #expect(Self.history(bobs, of: alice).explanation(at: 6).decision.rule == .unknownCustomer)
        let expired = Self.session("checkout.session.expired", at: 0)
        #expect(
            Self.history([expired]).explanation(at: 6).decision.sentence.hasSuffix(nothing),
            "it was left, not bought")
    }

    @Test(
        "somebody who held it before is told of the payment first, and the decision stays what was held"
    )
    func heldBefore() {
        let told = [
            paidLine("1", from: -40, to: -10).with {
                $0.originalTransactionID = "sub_0"
                $0.owners = [WebOwner(place: .purchase, customer: alice)]
            }, Self.session("checkout.session.completed", at: 0),
        ]
        let explanation = Self.history(told).explanation(at: 1)
        #expect(explanation.decision.rule == .reading(.expired))
        #expect(
            explanation.outlook.first?.sentence == "When the payment for lifetime arrives, it opens.")
        #expect(explanation.considered.map(\.loss) == [.unpaid])
    }

    @Test("two that are charged again are told apart, with what goes on when one is refunded")
    func twice() {
        let told = ["sub_0", "sub_1"].flatMap { original in
            [
                paidLine("1", from: 0, to: 30).with {
                    $0.originalTransactionID = original
                    $0.owners = [WebOwner(place: .purchase, customer: alice)]
                },  // That one of them is to end some day stops no charge before.
                says("active", at: 0, until: 30, cancelAt: original == "sub_1" ? 90 : nil, of: original),
            ]
        }
        let explanation = Self.history(told).explanation(at: 3)
        #expect(explanation.considered.map(\.originalTransactionID) == ["sub_1"])
        #expect(
            explanation.considered.first?.sentence.hasSuffix(
                "; both are to be charged for again, so both are paid for.")
                == true)
        #expect(
            explanation.outlook.map(\.sentence).contains(
                "If pro is refunded, pro (web, sub_1) keeps it open for now."))
    }
}
