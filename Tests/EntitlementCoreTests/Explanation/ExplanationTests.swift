import Testing

@testable import EntitlementCore

@Suite("Explanations: the rule in one sentence, and the events it rests on")
struct ExplanationTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let told: [Entry]
        var policy = AccessPolicy()
        var at = 40.0
        var customer = alice
        /// `yes paid_period [1, 2]`.
        let expected: String
        /// What follows "On …, premium is …, because ".
        let because: String
    }

    private static let grace = Entry.statement(renewalInfo(signed: 30, graceEnd: 46, renews: true))
    private static let retry = Entry.statement(renewalInfo(signed: 30, retry: true, renews: true))
    private static let month = Entry.statement(subscription("1", from: 0, to: 30))
    private static func shared(revoked: Double? = nil) -> Entry {
        .statement(
            subscription("1", from: 0, to: 90, revoked: revoked, .familyRevoke).with {
                $0.ownership = .known(.familyShared)
            })
    }

    static let reasons: [Case] = [
        Case(
            testDescription: "a paid period", told: [month], at: 10, expected: "yes paid_period [1, 2]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a free trial",
            told: [
                .statement(subscription("1", from: 0, to: 7).with { $0.offer = Offer(type: 1, discount: "FREE_TRIAL") })
            ],
            at: 1, expected: "yes paid_period [1, 2]",
            because: "the free trial of pro runs from 1 January 2026, 00:00 UTC until 8 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a period shared by the family", told: [shared()], at: 10,
            expected: "yes paid_period [1, 2]",
            because: "pro is paid through Family Sharing from 1 January 2026, 00:00 UTC until 1 April 2026, 00:00 UTC"),
        Case(
            testDescription: "a period received by transfer",
            told: [month, .fact(transfer(to: bob), recorded: 5)], at: 10, customer: bob,
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC, and has been this "
                + "customer's since 6 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a transfer between two who are one customer since",
            told: [month, .fact(transfer(to: bob), recorded: 5), .fact(link(alice, to: bob), recorded: 6)], at: 10,
            customer: bob, expected: "yes paid_period [1, 2, 4]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC"),
        Case(
            testDescription: "the first of two transfers, whose receivers are one customer since",
            told: [
                month, .fact(transfer(to: carol), recorded: 5), .fact(transfer(to: bob), recorded: 8),
                .fact(link(carol, to: bob), recorded: 9),
            ],
            at: 10, customer: bob, expected: "yes paid_period [1, 2, 3, 5]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC, and has been this "
                + "customer's since 6 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a transfer that was taken back",
            told: [
                month, .fact(transfer(to: bob), recorded: 5),
                .fact(.transferUndo(TransferUndoFact(originalTransactionID: "1000", undoes: 3)), recorded: 8),
            ],
            at: 10, expected: "yes paid_period [1, 2, 3, 4]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC, and has been this "
                + "customer's since 9 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a claimed period that was stated twice, asked for by an alias",
            told: [
                .statement(subscription("1", from: 0, to: 30, of: nil)), .fact(link(alice, to: bob), recorded: 1),
                .fact(claim(by: bob), recorded: 2),
                .statement(subscription("1", from: 0, to: 30, signed: 3, of: nil)),
            ],
            at: 10, expected: "yes paid_period [1, 3, 4, 5]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 31 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a season that the catalog says how long it runs",
            told: [.statement(oneTime("1", "season", .nonRenewing, at: 0))], expected: "yes paid_period [1, 2]",
            because: "season was bought and runs from 1 January 2026, 00:00 UTC until 1 April 2026, 00:00 UTC"),
        Case(
            testDescription: "a one-time purchase",
            told: [.statement(oneTime("1", "lifetime", .nonConsumable, at: 0))],
            expected: "yes one_time_purchase [1, 2]",
            because: "lifetime was bought on 1 January 2026, 00:00 UTC and does not run out"),
        Case(
            testDescription: "leeway", told: [month], policy: AccessPolicy(leewaySeconds: 86_400), at: 30.5,
            expected: "yes leeway [1, 2]",
            because: "pro ran out on 31 January 2026, 00:00 UTC, and the catalog's policy leaves it open until "
                + "1 February 2026, 00:00 UTC"),
        Case(
            testDescription: "a grant", told: [.fact(granted(until: 60), recorded: 3)], expected: "yes grant [2]",
            because: "it was granted on 4 January 2026, 00:00 UTC, until 2 March 2026, 00:00 UTC"),
        Case(
            testDescription: "a grant without end", told: [.fact(granted(), recorded: 3)], expected: "yes grant [2]",
            because: "it was granted on 4 January 2026, 00:00 UTC, without an end"),
        Case(
            testDescription: "a grace period", told: [month, grace], expected: "yes grace_period [1, 2, 3]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed, and the store grants a "
                + "grace period until 16 February 2026, 00:00 UTC"),
        Case(
            testDescription: "a grace period that the policy closes", told: [month, grace],
            policy: AccessPolicy(graceGivesAccess: false), expected: "no grace_period [1, 2, 3]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed, and the store grants a "
                + "grace period until 16 February 2026, 00:00 UTC, in which the catalog's policy gives no access"),
        Case(
            testDescription: "billing retry", told: [month, retry], expected: "no billing_retry [1, 2, 3]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed, and the store is still "
                + "trying to collect it"),
        Case(
            testDescription: "billing retry that the policy opens", told: [month, retry],
            policy: AccessPolicy(billingRetryGivesAccess: true), expected: "yes billing_retry [1, 2, 3]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed, and the store is still "
                + "trying to collect it, during which the catalog's policy gives access"),
        Case(
            testDescription: "expiry", told: [month], expected: "no expired [1, 2]",
            because: "pro ran out on 31 January 2026, 00:00 UTC and no renewal of it is known"),
        Case(
            testDescription: "a charge given up",
            told: [month, retry, .statement(renewalInfo(signed: 35, renews: false))],
            expected: "no billing_given_up [1, 2, 3, 4]",
            because: "the charge for pro that was due on 31 January 2026, 00:00 UTC failed, and the store no longer "
                + "tries to collect it"),
        Case(
            testDescription: "an upgrade that was not heard of",
            told: [.statement(subscription("1", from: 0, to: 60, signed: 20, upgraded: true))],
            expected: "no upgraded_elsewhere [1, 2]",
            because: "pro was upgraded to another product on 21 January 2026, 00:00 UTC, and nothing has been heard of "
                + "that one yet"),
        Case(
            testDescription: "a change to a product that does not give it",
            told: [month, .statement(subscription("2", "basic", from: 20, to: 50))],
            expected: "no replaced [1, 2, 3]",
            because: "pro was replaced on 21 January 2026, 00:00 UTC by basic, which does not give premium"),
        Case(
            testDescription: "a transfer after such a change",
            told: [
                month, .statement(subscription("2", "basic", from: 20, to: 50)), .fact(transfer(to: bob), recorded: 30),
            ],
            at: 35, customer: bob, expected: "no replaced [1, 2, 3, 4]",
            because: "pro was replaced on 21 January 2026, 00:00 UTC by basic, which does not give premium"),
        Case(
            testDescription: "a refund", told: [.statement(subscription("1", from: 0, to: 90, revoked: 20))],
            expected: "no refunded [1, 2]", because: "pro was refunded on 21 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a refund of which a device's newer statement knows nothing",
            told: [
                .statement(subscription("1", from: 0, to: 90, signed: 20, revoked: 20)),
                .statement(subscription("1", from: 0, to: 90, signed: 25).fromDevice),
            ],
            expected: "no refunded [1, 2, 3]",
            because: "pro was refunded on 21 January 2026, 00:00 UTC; a newer statement of the store's, which a device "
                + "brought, knows nothing of that, so the store is to be asked"),
        Case(
            testDescription: "a refund that the store took back, by what a device had brought before",
            told: [
                .statement(subscription("1", from: 0, to: 90, signed: 20, revoked: 20)),
                .statement(subscription("1", from: 0, to: 90, signed: 25).fromDevice),
                .statement(subscription("1", from: 0, to: 90, signed: 25)),
            ],
            expected: "yes paid_period [1, 2, 4]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 1 April 2026, 00:00 UTC; the store has taken "
                + "back its refund of 21 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a refund that the store took back, whatever was said of it since",
            told: [
                .statement(subscription("1", from: 0, to: 90, signed: 20, revoked: 20)),
                .statement(subscription("1", from: 0, to: 90, signed: 25)),
                .statement(subscription("1", from: 0, to: 90, signed: 30)),
                .statement(subscription("1", from: 0, to: 90, signed: 35).fromDevice),
            ],
            expected: "yes paid_period [1, 2, 3]",
            because: "pro is paid from 1 January 2026, 00:00 UTC until 1 April 2026, 00:00 UTC; the store has taken "
                + "back its refund of 21 January 2026, 00:00 UTC"),
        Case(
            testDescription: "the end of family sharing", told: [shared(revoked: 20)],
            expected: "no family_revoked [1, 2]",
            because: "pro has not been shared by the family since 21 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a grant taken back",
            told: [.fact(granted(), recorded: 3), .fact(takenBack(), recorded: 9.5)],
            expected: "no grant_revoked [2, 3]",
            because: "the grant of 4 January 2026, 00:00 UTC was taken back on 10 January 2026, 12:00 UTC"),
        Case(
            testDescription: "a grant that ended", told: [.fact(granted(until: 20), recorded: 3)],
            expected: "no expired [2]",
            because: "the grant of 4 January 2026, 00:00 UTC ended on 21 January 2026, 00:00 UTC"),
        Case(
            testDescription: "a transfer away",
            told: [.statement(subscription("1", from: 0, to: 90)), .fact(transfer(to: bob), recorded: 5)],
            expected: "no owned_by_another [1, 2, 3]",
            because: "pro has been another customer's since 6 January 2026, 00:00 UTC"),
        Case(
            testDescription: "bought anew without an identity, outside of the app",
            told: [
                .statement(subscription("1", from: 0, to: 20)),
                .statement(subscription("2", from: 30, to: 60, of: nil)),
            ], expected: "no owned_by_another [1, 2, 3]",
            because:
                "pro gave access until 21 January 2026, 00:00 UTC, when it ran out; after that, pro has gone on since "
                + "31 January 2026, 00:00 UTC with a purchase that does not say whose it is, and nobody has claimed it"),
    ]

    static let absences: [Case] = [
        Case(
            testDescription: "before it begins", told: [.statement(subscription("1", from: 50, to: 80))],
            expected: "no not_begun [1, 2]",
            because: "what pro gives begins only on 20 February 2026, 00:00 UTC"),
        Case(
            testDescription: "nothing gives it", told: [.statement(subscription("1", "basic", from: 0, to: 80))],
            expected: "no never_held []", because: "nothing that this customer bought or was given gives premium"),
        Case(
            testDescription: "a customer nobody knows", told: [month], customer: dave,
            expected: "no unknown_customer []", because: "nothing is known of this customer in production"),
    ]

    @Test("every rule, for a yes and for a no", arguments: reasons + absences)
    func rule(_ example: Case) {
        let explanation = CustomerHistory(of: example.customer, policy: example.policy, example.told)
            .explanation(at: example.at)
        let decision = explanation.decision
        #expect(
            "\(decision.givesAccess ? "yes" : "no") \(decision.rule.code) \(explanation.cited)" == example.expected)
        let opening =
            "On \(day(example.at).inWords), premium is \(decision.givesAccess ? "open" : "closed"), because "
        #expect(decision.sentence == opening + example.because + ".")
        #expect(!explanation.outlook.isEmpty, "everything can change")
    }

    @Test("the table has every reason there is")
    func completeness() {
        let told = (Self.reasons.map(\.expected) + WebExplanationTests.cases.map(\.expected)).joined(separator: " ")
        for reason in ReasonCode.allCases { #expect(told.contains(" \(reason.rawValue) "), "\(reason)") }
    }

    @Test("an entitlement that no product gives is told from one never held")
    func unknownEntitlement() {
        let explanation = CustomerHistory([Self.month]).explanation(at: 10, "nonsense")
        #expect(explanation.decision.rule == .unknownEntitlement)
        #expect(explanation.outlook.map(\.code) == [.grant, .catalogMapping])
        #expect(explanation.answer == nil && explanation.timeline == nil)
    }

    @Test("without a name all that is held is explained, or all there is when nothing is")
    func all() {
        let holder = Explainer(CustomerHistory([Self.month]), at: day(10))
        #expect(holder.explanations().map(\.decision.entitlementID) == ["premium"])
        let nobody = Explainer(CustomerHistory(of: dave, [Self.month]), at: day(10))
        #expect(nobody.explanations().map(\.decision.entitlementID) == ["basic", "max", "premium"])
    }

    @Test("a date is written as people write it")
    func words() {
        #expect(day(0.5).adding(milliseconds: 61_999).inWords == "1 January 2026, 12:01:01 UTC")
        #expect(day(59).inWords == "1 March 2026, 00:00 UTC")
    }

    @Test("links that the decision needs are cited, and no others")
    func links() {
        let told: [Entry] = [
            Self.month, .fact(link(alice, to: bob), recorded: 5), .fact(link(carol, to: bob), recorded: 6),
        ]
        #expect(CustomerHistory(of: bob, told).explanation(at: 10).cited == [1, 2, 3])
        #expect(CustomerHistory(of: alice, told).explanation(at: 10).decision.givesAccess)
    }
}
