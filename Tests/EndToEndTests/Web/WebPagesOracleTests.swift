import EntitlementCore
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import Synchronization
import TestSupport
import Testing

/// What people do on the simulated Stripe's pages, and what time does, against the record of it.
@Suite("Web checkout: the pages of the simulated Stripe against its record", .timeLimit(.minutes(5)))
struct WebPagesOracleTests {
    private final class HandClock: Sendable {
        private let instant = Mutex(StoreWorld.standard.start)

        var now: Int64 { instant.withLock { $0 } }

        func advance(_ milliseconds: Int64) { instant.withLock { $0 += milliseconds } }
    }

    @Test("whatever is clicked and however time passes, the events tell what is true")
    func clicks() async throws {
        for seed in 1...UInt64(Campaign.factor * 20) {
            var random = SplitMix64(seed: seed)
            let clock = HandClock()
            let stripe = SimulatedStripe(.sandbox, key: "sk_test_1", seed: seed, now: { clock.now })
            for _ in 0..<40 {
                clock.advance(random.number(in: 2...400) * Span.hour / 4 + 3000)
                stripe.tick()
                clock.advance(3000)
                if random.chance(25) {
                    try await buy(stripe, customer: "c-\(random.number(in: 1...2))", &random)
                } else if let bought = stripe.purchases().isEmpty ? nil : random.pick(stripe.purchases()) {
                    stripe.act(random.pick(SimulatedStripe.Deed.allCases), on: bought.paymentID)
                }
            }
            clock.advance(100 * Span.day)
            stripe.tick()
            clock.advance(Span.minute)
            var record = Record(world: .standardOnWeb)
            record.web = stripe.record
            var folded = FoldedWeb(catalog: try Catalog(record.world))
            for event in random.shuffled(stripe.events()) {
                try folded.receive(event.json(.recent).json, stripe.library, at: clock.now)
            }
            try folded.expect(record, seed: seed, "pages")
        }
    }

    /// Somebody comes from the app, and goes through the checkout in one way or another.
    private func buy(_ stripe: SimulatedStripe, customer: String, _ random: inout SplitMix64) async throws {
        let isSubscription = random.chance(70)
        let price = isSubscription ? random.pick(["price_pro_month", "price_news_month"]) : "price_season"
        let sale = isSubscription ? "subscription_data" : "payment_intent_data"
        let product = isSubscription ? "" : "&metadata[rightful_product_id]=\(StoreWorld.ProductID.season)"
        let form =
            "mode=\(isSubscription ? "subscription" : "payment")&line_items[0][price]=\(price)&success_url=x"
            + "&metadata[rightful_customer_id]=\(customer)&\(sale)[metadata][rightful_customer_id]=\(customer)"
            + product
        let answer = try await stripe.answer(
            SimulatedStripe.Request(
                method: "POST", path: ["v1", "checkout", "sessions"], authorization: "Bearer sk_test_1",
                body: Array(form.utf8)))
        try #require(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        guard let session = stripe.openSessions.first, random.chance(80) else { return }
        #expect(stripe.pay(session, by: random.pick(SimulatedStripe.Payment.allCases)) != nil)
    }
}

extension StripeObject {
    /// What the pages name it by.
    var paymentID: String {
        if case .session(let session) = self { session.paymentIntent ?? session.id } else { id }
    }
}
