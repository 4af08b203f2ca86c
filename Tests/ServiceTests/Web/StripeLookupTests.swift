import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StripePayloads
import TestSupport
import Testing

@testable import Service

@Suite("What Stripe's events call for, read from its API", .timeLimit(.minutes(5)))
struct StripeLookupTests {
    /// A service that asks a server which answers from a shelf.
    private static func make() async throws -> (StripeRig, StripeShelf, HostileServer, StripeLookups) {
        let shelf = StripeShelf()
        let server = try HostileServer { request, _ in shelf.reply(to: request) }
        let stripe = try await StripeRig.make(api: server.url)
        return (stripe, shelf, server, try #require(stripe.rig.application.stripe.lookups))
    }

    private static func owed(_ stripe: StripeRig) async throws -> Int64 {
        try await WebLookupRegister(pool: stripe.rig.pool).count(.production)
    }

    @Test("a refund is traced to its invoice before it is answered, and what was read is an event with its evidence")
    func refund() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
        shelf.put(StripeShelf.refund(), at: "/v1/refunds/re_1")
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(
            try await stripe.deliver(StripeShelf.refunded).json
                == WireValue(json: #"{"position":4,"duplicate":false}"#))
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
        let event = try await stripe.rig.get("/v1/events/5").json
        #expect(event["type"] == .string("web_reading") && event["source"] == .string("stripe_api"))
        #expect(event["original_transaction_id"] == .string("sub_1") && event["customer_id"] == .string("c-1"))
        #expect(event["evidence"]?["payload"]?["object"] == .string("web_reading"))
        #expect(event["evidence"]?["signature"] == nil)
        #expect(server.requests.count == 1, "with the invoice all is known")
        for id in ["re_1", "ch_1", "pi_1", "in_sub_1"] {
            let found = try await stripe.rig.get("/v1/customers?transaction_id=\(id)").json["items"]
            #expect(found?.count == 1 && found?[0]?["customer_id"] == .string("c-1"), "\(id)")
        }
        #expect(server.requests[0].target.hasPrefix("/v1/invoice_payments?payment%5Btype%5D=payment_intent"))
        #expect(server.requests[0].headers["authorization"] == "Bearer sk_live_1")
        #expect(server.requests[0].headers["stripe-version"] == "2026-07-29.dahlia")
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 6000)
        #expect(try await lookups.round() == 1, "the refund is read again, for two may come in the wrong order")
        #expect(try await lookups.round() == 0)
        #expect(try await stripe.head() == .int(5), "and says nothing new")
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.unsignedEvidence == 1 && summary.uncheckedSignatures == 0)
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_stripe_lookups_total{outcome="recorded"} 1"#))
        #expect(metrics.contains(#"rightful_stripe_lookups_total{outcome="known"} 1"#))
    }

