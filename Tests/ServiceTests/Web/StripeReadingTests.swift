import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("What was bought on the web, read", .timeLimit(.minutes(5)))
struct StripeReadingTests {
    private static func update(_ object: String, at seconds: Int64, id: String) -> String {
        StripeBody.event("customer.subscription.updated", object, id: id, created: seconds)
    }

    private static let ended = StripeBody.event(
        "customer.subscription.deleted", StripeBody.subscription(status: "canceled", endedAt: StripeRig.noon - 20),
        id: "evt_9", created: StripeRig.noon - 20)

    @Test("a subscription reads by its own id, with whose it is and whether it renews")
    func subscription() async throws {
        let stripe = try await StripeRig.make()
        func read() async throws -> WireValue { try await stripe.rig.get("/v1/subscriptions/sub_1").json }
        let open = Self.update(StripeBody.subscription(status: "incomplete"), at: StripeRig.noon - 90, id: "evt_2")
        #expect(try await stripe.deliver(open).status == 200)
        let before = try await read()
        #expect(before["claimed"] == .bool(true) && before["state"] == .null && before["periods"]?.count == 0)
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let running = Self.update(StripeBody.subscription(), at: StripeRig.noon - 50, id: "evt_3")
        #expect(try await stripe.deliver(running).status == 200)
        let paid = try await read()
        #expect(paid["state"] == .string("active") && paid["product_id"] == .string("pro"))
        #expect(paid["will_renew"] == .bool(true) && paid["claimed"] == .bool(true))
        #expect(paid["periods"]?[0]?["customer_id"] == .string("c-1"))
        #expect(paid["periods"]?[0]?["transaction_ids"] == .array([.string("il_1")]))
        let cancelled = Self.update(StripeBody.subscription(cancels: true), at: StripeRig.noon - 40, id: "evt_4")
        #expect(try await stripe.deliver(cancelled).status == 200)
        #expect(try await read()["will_renew"] == .bool(false))
        let check = try await stripe.rig.send(
            "POST", "/v1/subscriptions/sub_1/actions/check", key: stripe.rig.admin)
        #expect(check.verdict == "422 unprocessable", "\(check.text)")
    }

    @Test("what was answered once is answered for ever, with views or without")
    func past() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let running = Self.update(StripeBody.subscription(), at: StripeRig.noon - 50, id: "evt_2")
        #expect(try await stripe.deliver(running).status == 200)
        let past = "at=2026-11-20T11:59:50.000Z&known_at=4"
        let paths = ["entitlements", "timeline", "explain"].map { "/v1/customers/c-1/\($0)?" }
        func answers(_ query: String) async throws -> [String] {
            var answers: [String] = []
            for path in paths + ["/v1/subscriptions/sub_1?"] {
                let isTimeline = path.contains("timeline")
                let answer = try await stripe.rig.get(path + (isTimeline ? "known_at=4" : query))
                #expect(answer.status == 200, "\(answer.text)")
                answers.append(answer.text)
            }
            return answers
        }
        let answered = try await answers(past)
        #expect(answered[0].contains(#""state":"active""#))
        #expect(try await stripe.deliver(Self.ended).status == 200)
        #expect(try await stripe.access("c-1") == ["web_checkout expired"])
        #expect(try await answers(past) == answered)
        let now = try await stripe.rig.get("/v1/customers/c-1/timeline").text
        try await stripe.rig.writeViews()
        #expect(try await stripe.rig.get("/v1/customers/c-1/timeline").text == now)
        #expect(try await answers(past) == answered)
        #expect(try await stripe.verify().views == 1)
        #expect(try await stripe.rig.deleteViews() == 1)
        #expect(try await stripe.rig.get("/v1/customers/c-1/timeline").text == now)
        #expect(try await answers(past) == answered)
    }

    @Test("a key of one app reads what holds in every app, and transfers none of it")
    func keyOfOneApp() async throws {
        let stripe = try await StripeRig.make()
        let rig = stripe.rig
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let key = try await rig.keys.create(name: "x", scopes: [.admin], bundleID: ServiceRig.bundleID).secret
        func get(_ path: String) async throws -> HTTPResponse { try await rig.send("GET", path, key: key) }
        #expect(try await get("/v1/customers/c-1/entitlements").text.contains("web_checkout"))
        #expect(try await get("/v1/subscriptions/sub_1").status == 200)
        #expect(try await get("/v1/customers/c-1/events").json["items"]?[0]?["position"] == .int(3))
        #expect(try await !get("/v1/events").text.contains("sub_1"))
        #expect(try await get("/v1/events/3").verdict == "404 not_found")
        func transfer(_ original: String, key: String) async throws -> HTTPResponse {
            try await rig.send(
                "POST", "/v1/customers/c-1/actions/transfer", key: key,
                body: Array(#"{"original_transaction_id":"\#(original)","to":"c-2"}"#.utf8))
        }
        #expect(try await transfer("sub_1", key: key).verdict == "403 forbidden")
        #expect(try await transfer("sub_2", key: key).verdict == "404 not_found")
        let moved = try await transfer("sub_1", key: rig.admin)
        #expect(moved.status == 200, "\(moved.text)")
        rig.clock.now = rig.clock.now.adding(milliseconds: 60_000)
        #expect(try await stripe.access("c-1") == ["web_checkout expired"])
        let lost = try await rig.get("/v1/customers/c-1/entitlements").text
        #expect(lost.contains("owned_by_another"), "what was held until the transfer is a lapsed entitlement: \(lost)")
        #expect(try await stripe.access("c-2") == ["web_checkout active"])
    }

    @Test("an export holds the webhooks about a customer, but for those that name somebody else")
    func export() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let session = StripeBody.event(
            "checkout.session.completed", StripeBody.session("c-1", reference: "c-2"), id: "evt_2")
        #expect(try await stripe.deliver(session).status == 200)
        let customer = try #require(CustomerID("c-1"))
        let export = try #require(
            try await stripe.rig.context.reader.export(of: customer, environments: [.production]))
        let bytes = try WireJSON.encode(
            CustomerExportDocument(export, customer: customer, environments: [.production]))
        let (document, _) = try CustomerExportDocument.read(bytes)
        #expect(document.events.map(\.position) == [2, 3, 4])
        #expect(document.events[1].evidence == StripeRig.header(StripeBody.paid) + "\n" + StripeBody.paid)
        #expect(document.events[2].evidence == nil && document.events[2].evidenceWithheld)
        #expect(!String(decoding: bytes, as: UTF8.self).contains(/c-2\\?"/))
    }
}
