import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import SeededRandom
import StoreSimulator
import StripePayloads
import TestSupport
import Testing

@testable import Service

/// Refunds and disputes name no subscription and no invoice: where the log says what they are about, nobody else is asked.
@Suite("Refunds and disputes while Stripe cannot be asked", .timeLimit(.minutes(5)))
struct StripeTracingTests {
    /// A service whose Stripe takes no key, so that nothing can be read.
    private static func make() async throws -> (StripeRig, StripeShelf, HostileServer, StripeLookups) {
        let shelf = StripeShelf()
        shelf.fail(.answer(401, #"{"error":{"type":"invalid_request_error","message":"Invalid API Key"}}"#))
        let server = try HostileServer { request, _ in shelf.reply(to: request) }
        let stripe = try await StripeRig.make(api: server.url)
        return (stripe, shelf, server, try #require(stripe.rig.application.stripe.lookups))
    }

    /// What was sold, and the names its payment has there.
    enum Sale: String, CaseIterable, CustomTestStringConvertible {
        case once
        case earlyInvoice
        case invoiceWithPayments

        var testDescription: String { rawValue }
        var intent: String { self == .once ? "pi_9" : "pi_1" }

        var event: String {
            switch self {
            case .once:
                StripeBody.event(
                    "checkout.session.completed", StripeBody.session("c-1", reference: "c-1"), id: "evt_sale")
            case .earlyInvoice: StripeTracingTests.earlyInvoice()
            case .invoiceWithPayments:
                StripeBody.event(
                    "invoice.paid", StripeBody.invoice(payments: StripeBody.payment("pi_1")), id: "evt_sale")
            }
        }
    }

    /// Before basil an invoice names its payment.
    fileprivate static func earlyInvoice(_ type: String = "invoice.paid", number: Int = 1) -> String {
        let isPaid = type == "invoice.paid"
        let object = StripeBody.oldInvoice
            .replacing("in_sub_1", with: "in_\(number)").replacing("il_1", with: "il_\(number)")
            .replacing(#""status":"paid","paid":true"#, with: isPaid ? #""status":"paid""# : #""status":"open""#)
            .replacing(
                #""customer":"cus_1""#,
                with: #""customer":"cus_1","payment_intent":"pi_\#(number)","charge":"ch_\#(number)""#)
        return StripeBody.event(type, object, id: "evt_\(type)\(number)")
    }

    enum Back: String, CaseIterable, CustomTestStringConvertible {
        case refund
        case refundOfCharge
        case chargeRefunded
        case dispute

        var testDescription: String { rawValue }

        func refund(_ intent: String) -> String {
            """
            {"id":"re_1","object":"refund","amount":\(intent == "pi_9" ? 4999 : 999),"currency":"usd",
            "created":\(StripeRig.noon - 20),"status":"succeeded",
            "payment_intent":\(self == .refundOfCharge ? "null" : "\"\(intent)\""),"charge":"ch_\(intent.dropFirst(3))"}
            """
        }

        func event(_ intent: String) -> String {
            let (number, refund) = (intent.dropFirst(3), refund(intent))
            let (type, object) =
                switch self {
                case .refund, .refundOfCharge: ("refund.created", refund)
                case .chargeRefunded:
                    (
                        "charge.refunded",
                        """
                        {"id":"ch_\(number)","object":"charge","amount":999,"amount_refunded":999,"refunded":true,
                        "livemode":true,"payment_intent":"\(intent)","invoice":"in_1",
                        "refunds":{"object":"list","data":[\(refund)],"has_more":false}}
                        """
                    )
                case .dispute:
                    (
                        "charge.dispute.created",
                        """
                        {"id":"dp_1","object":"dispute","amount":999,"currency":"usd","charge":"ch_\(number)",
                        "payment_intent":"\(intent)","status":"needs_response","created":\(StripeRig.noon - 20),
                        "livemode":true}
                        """
                    )
                }
            return StripeBody.event(type, object, id: "evt_back", created: StripeRig.noon - 20)
        }
    }

    private static let pairs = Sale.allCases.flatMap { sale in
        // Only the invoice of an early version names its charge.
        Back.allCases.filter { sale == .earlyInvoice || [.refund, .dispute].contains($0) }.map { (sale, $0) }
    }

    @Test("it takes effect before its answer, whichever of the two comes first", arguments: pairs, [false, true])
    func traced(pair: (sale: Sale, back: Back), isBackFirst: Bool) async throws {
        let (stripe, shelf, server, lookups) = try await Self.make()
        defer { server.stop() }
        let bodies = [pair.sale.event, pair.back.event(pair.sale.intent)]
        for body in isBackFirst ? bodies.reversed() : bodies { #expect(try await stripe.deliver(body).status == 200) }
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.unsignedEvidence == 1, "the reading's fact is derived from its evidence")
        let before = try await stripe.head()

        // Delivered again, and asked later, nothing else comes of it.
        for body in bodies { #expect(try await stripe.deliver(body).json["duplicate"] == .bool(true)) }
        shelf.fail(nil)
        shelf.put(pair.back.refund(pair.sale.intent), at: "/v1/refunds/re_1")
        let asked = server.requests.count
        stripe.rig.clock.now = stripe.rig.clock.now.adding(milliseconds: 400_000)
        while try await lookups.round() > 0 {}
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
        #expect(try await stripe.head() == before)
        #expect(!server.requests[asked...].contains { $0.target.hasPrefix("/v1/invoice_payments") })
        #expect(try await stripe.verify().isProven)
    }

    @Test("money back from a payment of which the log does not know what it paid for waits, and touches nothing else")
    func untraced() async throws {
        let (stripe, _, server, _) = try await Self.make()
        defer { server.stop() }
        #expect(try await stripe.deliver(Self.earlyInvoice()).status == 200)
        #expect(try await stripe.deliver(Self.earlyInvoice("invoice.payment_failed", number: 2)).status == 200)
        // The log knows the invoice, but not what was paid on it: it must not be taken from the first.
        #expect(try await stripe.deliver(Back.refund.event("pi_2")).status == 200)
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await WebLookupRegister(pool: stripe.rig.pool).count(.production) > 0)
        #expect(try await !stripe.rig.get("/v1/events?limit=100").text.contains(WebFact.readingLabel))
        #expect(try await stripe.deliver(Self.earlyInvoice(number: 2)).status == 200)
        #expect(try await stripe.rig.get("/v1/events?limit=100").text.contains(WebFact.readingLabel))
        #expect(try await stripe.access("c-1") == ["web_checkout active"], "the first is paid all the same")
        #expect(try await stripe.verify().isProven)
    }

    @Test("one environment explains nothing of the other")
    func otherEnvironment() async throws {
        let (stripe, _, server, _) = try await Self.make()
        defer { server.stop() }
        #expect(try await stripe.deliver(Sale.earlyInvoice.event).status == 200)
        let back = Back.refund.event("pi_1").replacing(#""livemode": true"#, with: #""livemode": false"#)
        #expect(try await stripe.deliver(back, header: StripeRig.header(back, [StripeRig.sandbox])).status == 200)
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await !stripe.rig.get("/v1/events?limit=100").text.contains(WebFact.readingLabel))
    }

    /// The events of a simulated life as its webhooks say them; of what an invoice of the newer version was paid with, none tells.
    private static func bodies(_ seed: UInt64) -> [(type: String, text: String)] {
        WebLife.recent(seed: seed, customers: ["c-1", "c-2"], until: StripeRig.noon * 1000).events
            .filter { StripeEventType.isKnown($0.type) }
            .map { ($0.type, String(decoding: $0.json(.early, pending: 0).json, as: UTF8.self)) }
    }

    /// The first in which something is refunded, and no invoice has more lines than a webhook shows.
    private static let seeds = Array(
        (1...100 as ClosedRange<UInt64>).lazy.filter { seed in
            let bodies = bodies(seed)
            return bodies.contains { $0.type.hasPrefix("refund.") || $0.type.hasPrefix("charge.dispute.") }
                && !bodies.contains { $0.text.contains(/"has_more": ?true/) }
        }.prefix(4))

    @Test("of a simulated life every refund and dispute is traced, in whatever order it comes", arguments: seeds)
    func lives(seed: UInt64) async throws {
        let (stripe, _, server, _) = try await Self.make()
        defer { server.stop() }
        var random = SplitMix64(seed: seed)
        for body in random.shuffled(Self.bodies(seed).map(\.text)) {
            let answer = try await stripe.deliver(body, header: StripeRig.header(body, [StripeRig.secret]))
            #expect(answer.status == 200, "\(answer.text)")
        }
        let (waiting, traced) = try await stripe.rig.pool.withConnection { connection in
            let back = "(type LIKE 'refund.%' OR type LIKE 'charge.dispute.%')"
            let waiting = try connection.query(
                "SELECT event.position, type FROM web_lookup JOIN event USING (ledger_id, position) WHERE is_urgent AND \(back)"
            ).rows.map { "\(try $0.int(0)) \(try $0.text(1))" }
            return (waiting, try connection.query("SELECT count(*) FROM event WHERE \(back)").row(0).int(0))
        }
        #expect(waiting.isEmpty, "\(waiting)")
        #expect(traced > 0, "nothing was refunded")
        #expect(try await stripe.verify().isProven)
    }

    @Test(
        "what a killed process was about to read is read before the webhook is answered that comes again",
        arguments: [false, true])
    func killed(isToldByLog: Bool) async throws {
        let (stripe, shelf, server, _) = try await Self.make()
        defer { server.stop() }
        if !isToldByLog {
            shelf.fail(nil)
            shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
        }
        #expect(try await stripe.deliver(isToldByLog ? Sale.earlyInvoice.event : StripeBody.paid).status == 200)
        let body = StripeShelf.refunded
        let webhook = try SignedWebhook(signature: StripeRig.header(body), body: Array(body.utf8))
        let event = try StripeEvent(parsing: webhook.body, sha256: SignedWebhook.hash)
        _ = try await stripe.rig.ledger.writer.append(EventDraft(event, webhook))
        try await WebLookupProjector(pool: stripe.rig.pool, calls: StripeLookups.calls)
            .catchUp(now: stripe.rig.clock.now)
        // Taken, and never given back.
        let register = WebLookupRegister(pool: stripe.rig.pool)
        #expect(try await register.take(.production, for: .seconds(25), now: stripe.rig.clock.now, limit: 9).count == 1)
        let again = try await stripe.deliver(body)
        #expect(try again.json["duplicate"] == .bool(true))
        #expect(try await stripe.access("c-1") == ["web_checkout revoked"])
        #expect(server.requests.isEmpty == isToldByLog)
    }
}
