import Testing

@testable import StoreSimulator

@Suite("The record of what was bought on the web")
struct WebRecordTests {
    @Test("what is taken out of a subscription is held until its paid time is over, and does not renew")
    func removedItem() throws {
        let start = SimulatedCalendar.instant(2026, 3, 1)
        var teller = WebStoryteller(seed: 3)
        let buyer = teller.buyer("c-1", at: start)
        let id = teller.subscribe(
            buyer, to: [SimulatedShop.proMonthly, SimulatedShop.newsMonthly], at: start, names: WebNames("c-1"))
        let removedAt = start + 10 * Span.day
        teller.removeItem(id, 1, at: removedAt)
        let record = WebLife(teller, seed: 3).record.customer(CustomerKey(.production, "c-1"))
        func renews(_ product: String, _ instant: Int64) throws -> Bool? {
            try #require(record.answer(at: instant).first { $0.productID == product && $0.givesAccess }).willRenew
        }
        #expect(try renews(StoreWorld.ProductID.newsMonthly, removedAt - 1) == true)
        #expect(try renews(StoreWorld.ProductID.newsMonthly, removedAt) == false)
        #expect(try renews(StoreWorld.ProductID.newsMonthly, start + 30 * Span.day) == false)
        #expect(try renews(StoreWorld.ProductID.proMonthly, removedAt) == true)
        #expect(
            !record.answer(at: start + 32 * Span.day).contains {
                $0.productID == StoreWorld.ProductID.newsMonthly && $0.givesAccess
            })
    }

    @Test("an item gives way to what took its place with the first payment for that, whichever period it is for")
    func laterPaidFirst() {
        let start = SimulatedCalendar.instant(2026, 3, 1)
        var teller = WebStoryteller(seed: 4)
        let buyer = teller.buyer("c-1", at: start)
        let id = teller.subscribe(buyer, to: [SimulatedShop.newsMonthly], at: start, names: WebNames("c-1"))
        let due = teller.subscription(id).periodEnd
        let first = teller.beginPeriod(id, replacing: (0, SimulatedShop.proMonthly))
        teller.fallBehind(id, first, nextAttempt: nil, at: due + Span.hour)
        teller.stopTrying(id, first, unpaid: true, at: due + 4 * Span.day)
        let paidAt = teller.subscription(id).periodEnd + Span.hour
        let second = teller.beginPeriod(id)
        teller.recover(id, second, at: paidAt)
        teller.recover(id, first, at: paidAt + 20 * Span.day)
        let record = WebLife(teller, seed: 4).record.customer(CustomerKey(.production, "c-1"))
        func state(_ product: String, _ instant: Int64) -> RecordState? {
            record.answer(at: instant).first { $0.productID == product }?.state
        }
        #expect(state(StoreWorld.ProductID.newsMonthly, paidAt - 1) == .inBillingRetry)
        #expect(state(StoreWorld.ProductID.newsMonthly, paidAt) == .expired)
        #expect(state(StoreWorld.ProductID.proMonthly, paidAt - 1) == nil)
        #expect(state(StoreWorld.ProductID.proMonthly, paidAt) == .active)
    }

    @Test("what is to end by a date that is two periods ahead is charged until then, and never counts as renewing")
    func endAfterMoreCharges() {
        let start = SimulatedCalendar.instant(2026, 3, 1)
        var teller = WebStoryteller(seed: 5)
        let buyer = teller.buyer("c-1", at: start)
        let id = teller.subscribe(buyer, to: [SimulatedShop.proMonthly], at: start, names: WebNames("c-1"))
        let due = teller.subscription(id).periodEnd
        teller.cancel(id, .onDate(periods: 1), at: start + Span.day)
        #expect(teller.subscription(id).cancelAt == SimulatedShop.proMonthly.end(from: due))
        func answer(_ instant: Int64) -> RecordAnswer? {
            WebLife(teller, seed: 5).record.customer(CustomerKey(.production, "c-1")).answer(at: instant).first {
                $0.productID == StoreWorld.ProductID.proMonthly
            }
        }
        #expect(answer(due - 1)?.state == .active && answer(due - 1)?.willRenew == false)
        #expect(answer(due + Span.hour - 1)?.state == .active && answer(due + Span.hour)?.state == .expired)
        let last = teller.beginPeriod(id)
        teller.pay(last, at: due + Span.hour)
        let end = teller.subscription(id).periodEnd
        #expect(answer(end - 1)?.state == .active && answer(end)?.state == .expired)
    }

    @Test(
        "all items of a subscription are charged in the same intervals, as old versions of the API could say no other")
    func intervals() {
        var several = 0
        for seed in 280...330 as ClosedRange<UInt64> {
            for event in WebLife.random(seed: seed, customers: ["c-1", "c-2"]).events {
                guard case .subscription(let subscription) = event.object else { continue }
                several += subscription.items.count > 1 ? 1 : 0
                let intervals = Set(subscription.items.map(\.price.interval))
                #expect(intervals.count == 1, "seed \(seed) \(subscription.id)")
            }
        }
        #expect(several > 0)
    }
}
