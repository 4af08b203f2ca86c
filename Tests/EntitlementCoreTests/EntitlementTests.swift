import Testing

@testable import EntitlementCore

@Suite("Entitlement: the union over sources")
struct UnionTests {
    private let pro = subscription("1", from: 0, to: 30)

    @Test("one original's expiry or refund never takes away what another still gives")
    func addsUp() {
        #expect(
            Given(pro).and("1001", oneTime("2", "lifetime", .nonConsumable, at: 20)).timeline()
                == ["0..20 active pro", "20.. active lifetime"])
        #expect(
            Given(subscription("1", from: 0, to: 30, signed: 12, revoked: 10))
                .and("1001", subscription("2", from: 5, to: 35)).origins()
                == ["0..5 active 1000", "5..35 active 1001", "35.. revoked 1000"])
    }

    @Test("what gives access comes before the state's own order")
    func accessFirst() {
        let graced = Given(pro, renewalInfo(signed: 30, graceEnd: 46))
            .and("1001", subscription("2", from: 0, to: 5), renewalInfo(signed: 6, retry: true))
        #expect(graced.origins()[1] == "30..46 in_grace_period 1000")
        let policy = AccessPolicy(graceGivesAccess: false, billingRetryGivesAccess: true)
        let turned = graced.with { $0.policy = policy }
        #expect(
            turned.origins()
                == [
                    "0..30 active 1000", "30..46 in_billing_retry 1001", "46..90 in_billing_retry 1000",
                    "90.. expired 1000",
                ])
    }

    @Test("without access: grace, retry, revoked, expired")
    func stateOrder() {
        let policy = AccessPolicy(graceGivesAccess: false)
        let given = Given(pro, renewalInfo(signed: 30, graceEnd: 46))
            .and("1001", subscription("2", from: 0, to: 20), renewalInfo(signed: 20, retry: true))
            .and("1002", subscription("3", from: 0, to: 20, signed: 9, revoked: 8))
            .and("1003", subscription("4", from: 0, to: 20))
            .with { $0.policy = policy }
        #expect(
            given.origins()
                == [
                    "0..30 active 1000", "30..46 in_grace_period 1000", "46..90 in_billing_retry 1000",
                    "90.. revoked 1002",
                ])
    }

    @Test("then the latest end, then the smallest source and original transaction")
    func ends() {
        #expect(
            Given(pro).and("0999", subscription("2", from: 0, to: 29)).origins()
                == ["0..30 active 1000", "30.. expired 1000"],
            "also once both have lapsed, the period that ended last is the one shown")
        #expect(
            Given(pro).and("0999", subscription("2", from: 0, to: 30)).origins()
                == ["0..30 active 0999", "30.. expired 0999"])
        let granted = Given(pro).with { $0.grants = [grant(recorded: 0, until: 30)] }
        #expect(granted.origins() == ["0..30 active 1000", "30.. expired 1000"])
        let endless = Given(pro).with { $0.grants = [grant(recorded: 10)] }
        #expect(endless.origins() == ["0..10 active 1000", "10.. active grant"])
    }

    @Test("it splits where state, product, source or original transaction changes, and nowhere else")
    func splits() {
        let given = Given(
            pro, subscription("2", from: 30, to: 60, .renewal),
            subscription("3", "pro.yearly", from: 60, to: 90, .renewal))
        #expect(given.timeline() == ["0..60 active pro", "60..90 active pro.yearly", "90.. expired pro.yearly"])
        let other = Given(pro).and("1001", subscription("2", from: 30, to: 60))
        #expect(other.origins() == ["0..30 active 1000", "30..60 active 1001", "60.. expired 1001"])
        let offered = subscription("2", from: 30, to: 60, .renewal).with { $0.offer = Offer(type: 2) }
        #expect(Given(pro, offered).timeline() == ["0..60 active pro", "60.. expired pro"])
    }

    @Test("a product may give several entitlements, each with a timeline of its own")
    func several() {
        let given = Given(pro, subscription("2", "pro.max", from: 10, to: 40), subscription("3", from: 20, to: 50))
        #expect(given.timeline("max") == ["10..20 active pro.max", "20.. expired pro.max"])
        #expect(
            given.timeline() == ["0..10 active pro", "10..20 active pro.max", "20..50 active pro", "50.. expired pro"])
        #expect(given.facts.timelines().map(\.entitlementID) == ["max", "premium"])
    }

    @Test("intervals name all the events they rest on, in order")
    func positions() {
        let given = Given(pro, renewalInfo(signed: 30, graceEnd: 46), subscription("2", from: 30, to: 60, .renewal))
        #expect(given.facts.timelines().first?.intervals.map(\.positions) == [[1, 3], [2, 3], [2, 3]])
    }
}

@Suite("Entitlement: the answer at an instant")
struct AnswerTests {
    private let renewed = Given(
        subscription("1", from: 0, to: 30), subscription("2", "pro.yearly", from: 30, to: 60, .renewal),
        renewalInfo(signed: 60, graceEnd: 76), subscription("3", from: 80, to: 110))

