import Testing

@testable import EntitlementCore

/// An account token may be set when a purchase was made long ago: the newest statement counts from its beginning on.
@Suite("Explanations: a purchase that came to bear another's account token")
struct TokenMoveTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [Entry]
        var at = 20.0
        /// `never_held [1, 2, 3]`.
        let expected: String
        let because: String
    }

    private static func month(
        signed: Double = 0, of owner: IdentityRef?, appTransaction: IdentityRef? = nil
    ) -> Entry {
        .statement(
            subscription("1", from: 0, to: 30, signed: signed, of: owner).with { $0.appTransaction = appTransaction })
    }

    private static func second(signed: Double = 30, of owner: IdentityRef) -> Entry {
        .statement(subscription("2", from: 30, to: 60, signed: signed, .renewal, of: owner))
    }

    private static let nothing = "nothing that this customer bought or was given gives premium"
    private static let moved =
        "pro, which was this customer's, bears another customer's account token since the statement of "
        + "11 January 2026, 00:00 UTC, and so is that customer's from its beginning"

    static let cases: [Case] = [
        Case(
            testDescription: "the only purchase", told: [month(of: alice), month(signed: 10, of: bob)],
            expected: "never_held [1, 2, 3]", because: moved),
        Case(
            testDescription: "told in any order", told: [month(signed: 10, of: bob), month(of: alice)],
            expected: "never_held [1, 2, 3]", because: moved),
        Case(
            testDescription: "later statements with the other's token change no date",
            told: [month(of: alice), month(signed: 10, of: bob), month(signed: 15, of: bob)],
            expected: "never_held [1, 2, 3]", because: moved),
        Case(
            testDescription: "a purchase that bore an Apple account alone",
            told: [month(of: nil, appTransaction: alice), month(signed: 10, of: bob, appTransaction: alice)],
            expected: "never_held [1, 2, 3]", because: moved),
        Case(
            testDescription: "a purchase that bore nothing, and was claimed",
            told: [month(of: nil), .fact(claim(by: alice), recorded: 1), month(signed: 10, of: bob)],
            expected: "never_held [1, 2, 3, 4]", because: moved),
        Case(
            testDescription: "a purchase that bore the token of somebody who is linked",
            told: [month(of: carol), .fact(link(carol, to: alice), recorded: 1), month(signed: 10, of: bob)],
            expected: "never_held [1, 2, 3, 4]", because: moved),
        Case(
            testDescription: "before it was bought", told: [month(of: alice), month(signed: 10, of: bob)], at: -1,
            expected: "never_held []", because: nothing),
        Case(
            testDescription: "a product that does not give it",
            told: [
                .statement(subscription("1", "basic", from: 0, to: 30)),
                .statement(subscription("1", "basic", from: 0, to: 30, signed: 10, of: bob)),
            ], expected: "never_held []", because: nothing),
        Case(
            testDescription: "a transfer decides, whatever the token",
            told: [month(of: alice), .fact(transfer(to: bob), recorded: 5), month(signed: 10, of: carol)],
            expected: "never_held []", because: nothing),
        Case(
            testDescription: "the second period",
            told: [month(of: alice), second(of: alice), second(signed: 40, of: bob)], at: 50,
            expected: "owned_by_another [1, 2, 3, 4]",
            because:
                "pro has been another customer's since 31 January 2026, 00:00 UTC: it bears another customer's account "
                + "token since the statement of 10 February 2026, 00:00 UTC"),
        Case(
            testDescription: "a second period that never bore another token",
            told: [month(of: alice), second(of: bob)], at: 50, expected: "owned_by_another [1, 2, 3]",
            because: "pro has been another customer's since 31 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a transfer alone",
            told: [month(of: alice), second(of: alice), .fact(transfer(to: bob), recorded: 40)], at: 50,
            expected: "owned_by_another [1, 3, 4]",
            because: "pro has been another customer's since 10 February 2026, 00:00 UTC"),
    ]

    @Test("the old owner is told by which statement, and both that say so are cited", arguments: cases)
    func words(_ example: Case) {
        let explanation = CustomerHistory(example.told).explanation(at: example.at)
        #expect("\(explanation.decision.rule.code) \(explanation.cited)" == example.expected)
        #expect(
            explanation.decision.sentence
                == "On \(day(example.at).inWords), premium is closed, because \(example.because).")
    }

    @Test("what was weighed says so, too, and whose token came back has it again")
    func considered() {
        let told = [Self.month(of: alice), Self.month(signed: 10, of: bob)]
        #expect(
            CustomerHistory(told).explanation(at: 20).considered.map(\.sentence) == [
                "pro is active, and is another customer's: it bears another customer's account token since the "
                    + "statement of 11 January 2026, 00:00 UTC."
            ])
        #expect(CustomerHistory(of: bob, told).explanation(at: 20).decision.givesAccess)
        let back = CustomerHistory(told + [Self.month(signed: 12, of: alice)]).explanation(at: 20)
        #expect(back.decision.givesAccess && back.considered.isEmpty)
    }
}
