import Testing

@testable import EntitlementCore

/// Without a word of Stripe's nothing was due, and nothing remained unpaid: a trial was made longer, an invoice is to be paid
/// later, or time is billed when it is over.
@Suite("Web checkout: what Stripe did not say is not explained as said")
struct WebUnsaidTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [WebTold]
        let at: Double
        let reason: ReasonCode
        let because: String
        let outlookSays: [String]
    }

    private static let month = paidLine("1", from: 0, to: 30, by: "pi_1")
    private static let running = says("active", at: 30, until: 60)
    private static let trial = paidLine("1", from: 0, to: 14, amount: 0)
    private static let longer = says("trialing", at: 10, until: 40, trial: (0, 40))
    private static let paidInvoice =
        "A paid invoice for pro would open it from then on, for as long as the time that it is for lasts."

    static let cases: [Case] = [
        Case(
            testDescription: "a renewal of which nothing is heard", told: [month, running], at: 34,
            reason: .billingRetry,
            because: "no payment for pro has been heard of for the time since 31 January 2026, 00:00 UTC, nor that one "
                + "failed",
            outlookSays: [
                paidInvoice,
                "If no payment is heard of by 1 April 2026, 00:00 UTC, 60 days after the time that was paid for, it counts "
                    + "as given up here.",
            ]),
        Case(
            testDescription: "the same for long", told: [month, running, says("active", at: 61, until: 90)], at: 95,
            reason: .billingGivenUp,
            because: "no payment for pro was heard of within 60 days after 31 January 2026, 00:00 UTC, after which it "
                + "counts as given up here", outlookSays: [paidInvoice]),
        Case(
            testDescription: "the same, ended", told: [month, running, says("canceled", at: 40, ended: 40)], at: 41,
            reason: .billingGivenUp,
            because: "no payment for pro was heard of after 31 January 2026, 00:00 UTC, and the subscription was ended "
                + "on 10 February 2026, 00:00 UTC", outlookSays: []),
        Case(
            testDescription: "a charge that failed and of which Stripe says nothing any more",
            told: [month, says("past_due", at: 30, until: 60), says("active", at: 33, until: 60)], at: 34,
            reason: .billingRetry,
            because: "what was due for pro on 31 January 2026, 00:00 UTC was not paid, and may still be collected",
            outlookSays: [
                "If nothing is paid by 1 April 2026, 00:00 UTC, 60 days after it was due, it counts as given up here."
            ]),
        Case(
            testDescription: "refunded when it was closed already",
            told: [month, running, refunded(at: 40)], at: 41, reason: .refunded,
            because: "when no renewal of it had been heard of; after that, pro was refunded on 10 February 2026, "
                + "00:00 UTC",
            outlookSays: []),
        Case(
            testDescription: "a trial that was made longer",
            told: [trial, longer, says("trialing", at: 14, until: 40, trial: (0, 40))], at: 15, reason: .renewalPending,
            because: "Stripe says that the trial of pro runs until 10 February 2026, 00:00 UTC, and no invoice for the "
                + "time since 15 January 2026, 00:00 UTC has been heard of", outlookSays: []),
        Case(
            testDescription: "the same after three days",
            told: [trial, longer, says("trialing", at: 14, until: 40, trial: (0, 40))], at: 18, reason: .billingRetry,
            because: "Stripe says that the trial of pro runs until 10 February 2026, 00:00 UTC, and no invoice for the "
                + "time since 15 January 2026, 00:00 UTC has been heard of", outlookSays: [paidInvoice]),
    ]

    @Test("it says what was heard, and what was not", arguments: cases)
    func said(_ example: Case) {
        let explanation = WebExplanationTests.history(example.told, policy: AccessPolicy()).explanation(at: example.at)
        #expect(explanation.decision.rule == .reading(example.reason))
        #expect(explanation.decision.sentence.contains(example.because), "\(explanation.decision.sentence)")
        let sentences = explanation.outlook.map(\.sentence)
        for sentence in example.outlookSays { #expect(sentences.contains(sentence), "\(sentences)") }
        #expect(!sentences.contains { $0.contains("open invoice") } || example.because.contains("was not paid"))
    }
}
