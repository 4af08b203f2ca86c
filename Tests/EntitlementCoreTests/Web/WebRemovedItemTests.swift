import Testing

@testable import EntitlementCore

/// A subscription may be of several things, and one of them is taken out while the rest goes on.
@Suite("Web checkout: an item is taken out of a subscription")
struct WebRemovedItemTests {
    /// What a statement says of the items, each with its product; all of one month unless the test says otherwise.
    private static func has(
        _ items: [(item: String, product: String)], at created: Double, until end: Double = 30,
        _ change: (inout WebSubscription) -> Void = { _ in }
    ) -> WebTold {
        says("active", at: created, until: end).with { fact in
            fact.subscription?.items = items.map {
                WebItem(item: $0.item, product: sold($0.product), periodStart: nil, periodEnd: day(end))
            }
            if var said = fact.subscription {
                change(&said)
                fact.subscription = said
            }
        }
    }

    /// `pro` and, beside it, `basic`, which is taken out on day 10.
    private static let pro = paidLine("1", "pro", from: 0, to: 30, item: "si_1")
    private static let basic = paidLine("2", "basic", from: 5, to: 30, item: "si_9")
    private static let both = has([("si_1", "pro"), ("si_9", "basic")], at: 5)
    private static let removed = has([("si_1", "pro")], at: 10)
    private static let given = WebGiven(pro, basic, both, removed)

    private static func obstacle(_ product: String, at instant: Double, in given: WebGiven) -> WebSaleObstacle? {
        let facts = given.facts
        return facts.catalog.product(product).flatMap { facts.obstacle(toSelling: $0, at: day(instant)) }
    }

    @Test("from then on it does not renew, and is held until its paid time is over; the rest renews")
    func willRenew() {
        #expect(Self.given.answer(at: 9, "basic")?.willRenew == true)
        for at in [10.0, 20] {
            let answer = Self.given.answer(at: at, "basic")
            #expect(answer?.givesAccess == true && answer?.willRenew == false && answer?.until == day(30))
            #expect(Self.given.answer(at: at)?.willRenew == true)
        }
        #expect(Self.given.timeline("basic") == ["5..30 active basic", "30.. expired basic"])
        let facts = Self.given.facts
        func charged(_ at: Double) -> [String] {
            facts.answers(at: day(at)).filter { facts.isCharged($0.reading, at: day(at)) }.map(\.entitlementID)
        }
        #expect(charged(9) == ["basic", "premium"] && charged(10) == ["premium"])
    }

    @Test("of a list that was cut nothing is known to be gone, and what took its place goes on for it")
    func notGone() {
        let cut = Self.has([("si_1", "pro")], at: 10) { $0.hasMoreItems = true }
        #expect(WebGiven(Self.pro, Self.basic, Self.both, cut).answer(at: 12, "basic")?.willRenew == true)
        let heir = Self.has([("si_1", "pro"), ("si_2", "basic")], at: 10)
        let replaced = WebGiven(Self.pro, Self.basic, Self.both, heir)
        #expect(replaced.answer(at: 12, "basic")?.willRenew == true)
        #expect(Self.obstacle("basic", at: 12, in: replaced) == .held(.webCheckout))
        let late = Self.has([("si_1", "pro"), ("si_2", "pro.max")], at: 12)
        let after = Self.given.with { $0.told.append(late) }
        #expect(after.answer(at: 13, "basic")?.willRenew == false, "what is added later takes nobody's place")
    }

    @Test("it can be bought again, and what goes on cannot")
    func sale() {
        #expect(Self.obstacle("basic", at: 9, in: Self.given) == .held(.webCheckout))
        #expect(Self.obstacle("basic", at: 10, in: Self.given) == nil)
        #expect(Self.obstacle("pro", at: 10, in: Self.given) == .held(.webCheckout))
    }

    @Test("a date of the end counts for each item by its own period")
    func cancelAt() {
        let given = WebGiven(
            Self.pro, paidLine("2", "basic", from: 0, to: 365, item: "si_9"),
            Self.has([("si_1", "pro"), ("si_9", "basic")], at: 5) {
                $0.items[1].periodEnd = day(365)
                $0.cancelAt = day(365)
            })
        #expect(Self.obstacle("pro", at: 10, in: given) == .charged(originalTransactionID: "sub_1"))
        #expect(Self.obstacle("basic", at: 10, in: given) == nil)
    }

    @Test("forget names what is charged, not what was taken out of it")
    func forgotten() {
        #expect(Self.given.facts.runningCharges(at: day(9)).map(\.productID) == ["basic"])
        #expect(Self.given.facts.runningCharges(at: day(12)).map(\.productID) == ["pro"])
    }

    @Test("of two that give the same for as long, the one that goes on is shown", arguments: ["si_1", "si_2"])
    func tie(gone: String) {
        let items = [("si_1", "pro.max"), ("si_2", "pro")]
        let rest = items.filter { $0.0 != gone }
        let given = WebGiven(
            paidLine("1", "pro.max", from: 0, to: 30, item: "si_1"),
            paidLine("2", "pro", from: 0, to: 30, item: "si_2"),
            Self.has(items, at: 0), Self.has(rest, at: 10))
        let held = given.answer(at: 12)
        #expect(held?.reading.productID == rest.first?.1 && held?.willRenew == true)
        #expect(given.answer(at: 12, "max")?.willRenew == (gone == "si_2"))
        #expect(Self.obstacle(gone == "si_1" ? "pro.max" : "pro", at: 12, in: given) == nil)
    }
}