    @Test(
        "while Stripe cannot be asked the webhook is kept and answered, what is owed stays owed, and is read once",
        arguments: [
            HostileServer.Reply.answer(500, "{}"), .answer(429, headers: ["Retry-After: 120"], "{}"), .reset,
            .answer(302, headers: ["Location: https://example.com/"], ""), .cut("{"), .answer(200, "<html>"),
            .answer(401, #"{"error":{"type":"invalid_request_error","message":"Invalid API Key: sk_live_1"}}"#),
            .answer(200, #"{"object":"list","data":[],"has_more":"maybe"}{}"#),
        ])
    func outage(fault: HostileServer.Reply) async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
        shelf.put(StripeShelf.refund(), at: "/v1/refunds/re_1")
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        shelf.fail(fault)
        #expect(try await stripe.deliver(StripeShelf.refunded).status == 200)
        #expect(try await stripe.deliver(StripeShelf.refunded).json["duplicate"] == .bool(true))
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 11_000)
        _ = try? await lookups.round()
        #expect(try await stripe.head() == .int(4))
        #expect(try await Self.owed(stripe) == 2)
        shelf.fail(nil)
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 121_000)
        while try await lookups.round() > 0 {}
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
        #expect(try await stripe.head() == .int(5))
        #expect(try await Self.owed(stripe) == 0)
        #expect(!stripe.rig.log.lines.contains { $0.contains("sk_live_1") })
    }

    @Test("a reading that the log has lost is read again")
    func lost() async throws {
        let (stripe, shelf, server, _) = try await Self.make()
        defer { server.stop() }
        shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
        shelf.put(StripeShelf.refund(), at: "/v1/refunds/re_1")
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        shelf.fail(.answer(500, "{}"))
        #expect(try await stripe.deliver(StripeShelf.refunded).status == 200)
        shelf.fail(nil)
        let (pool, ingestion) = (stripe.rig.pool, stripe.rig.stripeIngestion)
        let log = try await LosingLog(stripe.rig)
        let losing = StripeIngestion(
            ingestion.clients, reader: ingestion.reader, metrics: ingestion.metrics, logger: ingestion.logger,
            now: ingestion.now
        ) { try await log.append($0) }
        let lookups = StripeLookups(
            losing, projector: WebLookupProjector(pool: pool, calls: StripeLookups.calls),
            register: WebLookupRegister(pool: pool))
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 121_000)
        while try await lookups.round() > 0 {}
        #expect(try await Self.owed(stripe) > 0)
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        log.stop()
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 61_000)
        while try await lookups.round() > 0 {}
        #expect(try await Self.owed(stripe) == 0)
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
    }

    @Test(
        "a name that is read and contradicts the owner is counted and told once: of a payment intent, of a subscription"
    )
    func contradiction() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        func conflicts() async throws -> Bool {
            let lines = stripe.rig.log.lines.count { $0.contains("a purchase on the web names two customers") }
            let metrics = try await stripe.rig.get("/metrics").text
            return lines == 1 && metrics.contains("rightful_ownership_conflicts_total 1\n")
        }
        let isOfSession = StripeBody.event(
            "checkout.session.completed", StripeBody.session("c-1", reference: "c-1"), id: "evt_session")
        shelf.put(
            """
            {"id":"pi_9","object":"payment_intent","status":"succeeded","amount":4999,"created":\(StripeRig.noon - 90),
            "livemode":true,"metadata":{"rightful_customer_id":"c-2"}}
            """, at: StripeLookup.paymentIntent("pi_9").path)
        #expect(try await stripe.deliver(isOfSession).status == 200)
        #expect(try await stripe.access("c-2") == ["web_checkout active"], "the payment intent's name counts first")
        #expect(try await conflicts())
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 6000)
        while try await lookups.round() > 0 {}
        #expect(try await stripe.deliver(isOfSession).json["duplicate"] == .bool(true))
        #expect(try await conflicts(), "and is not counted again")
    }

    @Test("whoever a payment's own metadata names sees what was read of it, and has it erased when they are forgotten")
    func secondName() async throws {
        let (stripe, shelf, server, _) = try await Self.make()
        defer { server.stop() }
        let session = StripeBody.event(
            "checkout.session.completed", StripeBody.session("c-1", reference: "c-1"), id: "evt_session")
        shelf.put(
            """
            {"id":"pi_9","object":"payment_intent","status":"succeeded","amount":4999,"created":\(StripeRig.noon - 90),
            "livemode":true,"metadata":{"rightful_customer_id":"c-2"}}
            """, at: StripeLookup.paymentIntent("pi_9").path)
        #expect(try await stripe.deliver(session).status == 200)
        #expect(try await stripe.access("c-2") == ["web_checkout active"])
        let events = try await stripe.rig.get("/v1/customers/c-2/events").json["items"]
        let count = events?.count ?? 0
        #expect(count > 0 && events?[count - 1]?["type"] == .string(WebFact.readingLabel))
        let outcome = try await Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest })
            .forget(try #require(CustomerID("c-2")))
        #expect(outcome?.evidence ?? 0 >= 1)
        let left = try await stripe.rig.pool.withConnection { connection in
            try connection.query("SELECT encode(parts, 'escape') FROM evidence").rows.map { try $0.text(0) }
        }
        #expect(!left.contains { $0.contains("c-2") })
        #expect(try await stripe.verify().isProven)
    }

    @Test("a reading of a subscription that names another customer is counted and logged")
    func contradictionOfSubscription() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let update = StripeBody.event("customer.subscription.updated", StripeBody.subscription(), id: "evt_2")
        #expect(try await stripe.deliver(update).status == 200)
        shelf.put(StripeBody.subscription("c-2"), at: "/v1/subscriptions/sub_1")
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 6000)
        #expect(try await lookups.round() == 1)
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains("rightful_ownership_conflicts_total 1\n"))
        #expect(stripe.rig.log.lines.contains { $0.contains("a purchase on the web names two customers") })
        let explained = try await stripe.rig.get("/v1/customers/c-2/explain").json["conflicts"]
        #expect(explained?.count == 1 && explained?[0]?["original_transaction_id"] == .string("sub_1"))
    }

    @Test("what a process had taken that was killed is read by the next, and nothing twice")
    func killed() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
        shelf.put(StripeShelf.refund(), at: "/v1/refunds/re_1")
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let webhook = try SignedWebhook(
            signature: StripeRig.header(StripeShelf.refunded), body: Array(StripeShelf.refunded.utf8))
        let event = try StripeEvent(parsing: webhook.body, sha256: SignedWebhook.hash)
        _ = try await stripe.rig.ledger.writer.append(EventDraft(event, webhook))
        let projector = WebLookupProjector(pool: stripe.rig.pool, calls: StripeLookups.calls)
        try await projector.catchUp(now: stripe.rig.clock.now)
        let register = WebLookupRegister(pool: stripe.rig.pool)
        // Taken, and never given back.
        #expect(try await register.take(.production, for: .seconds(25), now: stripe.rig.clock.now, limit: 9).count == 1)
        #expect(try await lookups.round() == 0, "it may still be at it")
        #expect(server.requests.isEmpty)
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 31_000)
        while try await lookups.round() > 0 {}
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
        #expect(try await stripe.head() == .int(5))
        #expect(try await Self.owed(stripe) == 0)
    }

    @Test("of two statements of one second that come in the wrong order, the one that is read again stands")
    func order() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let states = [StripeBody.subscription(cancels: true), StripeBody.subscription()]
        for (number, object) in states.enumerated() {
            let body = StripeBody.event(
                "customer.subscription.updated", object, id: "evt_s\(number)", created: StripeRig.noon - 30)
            #expect(try await stripe.deliver(body).status == 200)
        }
        shelf.put(StripeBody.subscription(cancels: true), at: "/v1/subscriptions/sub_1")
        #expect(try await lookups.round() == 0, "more may come")
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 6000)
        #expect(try await lookups.round() == 1, "both are read at once")
        #expect(server.requests.map(\.target) == ["/v1/subscriptions/sub_1"])
        let read = try await stripe.rig.get("/v1/subscriptions/sub_1").json
        #expect(read["will_renew"] == .bool(false))
        #expect(try await stripe.verify().isProven)
    }

    @Test("a thin event is looked up before it is answered")
    func thin() async throws {
        let (stripe, shelf, server, _) = try await Self.make()
        defer { server.stop() }
        shelf.put(StripeBody.invoice(), at: "/v1/invoices/in_sub_1")
        let thin = """
            {"object":"v2.core.event","id":"evt_3","type":"v1.invoice.paid","created":"2026-11-20T11:59:00Z",
            "livemode":true,"related_object":{"id":"in_sub_1","type":"invoice","url":"/v1/invoices/in_sub_1"}}
            """
        #expect(try await stripe.deliver(thin).json["position"] == .int(3))
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await stripe.verify().isProven)
    }

    @Test("an answer about something else than what was asked for is not believed")
    func exchanged() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let update = StripeBody.event("customer.subscription.updated", StripeBody.subscription(), id: "evt_2")
        #expect(try await stripe.deliver(update).status == 200)
        shelf.put(
            StripeBody.subscription("c-9", status: "canceled", endedAt: StripeRig.noon - 50).replacing(
                "sub_1", with: "sub_9"), at: "/v1/subscriptions/sub_1")
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 6000)
        #expect(try await lookups.round() == 1)
        #expect(try await stripe.head() == .int(4))
        #expect(try await Self.owed(stripe) == 1)
    }

    @Test("a payment that this ledger's checkout did not sell leaves nothing behind")
    func foreign() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        // Paid without a checkout or an invoice.
        shelf.put(
            #"{"id":"pi_1","object":"payment_intent","livemode":true,"metadata":{}}"#,
            at: "/v1/payment_intents/pi_1?expand[]=latest_charge")
        shelf.put(StripeShelf.refund(), at: "/v1/refunds/re_1")
        #expect(try await stripe.deliver(StripeShelf.refunded).status == 200)
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 6000)
        while try await lookups.round() > 0 {}
        #expect(try await stripe.head() == .int(3))
        #expect(try await Self.owed(stripe) == 0)
    }

    @Test("of whoever was forgotten nothing is read, and what was read about them is erased")
    func forgotten() async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        #expect(try await stripe.deliver(StripeShelf.refunded).status == 200)
        let update = StripeBody.event("customer.subscription.updated", StripeBody.subscription(), id: "evt_2")
        #expect(try await stripe.deliver(update).status == 200)
        let customer = try #require(CustomerID("c-1"))
        let forgetter = Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest })
        #expect(try await forgetter.forget(customer)?.evidence == 4, "three webhooks, and a reading")
        let asked = server.requests.count
        let forgotten = try await stripe.head()
        shelf.put(StripeBody.subscription(cancels: true), at: "/v1/subscriptions/sub_1")
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 60_000)
        while try await lookups.round() > 0 {}
        #expect(server.requests.count == asked)
        #expect(try await Self.owed(stripe) == 0)
        #expect(try await stripe.head() == forgotten, "the forgetting is the last")
        #expect(try await stripe.verify().erasedEvidence == 4)
    }
}
