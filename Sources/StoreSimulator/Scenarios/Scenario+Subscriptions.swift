extension Scenario {
    /// Bought, renewed, changed, left, taken up again.
    static let subscriptions: [Scenario] = [
        Scenario("first_purchase") { $0.subscribe(ann, to: news, at: on(1, 1)) },
        Scenario("first_notice_missed") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1), announced: false)
            $0.renew(key)
        },
        Scenario("renewed_on_time") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key)
            $0.renew(key)
        },
        Scenario("renewal_charged_early") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key, purchasedAt: on(1, 31, 4))
            $0.expire(key, "VOLUNTARY", at: on(3, 1))
        },
        Scenario("renewal_announced_early") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key, signedAt: on(1, 31, 20))
        },
        Scenario("late_renewal_leaves_a_gap") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key, purchasedAt: on(2, 2, 12))
        },
        Scenario("free_trial_converts") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1), offer: .freeTrial)
            $0.renew(key)
        },
        Scenario("free_trial_lapses") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1), offer: .freeTrial)
            $0.setAutoRenew(key, false, at: on(1, 2))
            $0.expire(key, "VOLUNTARY", at: on(1, 8))
        },
        Scenario("paid_up_front") { $0.subscribe(ann, to: news, at: on(1, 1), offer: .payUpFront) },
        Scenario("offer_code_then_promotional") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1), offer: .offerCode)
            $0.renew(key, offer: .promotional)
        },
        Scenario("auto_renew_off_and_on") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.setAutoRenew(key, false, at: on(1, 10))
            $0.setAutoRenew(key, true, at: on(1, 20))
            $0.renew(key)
        },
        Scenario("expired_voluntarily") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.setAutoRenew(key, false, at: on(1, 10))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
        },
        Scenario("expired_for_the_price") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.announcePrice(key, accepted: false, at: on(1, 10))
            $0.expire(key, "PRICE_INCREASE", at: on(2, 1))
        },
        Scenario("resubscribed") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.setAutoRenew(key, false, at: on(1, 10))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
            $0.resubscribe(key, at: on(4, 10))
        },
        Scenario("won_back_with_another_product") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
            $0.resubscribe(key, to: StoreWorld.ProductID.newsBundleYearly, at: on(3, 1), offer: .winBack)
        },
        Scenario("upgrade") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.plusMonthly, at: on(1, 1))
            $0.change(key, to: StoreWorld.ProductID.proMonthly, at: on(1, 15))
            $0.restate(key, payment: 0, at: on(1, 16))
        },
        Scenario("upgrade_with_offer") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.plusMonthly, at: on(1, 1))
            $0.change(key, to: StoreWorld.ProductID.proMonthly, at: on(1, 15), offer: .promotional)
            $0.renew(key)
        },
        Scenario("upgrade_never_seen") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.stateUpgraded(key, at: on(1, 15), signedAt: on(1, 15, 6))
        },
        Scenario("crossgrade_at_once") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            $0.change(key, to: StoreWorld.ProductID.studioMonthly, at: on(1, 15))
        },
        Scenario("downgrade_at_renewal") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            $0.planRenewal(key, as: StoreWorld.ProductID.plusMonthly, at: on(1, 15))
            $0.renew(key)
        },
        Scenario("downgrade_charged_early") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            $0.planRenewal(key, as: StoreWorld.ProductID.plusMonthly, at: on(1, 15))
            $0.renew(key, purchasedAt: on(1, 31, 12))
        },
        Scenario("downgrade_called_off") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            $0.planRenewal(key, as: StoreWorld.ProductID.plusMonthly, at: on(1, 15))
            $0.planRenewal(key, as: StoreWorld.ProductID.proMonthly, at: on(1, 20))
            $0.renew(key)
        },
        Scenario("renewal_extended") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.extend(key, byDays: 10, at: on(1, 20))
            $0.renew(key)
        },
        Scenario("leeway_runs_out", policy: { $0.leewaySeconds = 86_400 }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
        },
        Scenario("leeway_bridges_a_late_renewal", policy: { $0.leewaySeconds = 86_400 }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key, purchasedAt: on(2, 1, 18))
        },
        Scenario("leeway_not_after_billing_problems", policy: { $0.leewaySeconds = 86_400 }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.expire(key, "BILLING_RETRY", at: on(2, 1), signedAt: on(2, 1, 12))
        },
        Scenario("leeway_not_after_an_upgrade", policy: { $0.leewaySeconds = 86_400 }) {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.proMonthly, at: on(1, 1))
            $0.change(key, to: StoreWorld.ProductID.studioMonthly, at: on(1, 15))
        },
    ]
}
