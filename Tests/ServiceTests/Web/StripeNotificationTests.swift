import EntitlementAPI
import EntitlementCore
import Foundation
import FoundationNetworking
import HTTPServer
import Ledger
import PostgresClient
import StripePayloads
import TestSupport
import Testing

@testable import Service

@Suite("Stripe's webhooks", .timeLimit(.minutes(5)))
struct StripeNotificationTests {
    @Test("what a webhook says is readable once it was answered, and the event shows it byte for byte")
    func accepted() async throws {
        let stripe = try await StripeRig.make()
        let answer = try await stripe.deliver(StripeBody.paid)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try answer.json == WireValue(json: #"{"position":3,"duplicate":false}"#))
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        let event = try await stripe.rig.get("/v1/events/3").json
        #expect(event["type"] == .string("invoice.paid") && event["source"] == .string("stripe_notification"))
        #expect(event["original_transaction_id"] == .string("sub_1") && event["customer_id"] == .string("c-1"))
        #expect(event["occurred_at"] == .string("2026-11-20T11:59:00.000Z"))
        #expect(event["evidence"]?["signed_payload"] == .string(StripeBody.paid))
        #expect(event["evidence"]?["signature"] == .string(StripeRig.header(StripeBody.paid)))
        #expect(event["evidence"]?["payload"]?["id"] == .string("evt_1"))
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.uncheckedSignatures == 0 && summary.evidence == 1)
    }

    @Test("a webhook that is signed as of any second is proven again as it was believed")
    func ofAnySecond() async throws {
        let stripe = try await StripeRig.make()
        let header = StripeRig.header(StripeBody.paid, at: .max)
        #expect(try await stripe.deliver(StripeBody.paid, header: header).status == 200)
        #expect(try await stripe.verify().isProven)
    }

    @Test("a subscription of which nothing is collected is told as paused, for as long as that is so")
    func paused() async throws {
        let stripe = try await StripeRig.make()
        let collected = StripeBody.subscription()
        let paused = collected.replacing(
            #""pause_collection":null"#, with: #""pause_collection":{"behavior":"void","resumes_at":null}"#)
        func deliver(_ id: String, _ type: String, _ object: String, at second: Int64) async throws {
            let event = StripeBody.event(type, object, id: id, created: StripeRig.noon - 60 + second)
            #expect(try await stripe.deliver(event).status == 200)
        }
        try await deliver("evt_1", "invoice.paid", StripeBody.invoice(), at: 1)
        for (number, object) in [collected, paused, collected].enumerated() {
            try await deliver("evt_\(number + 2)", "customer.subscription.updated", object, at: Int64(number) + 2)
            let answer = try await stripe.rig.get("/v1/subscriptions/sub_1").json
            #expect(answer["paused"] == .bool(object == paused), "\(number)")
            #expect(answer["awaits_consent"] == .bool(false) && answer["renews_as"] == .null)
        }
    }

    @Test("how a payer writes their name is no reason to refuse what Stripe has signed")
    func marksInName() async throws {
        let stripe = try await StripeRig.make()
        let name = "z" + String(repeating: "\u{315}", count: 500)
        let invoice = StripeBody.invoice().replacing(
            #""object":"#, with: #""customer_name":"\#(name)","object":"#, maxReplacements: 1)
        #expect(invoice.contains(name))
        let answer = try await stripe.deliver(StripeBody.event("invoice.paid", invoice))
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await stripe.verify().isProven)
    }

    @Test("one event is one event in whatever body it comes: other counts, other API versions")
    func duplicates() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let again = [
            StripeBody.event("invoice.paid", StripeBody.invoice(), pending: 0),
            StripeBody.event("invoice.paid", StripeBody.oldInvoice),
        ]
        for body in again {
            #expect(try await stripe.deliver(body).json == WireValue(json: #"{"position":3,"duplicate":true}"#))
        }
        #expect(try await stripe.head() == .int(3))
    }

