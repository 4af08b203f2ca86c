import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

@Suite("Events and the ledger", .serialized, .timeLimit(.minutes(5)))
struct EventTests {
    @Test("an event has every member of the contract, and no identity in its facts")
    func shape() async throws {
        let rig = try await EntitlementsTests.rig()
        let list = try await rig.get("/v1/events?after=2")
        #expect(list.header("Ledger-Position") == "3")
        let event = try #require(try list.json["items"]?[0])
        guard case .object(let members) = event else { throw TestFailure("an event is an object") }
        #expect(
            members.keys.sorted() == [
                "customer_id", "environment", "evidence_sha256", "facts", "hash", "id", "notification", "occurred_at",
                "original_transaction_id", "position", "previous_hash", "product_id", "recorded_at", "source",
                "transaction_id", "type",
            ])
        #expect(event["type"] == .string("subscribed"))
        #expect(event["source"] == .string("app_store_notification"))
        #expect(event["occurred_at"] == .string("2026-01-01T00:00:01.000Z"))
        // The clock stands still; each batch is recorded later than the one before.
        #expect(event["recorded_at"] == .string("2026-11-20T12:00:00.001Z"))
        #expect(
            try event["notification"]
                == WireValue(
                    json: """
                        {"type":"SUBSCRIBED","subtype":"INITIAL_BUY","uuid":"3838df56-31ab-4e2d-9f44-9b2b3b6b9a11"}
                        """))
        let facts = String(decoding: try WireJSON.encode(event["facts"]), as: UTF8.self)
        #expect(facts.contains("com.example.pro.yearly"))
        #expect(!facts.contains(Purchase.customer))
        #expect(!facts.contains("704000001"))
    }

    @Test("one event comes with the bytes that were signed, and what they say")
    func evidence() async throws {
        let rig = try await ServiceRig.make()
        let signed = try Purchase().signed(by: rig.store)
        _ = try await rig.deliver(signed)
        _ = try await rig.put(ServiceRig.proCatalog)
        let event = try await rig.get("/v1/events/2").json
        #expect(event["evidence"]?["signed_payload"] == .string(signed))
        #expect(event["evidence"]?["payload"]?["notificationType"] == .string("SUBSCRIBED"))
        let catalog = try await rig.get("/v1/events/3").json
        #expect(catalog["evidence"] == .null)
        #expect(catalog["environment"] == .null)
        #expect(catalog["notification"] == .null)
        #expect(catalog["facts"]?["products"]?[0]?["product_id"] == .string("com.example.pro.yearly"))
        #expect(try await rig.get("/v1/events/4").verdict == "404 not_found")
        #expect(try await rig.get("/v1/events/first").verdict == "400 malformed_request")
    }

    @Test("of a name that stands twice in what a store signed, what is shown is what the facts took: the last")
    func repeatedName() async throws {
        let stripe = try await StripeRig.make()
        let body = StripeBody.event("invoice.paid", StripeBody.invoice("c-1"))
            .replacing(#""type": "invoice.paid""#, with: #""type": "invoice.void", "type": "invoice.paid", "x": 1e400"#)
        let answer = try await stripe.deliver(body)
        #expect(answer.status == 200, "\(answer.text)")
        let event = try await stripe.rig.get("/v1/events/\(try await stripe.rig.head)").json
        #expect(event["evidence"]?["payload"]?["type"] == .string("invoice.paid"))
        #expect(event["evidence"]?["payload"]?["x"] == .double(.greatestFiniteMagnitude))
    }

    @Test("the feed is read page by page, and a customer's own events alone")
    func pages() async throws {
        let rig = try await EntitlementsTests.rig()
        try await rig.notify(Purchase().renewed())
        let first = try await rig.get("/v1/events?limit=2").json
        #expect(first["object"] == .string("list"))
        #expect(first["items"]?.count == 2)
        #expect(first["has_more"] == .bool(true))
        #expect(first["next_after"] == .int(2))
        let second = try await rig.get("/v1/events?limit=2&after=2").json
        #expect(second["items"]?.count == 2)
        #expect(second["has_more"] == .bool(false))
        #expect(second["next_after"] == .int(4))
        #expect(second["items"]?[0]?["previous_hash"] == first["items"]?[1]?["hash"])
        #expect(try await rig.get("/v1/events?limit=5000").json["items"]?.count == 4)
        let own = try await rig.get("/v1/customers/\(Purchase.customer)/events?limit=1").json
        #expect(own["items"]?[0]?["position"] == .int(3))
        #expect(own["has_more"] == .bool(true))
        #expect(try await rig.get("/v1/customers/nobody/events").json["items"] == .array([]))
        for query in ["limit=0", "limit=x", "after=-1"] {
            #expect(try await rig.get("/v1/events?" + query).verdict == "400 malformed_request")
        }
    }

    @Test("a withdrawn consent is told of whom it is about, and found by them")
    func consent() async throws {
        let rig = try await EntitlementsTests.rig()
        let signed = try instant("2026-11-01T00:00:00Z").milliseconds
        let app: [String: PayloadValue] = [
            "receiptType": .string("Production"), "bundleId": .string(ServiceRig.bundleID),
            "appAppleId": .integer(ServiceRig.appAppleID), "receiptCreationDate": .integer(signed),
            "appTransactionId": .string("704000001"),
        ]
        let notice: [String: PayloadValue] = [
            "notificationType": .string("RESCIND_CONSENT"), "version": .string("2.0"), "signedDate": .integer(signed),
            "notificationUUID": .string("3838df56-31ab-4e2d-9f44-9b2b3b6b9a13"),
            "appData": .object([
                "appAppleId": .integer(ServiceRig.appAppleID), "bundleId": .string(ServiceRig.bundleID),
                "environment": .string("Production"),
                "signedAppTransactionInfo": .string(try rig.store.sign(.object(app))),
            ]),
        ]
        #expect(try await rig.deliver(rig.store.sign(.object(notice))).status == 200)
        let owner = "/v1/customers/apple%3A704000001/events"
        let told = try await rig.get(owner).json["items"]
        #expect(told?[0]?["type"] == .string("consent_rescinded") && told?[0]?["position"] == .int(4))
        #expect(told?[0]?["customer_id"] == .string("apple:704000001"))
        #expect(told?[0]?["facts"]?["app_transaction"] != nil)
        let key = try await rig.keys.create(name: "a", scopes: [.eventsRead], bundleID: ServiceRig.bundleID).secret
        let ofApp = try await rig.send("GET", owner, key: key).json["items"]
        #expect(ofApp?[0]?["type"] == .string("consent_rescinded"), "a key of that app hears of it as well")
        // Whoever is linked with the Apple account is told, too.
        try await rig.link("apple:704000001", to: Purchase.customer)
        let linked = try await rig.get("/v1/customers/\(Purchase.customer)/events").json["items"]
        #expect(linked?[1]?["type"] == .string("consent_rescinded"))
        #expect(try await rig.get("/v1/customers/\(Purchase.customer)/entitlements").json["entitlements"]?.count == 1)
    }

    @Test("what is about somebody's own purchase and names nobody is among their events, unless others are named")
    func nameless() async throws {
        let rig = try await EntitlementsTests.rig()
        var renewal = Purchase().renewed()
        (renewal.token, renewal.appTransaction) = (nil, nil)
        try await rig.notify(renewal)
        func events() async throws -> [WireValue?] {
            let answer = try await rig.get("/v1/customers/\(Purchase.customer)/events").json["items"]
            return (0..<(answer?.count ?? 0)).map { answer?[$0]?["position"] }
        }
        #expect(try await events() == [.int(3), .int(4)])
        // Whoever claims it in vain hides nothing of it.
        try await rig.command(
            .conflict(ConflictFact(originalTransactionID: Purchase().original, claimant: IdentityRef(0))), ["thief"])
        #expect(try await events() == [.int(3), .int(4)])
        var other = renewal.renewed(uuid: "3838df56-31ab-4e2d-9f44-9b2b3b6b9a14")
        other.token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        try await rig.notify(other)
        #expect(try await events() == [.int(3)])
    }

    @Test("which keys there are is told to those that are bound to nothing")
    func keys() async throws {
        let rig = try await ServiceRig.make()
        let bound = [
            try await rig.keys.create(name: "e", scopes: [.admin], environment: .sandbox).secret,
            try await rig.keys.create(name: "a", scopes: [.admin], bundleID: "com.example.other").secret,
        ]
        let shown = try await rig.get("/v1/events").json
        #expect(shown["items"]?.count == 3 && shown["items"]?[1]?["facts"]?["name"] == .string("e"))
        let text = String(decoding: try WireJSON.encode(shown), as: UTF8.self)
        #expect(!text.contains("sha256\":\"") && !text.contains("secret"), "never a hash of the secret")
        for key in bound {
            #expect(try await rig.send("GET", "/v1/events", key: key).json["items"] == .array([]))
            #expect(try await rig.send("GET", "/v1/events/2", key: key).verdict == "404 not_found")
            // Nor do they change what holds for all.
            let put = try await rig.send("PUT", "/v1/catalog", key: key, body: Array(ServiceRig.proCatalog.utf8))
            #expect(put.verdict == "403 forbidden")
        }
        #expect(try await rig.get("/v1/events/2").status == 200)
    }

    @Test("the ledger says where it ends")
    func ledger() async throws {
        let rig = try await EntitlementsTests.rig()
        let answer = try await rig.get("/v1/ledger")
        let last = try await rig.get("/v1/events/3").json
        #expect(try answer.json["object"] == .string("ledger"))
        #expect(try answer.json["position"] == .int(3))
        #expect(try answer.json["hash"] == last["hash"])
        #expect(try answer.json["fold_version"] == .int(1))
        // Nobody has followed the log here yet.
        #expect(try answer.json["projections"]?[0]?["name"] == .string("originals"))
        #expect(try answer.json["projections"]?[0]?["checkpoint"] == .int(0))
        try await ViewProjector(pool: rig.pool).catchUp()
        #expect(try await rig.get("/v1/ledger").json["projections"]?[0]?["checkpoint"] == .int(3))
        #expect(answer.header("Ledger-Position") == "3")
    }
}

struct TestFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
