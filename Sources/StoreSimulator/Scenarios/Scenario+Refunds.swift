extension Scenario {
    /// Refunds, and refunds taken back.
    static let refunds: [Scenario] = [
        Scenario("refund_of_the_running_period") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.requestConsumption(key, at: on(1, 9))
            $0.refund(key, at: on(1, 10), signedAt: on(1, 12))
        },
        Scenario("refund_then_renewed") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.renew(key)
        },
        Scenario("refund_then_resubscribed") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.setAutoRenew(key, false, at: on(1, 10, 1))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
            $0.resubscribe(key, at: on(3, 1))
        },
        Scenario("refund_of_an_old_period") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.renew(key)
            $0.refund(key, payment: 0, at: on(2, 10))
        },
        Scenario("refund_after_the_end") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
            $0.refund(key, at: on(2, 10))
        },
        Scenario("refund_after_the_end_then_resubscribed") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
            $0.refund(key, at: on(2, 10))
            $0.resubscribe(key, at: on(3, 1))
        },
        Scenario("refund_in_grace") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.refund(key, at: on(2, 10))
        },
        Scenario("refund_in_retry") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.refund(key, at: on(2, 10))
        },
        Scenario("refund_in_leeway", policy: { $0.leewaySeconds = 86_400 }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(2, 1, 12))
        },
        Scenario("refund_reversed") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.reverseRefund(key, at: on(1, 20))
            $0.renew(key)
        },
        Scenario("refund_reversed_after_the_end") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.expire(key, "VOLUNTARY", at: on(2, 1))
            $0.reverseRefund(key, at: on(2, 20))
        },
        Scenario("refund_reversed_and_refunded_again") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
            $0.reverseRefund(key, at: on(1, 15))
            $0.refund(key, at: on(1, 20))
        },
        Scenario("refund_of_an_upgrade") {
            let key = $0.subscribe(ann, to: StoreWorld.ProductID.plusMonthly, at: on(1, 1))
            $0.change(key, to: StoreWorld.ProductID.proMonthly, at: on(1, 15))
            $0.refund(key, at: on(1, 20))
        },
        Scenario("refund_of_a_lifetime_purchase") {
            let key = $0.buy(ann, StoreWorld.ProductID.lifetime, at: on(1, 1))
            $0.refund(key, at: on(3, 1))
        },
        Scenario("refund_of_a_lifetime_purchase_reversed") {
            let key = $0.buy(ann, StoreWorld.ProductID.lifetime, at: on(1, 1))
            $0.refund(key, at: on(3, 1))
            $0.reverseRefund(key, at: on(4, 1))
        },
        Scenario("refund_of_a_season") {
            let key = $0.buy(ann, StoreWorld.ProductID.season, at: on(1, 1))
            $0.refund(key, at: on(2, 1))
        },
        Scenario("prorated_refund_ends_access") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10), prorated: 40_000)
        },
        Scenario("prorated_refund_keeps_access", policy: { $0.proratedRefund = .keepsAccess }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10), prorated: 40_000)
        },
        Scenario("full_refund_ends_access_all_the_same", policy: { $0.proratedRefund = .keepsAccess }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.refund(key, at: on(1, 10))
        },
    ]
}