    @Test("one id with one content is an event in each environment: facts of the two never meet")
    func sameIDInBothEnvironments() async throws {
        let stripe = try await StripeRig.make()
        // An id, and an object without `livemode`, as a refund is: the two bodies state exactly the same.
        let refund = #"{"id":"re_1","object":"refund","amount":999,"charge":"ch_1","created":1,"status":"succeeded"}"#
        for (position, isLive) in [(3, true), (4, false)] {
            let body = StripeBody.event("refund.created", refund, live: isLive)
            let header = StripeRig.header(body, [isLive ? StripeRig.secret : StripeRig.sandbox])
            for isDuplicate in [false, true] {
                let answer = try await stripe.deliver(body, header: header)
                #expect(
                    try answer.json == WireValue(json: #"{"position":\#(position),"duplicate":\#(isDuplicate)}"#))
            }
        }
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(!metrics.contains(#"kind="id_reused""#))
        #expect(try await stripe.verify().isProven)
    }

    @Test("other facts under a known id are an event of their own, flagged, and that is one event, too")
    func reusedID() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let other = StripeBody.event("invoice.paid", StripeBody.invoice().replacing("999", with: "1"))
        #expect(try await stripe.deliver(other).json == WireValue(json: #"{"position":4,"duplicate":false}"#))
        #expect(try await stripe.deliver(other).json == WireValue(json: #"{"position":4,"duplicate":true}"#))
        #expect(try await stripe.deliver(StripeBody.paid).json["position"] == .int(3))
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="id_reused"} 1"#))
        #expect(try await stripe.verify().isProven)
    }

    @Test("what is sold on the web and the catalog does not know is listed, by what the catalog has to name")
    func unmapped() async throws {
        let stripe = try await StripeRig.make()
        func listed(_ catalog: String) async throws -> WireValue? {
            #expect(try await stripe.rig.put(catalog).status == 200)
            try await SeenProjector(pool: stripe.rig.pool).catchUp()
            return try await stripe.rig.get("/v1/remarks").json["unmapped_products"]
        }
        func pro(_ names: String) -> String {
            #"{"products":[{"product_id":"pro","entitlements":["premium"],"stripe":{\#(names),"mode":"subscription"}}]}"#
        }
        let session = StripeBody.event(
            "checkout.session.completed", StripeBody.session("c-1", reference: "c-1"), id: "evt_2")
        for body in [StripeBody.paid, session] { #expect(try await stripe.deliver(body).status == 200) }
        #expect(try await listed(StripeRig.catalog) == .array([]))
        #expect(try await !stripe.rig.get("/metrics").text.contains("unmapped_product"))
        let lifetime = #"{"name":"lifetime","events":1,"first_position":4,"last_position":4}"#
        let sold = #"{"name":"prod_1","stripe":{"price":"price_1","product":"prod_1"},"events":1,"first_position":3,"#
        let table = [
            (pro(#""price":"price_1""#), "[\(lifetime)]"),
            (pro(#""price":"price_new","product":"prod_1""#), "[\(lifetime)]"),
            (pro(#""price":"price_new""#), #"[\#(lifetime),\#(sold)"last_position":3}]"#),
        ]
        for (catalog, expected) in table {
            #expect(try await listed(catalog) == WireValue(json: expected), "\(catalog)")
        }
        let other = StripeBody.event(
            "invoice.paid",
            StripeBody.invoice("c-2", subscription: "sub_2").replacing("price_1", with: "price_9")
                .replacing("prod_1", with: "prod_9"), id: "evt_3")
        #expect(try await stripe.deliver(other).status == 200)
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="unmapped_product"} 1"#))
    }

    @Test("an unknown type and a thin event are kept, answered 200, and shown as something to look at")
    func unknown() async throws {
        let stripe = try await StripeRig.make()
        let customer = StripeBody.event("customer.created", #"{"id":"cus_1","object":"customer"}"#, id: "evt_2")
        #expect(try await stripe.deliver(customer).json["position"] == .int(3))
        let thin = """
            {"object":"v2.core.event","id":"evt_3","type":"v1.invoice.paid","created":"2026-11-20T11:59:00Z",
            "livemode":true,"related_object":{"id":"in_1","type":"invoice","url":"/v1/invoices/in_1"}}
            """
        #expect(try await stripe.deliver(thin).json["position"] == .int(4))
        #expect(try await stripe.rig.get("/v1/events/3").json["type"] == .string("unknown"))
        #expect(
            try await stripe.rig.get("/v1/events/4").json["evidence"]?["signed_payload"] == .string(thin))
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="unknown_type"} 1"#))
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="thin_event"} 1"#))
        #expect(try await stripe.verify().isProven)
    }

    @Test("what came before its type was known stays what it was, and states more when it comes again")
    func learnedType() async throws {
        let stripe = try await StripeRig.make()
        let before = try StripeEvent(
            parsing: Array(StripeBody.paid.utf8), sha256: SignedWebhook.hash, knowing: { _ in false })
        let webhook = try SignedWebhook(
            signature: StripeRig.header(StripeBody.paid), body: Array(StripeBody.paid.utf8))
        #expect(try await stripe.rig.ledger.writer.append(EventDraft(before, webhook)).position == 3)
        #expect(try await stripe.access("c-1") == [])
        #expect(try await stripe.rig.get("/v1/events/3").json["type"] == .string("unknown"))
        #expect(try await stripe.verify().isProven)
        #expect(
            try await stripe.deliver(StripeBody.paid).json == WireValue(json: #"{"position":4,"duplicate":false}"#))
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await stripe.access("c-1", knownAt: 3) == [])
        #expect(try await stripe.verify().isProven)
    }

    @Test("whatever cannot be believed is refused by its code, and leaves no event")
    func refusals() async throws {
        let stripe = try await StripeRig.make()
        let body = StripeBody.paid
        let sandbox = StripeBody.event("invoice.paid", StripeBody.invoice(live: false), live: false)
        let headless = #"{"object":"event","id":"evt_1","livemode":true}"#
        let table: [(body: String, header: String, verdict: String)] = [
            (body, "", "401 untrusted_signature"),
            (body, "t=\(StripeRig.noon)", "401 untrusted_signature"),
            (body, StripeRig.header(body, ["whsec_forged"]), "401 untrusted_signature"),
            (body, StripeRig.header(body, at: StripeRig.noon - 301), "401 untrusted_signature"),
            (String(body.dropLast(20)), StripeRig.header(body), "401 untrusted_signature"),
            (body.replacing("999", with: "1"), StripeRig.header(body), "401 untrusted_signature"),
            (sandbox, StripeRig.header(sandbox), "403 wrong_environment"),
            (body, StripeRig.header(body, [StripeRig.sandbox]), "403 wrong_environment"),
            (headless, StripeRig.header(headless), "422 inconsistent_payload"),
            ("[]", StripeRig.header("[]"), "400 malformed_request"),
        ]
        for (body, header, verdict) in table {
            let answer = try await stripe.deliver(body, header: header)
            #expect(answer.verdict == verdict, "\(header) \(answer.text)")
            #expect(!answer.text.contains("whsec_"))
        }
        #expect(try await stripe.head() == .int(2))
        #expect(try await stripe.deliver(sandbox, header: StripeRig.header(sandbox, [StripeRig.sandbox])).status == 200)
        #expect(try await stripe.access("c-1", "sandbox") == ["web_checkout active"])
        #expect(try await stripe.access("c-1") == [])
        #expect(!stripe.rig.log.lines.contains { $0.contains("whsec_") })
    }

    @Test("without a secret every webhook is refused as of an app that is not configured")
    func notConfigured() async throws {
        let stripe = try await StripeRig.make([])
        #expect(try await stripe.deliver(StripeBody.paid).verdict == "403 unknown_app")
        #expect(try await stripe.head() == .int(2))
    }

    @Test("while a secret is rolled either signs, and so do both")
    func rolling() async throws {
        let stripe = try await StripeRig.make()
        let signers = [[StripeRig.rolled], [StripeRig.secret], [StripeRig.rolled, StripeRig.secret]]
        for (number, secrets) in signers.enumerated() {
            let body = StripeBody.event("invoice.paid", StripeBody.invoice(), id: "evt_\(number)")
            #expect(try await stripe.deliver(body, header: StripeRig.header(body, secrets)).status == 200)
        }
        #expect(try await stripe.verify().uncheckedSignatures == 0)
        let now = try StripeWebhooks([#require(StripeWebhookSecret(StripeRig.secret, of: .production))])
        let summary = try await stripe.verify(now)
        #expect(summary.isProven && summary.uncheckedSignatures == 1, "that of the secret that is given up")
    }

    @Test(
        "a body that no known secret signed is derived and said to be unchecked; one of the other mode, or exchanged, proves nothing"
    )
    func changedEvidence() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let body = StripeBody.event("invoice.paid", StripeBody.invoice("c-9"))
        let reading = stripe.webhooks
        let forged = try SignedWebhook(signature: StripeRig.header(StripeBody.paid), body: Array(body.utf8))
        #expect(try reading.derive(forged.evidence, of: "invoice.paid").signature == .ofUnknownSecret)
        #expect(try reading.derive(forged.evidence, of: "invoice.paid").identities == ["c-9"])
        let moded = try SignedWebhook(
            signature: StripeRig.header(body, [StripeRig.sandbox]), body: Array(body.utf8))
        #expect(throws: EvidenceFault.self) { try reading.derive(moded.evidence, of: "invoice.paid") }
        let owner = try await stripe.rig.database.owner()
        _ = try await owner.run { connection in
            try connection.query(
                "UPDATE evidence SET parts = $1", [.bytes(EvidenceParts(plain: forged.evidence).bytes)])
        }
        await #expect(throws: VerificationDifference.self) { try await stripe.verify() }
    }

    @Test("what Stripe sent is stored as it came; verify refuses it compressed, where nobody would be found in it")
    func compressed() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        #expect(try await stripe.verify().isProven)
        let owner = try await stripe.rig.database.owner()
        try await owner.run { connection in
            let row = try connection.query("SELECT parts FROM evidence").first
            let received = try EvidenceParts.assemble(try row?.bytes(0) ?? [], headers: [:])
            try connection.query("UPDATE evidence SET parts = $1", [.bytes(EvidenceParts(jws: received).bytes)])
        }
        let difference = await #expect(throws: VerificationDifference.self) { try await stripe.verify() }
        #expect(difference?.description.contains("compressed") == true)
    }

    @Test("a flood of forgeries is answered rate_limited, and Stripe gets through from the same address")
    func flood() async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 1, burst: 20)
        let stripe = try await StripeRig.make(limits: limits)
        let start = ContinuousClock.now
        let forged = StripeRig.header(StripeBody.paid, ["whsec_forged"])
        var verdicts: [String] = []
        for _ in 0..<30 {
            verdicts.append(
                try await stripe.deliver(StripeBody.paid, header: forged, from: "192.0.2.66", at: start).verdict)
        }
        #expect(verdicts.prefix(20).allSatisfy { $0 == "401 untrusted_signature" })
        #expect(verdicts.dropFirst(20).allSatisfy { $0 == "429 rate_limited" })
        #expect(try await stripe.deliver(StripeBody.paid, from: "192.0.2.66", at: start).status == 200)
        let long = String(repeating: " ", count: 300 << 10) + StripeBody.paid
        #expect(
            try await stripe.deliver(long, header: forged, from: "192.0.2.67", at: start).verdict
                == "401 untrusted_signature")
        let standing = stripe.rig.application.admission.rateLimiter.standing(
            of: .forgeries(ClientAddress(try #require(IPAddress("192.0.2.67")))), at: start)
        #expect(standing.tokens == 5, "300 KiB, hashed for each of three secrets, cost as much as 14 signatures more")
    }

    @Test("over a socket the body is verified byte for byte as it was sent, up to the limit")
    func socket() async throws {
        let stripe = try await StripeRig.make()
        let server = stripe.rig.application.makeServer(HTTPServerConfiguration(port: 0))
        try server.start()
        let url = "http://127.0.0.1:\(try #require(server.boundPort))/v1/notifications/stripe"
        func post(_ body: String) async throws -> Int? {
            var request = URLRequest(url: try #require(URL(string: url)))
            request.httpMethod = "POST"
            request.httpBody = Data(body.utf8)
            request.setValue(StripeRig.header(body), forHTTPHeaderField: "Stripe-Signature")
            return (try await URLSession.shared.data(for: request).1 as? HTTPURLResponse)?.statusCode
        }
        #expect(try await post(StripeBody.paid) == 200)
        #expect(try await post(StripeBody.paid + String(repeating: " ", count: 1 << 19)) == 200)
        #expect(try await post(StripeBody.paid + String(repeating: " ", count: 1 << 22)) == 413)
        let event = try await stripe.rig.get("/v1/events/3").json
        #expect(event["evidence"]?["signed_payload"] == .string(StripeBody.paid))
        await server.stop(graceSeconds: 1)
    }

    @Test("an event that names another customer than the owner moves nothing, and is counted once")
    func contradiction() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        for (number, customer) in ["c-2", "c-1", "c-2"].enumerated() {
            let body = StripeBody.event(
                "customer.subscription.updated", StripeBody.subscription(customer), id: "evt_\(number + 2)",
                created: StripeRig.noon - 10 + Int64(number))
            #expect(try await stripe.deliver(body).status == 200)
        }
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await stripe.access("c-2") == [])
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains("rightful_ownership_conflicts_total 1\n"))
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="ownership_conflict"} 1"#))
    }

    @Test(
        "a name that overrules another is counted and told, whichever comes first: a reference, a session, a payment intent"
    )
    func overruled() async throws {
        let session = StripeBody.event(
            "checkout.session.completed",
            StripeBody.session("c-1", reference: "c-1").replacing(
                #""metadata":{"rightful_customer_id":"c-1",""#, with: #""metadata":{""#), id: "evt_session")
        let named = StripeBody.event(
            "checkout.session.completed", StripeBody.session("c-1", reference: "c-1"), id: "evt_session")
        let intent = StripeBody.event(
            "payment_intent.succeeded",
            """
            {"id":"pi_9","object":"payment_intent","status":"succeeded","amount":4999,"livemode":true,"metadata":
            {"rightful_customer_id":"c-2"}}
            """, id: "evt_intent", created: StripeRig.noon - 30)
        for bodies in [[session, intent], [intent, session], [named, intent], [intent, named]] {
            let stripe = try await StripeRig.make()
            for body in bodies { #expect(try await stripe.deliver(body).status == 200) }
            #expect(try await stripe.access("c-1") == [])
            #expect(try await stripe.access("c-2") == ["web_checkout active"])
            let metrics = try await stripe.rig.get("/metrics").text
            #expect(metrics.contains("rightful_ownership_conflicts_total 1\n"))
            #expect(stripe.rig.log.lines.contains { $0.contains("a purchase on the web names two customers") })
            for customer in ["c-1", "c-2"] {
                let explained = try await stripe.rig.get("/v1/customers/\(customer)/explain").json["conflicts"]
                #expect(explained?.count == 1, "\(customer)")
                #expect(explained?[0]?["original_transaction_id"] == .string("pi_9"))
            }
        }
    }

    @Test("whoever is forgotten is named nowhere any more, and the log stays proven")
    func forgotten() async throws {
        let stripe = try await StripeRig.make()
        for (number, customer) in ["c-1", "c-2"].enumerated() {
            let body = StripeBody.event(
                "invoice.paid", StripeBody.invoice(customer, subscription: "sub_\(number)"), id: "evt_\(number)")
            #expect(try await stripe.deliver(body).status == 200)
        }
        let forgetter = Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest })
        let outcome = try await forgetter.forget(try #require(CustomerID("c-1")))
        #expect(outcome?.evidence == 1)
        #expect(try await stripe.access("c-1") == [])
        #expect(try await stripe.access("c-2") == ["web_checkout active"])
        let found = try await stripe.rig.pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM evidence WHERE encode(parts, 'escape') LIKE '%\"c-1\"%'")
                .first?.int(0)
        }
        #expect(found == 0)
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.erasedEvidence == 1)
    }
}
