import Testing

@testable import EntitlementCore

@Suite("Grace and billing retry")
struct BillingTests {
    private let period = subscription("1", from: 0, to: 30)

    @Test(
        "a grace end reads in grace from the expiry until it, whatever the retry flag says", arguments: [true, false])
    func grace(retry: Bool) {
        #expect(
            Given(period, renewalInfo(signed: 30, graceEnd: 46, retry: retry)).timeline()
                == [
                    "0..30 active pro", "30..46 in_grace_period pro", "46..90 in_billing_retry pro", "90.. expired pro",
                ])
    }

    @Test("before its own signed date the first statement applies too", arguments: [5.0, 30, 33, 200])
    func beforeSigned(signed: Double) {
        #expect(
            Given(period, renewalInfo(signed: signed, graceEnd: 46)).timeline()[1] == "30..46 in_grace_period pro")
    }

    @Test("the retry flag reads billing retry, for sixty days at most")
    func retry() {
        #expect(
            Given(period, renewalInfo(signed: 31, retry: true)).timeline()
                == ["0..30 active pro", "30..90 in_billing_retry pro", "90.. expired pro"])
    }

    @Test("a grace end beyond sixty days ends at sixty days")
    func longGrace() {
        #expect(
            Given(period, renewalInfo(signed: 31, graceEnd: 500)).timeline()
                == ["0..30 active pro", "30..90 in_grace_period pro", "90.. expired pro"])
    }

    @Test("a later statement speaks from its own signed date on")
    func later() {
        let given = Given(
            period, renewalInfo(signed: 30, graceEnd: 46), renewalInfo(signed: 46, retry: true), renewalInfo(signed: 60)
        )
        #expect(
            given.reasons()
                == [
                    "0..30 active paid_period", "30..46 in_grace_period grace_period",
                    "46..60 in_billing_retry billing_retry", "60..90 expired billing_given_up",
                    "90.. expired billing_given_up",
                ])
    }

    @Test("given up within grace, access ends there and the grace before stays as it was")
    func givenUpInGrace() {
        let given = Given(period, renewalInfo(signed: 30, graceEnd: 46), renewalInfo(signed: 35, renews: false))
        #expect(given.timeline() == ["0..30 active pro", "30..35 in_grace_period pro", "35.. expired pro"])
    }

    @Test("recovered later, the grace or retry before still reads as such")
    func recovered() {
        let renewal = subscription("2", from: 36, to: 66, .renewal)
        #expect(
            Given(period, renewal, renewalInfo(signed: 30, graceEnd: 46), renewalInfo(signed: 36, renews: true))
                .timeline()
                == ["0..30 active pro", "30..36 in_grace_period pro", "36..66 active pro", "66.. expired pro"])
        #expect(
            Given(period, renewal, renewalInfo(signed: 30, retry: true)).timeline()
                == ["0..30 active pro", "30..36 in_billing_retry pro", "36..66 active pro", "66.. expired pro"])
    }

    @Test(
        "statements before the first that states grace or retry say nothing, those signed before the expiry speak at it"
    )
    func beforeFirst() {
        #expect(
            Given(period, renewalInfo(signed: 30), renewalInfo(signed: 33, retry: true)).timeline()
                == ["0..30 active pro", "30..90 in_billing_retry pro", "90.. expired pro"],
            "what was said before the first is not asked")
        #expect(
            Given(period, renewalInfo(signed: 28, graceEnd: 46), renewalInfo(signed: 29)).timeline()
                == ["0..30 active pro", "30.. expired pro"],
            "at the expiry the newest of those signed by then speaks")
        #expect(
            Given(period, renewalInfo(signed: 29), renewalInfo(signed: 28)).timeline()
                == ["0..30 active pro", "30.. expired pro"])
    }

    @Test("a statement without the flag turns retry into expiry, and a later one with it back")
    func backAndForth() {
        let given = Given(
            period, renewalInfo(signed: 30, retry: true), renewalInfo(signed: 40), renewalInfo(signed: 50, retry: true),
            renewalInfo(signed: 55, graceEnd: 60))
        #expect(
            given.timeline()
                == [
                    "0..30 active pro", "30..40 in_billing_retry pro", "40..50 expired pro",
                    "50..55 in_billing_retry pro", "55..60 in_grace_period pro", "60..90 in_billing_retry pro",
                    "90.. expired pro",
                ])
    }

    @Test("what failed before and was solved by the expiry gives up nothing at it, though it leaves no leeway")
    func solvedBefore() {
        let policy = AccessPolicy(leewaySeconds: 3600)
        let failed = renewalInfo(signed: 30, graceEnd: 46, retry: true)
        // The payment that solved it is dated back to when it was due.
        let paid = subscription("2", from: 30, to: 60, .renewal)
        #expect(
            Given(
                period, paid, failed, renewalInfo(signed: 33, renews: true), renewalInfo(signed: 50, renews: false),
                policy: policy
            ).reasons().suffix(2) == ["60..120 expired expired", "120.. expired expired"])
        let extended = subscription("1", from: 0, to: 42, signed: 35)
        #expect(
            Given(period, extended, renewalInfo(signed: 30, retry: true), renewalInfo(signed: 35), policy: policy)
                .reasons() == ["0..42 active paid_period", "42..102 expired expired", "102.. expired expired"])
    }

    @Test("a grace end at or before the expiry has passed already: billing retry", arguments: [20.0, 30])
    func graceBeforeExpiry(end: Double) {
        #expect(
            Given(period, renewalInfo(signed: 25, graceEnd: end)).timeline()
                == ["0..30 active pro", "30..90 in_billing_retry pro", "90.. expired pro"])
    }

    @Test("a grace notification without a grace end is billing retry")
    func graceWithoutEnd() {
        #expect(
            Given(period, renewalInfo(signed: 30, labelledGrace: true)).timeline()
                == ["0..30 active pro", "30..90 in_billing_retry pro", "90.. expired pro"])
        #expect(
            Given(period, renewalInfo(signed: 30, graceEnd: 46, labelledGrace: true)).timeline()[1]
                == "30..46 in_grace_period pro")
    }

    @Test("the label belongs to the delivery: any grace delivery of one statement counts, in any order")
    func labelOnOneDelivery() {
        let plain = renewalInfo(signed: 30)
        let labelled = renewalInfo(signed: 30, labelledGrace: true)
        #expect(Given(period, plain, labelled).timeline() == Given(period, labelled, plain).timeline())
        #expect(Given(period, plain, labelled).timeline()[1] == "30..90 in_billing_retry pro")
    }

    @Test("a statement is about the latest period that begins at or before its signed date")
    func aboutWhich() {
        let second = subscription("2", from: 30, to: 60, .renewal)
        #expect(
            Given(period, second, renewalInfo(signed: 29, graceEnd: 46)).timeline()
                == ["0..60 active pro", "60.. expired pro"], "about the first, which the second follows at once")
        #expect(
            Given(period, second, renewalInfo(signed: 30, graceEnd: 70)).timeline()[1] == "60..70 in_grace_period pro")
        #expect(
            Given(period, renewalInfo(signed: -1, graceEnd: 46)).timeline() == ["0..30 active pro", "30.. expired pro"])
        let undated = renewalInfo(signed: nil, graceEnd: 46)
        #expect(Given(period, undated).timeline() == ["0..30 active pro", "30.. expired pro"])
    }

    @Test("for a renewal charged early, the period begins where the earlier ended")
    func aboutEarlyRenewal() {
        let second = subscription("2", from: 28, to: 60, .renewal)
        #expect(
            Given(period, second, renewalInfo(signed: 29, graceEnd: 70)).timeline()
                == ["0..60 active pro", "60.. expired pro"])
        #expect(
            Given(period, second, renewalInfo(signed: 30, graceEnd: 70)).timeline()[1] == "60..70 in_grace_period pro")
    }

    @Test("of one signed date the later grace end speaks")
    func ties() {
        let short = renewalInfo(signed: 30, graceEnd: 36)
        let long = renewalInfo(signed: 30, graceEnd: 46)
        let none = renewalInfo(signed: 30)
        for order in [[short, long, none], [none, long, short], [long, short, none]] {
            let given = Given(period).with { $0.originals["1000"]?.append(contentsOf: order) }
            #expect(given.timeline()[1] == "30..46 in_grace_period pro")
        }
    }

    @Test("one-time purchases know neither grace nor retry")
    func oneTimePurchases() {
        let given = Given(oneTime("1", "season", .nonRenewing, at: 0), renewalInfo(signed: 80, graceEnd: 100))
        #expect(given.timeline() == ["0..90 active season", "90.. expired season"])
    }

    @Test("an extension moves the expiry from which grace and the sixty days count")
    func extended() {
        let given = Given(
            period, renewalInfo(signed: 30, graceEnd: 46), subscription("1", from: 0, to: 40, signed: 38))
        #expect(
            given.timeline()
                == [
                    "0..40 active pro", "40..46 in_grace_period pro", "46..100 in_billing_retry pro",
                    "100.. expired pro",
                ])
    }
}
