extension Scenario {
    /// Grace periods and billing retry.
    static let billing: [Scenario] = [
        Scenario("grace_recovered") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.renew(key, purchasedAt: on(2, 5))
        },
        Scenario("grace_given_up") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.setAutoRenew(key, false, at: on(2, 5))
            $0.expire(key, "VOLUNTARY", at: on(2, 5), signedAt: on(2, 5, 1))
        },
        Scenario("grace_then_retry_recovered") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.endGrace(key, at: on(2, 17))
            $0.renew(key, purchasedAt: on(3, 10))
        },
        Scenario("grace_then_retry_unsaid") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17), retryFlag: false)
            $0.setAutoRenew(key, true, at: on(2, 3))
        },
        Scenario("grace_then_sixty_days") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.endGrace(key, at: on(2, 17))
            $0.expire(key, "BILLING_RETRY", at: on(4, 2))
        },
        Scenario("grace_ended_before_its_time") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.endGrace(key, at: on(2, 10), signedAt: on(2, 10))
        },
        Scenario("grace_moved") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 4))
            $0.failToRenew(key, at: on(2, 3), graceEnd: on(2, 17))
        },
        Scenario("retry_then_grace") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.failToRenew(key, at: on(2, 2), graceEnd: on(2, 17), signedAt: on(2, 2))
        },
        Scenario("retry_recovered") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.renew(key, purchasedAt: on(2, 20))
        },
        Scenario("retry_given_up") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.expire(key, "BILLING_RETRY", at: on(2, 20), signedAt: on(2, 20))
        },
        Scenario("retry_sixty_days_in_silence") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
        },
        Scenario("resubscribed_in_retry") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.resubscribe(key, at: on(2, 20))
        },
        Scenario("grace_without_an_end") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), isCalledGrace: true)
        },
        Scenario("grace_with_the_flag_down") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17), retryFlag: false)
            $0.renew(key, purchasedAt: on(2, 5))
        },
        Scenario("failure_stated_before_the_end") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(1, 31, 6), graceEnd: on(2, 17))
            $0.endGrace(key, at: on(2, 17))
        },
        Scenario("failure_withdrawn_before_the_end") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(1, 31, 6))
            $0.withdrawProblem(key, at: on(1, 31, 12))
            $0.failToRenew(key, at: on(2, 2), graceEnd: on(2, 10), signedAt: on(2, 2))
        },
        Scenario("failure_recovered_before_the_end") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(1, 31, 6), graceEnd: on(2, 17))
            $0.renew(key, purchasedAt: on(1, 31, 12))
        },
        Scenario("failure_stated_late") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 3), graceEnd: on(2, 17))
        },
        Scenario("given_up_then_failing_again") {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1))
            $0.expire(key, "BILLING_RETRY", at: on(2, 10), signedAt: on(2, 10))
            $0.resubscribe(key, at: on(3, 1))
            $0.failToRenew(key, at: on(4, 1), graceEnd: on(4, 4))
        },
        Scenario("grace_without_access", policy: { $0.graceGivesAccess = false }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
        },
        Scenario("retry_with_access", policy: { $0.billingRetryGivesAccess = true }) {
            let key = $0.subscribe(ann, to: news, at: on(1, 1))
            $0.failToRenew(key, at: on(2, 1), graceEnd: on(2, 17))
            $0.endGrace(key, at: on(2, 17))
            $0.renew(key, purchasedAt: on(3, 10))
        },
    ]
}
