import EntitlementAPI
import HTTPServer
import OpenSSLCrypto
import PostgresClient
import StoreSimulator
import Testing

@testable import Service

@Suite("POST /v1/notifications/appstore", .serialized, .timeLimit(.minutes(5)))
struct NotificationTests {
    @Test("a notification is answered with its position, and read at once")
    func accepted() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let answer = try await rig.notify(Purchase())
        #expect(answer.status == 200)
        #expect(answer.text == #"{"duplicate":false,"position":3}"#)
        #expect(answer.header("Ledger-Position") == "3")
        let read = try await rig.get("/v1/customers/\(Purchase.customer)/entitlements").json
        #expect(read["entitlements"]?[0]?["gives_access"] == .bool(true))
    }

    @Test("a notification delivered again is the same event, whatever its signature's bytes")
    func duplicate() async throws {
        let rig = try await ServiceRig.make()
        let payload = try Purchase().payload(signedBy: rig.store)
        let (one, other) = (try rig.store.sign(payload), try rig.store.sign(payload))
        #expect(one != other)
        let first = try await rig.deliver(one)
        let again = try await rig.deliver(other)
        #expect(first.text == #"{"duplicate":false,"position":2}"#)
        #expect(again.text == #"{"duplicate":true,"position":2}"#)
    }

    @Test("the same id with another payload is an event of its own, and answered 200")
    func reusedID() async throws {
        let rig = try await ServiceRig.make()
        try await rig.notify(Purchase())
        let again = try await rig.notify(Purchase())
        #expect(again.text == #"{"duplicate":false,"position":3}"#)
        let facts = try await rig.get("/v1/events/3").json["facts"]
        #expect(facts?["remarks"] == .array([.string("id_reused")]))
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="id_reused"} 1"#))
    }

    @Test("a product that the catalog does not name is counted as something to look at")
    func unmappedProduct() async throws {
        let rig = try await ServiceRig.make()
        #expect(try await rig.notify(Purchase()).status == 200)
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="unmapped_product"} 1"#))
    }

    @Test("an unknown type is kept, answered 200, and counted as something to look at")
    func unknownType() async throws {
        let rig = try await ServiceRig.make()
        var purchase = Purchase()
        purchase.type = "BRAND_NEW"
        #expect(try await rig.notify(purchase).status == 200)
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_notifications_total{type="unknown"} 1"#))
        #expect(metrics.contains(#"rightful_notification_remarks_total{kind="unknown_type"} 1"#))
        #expect(rig.log.lines.contains { $0.contains("unknown_type") })
    }

    @Test(
        "a body that is no JSON object with a signedPayload is malformed_request",
        arguments: ["", "x", "[]", "{}", #"{"signedPayload":1}"#, #"{"signedPayload":null}"#])
    func malformedBody(_ body: String) async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.send("POST", "/v1/notifications/appstore", body: Array(body.utf8))
        #expect(answer.verdict == "400 malformed_request")
        #expect(try answer.json["param"] == .string("signedPayload"))
    }

    @Test("whatever cannot be believed is refused by its code, counted and logged, and leaves no event")
    func refusals() async throws {
        let rig = try await ServiceRig.make(environments: ["production"])
        let stranger = try SimulatedAuthority()
        var (otherApp, sandbox, incomplete) = (Purchase(), Purchase(), Purchase())
        otherApp.bundleID = "com.example.other"
        sandbox.environment = "Sandbox"
        incomplete.product = nil
        let table: [(payload: String, verdict: String)] = [
            ("abc", "400 malformed_jws"),
            (try Purchase().signed(by: stranger), "401 untrusted_signature"),
            (try otherApp.signed(by: rig.store), "403 unknown_app"),
            (try sandbox.signed(by: rig.store), "403 wrong_environment"),
            (try incomplete.signed(by: rig.store), "422 inconsistent_payload"),
        ]
        for (payload, verdict) in table {
            let answer = try await rig.deliver(payload)
            #expect(answer.verdict == verdict)
            let code = try #require(answer.code)
            #expect(rig.log.lines.last?.contains(#""code":"\#(code)""#) == true)
            let metrics = try await rig.get("/metrics").text
            #expect(metrics.contains(#"rightful_notification_verdicts_total{verdict="\#(code)"} 1"#))
        }
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(1))
    }

    @Test("a body larger than allowed is too_large, also without a socket that counts")
    func tooLarge() async throws {
        let rig = try await ServiceRig.make()
        let body = [UInt8](repeating: 0x20, count: 1 << 20 + 1)
        let answer = try await rig.send("POST", "/v1/notifications/appstore", body: body)
        #expect(answer.verdict == "413 too_large")
    }

    @Test("while the ledger is away the store is told to come back")
    func unavailable() async throws {
        let rig = try await ServiceRig.make()
        await rig.pool.close()
        let answer = try await rig.notify(Purchase())
        #expect(answer.verdict == "503 unavailable")
        #expect(answer.header("Retry-After") != nil)
        #expect(try answer.json["retryable"] == .bool(true))
    }
}
