extension Scenario {
    /// Whose it is, and what several purchases give together.
    static let ownership: [Scenario] = [
        Scenario("no_account_token") {
            var account = ann
            account.appAccountToken = nil
            $0.subscribe(account, to: news, at: on(1, 1))
        },
        Scenario("nobodys_purchase") {
            let key = $0.subscribe(
                StoreAccount(.production, appAccountToken: nil, appTransactionID: nil), to: news, at: on(1, 1))
            $0.renew(key)
        },
        Scenario("token_in_upper_case") {
            $0.quirks.upperCaseToken = 100
            $0.subscribe(ann, to: news, at: on(1, 1))
        },
        Scenario("two_logins_on_one_account") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key, token: bob.appAccountToken)
            $0.renew(key)
        },
        Scenario("two_logins_taking_turns") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.resubscribe(key, at: on(3, 1), token: bob.appAccountToken)
            $0.resubscribe(key, at: on(5, 1), token: ann.appAccountToken)
        },
        Scenario("family_shared") {
            $0.subscribe(ann, to: news, at: on(1, 1))
            var member = bob
            member.appAccountToken = nil
            let key = $0.subscribe(member, to: news, at: on(1, 1), familyShared: true)
            $0.renew(key)
            $0.endSharing(key, at: on(2, 10))
        },
        Scenario("family_shared_again") {
            var member = bob
            member.appAccountToken = nil
            let key = $0.subscribe(member, to: news, at: on(1, 1), familyShared: true)
            $0.endSharing(key, at: on(1, 10))
            $0.resubscribe(key, at: on(1, 20))
        },
        Scenario("family_shared_lifetime") {
            var member = bob
            member.appAccountToken = nil
            let key = $0.buy(member, StoreWorld.ProductID.lifetime, at: on(1, 1), familyShared: true)
            $0.endSharing(key, at: on(2, 1))
        },
        Scenario("sandbox_beside_production") {
            var tester = ann
            tester.environment = .sandbox
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            let twin = $0.subscribe(
                tester, to: news, at: on(1, 5), originalTransactionID: key.originalTransactionID)
            $0.refund(twin, at: on(1, 10))
            $0.renew(key)
        },
        Scenario("two_originals_one_entitlement") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            $0.buy(ann, StoreWorld.ProductID.lifetime, at: on(1, 15))
            $0.refund(key, at: on(1, 20))
        },
        Scenario("one_source_lapses_the_other_stays") {
            $0.subscribe(ann, to: StoreWorld.ProductID.newsBundleYearly, at: on(1, 1))
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 10))
            $0.failToRenew(key, at: on(2, 10), graceEnd: on(2, 13))
            $0.endGrace(key, at: on(2, 13))
        },
        Scenario("grace_shown_before_retry") {
            let first = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            let second = $0.subscribe(ann, to: StoreWorld.ProductID.studioMonthly, at: on(1, 2))
            $0.failToRenew(first, at: on(2, 1), graceEnd: on(2, 5))
            $0.failToRenew(second, at: on(2, 2))
        },
        Scenario("revoked_shown_before_expired") {
            let first = $0.buy(ann, StoreWorld.ProductID.lifetime, at: on(1, 1))
            $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 5))
            $0.refund(first, at: on(1, 20))
        },
        Scenario("day_pass_bridges_a_gap") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.studioMonthly, at: on(1, 1))
            $0.buy(ann, StoreWorld.ProductID.dayPass, at: on(1, 31, 12))
            $0.renew(key, purchasedAt: on(2, 1, 6))
        },
    ]
}
