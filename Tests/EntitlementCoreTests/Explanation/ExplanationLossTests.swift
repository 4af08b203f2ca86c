import Testing

@testable import EntitlementCore

/// Which answer is shown follows an order, in which an old refund comes before what ran out yesterday; the words must not take
/// it for the cause.
@Suite("Explanations: what gave access last, and by what it was lost")
struct ExplanationLossTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [Entry]
        var policy = AccessPolicy()
        let state: EntitlementState
        let because: String
        let outlook: [Outlook.Code]
    }

    private static func other(_ statement: Statement) -> Entry {
        .statement(statement.with { $0.originalTransactionID = "0999" })
    }

    private static let month = Entry.statement(subscription("1", from: 3, to: 33))
    private static let refunded = other(subscription("9", from: 0, to: 30, revoked: 2))

    static let cases: [Case] = [
        Case(
            testDescription: "refunded, bought again, and ran out", told: [refunded, month], state: .revoked,
            because: "pro gave access until 3 February 2026, 00:00 UTC, when it ran out; before that, pro was refunded "
                + "on 3 January 2026, 00:00 UTC", outlook: [.renewal, .grant, .purchase]),
        Case(
            testDescription: "refunded, bought again, and set not to renew",
            told: [refunded, month, .statement(renewalInfo(signed: 9, renews: false))], state: .revoked,
            because: "pro gave access until 3 February 2026, 00:00 UTC, when it ran out, for it was set not to renew; "
                + "before that, pro was refunded on 3 January 2026, 00:00 UTC", outlook: [.renewal, .grant, .purchase]),
        Case(
            testDescription: "refunded, and a grant that ended since",
            told: [refunded, .fact(granted(until: 35), recorded: 3)], state: .revoked,
            because:
                "the grant of 4 January 2026, 00:00 UTC gave access until 5 February 2026, 00:00 UTC, when it ended; "
                + "before that, pro was refunded on 3 January 2026, 00:00 UTC", outlook: [.purchase, .grant]),
        Case(
            testDescription: "refunded after the other had run out",
            told: [other(subscription("9", from: 0, to: 90, revoked: 35)), month], state: .revoked,
            because: "pro was refunded on 5 February 2026, 00:00 UTC", outlook: [.refundReversal, .purchase]),
        Case(
            testDescription: "refunded when it had run out",
            told: [.statement(subscription("1", from: 3, to: 33, revoked: 35))], state: .revoked,
            because:
                "pro gave access until 3 February 2026, 00:00 UTC, when it ran out; after that, pro was refunded on "
                + "5 February 2026, 00:00 UTC", outlook: [.purchase]),
        Case(
            testDescription: "retried since long, and the other ran out",
            told: [
                .statement(subscription("1", from: -10, to: 20)),
                .statement(renewalInfo(signed: 20, retry: true, renews: true)),
                other(subscription("9", from: 3, to: 33)),
            ], state: .inBillingRetry,
            because:
                "pro gave access until 3 February 2026, 00:00 UTC, when it ran out; before that, the charge for pro "
                + "that was due on 21 January 2026, 00:00 UTC failed, and the store is still trying to collect it",
            outlook: [.renewal, .retryLimit, .policy, .grant]),
        Case(
            testDescription: "ran out twice", told: [other(subscription("9", from: 0, to: 30)), month], state: .expired,
            because: "pro ran out on 3 February 2026, 00:00 UTC and no renewal of it is known",
            outlook: [.renewal, .grant]),
    ]

    @Test("the loss is told before what is shown, with all that says so", arguments: cases)
    func loss(_ example: Case) {
        let history = CustomerHistory(policy: example.policy, example.told)
        let explanation = history.explanation(at: 40)
        #expect(explanation.decision.state == example.state)
        #expect(
            explanation.decision.sentence
                == "On 10 February 2026, 00:00 UTC, premium is closed, because \(example.because).")
        #expect(explanation.outlook.map(\.code) == example.outlook)
        if example.because.contains("gave access until") {
            #expect(explanation.cited == Array(1...Int64(example.told.count + 1)))
        }
    }

    @Test("what ends is told to end as it does, not as an old refund of something else reads")
    func knownNext() {
        func outlook(_ told: [Entry], at instant: Double) -> [String] {
            CustomerHistory(told).explanation(at: instant).outlook.map(\.sentence)
        }
        let alone = outlook([Self.month], at: 10)
        #expect(!alone.isEmpty && outlook([Self.refunded, Self.month], at: 10) == alone)
        let failing = Entry.statement(renewalInfo(signed: 33, retry: true, renews: true))
        #expect(
            outlook([Self.refunded, Self.month, failing], at: 10).last
                == "Unless something else is heard, it is in billing retry from 3 February 2026, 00:00 UTC on, which gives no "
                + "access.")
    }
}