    private func run(_ given: Given, at instant: Double) -> String {
        guard let answer = given.answer(at: instant) else { return "none" }
        let until = answer.until.map { label($0) } ?? "null"
        return "\(answer.state.rawValue) \(answer.givesAccess) \(label(answer.since))..\(until)"
    }

    @Test("since and until bound the unbroken run of the same access, across periods, products and states")
    func runs() {
        #expect(run(renewed, at: -1) == "none")
        #expect(run(renewed, at: 0) == "active true 0..76")
        #expect(run(renewed, at: 45) == "active true 0..76")
        #expect(run(renewed, at: 60) == "in_grace_period true 0..76")
        #expect(run(renewed, at: 76) == "in_billing_retry false 76..80")
        #expect(run(renewed, at: 80) == "active true 80..110")
        #expect(run(renewed, at: 110) == "expired false 110..null")
        #expect(run(renewed, at: 99_999) == "expired false 110..null")
    }

    @Test("across sources and through grants")
    func acrossSources() {
        let given = renewed.with { $0.grants = [grant(recorded: 70, until: 85)] }
        #expect(run(given, at: 10) == "active true 0..110")
        #expect(
            run(given.and("1001", oneTime("9", "lifetime", .nonConsumable, at: 109)), at: 10) == "active true 0..null")
    }

    @Test("the policy decides what is one run")
    func policy() {
        let strict = renewed.with { $0.policy = AccessPolicy(graceGivesAccess: false) }
        #expect(run(strict, at: 45) == "active true 0..60")
        #expect(run(strict, at: 60) == "in_grace_period false 60..80")
        let lenient = renewed.with { $0.policy = AccessPolicy(billingRetryGivesAccess: true) }
        #expect(run(lenient, at: 78) == "in_billing_retry true 0..110")
    }

    @Test("half-open: the end itself is the next state's, to the millisecond")
    func halfOpen() {
        let facts = Given(subscription("1", from: 0, to: 30)).facts
        let last = Timestamp(milliseconds: day(30).milliseconds - 1)
        #expect(facts.answers(at: last).map(\.state) == [.active])
        #expect(facts.answers(at: day(30)).map(\.state) == [.expired])
        #expect(facts.answers(at: Timestamp(milliseconds: day(0).milliseconds - 1)).isEmpty)
    }
}

@Suite("Entitlement: will_renew")
struct WillRenewTests {
    private let period = subscription("1", from: 0, to: 30)

    @Test("what the newest statement signed at or before the instant says of auto-renewal")
    func newest() {
        let given = Given(period, renewalInfo(signed: 0, renews: true), renewalInfo(signed: 10, renews: false))
        #expect(given.answer(at: 9.5)?.willRenew == true)
        #expect(given.answer(at: 10)?.willRenew == false)
        let reordered = Given(period, renewalInfo(signed: 10, renews: false), renewalInfo(signed: 0, renews: true))
        #expect(reordered.answer(at: 20)?.willRenew == false)
    }

    @Test("nothing known is null, and so is a newest statement that says nothing of it")
    func unknown() {
        #expect(.some(Given(period).answer(at: 1)?.willRenew) == .some(Bool?.none))
        let given = Given(period, renewalInfo(signed: 5, renews: true), renewalInfo(signed: 6))
        #expect(.some(given.answer(at: 5.5)?.willRenew) == .some(true))
        #expect(given.answer(at: 4)?.willRenew == nil, "signed later")
        #expect(given.answer(at: 7)?.willRenew == nil)
    }

    @Test("a statement without a signed date counts until a dated one does")
    func undated() {
        let given = Given(period, renewalInfo(signed: nil, renews: true), renewalInfo(signed: 6, renews: false))
        #expect(given.answer(at: 5)?.willRenew == true)
        #expect(given.answer(at: 6)?.willRenew == false)
    }

    @Test("false when expired or revoked, whatever was said")
    func lapsed() {
        let given = Given(period, renewalInfo(signed: 0, renews: true))
        #expect(given.answer(at: 30)?.willRenew == false)
        let refunded = Given(
            subscription("1", from: 0, to: 30, signed: 12, revoked: 10), renewalInfo(signed: 0, renews: true))
        #expect(refunded.answer(at: 11)?.willRenew == false)
    }

    @Test("in grace, retry and leeway what the statement says")
    func tails() {
        let graced = Given(period, renewalInfo(signed: 30, graceEnd: 46, renews: true))
        #expect(graced.answer(at: 31)?.willRenew == true)
        #expect(graced.answer(at: 50)?.willRenew == true)
        let leeway = Given(
            period, renewalInfo(signed: 0, renews: true), policy: AccessPolicy(leewaySeconds: 86_400))
        #expect(leeway.answer(at: 30.5)?.willRenew == true)
    }

