import EntitlementAPI
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("The catalog over HTTP", .serialized, .timeLimit(.minutes(5)))
struct CatalogTests {
    private static let other = #"{"products":[],"policy":{"leeway_seconds":60}}"#

    @Test("a catalog that was put is got, under the position it was written at, and can be sent back as it came")
    func roundTrip() async throws {
        let rig = try await ServiceRig.make()
        #expect(try await rig.get("/v1/catalog").header("ETag") == #""0""#)
        let put = try await rig.put(ServiceRig.proCatalog)
        #expect(put.status == 200)
        let got = try await rig.get("/v1/catalog")
        #expect(got.header("ETag") == #""2""#)
        #expect(got.header("Ledger-Position") == "2")
        #expect(got.body == put.body)
        #expect(
            try got.json
                == WireValue(
                    json: """
                        {"object":"catalog","position":2,
                        "products":[{"product_id":"com.example.pro.yearly","entitlements":["premium"]}],
                        "policy":{"grace_gives_access":true,"billing_retry_gives_access":false,"leeway_seconds":0,
                        "prorated_refund":"ends_access"}}
                        """))
        #expect(try await rig.get("/v1/catalog", headers: [("If-None-Match", #""2""#)]).status == 304)
        #expect(try await rig.put(got.text).status == 200)
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(2))
    }

    @Test("members that mean nothing are ignored, and whoever sends them is told where they stand")
    func ignoredMembers() async throws {
        let rig = try await ServiceRig.make()
        let body = #"""
            {"products":[{"product_id":"a","entitlements":["x"],"duraton":"P1M",
            "stripe":{"price":"p","mode":"payment","prize":1}}],"policy":{"grace_gives_acces":false},"polcy":{}}
            """#
        let remarks = WireValue.array(
            ["polcy", "products[0].duraton", "products[0].stripe.prize", "policy.grace_gives_acces"].map {
                .string("unknown_member:\($0)")
            })
        let tried = try await rig.send("POST", "/v1/catalog/actions/try", key: rig.admin, body: Array(body.utf8))
        #expect(try tried.json["remarks"] == remarks, "\(tried.text)")
        let put = try await rig.put(body, headers: [("Idempotency-Key", "k")])
        #expect(try put.status == 200 && put.json["remarks"] == remarks, "\(put.text)")
        #expect(try put.json["policy"]?["grace_gives_access"] == .bool(true))
        #expect(try await rig.put(body, headers: [("Idempotency-Key", "k")]).text == put.text)
        #expect(try await rig.put(body).json["remarks"] == remarks, "also where it is in force already")
        #expect(try await rig.get("/v1/catalog").json["remarks"] == nil)
        #expect(try await rig.put(put.text).json["remarks"] == nil, "what was answered can be sent back as it came")
    }

    @Test("what Unicode calls equivalent is in force already, and the answer is what is in force")
    func equivalent() async throws {
        let rig = try await ServiceRig.make()
        func body(_ name: String) -> String { #"{"products":[{"product_id":"a","entitlements":["\#(name)"],"x":1}]}"# }
        let first = try await rig.put(body("caf\u{e9}"))
        let again = try await rig.put(body("cafe\u{301}"))
        #expect(again.status == 200 && again.body == first.body, "\(again.text)")
        #expect(try again.json["remarks"] == .array([.string("unknown_member:products[0].x")]))
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(2))
    }

    @Test("what lies too deep is refused before it is read, whatever there is of it")
    func depth() async throws {
        let rig = try await ServiceRig.make()
        func deep(_ levels: Int, _ count: Int) -> String {
            let one = String(repeating: #"{"a":"#, count: levels) + "1" + String(repeating: "}", count: levels)
            return #"{"products":["# + Array(repeating: one, count: count).joined(separator: ",") + "]}"
        }
        let start = ContinuousClock.now
        let refused = try await rig.put(deep(508, 300))
        #expect(refused.status == 400 && refused.text.contains("64 levels"), "\(refused.text)")
        #expect(start.duration(to: .now) < .seconds(5), "read one by one, it would take minutes")
        // Brackets within texts are no levels.
        let text =
            #"{"products":[{"product_id":"p\""# + String(repeating: "[", count: 100) + #"","entitlements":["e"]}]}"#
        #expect(try await !rig.put(text).text.contains("levels"))
    }

    @Test("a body that has one name twice is refused, and the catalog in force stays")
    func repeatedName() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let refused = try await rig.put(#"{"products":[],"products":[]}"#)
        #expect(refused.status == 400 && refused.text.contains("products twice in one object"), "\(refused.text)")
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(2))
    }

    @Test("a change applies to every instant, and what was answered before stays readable")
    func retroactive() async throws {
        let rig = try await EntitlementsTests.rig()
        let path = "/v1/customers/\(Purchase.customer)/entitlements"
        _ = try await rig.put(Self.other)
        #expect(try await rig.get(path).json["entitlements"] == .array([]))
        #expect(try await rig.get(path + "?known_at=3").json["entitlements"]?.count == 1)
    }

    @Test("If-Match lets a change pass only when the catalog is still the one that was read")
    func ifMatch() async throws {
        let rig = try await ServiceRig.make()
        #expect(
            try await rig.put(ServiceRig.proCatalog, headers: [("If-Match", "*")]).verdict == "412 precondition_failed")
        #expect(try await rig.put(ServiceRig.proCatalog, headers: [("If-Match", #""0""#)]).status == 200)
        for stale in [#""0""#, #"W/"1""#, #""x""#] {
            let answer = try await rig.put(Self.other, headers: [("If-Match", stale)])
            #expect(answer.verdict == "412 precondition_failed", "\(stale)")
        }
        #expect(
            try await rig.put(ServiceRig.proCatalog, headers: [("If-Match", #""8""#)]).verdict
                == "412 precondition_failed")
        #expect(try await rig.put(Self.other, headers: [("If-Match", "2")]).verdict == "400 malformed_request")
        #expect(try await rig.put(Self.other, headers: [("If-Match", #""10", "2""#)]).header("ETag") == #""3""#)
        #expect(try await rig.put(ServiceRig.proCatalog, headers: [("If-Match", "*")]).header("ETag") == #""4""#)
    }

    @Test("under an idempotency key the same request is one change, and another request is refused")
    func idempotency() async throws {
        let rig = try await ServiceRig.make()
        let key = [("Idempotency-Key", "a"), ("If-Match", #""0""#)]
        let first = try await rig.put(ServiceRig.proCatalog, headers: key)
        #expect(first.header("ETag") == #""2""#)
        #expect(try await rig.put(Self.other).header("ETag") == #""3""#)
        let again = try await rig.put(ServiceRig.proCatalog, headers: key)
        #expect(again.status == 200)
        #expect(again.body == first.body)
        #expect(again.header("ETag") == #""2""#)
        #expect(try await rig.put(Self.other, headers: key).verdict == "409 idempotency_conflict")
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(3))

        let stranger = try await rig.keys.create(name: "other", scopes: [.catalogWrite]).secret
        let body = Array(Self.other.utf8)
        let theirs = try await rig.send(
            "PUT", "/v1/catalog", key: stranger, headers: [("Idempotency-Key", "a")], body: body)
        #expect(theirs.header("ETag") == #""5""#)
        let long = String(repeating: "k", count: 256)
        #expect(try await rig.put(Self.other, headers: [("Idempotency-Key", long)]).verdict == "400 malformed_request")
    }

    @Test("what is wrong with a catalog is named by its path")
    func malformed() async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.put(#"{"products":[{"product_id":"a","entitlements":"premium"}]}"#)
        #expect(answer.verdict == "400 malformed_request")
        #expect(try answer.json["param"] == .string("products[0].entitlements"))
        #expect(try await rig.put("{").verdict == "400 malformed_request")
        #expect(try await rig.put(#"{"products":[],"colour":"red"}"#).status == 200)
        let large = String(repeating: " ", count: 4 << 20 + 1)
        #expect(try await rig.put(large).verdict == "413 too_large")
    }
}
