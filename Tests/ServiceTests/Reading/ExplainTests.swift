import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("GET /v1/customers/{id}/explain, and exports", .serialized, .timeLimit(.minutes(5)))
struct ExplainTests {
    private static let path = "/v1/customers/\(Purchase.customer)/explain"

    @Test("the answer has every member, and its decision is that of entitlements")
    func shape() async throws {
        let rig = try await EntitlementsTests.rig()
        let answer = try await rig.get(Self.path)
        #expect(answer.header("Ledger-Position") == "3")
        let json = try answer.json
        let entitlements = try await rig.get(EntitlementsTests.path).json
        #expect(json["entitlements"]?[0]?["decision"] == entitlements["entitlements"]?[0])
        let events = try await rig.get("/v1/events").json
        let evidence = try #require(events["items"]?[2]?["evidence_sha256"])
        guard case .string(let hash) = evidence else { return #expect(Bool(false), "no evidence") }
        #expect(json["entitlements"]?[0]?["rule"]?["code"] == .string("paid_period"))
        #expect(
            json["entitlements"]?[0]?["rule"]?["sentence"]
                == .string(
                    "On 20 November 2026, 12:00 UTC, premium is open, because the free trial of "
                        + "com.example.pro.yearly runs from 1 January 2026, 00:00 UTC until 1 January 2027, 00:00 UTC.")
        )
        #expect(
            try json["entitlements"]?[0]?["events"]
                == WireValue(
                    json: """
                        [{"position":2,"type":"catalog_applied","occurred_at":null,
                        "recorded_at":"2026-11-20T12:00:00.000Z","source":"api","evidence_sha256":null,
                        "notification":null,"ownership":null},
                        {"position":3,"type":"subscribed","occurred_at":"2026-01-01T00:00:01.000Z",
                        "recorded_at":"2026-11-20T12:00:00.001Z","source":"app_store_notification",
                        "evidence_sha256":"\(hash)","notification":{"type":"SUBSCRIBED","subtype":"INITIAL_BUY",
                        "uuid":"3838df56-31ab-4e2d-9f44-9b2b3b6b9a11"},"ownership":"purchased"}]
                        """))
        #expect(
            try json["catalog"]
                == WireValue(
                    json: """
                        {"position":2,"recorded_at":"2026-11-20T12:00:00.000Z","products":[
                        {"product_id":"com.example.pro.yearly","entitlements":["premium"]}],
                        "policy":{"grace_gives_access":true,"billing_retry_gives_access":false,"leeway_seconds":0,
                        "prorated_refund":"ends_access"}}
                        """))
        #expect(
            try json["entitlements"]?[0]?["would_change"]?[0]
                == WireValue(
                    json: """
                        {"code":"renewal","at":"2027-01-01T00:00:00.000Z","sentence":"The store is to renew \
                        com.example.pro.yearly by 1 January 2027, 00:00 UTC; that renewal has not been heard of yet."}
                        """))
        for member in ["object", "customer_id", "environment", "at", "known_at", "fold_version"] {
            #expect(json[member] != nil, "\(member)")
        }
        #expect(json["entitlements"]?[0]?["considered"] == .array([]))
        #expect(json["entitlements"]?[0]?["catalog_change"] == .null)
        #expect(!answer.text.contains("apple:"))
    }

    @Test("a no is explained too: before, after, never, and to nobody")
    func refusals() async throws {
        let rig = try await EntitlementsTests.rig()
        func code(_ query: String, of path: String = Self.path) async throws -> WireValue? {
            let answer = try await rig.get(path + query)
            #expect(answer.status == 200)
            let entitlement = try answer.json["entitlements"]?[0]
            #expect(entitlement?["decision"]?["gives_access"] == .bool(false))
            return entitlement?["rule"]?["code"]
        }
        #expect(try await code("?at=2025-01-01T00:00:00Z") == .string("not_begun"))
        #expect(try await code("?at=2028-01-01T00:00:00Z") == .string("expired"))
        #expect(try await code("?entitlement=other") == .string("unknown_entitlement"))
        #expect(try await code("", of: "/v1/customers/nobody/explain") == .string("unknown_customer"))
        let elsewhere = try await rig.get(Self.path + "?environment=sandbox").json
        #expect(elsewhere["also_in"] == .array([.string("production")]))
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(3), "asking creates nothing")
        for query in ["?entitlement=", "?at=yesterday", "?known_at=x", "?environment=both"] {
            #expect(try await rig.get(Self.path + query).verdict == "400 malformed_request")
        }
        #expect(try await rig.get(Self.path + "?known_at=10").verdict == "422 unprocessable")
    }

    @Test("what was known then is explained as then, and a catalog that made a difference is named")
    func past() async throws {
        let rig = try await EntitlementsTests.rig()
        let before = try await rig.get(Self.path + "?at=2026-06-01T00:00:00Z")
        #expect(try await rig.put(#"{"products":[{"product_id":"x","entitlements":["premium"]}]}"#).status == 200)
        let then = try await rig.get(Self.path + "?at=2026-06-01T00:00:00Z&known_at=3")
        #expect(then.body == before.body, "to the byte")
        let now = try await rig.get(Self.path + "?at=2026-06-01T00:00:00Z").json
        let premium = now["entitlements"]?[0]
        #expect(premium?["rule"]?["code"] == .string("never_held"))
        #expect(premium?["considered"]?[0]?["code"] == .string("product_not_mapped"))
        #expect(premium?["catalog_change"]?["position"] == .int(4))
        #expect(premium?["catalog_change"]?["gave_access"] == .bool(true))
        #expect(now["catalog"]?["products"]?[0]?["entitlements"] == .array([]))
        let unknown = try await rig.get(Self.path + "?known_at=2").json
        #expect(unknown["entitlements"]?[0]?["rule"]?["code"] == .string("unknown_customer"))
    }

    @Test("an export, read back, explains to the byte what the ledger explains, at every position")
    func offline() async throws {
        let rig = try await EntitlementsTests.rig()
        var foreign = Purchase()
        foreign.uuid = "other"
        foreign.original = "300"
        foreign.transaction = "300"
        foreign.token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        try await rig.notify(foreign)
        try await rig.notify(Purchase().renewed())
        #expect(try await rig.put(#"{"products":[{"product_id":"x","entitlements":["premium"]}]}"#).status == 200)
        let customer = try #require(CustomerID(Purchase.customer))
        let environments = StoreEnvironment.allCases
        let export = try #require(
            try await rig.context.reader.export(of: customer, environments: environments))
        let bytes = try WireJSON.encode(
            CustomerExportDocument(export, customer: customer, environments: environments))
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(!text.contains("0f1d2e3c") && !text.contains("\"300\""), "nothing of others")
        #expect(text.contains(Purchase.customer) && text.contains("apple:704000001"))

        let (document, events) = try CustomerExportDocument.read(bytes)
        // Written event by event it is the same file, also where a name looks like where they are to stand.
        for name in [customer.value, #"","events":[]"#, #""events":[]"#] {
            let named = CustomerExportDocument(
                customerID: name, identity: document.identity, identities: document.identities,
                environments: environments, ledger: document.ledger, events: document.events)
            #expect(try named.encoded() == WireJSON.encode(named) + [UInt8(ascii: "\n")])
        }
        #expect(document.ledger.position == 6)
        #expect(document.events.map(\.position) == [2, 3, 5, 6])
        for position in 0...Int64(6) {
            for at in ["2025-06-01T00:00:00Z", "2026-06-01T00:00:00Z", "2027-06-01T00:00:00Z", "2029-06-01T00:00:00Z"] {
                for environment in environments {
                    let question = ExplainQuestion(
                        customer: customer, environment: environment, entitlementID: nil, at: try instant(at))
                    func history(_ environment: StoreEnvironment) -> CustomerHistory {
                        CustomerHistory(
                            of: IdentityRef(document.identity), environment: environment, position: position,
                            events: events)
                    }
                    let offline = question.answer(from: history(environment)) { history($0).knowsCustomer }
                    let online = try await rig.get(
                        Self.path + "?at=\(at)&known_at=\(position)&environment=\(environment.rawValue)")
                    #expect(try WireJSON.encode(offline.document) == online.body, "\(at) \(position) \(environment)")
                }
            }
        }
    }

    @Test("a file that was changed, or is none, is refused by what is wrong with it")
    func changedFiles() async throws {
        let rig = try await EntitlementsTests.rig()
        let customer = try #require(CustomerID(Purchase.customer))
        let export = try #require(try await rig.context.reader.export(of: customer, environments: [.production]))
        let text = String(
            decoding: try WireJSON.encode(
                CustomerExportDocument(export, customer: customer, environments: [.production])), as: UTF8.self)
        func refusal(_ text: String) -> String? {
            do {
                _ = try CustomerExportDocument.read(Array(text.utf8))
                return nil
            } catch {
                return "\(error)"
            }
        }
        #expect(refusal(text) == nil)
        #expect(refusal("{}")?.contains("is not a file") == true)
        #expect(
            refusal(text.replacing("\"format_version\":2", with: "\"format_version\":3"))?.contains("format 3") == true)
        #expect(
            refusal(text.replacing("\"type\":\"subscribed\"", with: "\"type\":\"refunded\""))?
                .contains("event 3 was changed") == true)
        #expect(text.contains("\"auto_renews\":true"))
        #expect(
            refusal(text.replacing("\"auto_renews\":true", with: "\"auto_renews\":false"))?
                .contains("its canonical facts") == true)
        #expect(refusal(text.replacing("\"evidence\":\"ey", with: "\"evidence\":\"fy"))?.contains("evidence") == true)
    }
}