    @Test("null for one-time purchases and grants, lapsed ones included")
    func oneTimePurchases() {
        let lifetime = Given(
            oneTime("1", "lifetime", .nonConsumable, at: 0, signed: 12, revoked: 10),
            renewalInfo(signed: 0, renews: true))
        #expect(lifetime.answer(at: 1)?.willRenew == nil)
        #expect(lifetime.answer(at: 11)?.willRenew == nil)
        let granted = Given().with { $0.grants = [grant(recorded: 0, until: 5)] }
        #expect(granted.answer(at: 1)?.willRenew == nil)
        #expect(granted.answer(at: 6)?.willRenew == nil)
    }

    @Test("of the original transaction that is shown")
    func ofTheShown() {
        let given = Given(period, renewalInfo(signed: 0, renews: false))
            .and("1001", subscription("2", from: 0, to: 60), renewalInfo(signed: 0, renews: true))
        #expect(given.answer(at: 1)?.reading.originalTransactionID == "1001")
        #expect(given.answer(at: 1)?.willRenew == true)
    }
}

@Suite("Policy and grants")
struct PolicyTests {
    private let period = subscription("1", from: 0, to: 30)

    @Test("the defaults are those of the contract")
    func defaults() {
        let policy = AccessPolicy()
        #expect(EntitlementState.allCases.filter { policy.givesAccess($0) } == [.active, .inGracePeriod])
        #expect(policy.leewaySeconds == 0)
        #expect(policy.proratedRefund == .endsAccess)
    }

    @Test("leeway follows a period that simply ran out, and is active")
    func leeway() {
        let day = AccessPolicy(leewaySeconds: 86_400)
        #expect(
            Given(period, policy: day).reasons()
                == ["0..30 active paid_period", "30..31 active leeway", "31.. expired expired"])
        #expect(
            Given(oneTime("1", "season", .nonRenewing, at: 0), policy: day).timeline()
                == ["0..91 active season", "91.. expired season"])
    }

    @Test("leeway ends with the next period, and with a revocation")
    func leewayClipped() {
        let week = AccessPolicy(leewaySeconds: 7 * 86_400)
        #expect(
            Given(period, subscription("2", "basic", from: 33, to: 60), policy: week).reasons()
                == ["0..30 active paid_period", "30..33 active leeway", "33.. expired replaced"])
        #expect(
            Given(subscription("1", from: 0, to: 30, signed: 40, revoked: 32), policy: week).timeline()
                == ["0..32 active pro", "32.. revoked pro"])
    }

    @Test("no leeway after grace or retry, an upgrade, a refund, or a grant")
    func noLeeway() {
        let week = AccessPolicy(leewaySeconds: 7 * 86_400)
        #expect(
            Given(period, renewalInfo(signed: 30, graceEnd: 32), policy: week).timeline()
                == [
                    "0..30 active pro", "30..32 in_grace_period pro", "32..90 in_billing_retry pro", "90.. expired pro",
                ])
        #expect(
            Given(subscription("1", from: 0, to: 30, signed: 12, upgraded: true), policy: week).timeline()
                == ["0..12 active pro", "12.. expired pro"])
        #expect(
            Given(subscription("1", from: 0, to: 30, signed: 12, revoked: 10), policy: week).timeline()
                == ["0..10 active pro", "10.. revoked pro"])
        let granted = Given(policy: week).with { $0.grants = [grant(recorded: 0, until: 5)] }
        #expect(granted.timeline() == ["0..5 active -", "5.. expired -"])
    }

    @Test("an extreme leeway is no trap", arguments: [Int64.max, Int64.max / 1000 + 1, Int64.min, -1])
    func extremeLeeway(seconds: Int64) {
        let given = Given(period, policy: AccessPolicy(leewaySeconds: seconds))
        #expect(given.answer(at: 40)?.givesAccess == (seconds > 0))
    }

    @Test("a grant gives from its recorded instant until its end, or without one")
    func grants() {
        #expect(
            Given().with { $0.grants = [grant(recorded: 3, until: 9)] }.reasons()
                == ["3..9 active grant", "9.. expired expired"])
        #expect(Given().with { $0.grants = [grant(recorded: 3)] }.reasons() == ["3.. active grant"])
        #expect(Given().with { $0.grants = [grant(recorded: 3, until: 1)] }.timeline() == ["3.. expired -"])
    }

    @Test("taken back, it reads revoked from that instant; after its end nothing changes")
    func grantRevoked() {
        #expect(
            Given().with { $0.grants = [grant(recorded: 3, until: 9, revoked: 5)] }.reasons()
                == ["3..5 active grant", "5.. revoked grant_revoked"])
        #expect(
            Given().with { $0.grants = [grant(recorded: 3, revoked: 5)] }.timeline() == [
                "3..5 active -", "5.. revoked -",
            ])
        #expect(
            Given().with { $0.grants = [grant(recorded: 3, until: 9, revoked: 9)] }.timeline()
                == ["3..9 active -", "9.. expired -"])
        #expect(
            Given().with { $0.grants = [grant(recorded: 3, revoked: 3)] }.timeline() == ["3.. revoked -"])
    }

    @Test("grants of others give nothing")
    func grantOfAnother() {
        #expect(Given().with { $0.grants = [grant(recorded: 3, to: bob)] }.timeline().isEmpty)
    }
}
