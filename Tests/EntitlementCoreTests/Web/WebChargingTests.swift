import Testing

@testable import EntitlementCore

/// Of one month that ends on day 30, unless the row says otherwise.
@Suite("Web checkout: what Stripe charges for again")
struct WebChargingTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let said: WebTold
        /// `nil`: nothing is known.
        let renewal: WebCharging.Renewal?
        var isRetried = false
        var isCharged = false
        var goesOn = false
        var willRenew = false
    }

    private static func charged(_ name: String, _ said: WebTold, willRenew: Bool = true) -> Row {
        Row(
            testDescription: name, said: said, renewal: .charged, isCharged: true, goesOn: true, willRenew: willRenew)
    }

    private static func retried(
        _ name: String, _ said: WebTold, _ renewal: WebCharging.Renewal, willRenew: Bool = false
    ) -> Row {
        Row(
            testDescription: name, said: said, renewal: renewal, isRetried: true, isCharged: true, goesOn: true,
            willRenew: willRenew)
    }

    /// A month and a year in one subscription.
    private static let mixed = says("active", at: 1, until: 30, items: ["si_1", "si_2"]).with {
        $0.subscription?.items[1].periodEnd = day(365)
    }

    static let rows: [Row] = [
        charged("active", says("active", at: 1, until: 30)),
        charged("trialing", says("trialing", at: 1, until: 14, trial: (from: 0, to: 14))),
        Row(
            testDescription: "cancel_at_period_end", said: says("active", at: 1, until: 30, cancelsAtEnd: true),
            renewal: .cancelled),
        Row(
            testDescription: "a trial with cancel_at_period_end",
            said: says("trialing", at: 1, until: 14, cancelsAtEnd: true), renewal: .cancelled),
        Row(
            testDescription: "cancel_at within this period", said: says("active", at: 1, until: 30, cancelAt: 12),
            renewal: .cancelled),
        Row(
            testDescription: "cancel_at at its end", said: says("active", at: 1, until: 30, cancelAt: 30),
            renewal: .cancelled),
        Row(
            testDescription: "cancel_at in the second after it",
            said: says("active", at: 1, until: 30, cancelAt: 30 + hours(1) / 3600), renewal: .cancelled),
        charged("cancel_at two periods ahead", says("active", at: 1, until: 30, cancelAt: 90), willRenew: false),
        charged(
            "cancel_at an hour into the next", says("active", at: 1, until: 30, cancelAt: 30 + hours(1)),
            willRenew: false),
        Row(
            testDescription: "cancel_at, and no period is known", said: says("active", at: 1, cancelAt: 90),
            renewal: .cancelled),
        charged(
            "cancel_at with the year, and a month is charged until then",
            mixed.with { $0.subscription?.cancelAt = day(365) }, willRenew: false),
        Row(
            testDescription: "collection is paused", said: says("active", at: 1, until: 30, pause: "void"),
            renewal: .paused, goesOn: true),
        Row(
            testDescription: "collection is paused in a trial",
            said: says("trialing", at: 1, until: 14, pause: "keep_as_draft"), renewal: .paused, goesOn: true),
        Row(
            testDescription: "collection is paused, and it ends with the period",
            said: says("active", at: 1, until: 30, cancelsAtEnd: true, pause: "void"), renewal: .cancelled),
        Row(
            testDescription: "collection is paused, and cancel_at is two periods ahead",
            said: says("active", at: 1, until: 30, cancelAt: 90, pause: "void"), renewal: .paused, goesOn: true),
        Row(
            testDescription: "paused: a trial ended without a card", said: says("paused", at: 14, until: 14),
            renewal: .awaitsCard),
        retried("past_due", says("past_due", at: 1, until: 30), .charged, willRenew: true),
        retried(
            "past_due with cancel_at_period_end", says("past_due", at: 1, until: 30, cancelsAtEnd: true), .cancelled),
        retried("past_due with cancel_at", says("past_due", at: 1, until: 30, cancelAt: 12), .cancelled),
        retried("past_due, and collection is paused", says("past_due", at: 1, until: 30, pause: "void"), .paused),
        Row(testDescription: "unpaid", said: says("unpaid", at: 1, until: 30), renewal: .awaitsPayment),
        Row(
            testDescription: "unpaid, and to end", said: says("unpaid", at: 1, until: 30, cancelsAtEnd: true),
            renewal: .cancelled),
        Row(testDescription: "never paid", said: says("incomplete", at: 1, until: 30), renewal: .awaitsPayment),
        Row(testDescription: "never paid in time", said: says("incomplete_expired", at: 1), renewal: .cancelled),
        Row(testDescription: "canceled", said: says("canceled", at: 1, until: 30), renewal: .cancelled),
        Row(testDescription: "ended", said: says("canceled", at: 1, until: 30, ended: 1), renewal: .cancelled),
        Row(
            testDescription: "ended while it was past due", said: says("past_due", at: 1, until: 30, ended: 1),
            renewal: .cancelled),
        Row(testDescription: "a status that nobody knows", said: says("hibernating", at: 1, until: 30), renewal: nil),
        Row(
            testDescription: "ended, by a status that nobody knows",
            said: says("hibernating", at: 1, until: 30, ended: 1), renewal: .cancelled),
    ]

    @Test("one statement", arguments: rows)
    func statement(_ row: Row) throws {
        let said = try #require(row.said.fact.subscription)
        let charging = said.charging
        #expect(charging?.renewal == row.renewal)
        #expect(charging?.isRetried ?? false == row.isRetried)
        #expect(charging?.isCharged ?? false == row.isCharged)
        #expect(charging?.goesOn ?? false == row.goesOn)
        #expect(said.willRenew == row.willRenew, "which is the field's letter, and another question")
    }

    private static let month = paidLine("1", from: 0, to: 30)

    @Test("forget names what is charged again, with what is paused told apart, and nothing else", arguments: rows)
    func running(_ row: Row) {
        let known = WebGiven(Self.month, row.said)
        let charges = known.facts.runningCharges(at: day(15))
        // Of what nothing is known it is the time that is paid for.
        #expect(charges.map(\.originalTransactionID) == (row.goesOn || row.renewal == nil ? ["sub_1"] : []))
        #expect(charges.map(\.isPaused) == charges.map { _ in row.renewal == .paused && !row.isRetried })
        #expect(charges.allSatisfy { $0.productID == "pro" && $0.isOfWeb })
    }

    @Test("nothing is sold again that is charged again", arguments: rows)
    func sale(_ row: Row) throws {
        let facts = WebGiven(Self.month, row.said).facts
        let pro = try #require(facts.catalog.product("pro"))
        let obstacle = facts.obstacle(toSelling: pro, at: day(15))
        let expected: WebSaleObstacle? =
            row.willRenew ? .held(.webCheckout) : row.goesOn ? .charged(originalTransactionID: "sub_1") : nil
        #expect(obstacle == expected)
        #expect(facts.productsChargedOnWeb(at: day(15)) == (row.goesOn ? ["pro"] : []))
    }

    @Test("the newest word counts, except of what is over, and where nobody knows the status")
    func newest() {
        let web = OriginalState(
            web: [
                says("active", at: 3, until: 30), says("active", at: 5, until: 30, cancelAt: 30),
                says("hibernating", at: 7, until: 30), says("active", at: 9, until: 30, cancelAt: 90),
                says("hibernating", at: 11, ended: 11), says("active", at: 12, until: 30),
            ], of: "sub_1"
        ).web
        func renewal(_ at: Double) -> WebCharging.Renewal? { web?.charging(at: day(at))?.renewal }
        #expect(renewal(2) == nil && renewal(3) == .charged && renewal(5) == .cancelled && renewal(8) == .cancelled)
        #expect(renewal(9) == .charged)
        #expect(renewal(11) == .cancelled && renewal(12) == .cancelled, "what is over is over")
    }

    @Test("what gives access, and is to end some day, is charged for until then")
    func reading() {
        let facts = WebGiven(Self.month, says("active", at: 0, until: 30, cancelAt: 90)).facts
        func isCharged(_ at: Double) -> [Bool] {
            facts.answers(at: day(at)).map { facts.isCharged($0.reading, at: day(at)) }
        }
        #expect(isCharged(3) == [true] && isCharged(95) == [false])
    }
}
