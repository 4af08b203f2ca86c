import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import StripeAPI
import StripePayloads
import Testing

@testable import Service

/// The simulated Stripe ends connections in the middle of its answers, over a socket.
@Suite("Connections to Stripe that are reset", .serialized, .timeLimit(.minutes(5)))
struct StripeResetTests {
    /// A service, and a Stripe that has sold a month to `c-1` and refunded it.
    private struct Scene {
        let stripe: SimulatedStripe
        let server: HTTPServer
        let rig: StripeRig
        let life: WebLife

        static func make() async throws -> Scene {
            let noon = StripeRig.noon * 1000
            var teller = WebStoryteller(.production, seed: 5)
            let buyer = teller.buyer("c-1", at: noon - 10 * Span.day)
            teller.subscribe(
                buyer, to: [SimulatedShop.proMonthly], at: noon - 9 * Span.day, names: WebNames("c-1"))
            let invoice = try #require(teller.books.events.last { $0.type == "invoice.paid" }?.object.id)
            teller.refund(try #require(teller.charge(of: invoice)), at: noon - Span.day)
            let life = WebLife(teller, seed: 5)
            let stripe = SimulatedStripe(.production, key: "sk_live_1", lives: [life], seed: 6, now: { noon })
            let server = stripe.makeServer()
            try server.start()
            let base = "http://127.0.0.1:\(try #require(server.boundPort))"
            let client = StripeClient(
                try #require(StripeKey("sk_live_1")), base: base,
                surroundings: .init(
                    now: { Timestamp(milliseconds: noon) }, sleep: { _ in }, fraction: { 0 }))
            let shop = StripeShop(
                client: client, successURL: "https://example.com/thanks", cancelURL: "https://example.com/plans")
            let rig = try await StripeRig.make(api: base, shops: [.production: shop])
            let catalog = String(decoding: StoreWorld.standardOnWeb.catalogFile.json, as: UTF8.self)
            #expect(try await rig.rig.put(catalog).status == 200)
            return Scene(stripe: stripe, server: server, rig: rig, life: life)
        }

        func deliver(_ type: String) async throws -> HTTPResponse {
            let event = try #require(life.events.first { $0.type == type })
            return try await rig.deliver(String(decoding: event.json(.recent).json, as: UTF8.self))
        }

        func checkout(_ customer: String = "c-9", key: String) async throws -> HTTPResponse {
            try await rig.rig.send(
                "POST", "/v1/customers/\(customer)/checkout", key: rig.rig.admin, headers: [("Idempotency-Key", key)],
                body: Array(#"{"product_id":"\#(StoreWorld.ProductID.proMonthly)"}"#.utf8))
        }
    }

    @Test("a checkout is asked for again under the same key: one page is opened, however often the answer breaks off")
    func checkout() async throws {
        let scene = try await Scene.make()
        scene.stripe.fail(.reset, .reset)
        let answer = try await scene.checkout(key: "k-1")
        #expect(answer.status == 200, "\(answer.text)")
        #expect(scene.stripe.openSessions.count == 1)
        scene.stripe.failAlways(.reset)
        let start = ContinuousClock.now
        #expect(try await scene.checkout("c-8", key: "k-2").verdict == "503 unavailable")
        #expect(start.duration(to: .now) < .seconds(9))
        #expect(try await scene.checkout(key: "k-3").text == answer.text, "the page that is known is good still")
        scene.stripe.failAlways(nil)
        #expect(try await scene.checkout(key: "k-4").text == answer.text)
        // Stripe may have opened the one whose answer broke off.
        #expect(try await scene.checkout("c-8", key: "k-2").status == 200)
        #expect(scene.stripe.openSessions.count == 2, "whoever asks for the same again is led to the same page")
        await scene.server.stop(graceSeconds: 0)
    }

    @Test("what a refund was for is looked up again later, and recorded once")
    func lookup() async throws {
        let scene = try await Scene.make()
        #expect(try await scene.deliver("invoice.paid").status == 200)
        #expect(try await scene.rig.access("c-1").contains("web_checkout active"))
        scene.stripe.failAlways(.reset)
        let start = ContinuousClock.now
        #expect(try await scene.deliver("refund.created").status == 200, "kept all the same")
        #expect(start.duration(to: .now) < .seconds(6))
        #expect(try await scene.rig.access("c-1").contains("web_checkout active"))
        let head = try await scene.rig.head()
        let lookups = try #require(scene.rig.rig.application.stripe.lookups)
        scene.rig.rig.clock.now = scene.rig.rig.clock.now.adding(milliseconds: 60_000)
        await #expect(throws: StripeAPIError.self) { try await lookups.round() }
        #expect(try await scene.rig.head() == head, "half of an answer states nothing")
        scene.stripe.failAlways(nil)
        scene.rig.rig.clock.now = scene.rig.rig.clock.now.adding(milliseconds: 60_000)
        while try await lookups.round() > 0 {}
        #expect(try await !scene.rig.access("c-1").contains("web_checkout active"))
        let after = try await scene.rig.head()
        scene.rig.rig.clock.now = scene.rig.rig.clock.now.adding(milliseconds: 60_000)
        #expect(try await lookups.round() == 0)
        #expect(try await scene.rig.head() == after)
        #expect(try await WebLookupRegister(pool: scene.rig.rig.pool).count(.production) == 0)
        await scene.server.stop(graceSeconds: 0)
    }

    @Test("a reading of the list of events goes on where it broke off, and nothing is recorded twice")
    func sweep() async throws {
        let scene = try await Scene.make()
        scene.stripe.limitPages(to: 2)
        let sweep = try #require(scene.rig.rig.stripeSweep)
        let wanted = scene.life.events.filter { StripeEventType.wanted.contains($0.type) }
        /// How many events of that list were recorded; what else the account holds is read behind it.
        func listed() async throws -> Int {
            let events = try await scene.rig.rig.get("/v1/events?limit=1000").json["items"]
            return (0..<(events?.count ?? 0)).count { index in
                events?[index]?["source"] == .string("stripe_api") && events?[index]?["type"] != .string("web_reading")
            }
        }
        var resets = 0
        while resets < 400 {
            // A page, or two, and then none.
            scene.stripe.fail(.slow(milliseconds: 0), .slow(milliseconds: 0), .slow(milliseconds: 0), .reset)
            if (try? await sweep.runOnce()) != nil { break }
            resets += 1
            // Requests are sent at a pace, and this clock moves by hand.
            scene.rig.rig.clock.now = scene.rig.rig.clock.now.adding(milliseconds: 30_000)
        }
        scene.stripe.heal()
        #expect(resets > 0)
        #expect(try await listed() == wanted.count)
        let done = try await scene.rig.head()
        scene.rig.rig.clock.now = scene.rig.rig.clock.now.adding(milliseconds: 600_000)
        #expect(try await sweep.runOnce().first??.recorded == 0)
        #expect(try await scene.rig.head() == done)
        #expect(try await scene.rig.verify().isProven)
        await scene.server.stop(graceSeconds: 0)
    }
}
