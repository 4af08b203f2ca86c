import Testing

@testable import EntitlementCore

@Suite("Explanations: why a subscription was not renewed")
struct ExplanationLapseTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [Entry]
        var at = 40.0
        let cited: [Int64]
        let because: String
    }

    private static let month = Entry.statement(subscription("1", from: 0, to: 30))
    private static let ranOut = "pro ran out on 31 January 2026, 00:00 UTC"
    private static let plain = ranOut + " and no renewal of it is known"

    private static func says(
        _ renews: Bool?, signed: Double, intent: Int64? = nil, priceIncrease: Int64? = nil
    ) -> Entry {
        .statement(renewalInfo(signed: signed, renews: renews, intent: intent, priceIncrease: priceIncrease))
    }

    static let cases: [Case] = [
        Case(
            testDescription: "set not to renew", told: [month, says(false, signed: 5)], cited: [1, 2, 3],
            because: ranOut + ": it was set not to renew"),
        Case(
            testDescription: "ended by the customer, as the store says afterwards",
            told: [month, says(false, signed: 31, intent: 1)], cited: [1, 2, 3],
            because: ranOut + ": it was set not to renew"),
        Case(
            testDescription: "a higher price", told: [month, says(false, signed: 31, intent: 3)], cited: [1, 2, 3],
            because: ranOut + ": a higher price was not agreed to"),
        Case(
            testDescription: "a higher price that had not been agreed to, of which nothing else was heard",
            told: [month, says(true, signed: 20, priceIncrease: 0)], cited: [1, 2, 3],
            because: ranOut + ": a higher price was not agreed to"),
        Case(
            testDescription: "a higher price that was agreed to",
            told: [month, says(true, signed: 20, priceIncrease: 0), says(true, signed: 25, priceIncrease: 1)],
            cited: [1, 2], because: plain),
        Case(
            testDescription: "the newest word counts",
            told: [month, says(false, signed: 5), says(false, signed: 31, intent: 3)], cited: [1, 2, 4],
            because: ranOut + ": a higher price was not agreed to"),
        Case(
            testDescription: "a product that is not sold any more",
            told: [month, says(false, signed: 31, intent: 4)], cited: [1, 2, 3],
            because: ranOut + ": the store no longer sold it"),
        Case(
            testDescription: "a charge that failed, of which nothing else was heard",
            told: [month, says(false, signed: 31, intent: 2)], cited: [1, 2, 3],
            because: ranOut + ": the charge for its renewal failed"),
        Case(
            testDescription: "set not to renew when it had ended already", told: [month, says(false, signed: 35)],
            cited: [1, 2], because: plain),
        Case(
            testDescription: "renewed later than the instant, which is known now",
            told: [month, .statement(subscription("2", from: 50, to: 80, .renewal))], cited: [1, 2, 3],
            because: ranOut + " and was renewed on 20 February 2026, 00:00 UTC"),
        Case(
            testDescription: "a reason that the store does not tell",
            told: [month, says(false, signed: 31, intent: 5)], cited: [1, 2], because: plain),
        Case(
            testDescription: "set to renew again", told: [month, says(false, signed: 5), says(true, signed: 7)],
            cited: [1, 2], because: plain),
        Case(
            testDescription: "nothing is said of it", told: [month, says(nil, signed: 5)], cited: [1, 2],
            because: plain),
        Case(
            testDescription: "a word that was not signed yet", told: [month, says(false, signed: 45, intent: 3)],
            cited: [1, 2], because: plain),
        Case(
            testDescription: "a word that was signed at the instant",
            told: [month, says(false, signed: 45, intent: 3)], at: 45, cited: [1, 2, 3],
            because: ranOut + ": a higher price was not agreed to"),
        Case(
            testDescription: "a word about the period before",
            told: [month, says(false, signed: 5), .statement(subscription("2", from: 30, to: 60, .renewal))], at: 70,
            cited: [1, 4], because: "pro ran out on 2 March 2026, 00:00 UTC and no renewal of it is known"),
        Case(
            testDescription: "before it was bought again",
            told: [month, says(false, signed: 5), .statement(subscription("2", from: 50, to: 80))], cited: [1, 2, 3],
            because: ranOut + ": it was set not to renew"),
        Case(
            testDescription: "what was bought for a time was never to be renewed",
            told: [.statement(oneTime("1", "season", .nonRenewing, at: 0)), says(false, signed: 5)], at: 100,
            cited: [1, 2], because: "season ran out on 1 April 2026, 00:00 UTC"),
    ]

    @Test("the store's reason is told, and the statement that gives it is cited", arguments: cases)
    func reason(_ example: Case) {
        let explanation = CustomerHistory(example.told).explanation(at: example.at)
        #expect(explanation.decision.rule == .reading(.expired))
        #expect(
            explanation.decision.sentence
                == "On \(day(example.at).inWords), premium is closed, because \(example.because).")
        #expect(explanation.cited == example.cited)
    }

    @Test("what lost against something else tells the reason, too")
    func considered() {
        let told = [Self.month, Self.says(false, signed: 5), .fact(granted(), recorded: 35)]
        #expect(
            CustomerHistory(told).explanation(at: 40).considered.map(\.sentence) == [
                "\(Self.ranOut): it was set not to renew; it gives no access."
            ])
    }

    @Test("a renewal that awaits the customer's consent to a higher price says so, until the customer agrees")
    func consent() {
        func said(_ told: Entry..., at instant: Double = 22) -> [String] {
            CustomerHistory([Self.month] + told).explanation(at: instant).outlook
                .filter { $0.code == .renewal }.map(\.sentence)
        }
        let end = "31 January 2026, 00:00 UTC"
        let pending = Self.says(true, signed: 20, priceIncrease: 0)
        #expect(
            said(pending) == [
                "pro will not renew by \(end) unless the customer agrees to the new, higher price; that they do has not been "
                    + "heard of yet."
            ])
        let plain = ["The store is to renew pro by \(end); that renewal has not been heard of yet."]
        #expect(said(Self.says(true, signed: 1), pending, at: 19) == plain, "it was not known then")
        #expect(said(pending, Self.says(true, signed: 21, priceIncrease: 1)) == plain)
        #expect(said(Self.says(true, signed: 20)) == plain)
        #expect(
            said(.statement(renewalInfo(signed: 20, renews: true, as: "pro.yearly", priceIncrease: 0))) == [
                "pro is to renew as pro.yearly by \(end), which gives premium too; that renewal would keep it open, and has "
                    + "not been heard of yet. It will not unless the customer agrees to the new, higher price; that they do "
                    + "has not been heard of yet."
            ])
        let next = Entry.statement(subscription("2", from: 30, to: 60, .renewal))
        #expect(
            said(pending, next, at: 40) == [
                "The store is to renew pro by 2 March 2026, 00:00 UTC; that renewal has not been heard of yet."
            ], "what was signed before the renewal was about that one")
    }

    @Test("a renewal is awaited only of a subscription")
    func outlook() {
        func codes(_ statement: Statement) -> [Outlook.Code] {
            CustomerHistory([.statement(statement)]).explanation(at: 100).outlook.map(\.code)
        }
        #expect(codes(subscription("1", from: 0, to: 30)) == [.renewal, .grant])
        #expect(codes(oneTime("1", "season", .nonRenewing, at: 0)) == [.purchase, .grant])
    }
}
