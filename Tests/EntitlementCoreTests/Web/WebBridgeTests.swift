import Testing

@testable import EntitlementCore

/// Each test is a sentence of the contract on the time between what was paid for and the next payment.
@Suite("Web checkout: the bridge to the next payment")
struct WebBridgeTests {
    private let month = paidLine("1", from: 0, to: 30)
    private let next = paidLine("2", from: 30, to: 60, at: 30 + hours(1))
    private let running = says("active", at: 0, until: 30)

    @Test("a renewal reads active and pending until it is paid, and the state never changes")
    func renewal() {
        let given = WebGiven(month, running, says("active", at: 30, until: 60), next)
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h..60 active paid_period",
                "60..60+1h active renewal_pending", "60+1h.. expired expired",
            ])
        #expect(given.timeline() == ["0..60+1h active pro", "60+1h.. expired pro"])
    }

    @Test("before the first statement after the end was made, it speaks too")
    func beforeFirst() {
        let given = WebGiven(month, says("active", at: 30 + hours(5), until: 60))
        #expect(given.reasons()[1] == "30..33 active renewal_pending")
        #expect(
            WebGiven(month, running, says("past_due", at: 30 + hours(5), until: 60)).reasons()[1]
                == "30..37 in_grace_period past_due")
    }

    @Test("a statement made in the very second of the end is one after it")
    func atTheEnd() {
        #expect(WebGiven(month, says("past_due", at: 30, until: 60)).reasons()[1] == "30..37 in_grace_period past_due")
    }

    @Test("the newest statement by an instant speaks")
    func newest() {
        let given = WebGiven(
            month, says("active", at: 30, until: 60), says("past_due", at: 30 + hours(2), until: 60),
            says("unpaid", at: 35, until: 60))
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..30+2h active renewal_pending",
                "30+2h..35 in_grace_period past_due", "35..90 in_billing_retry billing_retry",
                "90.. expired billing_given_up",
            ])
    }

    @Test(
        "active reads pending for 72 hours at most, and then billing retry until 60 days are over, to the millisecond")
    func pendingLimit() {
        let given = WebGiven(month, says("active", at: 30, until: 60))
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..33 active renewal_pending", "33..90 in_billing_retry billing_retry",
                "90.. expired billing_given_up",
            ])
        #expect(given.answer(at: day(33).adding(milliseconds: -1))?.state == .active)
        #expect(given.answer(at: day(33))?.state == .inBillingRetry)
        #expect(given.answer(at: day(90).adding(milliseconds: -1))?.state == .inBillingRetry)
        #expect(given.answer(at: day(90))?.state == .expired)
    }

    @Test("a trial that was made longer goes on like any other")
    func trialing() {
        let given = WebGiven(paidLine("1", from: 0, to: 14, amount: 0), says("trialing", at: 14, until: 21))
        #expect(given.reasons()[1] == "14..17 active renewal_pending")
    }

    @Test("pending ends with the period that was announced, where that is sooner")
    func shortPeriod() {
        let given = WebGiven(paidLine("1", from: 0, to: 1), says("active", at: 1, until: 2))
        #expect(given.reasons()[1] == "1..2 active renewal_pending")
        #expect(given.reasons()[2] == "2..61 in_billing_retry billing_retry")
    }

    @Test("a debt that is settled when a later period was paid for leaves that as it is")
    func debtSettledLate() {
        let failed = says("past_due", at: 30, until: 60)
        let later = paidLine("3", from: 60, to: 90, at: 61)
        let debt = paidLine("2", from: 30, to: 60, at: 65)
        let reasons = [
            "0..30 active paid_period", "30..37 in_grace_period past_due", "37..61 in_billing_retry billing_retry",
            "61..90 active paid_period", "90..90+1h active renewal_pending", "90+1h.. expired expired",
        ]
        #expect(WebGiven(month, failed, later).reasons() == reasons)
        #expect(WebGiven(month, failed, later, debt).reasons() == reasons)
        #expect(WebGiven(month, debt, failed, later).answer(at: 62)?.since == day(61))
    }

    @Test("active without a later period is taken for an hour, as if nothing had been heard")
    func withoutPeriod() {
        let given = WebGiven(month, says("active", at: 30, until: 30))
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h..90 expired expired",
                "90.. expired expired",
            ])
    }

    @Test("active without a later period, and set to end, has simply run out, as if nothing had been heard")
    func withoutPeriodAndSetToEnd() {
        let last = [
            says("active", at: 30, until: 30, cancelsAtEnd: true), says("active", at: 31, until: 30, cancelAt: 30),
        ]
        for word in last {
            #expect(WebGiven(month, word).timeline() == ["0..30 active pro", "30.. expired pro"])
            let late = WebGiven(month, word, says("canceled", at: 32, ended: 32))
            #expect(late.timeline() == ["0..30 active pro", "30.. expired pro"])
        }
    }

    @Test("past due reads in grace for the policy's days, and then billing retry", arguments: [0, 3, 7, 60] as [Int64])
    func pastDue(days: Int64) {
        let given = WebGiven(
            month, says("past_due", at: 30 + hours(1), until: 60), policy: AccessPolicy(webGraceDays: days))
        let grace = days == 0 ? [] : ["30..\(30 + days) in_grace_period past_due"]
        let retry = days == 60 ? [] : ["\(30 + days)..90 in_billing_retry billing_retry"]
        #expect(
            given.reasons() == ["0..30 active paid_period"] + grace + retry + ["90.. expired billing_given_up"])
        #expect(given.answer(at: day(30))?.givesAccess == (days > 0))
        #expect(AccessPolicy().webGraceDays == 7)
    }

    @Test("a failure that recovered still reads as one")
    func recovered() {
        let given = WebGiven(
            month, says("past_due", at: 30 + hours(1), until: 60), says("active", at: 34, until: 60),
            paidLine("2", from: 30, to: 60, at: 34))
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..34 in_grace_period past_due", "34..60 active paid_period",
                "60..60+1h active renewal_pending", "60+1h.. expired expired",
            ])
    }

    @Test("a period paid for when it was over changes nothing of the time before")
    func paidTooLate() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 7), says("past_due", at: 7, until: 14), paidLine("2", from: 7, to: 14, at: 18),
            paidLine("3", from: 14, to: 21, at: 18))
        #expect(
            given.timeline() == [
                "0..7 active pro", "7..14 in_grace_period pro", "14..18 in_billing_retry pro", "18..21+1h active pro",
                "21+1h.. expired pro",
            ])
    }

    @Test("an old invoice that is paid after a newer one opens nothing, and leaves the timeline in order")
    func paidAfterALaterOne() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 7), says("past_due", at: 7, until: 14), paidLine("3", from: 14, to: 21, at: 14),
            paidLine("2", from: 7, to: 14, at: 19))
        let before = WebGiven(
            paidLine("1", from: 0, to: 7), says("past_due", at: 7, until: 14), paidLine("3", from: 14, to: 21, at: 14))
        #expect(given.timeline() == before.timeline())
        #expect(given.timeline().first == "0..7 active pro" && given.timeline()[1].hasPrefix("7..14 in_grace_period"))
    }

    @Test("unpaid reads billing retry")
    func unpaid() {
        #expect(
            WebGiven(month, says("unpaid", at: 31, until: 60)).reasons() == [
                "0..30 active paid_period", "30..90 in_billing_retry billing_retry", "90.. expired billing_given_up",
            ])
    }

    @Test(
        "paused, cancelled or with its collection paused it reads expired",
        arguments: ["paused", "canceled", "incomplete", "incomplete_expired", "void", "keep_as_draft"])
    func over(word: String) {
        let isPause = ["void", "keep_as_draft"].contains(word)
        let statement = says(isPause ? "active" : word, at: 30, until: 60, pause: isPause ? word : nil)
        let given = WebGiven(month, running, statement)
        #expect(given.timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(given.readings().last?.reason == (isPause || word == "paused" ? .paused : .expired))
    }

    @Test("resumed, it goes on from then")
    func resumed() {
        let given = WebGiven(
            month, says("paused", at: 30), says("active", at: 40, until: 70), paidLine("2", from: 40, to: 70))
        #expect(
            given.reasons().prefix(3) == [
                "0..30 active paid_period", "30..40 expired paused", "40..70 active paid_period",
            ])
    }

    @Test("an end ends the bridge at its own instant; what was being collected is given up")
    func ended() {
        let given = WebGiven(
            month, says("past_due", at: 30, until: 60), says("canceled", at: 33, until: 60, ended: 33))
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..33 in_grace_period past_due", "33.. expired billing_given_up",
            ])
        #expect(given.answer(at: day(33).adding(milliseconds: -1))?.givesAccess == true)
        #expect(given.answer(at: day(33))?.givesAccess == false)
        let toldLate = WebGiven(month, says("past_due", at: 30, until: 60), says("canceled", at: 35, ended: 33))
        #expect(toldLate.reasons() == given.reasons(), "from its own instant on, whenever it was told")
    }

    @Test("cancelled at the end of its period it simply runs out, with the policy's leeway")
    func cancelledAtEnd() {
        let told = [month, says("active", at: 9, until: 30, cancelsAtEnd: true), says("canceled", at: 30, ended: 30)]
        #expect(WebGiven().with { $0.told = told }.reasons() == ["0..30 active paid_period", "30.. expired expired"])
        #expect(
            WebGiven(policy: AccessPolicy(leewaySeconds: 7200)).with { $0.told = told }.reasons()
                == ["0..30 active paid_period", "30..30+2h active leeway", "30+2h.. expired expired"])
    }

    @Test("where nothing was heard since, what meant to go on is pending for one hour, and nothing else is")
    func unheard() {
        #expect(
            WebGiven(month, running).reasons() == [
                "0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h.. expired expired",
            ])
        let others = [
            says("active", at: 5, until: 30, cancelsAtEnd: true), says("active", at: 5, until: 30, cancelAt: 30),
            says("active", at: 5, until: 30, pause: "void"), says("unpaid", at: 5), says("canceled", at: 5),
        ]
        for other in others {
            #expect(WebGiven(month, running, other).timeline() == ["0..30 active pro", "30.. expired pro"])
        }
        #expect(WebGiven(month).timeline() == ["0..30 active pro", "30.. expired pro"])
        let given = WebGiven(month, running)
        #expect(given.answer(at: day(30).adding(milliseconds: 3_599_999))?.givesAccess == true)
        #expect(given.answer(at: day(30).adding(milliseconds: 3_600_000))?.givesAccess == false)
    }

    @Test("what is to end after more charges is meant to go on until then, and does not count as renewing")
    func endAfterMoreCharges() {
        let pending = ["0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h.. expired expired"]
        for said in [
            says("active", at: 5, until: 30, cancelAt: 90), says("trialing", at: 5, until: 30, cancelAt: 31),
            says("past_due", at: 5, until: 30, cancelAt: 60),
        ] {
            let given = WebGiven(month, said)
            #expect(given.reasons() == pending)
            #expect(given.answer(at: 30)?.willRenew == false)
        }
        #expect(WebGiven(month, says("active", at: 30, until: 30, cancelAt: 60)).reasons()[1] == pending[1])
        let last = [
            paidLine("2", from: 30, to: 60), says("active", at: 5, until: 30, cancelAt: 60),
            says("active", at: 30, until: 60, cancelAt: 60),
        ]
        let over = WebGiven(month, running).with { $0.told += last }
        #expect(over.timeline() == ["0..60 active pro", "60.. expired pro"], "that end has come")
    }

    @Test("a status that nobody knows says nothing")
    func unknownStatus() {
        let given = WebGiven(month, running, says("hibernating", at: 30, until: 60))
        #expect(given.reasons() == WebGiven(month, running).reasons())
    }

    @Test("an item that is no longer part of the subscription is not carried on, unless the list was cut")
    func removedItem() {
        let other = paidLine("2", "basic", from: 0, to: 30, item: "si_2")
        let both = says("active", at: 0, until: 30, items: ["si_1", "si_2"])
        let gone = says("active", at: 30, until: 60, items: ["si_2"])
        #expect(WebGiven(month, other, both, gone).timeline() == ["0..30 active pro", "30.. expired pro"])
        let cut = gone.with { $0.subscription?.hasMoreItems = true }
        #expect(WebGiven(month, other, both, cut).reasons()[1] == "30..33 active renewal_pending")
    }

    @Test("an end inside a paid period ends it as expired, and what was paid ahead with it")
    func endedInside() {
        let given = WebGiven(month, paidLine("2", from: 30, to: 60, at: 5), says("canceled", at: 12, ended: 12))
        #expect(given.reasons() == ["0..12 active paid_period", "12.. expired cancelled"])
    }

    @Test("will_renew is the newest word by then, and no when it is over")
    func willRenew() {
        let given = WebGiven(
            month, running, says("active", at: 10, until: 30, cancelsAtEnd: true), says("active", at: 12, until: 30),
            says("active", at: 14, until: 30, pause: "void"), says("past_due", at: 30, until: 60))
        #expect(given.answer(at: day(10).adding(milliseconds: -1))?.willRenew == true)
        #expect(given.answer(at: day(10))?.willRenew == false)
        #expect(given.answer(at: 12)?.willRenew == true)
        #expect(given.answer(at: 15)?.willRenew == false)
        #expect(given.answer(at: 31)?.willRenew == true)
        #expect(given.answer(at: 95)?.willRenew == false)
        #expect(WebGiven(month).answer(at: 1)?.willRenew == nil)
        #expect(given.facts.nextChange(after: day(9)) == day(10), "an answer in memory does not outlive it")
    }

    @Test("nothing is expected to be told of it: what Stripe said is read from its own list")
    func nextEvent() {
        #expect(OriginalState(web: [month, running], of: "sub_1").nextEvent == nil)
    }

    @Test("of statements of one second the ended one comes last, before it the one with the later period")
    func sameSecond() {
        let (short, long) = (says("past_due", at: 30, until: 30), says("active", at: 30, until: 60))
        let over = says("canceled", at: 30, until: 29, ended: 30)
        for told in [[month, short, long], [month, long, short]] {
            #expect(WebGiven().with { $0.told = told }.reasons()[1] == "30..33 active renewal_pending")
        }
        for told in [[month, over, long], [month, long, over]] {
            #expect(WebGiven().with { $0.told = told }.reasons()[1] == "30.. expired expired")
        }
    }

    @Test("of very many statements the first and the last of a day that say the same are kept, whatever the order")
    func thinned() {
        let many = (0..<900).map { says("active", at: Double($0) / 30, until: 30) }
        let (one, other) = (OriginalState(web: many, of: "sub_1"), OriginalState(web: many.reversed(), of: "sub_1"))
        #expect(one.web?.subscriptions.map(\.hash) == other.web?.subscriptions.map(\.hash))
        #expect(one.web?.isThinned == true)
        #expect((one.web?.subscriptions.count ?? 0) <= 62)
    }

    @Test("what is changed while a charge fails opens access when it is paid, and the failure still reads as one")
    func changedWhileFailing() {
        let words = [
            says("active", at: 0, until: 30), says("active", at: 30 + hours(0.1), until: 60),
            says("past_due", at: 30 + hours(1), until: 60), says("past_due", at: 45, until: 60),
        ]
        func given(_ change: WebTold) -> WebGiven {
            WebGiven().with { $0.told = [paidLine("1", from: 0, to: 30), change] + words }
        }
        let proration = paid(
            "2", line("2a", from: 45, to: 60, proration: true, amount: -500),
            line("2b", from: 45, to: 60, proration: true, amount: 700), at: 50)
        let credited = paid(
            "2", line("2a", from: 45, to: 60, proration: true, amount: -500), line("2b", from: 45, to: 60), at: 50)
        for change in [proration, credited] {
            let given = given(change)
            #expect(given.answer(at: 47)?.givesAccess == false && given.answer(at: 51)?.givesAccess == true)
            #expect(
                given.timeline().suffix(3) == [
                    "37..50 in_billing_retry pro", "50..60+1h active pro", "60+1h.. expired pro",
                ])
        }
        // What still runs is replaced from where the change begins, whenever that is paid.
        let early = paid(
            "2", line("2a", from: 20, to: 30, proration: true, amount: -300),
            line("2b", from: 20, to: 30, proration: true, amount: 700), at: 26)
        #expect(given(early).answer(at: 22)?.givesAccess == true)
    }
}
