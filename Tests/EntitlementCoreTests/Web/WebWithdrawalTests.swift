import Testing

@testable import EntitlementCore

/// Each test is a sentence of the contract on refunds and disputes of what was bought on the web.
@Suite("Web checkout: refunds and disputes")
struct WebWithdrawalTests {
    private let first = paidLine("1", from: 0, to: 30, by: "pi_1")
    private let second = paidLine("2", from: 30, to: 60, by: "pi_2")

    @Test("a full refund reads revoked from its own date, of its own invoice alone")
    func full() {
        #expect(
            WebGiven(first, second, refunded(at: 10)).reasons() == [
                "0..10 active paid_period", "10..30 revoked refunded", "30..60 active paid_period",
                "60.. expired expired",
            ])
        let given = WebGiven(first, refunded(at: 10, told: 12))
        #expect(given.answer(at: day(10).adding(milliseconds: -1))?.state == .active)
        #expect(given.answer(at: day(10))?.state == .revoked)
        #expect(given.reasons() == ["0..10 active paid_period", "10.. revoked refunded"])
    }

    @Test("it outranks the bridge")
    func bridge() {
        let running = says("past_due", at: 30, until: 60)
        #expect(
            WebGiven(first, running, refunded(at: 10)).reasons()
                == ["0..10 active paid_period", "10.. revoked refunded"])
        #expect(
            WebGiven(first, running, refunded(at: 32)).reasons() == [
                "0..30 active paid_period", "30..32 in_grace_period past_due", "32.. revoked refunded",
            ])
    }

    @Test("after a refund the next payment opens again when it was made")
    func paidAgain() {
        let late = paidLine("2", from: 30, to: 60, at: 31, by: "pi_2")
        #expect(
            WebGiven(first, late, refunded(at: 10)).reasons().prefix(3) == [
                "0..10 active paid_period", "10..31 revoked refunded", "31..60 active paid_period",
            ])
    }

    @Test("a refund dated after the next period began leaves everything as it was")
    func late() {
        #expect(
            WebGiven(first, second, refunded(at: 40)).timeline() == ["0..60 active pro", "60.. expired pro"])
    }

    struct Overlap: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [WebTold]
        let expected: [String]
    }

    static let overlaps: [Overlap] = {
        let month = paidLine("1", from: 0, to: 30, by: "pi_1")
        let again = paidLine("2", from: 0, to: 30, at: 1, by: "pi_2")
        let year = paidLine("2", "pro.yearly", from: 5, to: 370, by: "pi_2")
        return [
            Overlap(
                testDescription: "changed to a year without a proration, and the month is given back",
                told: [month, year, refunded(at: 10)],
                expected: ["0..10 active pro", "10..370 active pro.yearly", "370.. expired pro.yearly"]),
            Overlap(
                testDescription: "the month is given back before the year begins",
                told: [month, year, refunded(at: 3)],
                expected: [
                    "0..3 active pro", "3..5 revoked pro", "5..370 active pro.yearly", "370.. expired pro.yearly",
                ]),
            Overlap(
                testDescription: "its dispute is lost", told: [month, year, disputed(at: 10, told: 20, "lost")],
                expected: ["0..10 active pro", "10..370 active pro.yearly", "370.. expired pro.yearly"]),
            Overlap(
                testDescription: "its dispute is won",
                told: [month, year, disputed(at: 10), disputed(at: 10, told: 20, "won")],
                expected: ["0..30 active pro", "30..370 active pro.yearly", "370.. expired pro.yearly"]),
            Overlap(
                testDescription: "the year is given back", told: [month, year, refunded(at: 10, payment: "pi_2")],
                expected: ["0..30 active pro", "30.. revoked pro.yearly"]),
            Overlap(
                testDescription: "paid twice, and the first is given back", told: [month, again, refunded(at: 10)],
                expected: ["0..30 active pro", "30.. expired pro"]),
            Overlap(
                testDescription: "paid twice, and the second is given back",
                told: [month, again, refunded(at: 10, payment: "pi_2")],
                expected: ["0..30 active pro", "30.. expired pro"]),
            Overlap(
                testDescription: "paid twice, and both are given back",
                told: [month, again, refunded(at: 10), refunded("2", at: 12, payment: "pi_2")],
                expected: ["0..12 active pro", "12.. revoked pro"]),
            Overlap(
                testDescription: "a year is given back beside which months are paid",
                told: [
                    paidLine("1", "pro.yearly", from: 0, to: 365, by: "pi_1"), paidLine("2", from: 5, to: 35),
                    paidLine("3", from: 35, to: 65), refunded(at: 10),
                ],
                expected: ["0..10 active pro.yearly", "10..65 active pro", "65.. expired pro"]),
            Overlap(
                testDescription: "what was given back does not run where the later one is replaced",
                told: [
                    month, year, refunded(at: 10),
                    paid(
                        "3", line("3a", "pro.yearly", from: 20, to: 370, proration: true, amount: -900),
                        line("3b", "pro.max", from: 20, to: 50), at: 20),
                ],
                expected: [
                    "0..10 active pro", "10..20 active pro.yearly", "20..50 active pro.max", "50.. expired pro.max",
                ]),
        ]
    }()

    @Test("it takes nothing away that another invoice paid for", arguments: overlaps)
    func overlapping(_ example: Overlap) {
        #expect(WebGiven(policy: AccessPolicy()).with { $0.told = example.told }.timeline() == example.expected)
        #expect(
            WebGiven(policy: AccessPolicy()).with { $0.told = example.told.reversed() }.timeline() == example.expected)
    }

    @Test("what begins at a refund rests on it, too, and before it was known nothing was otherwise")
    func rests() {
        let given = Self.overlaps[0]
        let withdrawal = WebGiven(policy: AccessPolicy()).with { $0.told = given.told }
        let facts = withdrawal.facts
        let chain = facts.originals["sub_1"]?.chains(facts.catalog).first
        #expect(chain?.periods.last?.positions.count == 3)
        let before = WebGiven(policy: AccessPolicy()).with { $0.told = Array(given.told.prefix(2)) }
        for instant in [3.0, 9.99] {
            #expect(withdrawal.answer(at: instant)?.reading.productID == before.answer(at: instant)?.reading.productID)
        }
    }

    @Test(
        "what was pending, failed or cancelled never was",
        arguments: ["pending", "requires_action", "failed", "canceled", "odd", nil])
    func without(status: String?) {
        #expect(WebGiven(first, refunded(at: 10, status: status)).timeline() == WebGiven(first).timeline())
        let failed = WebGiven(first, refunded(at: 10, told: 10), refunded(at: 10, told: 11, status: status))
        #expect(failed.timeline() == WebGiven(first).timeline(), "its newest statement counts")
    }

    @Test("of two words in one second the one that is further on counts")
    func sameSecond() {
        let (done, failed) = (refunded(at: 10), refunded(at: 10, status: "failed"))
        #expect(WebGiven(first, done, failed).timeline() == WebGiven(first).timeline())
        #expect(WebGiven(first, failed, done).timeline() == WebGiven(first).timeline())
        let pending = refunded(at: 10, status: "pending")
        #expect(WebGiven(first, done, pending).timeline() == WebGiven(first, done).timeline())
    }

    @Test("partial refunds follow the policy; those that make it full do so from the one that does")
    func partial() {
        let parts = [refunded("a", at: 10, 400), refunded("b", at: 15, 599)]
        #expect(WebGiven(first, parts[0]).timeline() == ["0..10 active pro", "10.. revoked pro"])
        let keeps = AccessPolicy(proratedRefund: .keepsAccess)
        #expect(WebGiven(first, parts[0], policy: keeps).timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(
            WebGiven(first, parts[1], parts[0], policy: keeps).timeline() == ["0..15 active pro", "15.. revoked pro"])
        let short = refunded("b", at: 15, 598)
        #expect(WebGiven(first, short, parts[0], policy: keeps).timeline().first == "0..30 active pro")
    }

    @Test("a refund is traced by its payment intent or its charge, whoever says that they are one")
    func ties() {
        let line = paidLine("1", from: 0, to: 30)
        let revoked = ["0..10 active pro", "10.. revoked pro"]
        #expect(WebGiven(line, refunded(at: 10)).timeline() == WebGiven(line).timeline(), "of nobody knows which")
        #expect(WebGiven(line, refunded(at: 10), invoicePayment("pi_1", to: "in_1", told: 11)).timeline() == revoked)
        #expect(
            WebGiven(line, refunded(at: 10), invoicePayment("pi_1", to: "in_2", told: 11)).timeline()
                == WebGiven(line).timeline())
        let byCharge = refunded(at: 10, charge: "ch_1")
        #expect(WebGiven(line, byCharge, invoicePayment(nil, charge: "ch_1", to: "in_1")).timeline() == revoked)
        #expect(
            WebGiven(
                line, byCharge, invoicePayment("pi_1", to: "in_1"), invoicePayment("pi_1", charge: "ch_1", to: nil)
            ).timeline()
                == revoked)
    }

    @Test("a one-time payment is refunded by its own payment intent")
    func oneTime() {
        let refund = refunded(at: 10, 4999, of: "pi_1")
        #expect(
            WebGiven(paidOnce(at: 0), refund).reasons() == ["0..10 active one_time_purchase", "10.. revoked refunded"])
        let keeps = AccessPolicy(proratedRefund: .keepsAccess)
        let part = refunded(at: 10, 4998, of: "pi_1")
        #expect(WebGiven(paidOnce(at: 0), part, policy: keeps).reasons() == ["0.. active one_time_purchase"])
        let dispute = disputed(at: 10, of: "pi_1")
        #expect(WebGiven(paidOnce(at: 0), dispute).reasons().last == "10.. revoked dispute")
    }

    @Test(
        "a dispute that is open or lost reads revoked from its creation",
        arguments: ["needs_response", "under_review", "lost"])
    func dispute(status: String) {
        #expect(
            WebGiven(first, second, disputed(at: 10, told: 11, status)).reasons() == [
                "0..10 active paid_period", "10..30 revoked dispute", "30..60 active paid_period",
                "60.. expired expired",
            ])
    }

    @Test("where the policy keeps access, only a lost dispute ends it, from when it was closed")
    func keeps() {
        let keeps = AccessPolicy(webDispute: .keepsAccess)
        let open = disputed(at: 10)
        #expect(WebGiven(first, open, policy: keeps).timeline() == WebGiven(first).timeline())
        let lost = [disputed(at: 10, told: 20, "lost"), disputed(at: 10, told: 22, "lost")]
        #expect(
            WebGiven(first, open, lost[1], lost[0], policy: keeps).reasons()
                == ["0..20 active paid_period", "20.. revoked dispute"])
    }

    @Test(
        "won, prevented or with its money back it is withdrawn, and a warning is nothing",
        arguments: ["won", "prevented", "warning_needs_response", "warning_under_review", "warning_closed", "odd"])
    func withdrawn(status: String) {
        #expect(
            WebGiven(first, disputed(at: 10), disputed(at: 10, told: 20, status)).timeline()
                == WebGiven(first).timeline())
        #expect(
            WebGiven(first, disputed(at: 10, told: 20, status), disputed(at: 10)).timeline()
                == WebGiven(first).timeline())
    }

    @Test("money that came back withdraws it, and money that left again does not")
    func funds() {
        let back = disputed(at: 10, told: 20, "needs_response", funds: .reinstated)
        let gone = disputed(at: 10, told: 25, "lost", funds: .withdrawn)
        #expect(WebGiven(first, disputed(at: 10), back).timeline() == WebGiven(first).timeline())
        #expect(WebGiven(first, back, disputed(at: 10, told: 21)).timeline() == WebGiven(first).timeline())
        #expect(WebGiven(first, gone, back).timeline() == ["0..10 active pro", "10.. revoked pro"])
    }

    @Test("what was revoked before the subscription ended stays revoked")
    func endedAfter() {
        #expect(
            WebGiven(first, refunded(at: 10), says("canceled", at: 12, ended: 12)).reasons()
                == ["0..10 active paid_period", "10.. revoked refunded"])
        #expect(
            WebGiven(first, refunded(at: 14), says("canceled", at: 12, ended: 12)).reasons()
                == ["0..12 active paid_period", "12..14 expired cancelled", "14.. revoked refunded"])
    }

    @Test("refund and dispute of one payment: the earlier speaks")
    func both() {
        #expect(WebGiven(first, refunded(at: 12), disputed(at: 10)).reasons().last == "10.. revoked dispute")
        #expect(WebGiven(first, refunded(at: 10), disputed(at: 12)).reasons().last == "10.. revoked refunded")
        #expect(WebGiven(first, refunded(at: 10), disputed(at: 10)).reasons().last == "10.. revoked refunded")
    }
}
