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
}
