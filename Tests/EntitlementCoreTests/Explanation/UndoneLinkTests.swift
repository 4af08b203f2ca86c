import Testing

@testable import EntitlementCore

/// A link holds for every instant from its position on; once it is undone, no timeline shows that it ever was.
@Suite("Explanations: what was the customer's by a link that was taken back")
struct UndoneLinkTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [Entry]
        var at = 20.0
        /// `never_held [1, 2, 3]`.
        let expected: String
        let because: String
    }

    private static func month(of owner: IdentityRef?, appTransaction: IdentityRef? = nil) -> Entry {
        .statement(subscription("1", from: 0, to: 30, of: owner).with { $0.appTransaction = appTransaction })
    }

    private static func linked(_ identity: IdentityRef, to customer: IdentityRef, on day: Double) -> Entry {
        .fact(link(identity, to: customer), recorded: day)
    }

    private static let nothing = "nothing that this customer bought or was given gives premium"

    private static func undone(_ what: String = "pro", _ how: String = "taken back", on day: Int = 11) -> String {
        "the link by which \(what) was this customer's was \(how) on \(day) January 2026, 00:00 UTC, and so it is another "
            + "customer's from its beginning"
    }

    static let cases: [Case] = [
        Case(
            testDescription: "an Apple account that was linked to the customer",
            told: [
                month(of: nil, appTransaction: carol), linked(carol, to: alice, on: 1),
                linked(carol, to: carol, on: 10),
            ], expected: "never_held [1, 2, 3, 4]", because: undone()),
        Case(
            testDescription: "the customer was an alias of somebody else",
            told: [month(of: bob), linked(alice, to: bob, on: 1), linked(alice, to: alice, on: 10)],
            expected: "never_held [1, 2, 3, 4]", because: undone()),
        Case(
            testDescription: "somebody else was an alias of the customer",
            told: [month(of: bob), linked(bob, to: alice, on: 1), linked(bob, to: bob, on: 10)],
            expected: "never_held [1, 2, 3, 4]", because: undone()),
        Case(
            testDescription: "another link took its place",
            told: [month(of: bob), linked(bob, to: alice, on: 1), linked(bob, to: carol, on: 10)],
            expected: "never_held [1, 2, 3, 4]", because: undone("pro", "replaced by another")),
        Case(
            testDescription: "linked and taken back twice: the last one counts",
            told: [
                month(of: bob), linked(bob, to: alice, on: 1), linked(bob, to: bob, on: 2),
                linked(bob, to: alice, on: 3), linked(bob, to: bob, on: 10),
            ], expected: "never_held [1, 2, 5, 6]", because: undone()),
        Case(
            testDescription: "by two links, the nearer one of which was taken back",
            told: [
                month(of: carol), linked(carol, to: bob, on: 1), linked(bob, to: alice, on: 2),
                linked(bob, to: bob, on: 10),
            ], expected: "never_held [1, 2, 3, 4, 5]", because: undone()),
        Case(
            testDescription: "a purchase that was claimed by whoever was linked",
            told: [
                month(of: nil), .fact(claim(by: bob), recorded: 0.5), linked(bob, to: alice, on: 1),
                linked(bob, to: bob, on: 10),
            ], expected: "never_held [1, 2, 3, 4, 5]", because: undone()),
        Case(
            testDescription: "a grant to whoever was linked",
            told: [
                .fact(granted(to: bob), recorded: 5), linked(bob, to: alice, on: 6), linked(bob, to: bob, on: 10),
            ], expected: "never_held [1, 2, 3, 4]", because: undone("the grant of 6 January 2026, 00:00 UTC")),
        Case(
            testDescription: "made again",
            told: [
                month(of: bob), linked(bob, to: alice, on: 1), linked(bob, to: bob, on: 2),
                linked(bob, to: alice, on: 3),
            ], expected: "paid_period [1, 2, 5]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC"),
        Case(
            testDescription: "what has run out would be closed with the link, too",
            told: [month(of: bob), linked(bob, to: alice, on: 1), linked(bob, to: bob, on: 10)], at: 40,
            expected: "never_held []", because: nothing),
        Case(
            testDescription: "before it was bought",
            told: [month(of: bob), linked(bob, to: alice, on: 1), linked(bob, to: bob, on: 10)], at: -1,
            expected: "never_held []", because: nothing),
        Case(
            testDescription: "a link that never had to do with it",
            told: [
                .statement(subscription("9", "basic", from: 0, to: 30).with { $0.originalTransactionID = "0999" }),
                month(of: bob), linked(bob, to: carol, on: 1), linked(bob, to: bob, on: 10),
            ],
            expected: "never_held []", because: nothing),
        Case(
            testDescription: "the period after one of the customer's own",
            told: [
                month(of: alice), .statement(subscription("2", from: 30, to: 60, .renewal, of: bob)),
                linked(bob, to: alice, on: 31), linked(bob, to: bob, on: 32),
            ], at: 50, expected: "owned_by_another [1, 2, 3, 4, 5]",
            because:
                "pro has been another customer's since 31 January 2026, 00:00 UTC: the link by which it was this "
                + "customer's was taken back on 2 February 2026, 00:00 UTC"),
    ]

    @Test("the link and the event that undid it are told and cited", arguments: cases)
    func words(_ example: Case) {
        let explanation = CustomerHistory(example.told).explanation(at: example.at)
        #expect("\(explanation.decision.rule.code) \(explanation.cited)" == example.expected)
        let isOpen = explanation.decision.givesAccess ? "open" : "closed"
        #expect(
            explanation.decision.sentence
                == "On \(day(example.at).inWords), premium is \(isOpen), because \(example.because).")
    }

    @Test("beside something of the customer's own that gives nothing any more, it is told as what was weighed")
    func considered() {
        let own = Entry.statement(
            subscription("9", from: -60, to: -30).with { $0.originalTransactionID = "0999" })
        let told = [
            own, Self.month(of: bob), Self.linked(bob, to: alice, on: 1), Self.linked(bob, to: bob, on: 10),
        ]
        let explanation = CustomerHistory(told).explanation(at: 20)
        #expect(explanation.decision.rule == .reading(.expired))
        #expect(
            explanation.considered.map(\.sentence) == [
                "pro is active, and is another customer's: the link by which it was this customer's was taken back on "
                    + "11 January 2026, 00:00 UTC."
            ])
        #expect(CustomerHistory(of: bob, told).explanation(at: 20).decision.givesAccess)
    }
}
