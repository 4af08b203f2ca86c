import SeededRandom
import Testing

@testable import EntitlementCore

/// Another price may come with another item: one is deleted and one added in the same update.
@Suite("Web checkout: an item takes the place of another")
struct WebItemTests {
    private let month = paidLine("1", from: 0, to: 30)
    private let running = says("active", at: 0, until: 30)
    private let replaced = says("active", at: 30, until: 60, items: ["si_2"])

    @Test(
        "at renewal, what is due next is of the new item, and the old one is pending until that is paid",
        arguments: ["pro", "pro.max", "basic"])
    func renewed(product: String) {
        let next = paidLine("2", product, from: 30, to: 60, item: "si_2", at: 30 + hours(1))
        #expect(
            WebGiven(month, running, replaced).reasons() == [
                "0..30 active paid_period", "30..33 active renewal_pending", "33..90 in_billing_retry billing_retry",
                "90.. expired billing_given_up",
            ], "while it is not paid")
        let paid = WebGiven(month, running, replaced, next)
        #expect(paid.answer(at: 30 + hours(0.5))?.reading.reason == .renewalPending, "as was told then")
        #expect(paid.answer(at: 30 + hours(0.5))?.reading.productID == "pro")
        let after = paid.answer(at: 30 + hours(1))
        #expect(after?.givesAccess == (product != "basic"))
        let entitlement = product == "basic" ? "basic" : "premium"
        #expect(paid.answer(at: 31, entitlement)?.reading.productID == product)
        #expect(paid.timeline(entitlement).last == "60+1h.. expired \(product)")
    }

    @Test("when the card is refused at that renewal, there is grace, and a recovery still reads as one")
    func refused() {
        let failed = says("past_due", at: 30 + hours(1), until: 60, items: ["si_2"])
        let given = WebGiven(month, running, replaced, failed)
        #expect(
            given.reasons().prefix(4) == [
                "0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h..37 in_grace_period past_due",
                "37..90 in_billing_retry billing_retry",
            ])
        let recovered = given.with { $0.told.append(paidLine("2", from: 30, to: 60, item: "si_2", at: 34)) }
        #expect(
            recovered.reasons() == [
                "0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h..34 in_grace_period past_due",
                "34..60 active paid_period", "60..60+1h active renewal_pending", "60+1h.. expired expired",
            ])
    }

    @Test("in the place of one whose charge fails, and charged at once, it opens when that is paid")
    func whileAChargeFails() {
        let words = [
            running, says("active", at: 30, until: 60), says("past_due", at: 30 + hours(1), until: 60),
            says("past_due", at: 40, until: 60, items: ["si_2"]),
        ]
        let settled = paid(
            "2", line("2a", from: 40, to: 60, proration: true, amount: -666),
            line("2b", "pro.max", from: 40, to: 60, item: "si_2", proration: true, amount: 1200), at: 43)
        let given = WebGiven().with { $0.told = [month] + words + [settled] }
        #expect(
            given.reasons() == [
                "0..30 active paid_period", "30..30+1h active renewal_pending", "30+1h..37 in_grace_period past_due",
                "37..40 in_billing_retry billing_retry", "40..43 in_billing_retry billing_retry",
                "43..60 active paid_period", "60..60+1h active renewal_pending", "60+1h.. expired expired",
            ])
    }

    @Test(
        "in the place of one that runs, it opens at once, however late it is paid", arguments: [10, 10 + hours(1), 12])
    func whilePaid(paidAt: Double) {
        let year = paid(
            "2", line("2a", from: 10, to: 30, proration: true, amount: -666),
            line("2b", "pro.max", from: 10, to: 375, item: "si_2", amount: 9999), at: paidAt)
        let given = WebGiven(month, running, says("active", at: 10, until: 375, items: ["si_2"]), year)
        #expect(
            given.timeline() == [
                "0..10 active pro", "10..375+1h active pro.max", "375+1h.. expired pro.max",
            ])
    }

    @Test("in the place of one that was paid late, it opens when that was paid")
    func whilePaidLate() {
        let late = paidLine("2", from: 30, to: 60, at: 35)
        let settled = paid(
            "3", line("3a", from: 33, to: 60, proration: true, amount: -900),
            line("3b", "pro.max", from: 33, to: 60, item: "si_2", proration: true, amount: 1800), at: 60)
        let words = [
            running, says("past_due", at: 30, until: 60), says("past_due", at: 33, until: 60, items: ["si_2"]),
            says("active", at: 35, until: 60, items: ["si_2"]),
        ]
        let given = WebGiven().with { $0.told = [month, late] + words + [settled] }
        #expect(
            given.timeline().prefix(3) == [
                "0..30 active pro", "30..35 in_grace_period pro", "35..60+1h active pro.max",
            ])
    }

    @Test("replaced uncredited before its own renewal is paid, what is said of the new one speaks until that is paid")
    func beforeItsRenewalIsPaid() {
        let words = [
            running, says("active", at: 30, until: 60), says("active", at: 30 + hours(0.5), until: 60, items: ["si_2"]),
            says("past_due", at: 30 + hours(2), until: 60, items: ["si_2"]),
        ]
        let given = WebGiven().with { $0.told = [month] + words }
        // And the new item is paid for while that renewal still runs.
        let recovered = given.with {
            $0.told.append(paidLine("2", from: 30, to: 60, at: 32))
            $0.told.append(paidLine("3", from: 45, to: 60, item: "si_2", proration: true, at: 45))
        }
        for at in [30 + hours(1), 30 + hours(3), 31.9] {
            #expect(recovered.answer(at: at)?.reading.reason == given.answer(at: at)?.reading.reason, "\(at)")
            #expect(recovered.answer(at: at)?.givesAccess == true)
            #expect(recovered.answer(at: at)?.willRenew == true)
        }
        #expect(recovered.answer(at: 32)?.reading.reason == .paidPeriod)
    }

    @Test("added and replaced in one instant, an item held nothing")
    func addedAndReplacedAtOnce() {
        let changed = paid(
            "2", line("2a", from: 10, to: 30, proration: true, amount: -666),
            line("2b", "basic", from: 10, to: 30, item: "si_2", proration: true, amount: 200),
            line("2c", "basic", from: 10, to: 30, item: "si_2", proration: true, amount: -200),
            line("2d", "pro.max", from: 10, to: 30, item: "si_3", proration: true, amount: 1200))
        let given = WebGiven(
            month, running, says("active", at: 10, until: 30, items: ["si_2"]),
            says("active", at: 10.001, until: 30, items: ["si_3"]), changed)
        #expect(given.timeline("basic").isEmpty)
        #expect(given.answer(at: 20)?.reading.productID == "pro.max")
    }

    @Test("replaced in the middle of a period without being credited, it is carried on by the new one as well")
    func withoutProration() {
        let early = says("active", at: 12, until: 30, items: ["si_2"])
        let moved = says("active", at: 30, until: 60, items: ["si_2"])
        #expect(WebGiven(month, running, early).reasons()[1] == "30..30+1h active renewal_pending")
        #expect(WebGiven(month, running, early, moved).reasons()[1] == "30..33 active renewal_pending")
    }

    @Test("an item that is replaced twice before anything is paid is carried on by the last")
    func twice() {
        let again = says("past_due", at: 32, until: 60, items: ["si_3"])
        let given = WebGiven(month, running, replaced, again)
        #expect(given.reasons()[2] == "32..37 in_grace_period past_due")
        let paid = given.with { $0.told.append(paidLine("2", from: 32, to: 62, item: "si_3", at: 33)) }
        #expect(paid.reasons().prefix(4).last == "33..62 active paid_period")
    }

    @Test("one of several is replaced, and each is carried on for itself")
    func oneOfSeveral() {
        let other = paidLine("2", "basic", from: 0, to: 30, item: "si_9")
        let both = says("active", at: 0, until: 30, items: ["si_1", "si_9"])
        let changed = says("active", at: 30, until: 60, items: ["si_9", "si_2"])
        let given = WebGiven(month, other, both, changed)
        #expect(given.reasons()[1] == "30..33 active renewal_pending")
        #expect(given.reasons("basic")[1] == "30..33 active renewal_pending")
        let paidOther = given.with {
            $0.told.append(paidLine("3", "basic", from: 30, to: 60, item: "si_9", at: 30 + hours(1)))
        }
        #expect(paidOther.reasons()[1] == "30..33 active renewal_pending", "its own is not paid yet")
    }

    @Test("of an item that was not paid for, moved to another price and replaced in one instant, nothing goes on")
    func unpaidMovedAndReplaced() {
        let settled = paid(
            "2", line("2a", "basic", from: 40, to: 60, proration: true, amount: -666),
            line("2b", from: 40, to: 60, proration: true, amount: 700),
            line("2c", from: 40, to: 60, proration: true, amount: -700),
            line("2d", "pro.max", from: 40, to: 60, item: "si_2", proration: true, amount: 900), at: 60)
        let given = WebGiven(
            paidLine("1", "basic", from: 0, to: 30), running, says("active", at: 30, until: 60), settled)
        #expect(given.timeline() == ["40..60 active pro.max", "60.. expired pro.max"])
        let seats = paid(
            "2", line("2a", from: 40, to: 60, proration: true, amount: -666),
            line("2b", from: 40, to: 60, proration: true, amount: 1332), at: 60)
        #expect(
            WebGiven(month, running, seats).timeline().suffix(2) == ["60..60+1h active pro", "60+1h.. expired pro"])
    }

    @Test("when a later period of the new item is paid before the one that was due, the old one gives way to that")
    func laterPaidFirst() {
        let unpaid = says("unpaid", at: 34, until: 60, items: ["si_2"])
        let later = paidLine("3", "basic", from: 60, to: 90, item: "si_2", at: 61)
        let given = WebGiven(month, running, replaced, unpaid, later)
        let held = [
            "0..30 active paid_period", "30..33 active renewal_pending", "33..34 in_billing_retry billing_retry",
            "34..61 in_billing_retry billing_retry", "61.. expired expired",
        ]
        #expect(given.reasons() == held)
        let due = given.with { $0.told.append(paidLine("2", "basic", from: 30, to: 60, item: "si_2", at: 70)) }
        #expect(due.reasons() == held, "and whatever is paid after that")
        #expect(due.timeline("basic").first == "61..90 active basic")
    }

    @Test("an item removed while what remains was paid before is over, whatever is added later")
    func removed() {
        let other = paidLine("2", "basic", from: 0, to: 30, item: "si_9")
        let both = says("active", at: 0, until: 30, items: ["si_1", "si_9"])
        let gone = says("active", at: 10, until: 30, items: ["si_9"])
        let moved = says("active", at: 30, until: 60, items: ["si_9"])
        let added = says("active", at: 45, until: 60, items: ["si_9", "si_4"])
        let given = WebGiven(month, other, both, gone, moved)
        #expect(given.timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(given.with { $0.told.append(added) }.timeline() == ["0..30 active pro", "30.. expired pro"])
        let beside = WebGiven(month, other, both, says("active", at: 30, until: 60, items: ["si_9", "si_4"]))
        #expect(beside.reasons()[1] == "30..33 active renewal_pending", "in the same update it is a replacement")
    }

    @Test("a subscription that ends, is cancelled or is paused ends both")
    func over() {
        let replacedAndOver = says("canceled", at: 31, items: ["si_2"], ended: 31)
        #expect(
            WebGiven(month, running, replaced, replacedAndOver).timeline() == ["0..31 active pro", "31.. expired pro"])
        let paused = says("active", at: 30, until: 60, items: ["si_2"], pause: "void")
        #expect(WebGiven(month, running, paused).timeline() == ["0..30 active pro", "30.. expired pro"])
    }

    @Test("in which order all of this is heard makes no difference")
    func order() {
        let told = [
            month, running, replaced, says("past_due", at: 31, until: 60, items: ["si_2"]),
            says("active", at: 33, until: 60, items: ["si_3"]), paidLine("2", from: 30, to: 60, item: "si_3", at: 33),
        ]
        let expected = WebGiven().with { $0.told = told }.reasons()
        #expect(expected.contains("31..33 in_grace_period past_due"))
        var random = SplitMix64(seed: 7)
        for _ in 0..<20 {
            let shuffled = told.shuffled(using: &random)
            #expect(WebGiven().with { $0.told = shuffled }.reasons() == expected)
        }
    }
}
