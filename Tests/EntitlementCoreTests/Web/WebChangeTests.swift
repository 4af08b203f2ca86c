import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Web checkout: what is changed, credited back and changed again")
struct WebChangeTests {
    private func changed(
        _ id: String, from old: String, _ credit: Int64, to new: String, _ charge: Int64, on day: Double,
        paid paidAt: Double? = nil, lines: (String, String) = ("a", "b")
    ) -> WebTold {
        paid(
            id, line(id + lines.0, old, from: day, to: 30, proration: true, amount: -credit),
            line(id + lines.1, new, from: day, to: 30, proration: true, amount: charge), at: paidAt ?? day)
    }

    @Test("from a free plan to a paid one and back within a period, the paid one ends where it is credited")
    func backToFree() {
        let free = paidLine("1", "basic", from: 0, to: 30, amount: 0)
        let up = changed("2", from: "basic", 0, to: "pro", 600, on: 10)
        let down = changed("3", from: "pro", 400, to: "basic", 0, on: 20)
        let given = WebGiven(free, up, down)
        #expect(given.timeline() == ["10..20 active pro", "20.. expired pro"])
        #expect(
            given.timeline("basic") == [
                "0..10 active basic", "10..20 expired basic", "20..30 active basic",
                "30.. expired basic",
            ])
    }

    @Test("to another plan and back while a trial runs, where all of it costs nothing")
    func backInTrial() {
        let trial = paidLine("1", "basic", from: 0, to: 14, amount: 0)
        func changed(_ id: String, from old: String, to new: String, on day: Double) -> WebTold {
            paid(
                id, line(id + "a", old, from: day, to: 14, proration: true, amount: 0),
                line(id + "b", new, from: day, to: 14, proration: true, amount: 0), at: day)
        }
        let given = WebGiven(
            trial, changed("2", from: "basic", to: "pro", on: 5), changed("3", from: "pro", to: "basic", on: 8))
        #expect(given.timeline() == ["5..8 active pro", "8.. expired pro"])
        #expect(given.timeline("basic").last == "14.. expired basic")
        let atOnce = WebGiven(
            trial, changed("2", from: "basic", to: "pro", on: 5), changed("3", from: "pro", to: "basic", on: 5))
        #expect(atOnce.timeline().isEmpty, "in one second")
        #expect(atOnce.timeline("basic") == ["0..14 active basic", "14.. expired basic"])
        let onward = WebGiven(
            trial, changed("2", from: "basic", to: "pro", on: 5), changed("3", from: "pro", to: "pro.max", on: 5))
        #expect(onward.timeline() == ["5..14 active pro.max", "14.. expired pro.max"], "and on in that second")
    }

    @Test("what was to follow what ran is credited with it")
    func creditedWithWhatRan() {
        let first = paidLine("1", from: 0, to: 30)
        let second = paidLine("2", from: 10, to: 40)
        let removed = paid(
            "3", line("3a", from: 20, to: 40, proration: true, amount: -600),
            line("3b", "basic", from: 20, to: 50, item: "si_2"), at: 20)
        let given = WebGiven(first, second, removed, says("active", at: 20, until: 50, items: ["si_2"]))
        #expect(given.timeline() == ["0..20 active pro", "20.. expired pro"])
        #expect(given.timeline("basic").first == "20..50+1h active basic")
    }

    /// Stripe charges a renewal an hour after the period began, and what is changed meanwhile a period later.
    @Test(
        "what is changed before a renewal is paid opens when the renewal is, though it is itself paid a month later",
        arguments: ["pro", "pro.max"], [30 + hours(0.5), 32])
    func beforeTheRenewalIsPaid(product: String, changedAt: Double) {
        let paidAt = changedAt == 32 ? 35 : 30 + hours(1)
        let words = [
            says("active", at: 0, until: 30), says("active", at: 30, until: 60),
            says("past_due", at: 30 + hours(2), until: 60), says("active", at: 35, until: 60),
        ]
        let told = [paidLine("1", from: 0, to: 30), paidLine("2", from: 30, to: 60, at: paidAt)] + words
        let next = paid(
            "3", line("3a", from: changedAt, to: 60, proration: true, amount: -900),
            line("3b", product, from: changedAt, to: 60, proration: true, amount: 1800),
            line("3c", product, from: 60, to: 90), at: 60 + hours(1))
        let (before, after) = (WebGiven().with { $0.told = told }, WebGiven().with { $0.told = told + [next] })
        for at in [paidAt, 40, 59.9] {
            #expect(before.answer(at: at)?.givesAccess == true, "\(at)")
            #expect(after.answer(at: at)?.givesAccess == true, "\(at)")
            #expect(after.answer(at: at)?.reading.productID == product)
        }
        #expect(after.answer(at: 40)?.since == before.answer(at: 40)?.since)
        #expect(after.reasons().filter { $0.contains("expired") }.count == 1, "\(after.reasons())")
    }

    @Test("an item that is credited and goes on in no other line of it ends there, and has no bridge")
    func removed() {
        let both = paid(
            "1", line("1a", "basic", from: 0, to: 30), line("1b", "pro", from: 0, to: 30, item: "si_2"))
        let next = paid(
            "2", line("2a", "pro", from: 12, to: 30, item: "si_2", proration: true, amount: -600),
            line("2b", "basic", from: 30, to: 60), at: 30 + hours(1))
        let words = [
            says("active", at: 0, until: 30, items: ["si_1", "si_2"]), says("active", at: 12, until: 30),
            says("active", at: 30, until: 60),
        ]
        let before = WebGiven().with { $0.told = [both] + words }
        #expect(before.timeline() == ["0..30 active pro", "30.. expired pro"], "while the credit is not billed")
        let given = WebGiven().with { $0.told = [both, next] + words }
        #expect(given.reasons() == ["0..12 active paid_period", "12.. expired cancelled"])
        #expect(given.timeline("basic").last == "60+1h.. expired basic")
    }

    @Test("one item deleted with a credit and another added in the same update: only the new one is held")
    func deletedAndAdded() {
        let swap = paid(
            "2", line("2a", "pro", from: 12, to: 30, proration: true, amount: -1700),
            line("2b", "basic", from: 12, to: 30, item: "si_2", proration: true, amount: 300), at: 12)
        let given = WebGiven(
            paidLine("1", from: 0, to: 30), swap, says("active", at: 0, until: 30),
            says("active", at: 12, until: 30, items: ["si_2"]), says("active", at: 30, until: 60, items: ["si_2"]))
        #expect(given.reasons() == ["0..12 active paid_period", "12.. expired expired"])
        #expect(given.answer(at: 20, "basic")?.givesAccess == true)
        #expect(given.reasons("basic")[1] == "30..33 active renewal_pending")
    }

    @Test(
        "fewer seats are credited and charged anew, and the item goes on; so it does in a line that begins a little later"
    )
    func goesOn() {
        let seats = changed("2", from: "pro", 1332, to: "pro", 666, on: 10)
        #expect(WebGiven(paidLine("1", from: 0, to: 30), seats).timeline() == ["0..30 active pro", "30.. expired pro"])
        let anchor = paid(
            "2", line("2a", from: 10, to: 30, proration: true, amount: -666), line("2b", from: 10.5, to: 40.5), at: 10.5
        )
        #expect(
            WebGiven(paidLine("1", from: 0, to: 30), anchor).timeline() == [
                "0..40+12h active pro", "40+12h.. expired pro",
            ]
        )
    }

    @Test("seats that are added in the second in which the item is deleted are given up with it")
    func changedAndDeleted() {
        let seats = changed("2", from: "pro", 666, to: "pro", 1332, on: 10)
        let gone = paid(
            "3", line("3a", from: 10, to: 30, proration: true, amount: -1332),
            line("3b", "basic", from: 10, to: 30, item: "si_2", proration: true, amount: 300), at: 10, told: 11)
        for told in [[seats, gone], [gone, seats]] {
            let given = WebGiven().with { $0.told = [paidLine("1", from: 0, to: 30)] + told }
            #expect(given.timeline() == ["0..10 active pro", "10.. expired pro"])
        }
    }

    @Test("what is paid ahead and credited before it began gives nothing")
    func creditedAhead() {
        let given = WebGiven(
            paidLine("1", from: 0, to: 30), paidLine("2", from: 30, to: 60, at: 20),
            paidLine("3", from: 30, to: 60, proration: true, amount: -999, at: 25))
        #expect(given.timeline() == ["0..30 active pro", "30.. expired pro"])
    }

    @Test("a free plan's credit is nothing: a new interval that is sold on its invoice takes its place at once")
    func freeToNewInterval() {
        let given = WebGiven(
            paidLine("1", "basic", from: 0, to: 30, amount: 0),
            paid(
                "2", line("2a", "basic", from: 10, to: 30, proration: true, amount: 0),
                line("2b", "pro.yearly", from: 10, to: 375), at: 10))
        #expect(given.timeline() == ["10..375 active pro.yearly", "375.. expired pro.yearly"])
    }

    @Test(
        "of two changes for one instant the second holds, whatever the lines' ids are", arguments: ["ab", "ba", "xy"])
    func oneInstant(names: String) {
        let ids = (String(names.first ?? "a"), String(names.last ?? "b"))
        let first = paidLine("1", "basic", from: 0, to: 30)
        let there = changed("\(ids.1)2", from: "basic", 300, to: "pro", 600, on: 10, lines: ids)
        let back = changed("\(ids.0)3", from: "pro", 600, to: "basic", 300, on: 10, lines: (ids.1, ids.0))
        let on = changed("\(ids.0)3", from: "pro", 600, to: "pro.max", 900, on: 10, lines: ids)
        for told in [[first, there, back], [back, first, there]] {
            let given = WebGiven().with { $0.told = told }
            #expect(given.timeline("basic") == ["0..30 active basic", "30.. expired basic"])
            #expect(given.timeline().isEmpty)
        }
        for told in [[first, there, on], [on, there, first]] {
            #expect(WebGiven().with { $0.told = told }.timeline().first == "10..30 active pro.max")
        }
        let late = changed("\(ids.1)2", from: "basic", 300, to: "pro", 600, on: 10, paid: 11, lines: ids)
        #expect(WebGiven(first, late, back).timeline().isEmpty, "even where the first was paid last")
    }

    @Test("where no credit tells, of two for one instant the one that was paid last holds, then the one stated last")
    func withoutCredits() {
        func sold(_ id: String, _ product: String, paid paidAt: Double, told: Double) -> WebTold {
            paid(id, line(id, product, from: 10, to: 30, proration: true, amount: 500), at: paidAt, told: told)
        }
        let first = paidLine("1", "basic", from: 0, to: 30)
        for (one, other) in [("a", "z"), ("z", "a")] {
            let paidLast = WebGiven(
                first, sold(other, "pro.max", paid: 12, told: 12), sold(one, "pro", paid: 11, told: 13))
            #expect(paidLast.timeline() == ["10..30 active pro.max", "30.. expired pro.max"])
            let toldLast = WebGiven(
                first, sold(other, "pro.max", paid: 11, told: 12), sold(one, "pro", paid: 11, told: 11))
            #expect(toldLast.timeline() == ["10..30 active pro.max", "30.. expired pro.max"])
        }
    }

    @Test("prorations that name no item are of the one that runs there, also once another has taken its place")
    func withoutItems() {
        let change = paid(
            "2", line("2a", from: 10, to: 30, item: nil, proration: true, amount: -666),
            line("2b", "pro.max", from: 10, to: 30, item: nil, proration: true, amount: 1666), at: 10)
        let given = WebGiven(
            paidLine("1", from: 0, to: 30), change, says("active", at: 0, until: 30),
            says("active", at: 30, until: 60, items: ["si_2"]),
            paidLine("3", "pro.max", from: 30, to: 60, item: "si_2", at: 30 + hours(1)))
        #expect(given.timeline().prefix(2) == ["0..10 active pro", "10..60+1h active pro.max"])
    }
}
