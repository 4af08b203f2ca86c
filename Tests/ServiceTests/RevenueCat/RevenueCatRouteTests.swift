import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import RevenueCatAPI
import TestSupport
import Testing

@testable import Service

@Suite("GET /revenuecat/v1/subscribers/{app_user_id}", .serialized, .timeLimit(.minutes(5)))
struct RevenueCatRouteTests {
    private static let base = "/revenuecat/v1/subscribers/"
    private static let path = base + Purchase.customer

    private static func subscriber(_ answer: HTTPResponse) throws -> SubscriberBody {
        #expect(answer.status == 200 && answer.header("Content-Type") == "application/json", "\(answer.text)")
        // As strict as RevenueCat's own client.
        _ = try SDKCustomerInfo(answer.body)
        return try WireJSON.decode(SubscriberDocument.self, from: answer.body).subscriber
    }

    @Test("a customer is shown as RevenueCat shows them, from the same facts as GET entitlements")
    func shown() async throws {
        let rig = try await EntitlementsTests.rig()
        let answer = try await rig.get(Self.path)
        #expect(answer.header("Ledger-Position") == "3" && answer.header("Cache-Control") == "private, no-cache")
        let subscriber = try Self.subscriber(answer)
        #expect(subscriber.originalAppUserID == Purchase.customer)
        let entry = try #require(subscriber.subscriptions["com.example.pro.yearly"])
        #expect(entry.store == .appStore && entry.periodType == .trial && !entry.isSandbox)
        #expect(entry.storeTransactionID == "2000000123456780")
        #expect(entry.expiresDate.map { "\($0)" } == "2027-01-01T00:00:00Z")
        #expect(subscriber.entitlements["premium"]?.expiresDate == entry.expiresDate)
        #expect(try SDKCustomerInfo(answer.body).active == ["premium"])
        #expect(try answer.json["request_date"] == .string("2026-11-20T12:00:00Z"))
        rig.clock.now = try instant("2027-01-01T00:00:00.000Z")
        #expect(try SDKCustomerInfo(try await rig.get(Self.path).body).active.isEmpty)
        #expect(try await rig.send("HEAD", Self.path, key: rig.admin).status == 200)
    }

    @Test("the trap of ghosts: an unknown id is an empty customer, and asking creates nothing and moves nothing")
    func readsCreateNothing() async throws {
        let rig = try await EntitlementsTests.rig()
        func rows() async throws -> [Int64] {
            try await rig.pool.withConnection { connection in
                try ["event", "identity", "event_name"].map { table in
                    try connection.query("SELECT count(*) FROM \(table)").first?.int(0) ?? 0
                }
            }
        }
        let before = try await rows()
        let known = try Self.subscriber(try await rig.get(Self.path))
        for _ in 0..<2 {
            rig.wait(seconds: 3600)
            let headers = [("X-Platform", "ios"), ("X-Is-Sandbox", "false")]
            let nobody = try await rig.get(Self.base + "%24RCAnonymousID%3Aabc", headers: headers)
            let subscriber = try Self.subscriber(nobody)
            #expect(subscriber.originalAppUserID == "$RCAnonymousID:abc")
            #expect(subscriber.entitlements.isEmpty && subscriber.subscriptions.isEmpty)
            #expect(subscriber.nonSubscriptions.isEmpty && subscriber.otherPurchases.isEmpty)
            #expect(subscriber.firstSeen == WholeSecond(rig.clock.now))
            #expect(try Self.subscriber(try await rig.get(Self.path, headers: headers)) == known)
        }
        #expect(try await rows() == before)
    }

    @Test(
        "the trap of unsigned word: nothing that RevenueCat's clients post is taken, for access comes from the stores alone"
    )
    func nothingIsTaken() async throws {
        let rig = try await EntitlementsTests.rig()
        func events() async throws -> Int64 {
            try await rig.pool.withConnection { try $0.query("SELECT count(*) FROM event").first?.int(0) ?? 0 }
        }
        let before = try await events()
        let entitlement = Self.base + "c-7/entitlements/premium"
        for (path, body) in [
            (
                "/revenuecat/v1/receipts",
                #"{"app_user_id":"c-7","fetch_token":"a","product_id":"com.example.pro.yearly"}"#
            ),
            ("/revenuecat/v1/subscribers/identify", #"{"app_user_id":"\(Purchase.customer)","new_app_user_id":"c-7"}"#),
            (Self.base + "c-7/attributes", #"{"attributes":{"a":{"value":"b"}}}"#),
            (entitlement + "/promotional", #"{"duration":"lifetime"}"#), (entitlement + "/revoke_promotionals", "{}"),
            (Self.base + "c-7", "{}"),
        ] {
            let answer = try await rig.send("POST", path, key: rig.admin, body: Array(body.utf8))
            #expect([404, 405].contains(answer.status), "\(path): \(answer.text)")
            #expect(try WireJSON.decode(ErrorDocument.self, from: answer.body).code == 7226, "\(path)")
        }
        rig.wait()
        #expect(try Self.subscriber(try await rig.get(Self.base + "c-7")).entitlements.isEmpty)
        #expect(try await events() == before)
    }

    @Test("the trap of spellings: a UUID in any case is one customer, shown as asked; any other id is as it is written")
    func spellings() async throws {
        let rig = try await EntitlementsTests.rig()
        let upper = Purchase.customer.uppercased()
        let subscriber = try Self.subscriber(try await rig.get(Self.base + upper))
        #expect(subscriber.originalAppUserID == upper && subscriber.subscriptions.count == 1)
        _ = try await rig.command("grant", "Ann%2F1", #"{"entitlement":"gift","reason":"a friend"}"#)
        rig.wait()
        #expect(try Self.subscriber(try await rig.get(Self.base + "Ann%2F1")).entitlements["gift"] != nil)
        #expect(try Self.subscriber(try await rig.get(Self.base + "ann%2F1")).entitlements.isEmpty)
    }

    @Test("an id that is linked to another customer is that customer, by that customer's own id")
    func linked() async throws {
        let rig = try await EntitlementsTests.rig()
        #expect(try await rig.link("old-id", to: Purchase.customer).status == 200)
        let subscriber = try Self.subscriber(try await rig.get(Self.base + "old-id"))
        #expect(
            subscriber.originalAppUserID == Purchase.customer && subscriber.entitlements.keys.sorted() == ["premium"])
    }

    @Test("the trap of environments: sandbox and production never mix; the key, the query and the header name one")
    func environments() async throws {
        let rig = try await EntitlementsTests.rig()
        try await rig.buy("77", by: Purchase.customer, environment: "Sandbox")
        func key(_ environment: StoreEnvironment?) async throws -> String {
            try await rig.keys.create(name: "k", scopes: [.customersRead], environment: environment).secret
        }
        let free = try await key(nil)
        let production = try await key(.production)
        let sandbox = try await key(.sandbox)
        func told(_ key: String, _ query: String = "", _ flag: String? = nil) async throws -> String {
            let headers = flag.map { [("X-Is-Sandbox", $0)] } ?? []
            let answer = try await rig.send("GET", Self.path + query, key: key, headers: headers)
            guard answer.status == 200 else { return answer.verdict }
            return try Self.subscriber(answer).subscriptions.values.map { entry in
                "\(entry.storeTransactionID) \(entry.isSandbox)"
            }.joined(separator: ", ")
        }
        let (real, test) = ("2000000123456780 false", "77 true")
        for (key, query, flag, expected) in [
            (free, "", nil, real), (production, "", nil, real), (sandbox, "", nil, test),
            (free, "?environment=sandbox", nil, test), (free, "", "true", test), (free, "", "True", test),
            (free, "", "false", real), (free, "?environment=sandbox", "true", test),
            (free, "?environment=sandbox", "false", "400 7226"), (free, "", "yes", "400 7226"),
            (free, "?environment=x", nil, "400 7226"), (sandbox, "", "true", test),
            (sandbox, "", "false", "403 forbidden"), (production, "", "true", "403 forbidden"),
            (production, "?environment=sandbox", nil, "403 forbidden"),
        ] as [(String, String, String?, String)] {
            #expect(try await told(key, query, flag) == expected, "\(query) \(flag ?? "-")")
        }
    }

    @Test("refusals are written as RevenueCat writes them, under its codes")
    func refusals() async throws {
        let rig = try await EntitlementsTests.rig()
        let publishable = try await rig.publishableKey()
        let metrics = try await rig.keys.create(name: "m", scopes: [.metrics]).secret
        func refusal(_ method: String, _ target: String, _ key: String?) async throws -> (String, HTTPResponse) {
            let answer = try await rig.send(method, target, key: key)
            let error = try WireJSON.decode(ErrorDocument.self, from: answer.body)
            #expect(answer.header("Content-Type") == "application/json" && !error.message.isEmpty)
            #expect(try answer.json["code"] == .int(Int64(error.code)))
            return ("\(answer.status) \(error.code)", answer)
        }
        let long = String(repeating: "x", count: 257)
        for (method, target, key, expected) in [
            ("GET", Self.path, nil, "401 7225"), ("GET", Self.path, "rightful_sk_wrong", "401 7225"),
            ("GET", Self.path, "sk_of_revenuecat", "401 7225"), ("GET", Self.path, publishable, "403 7243"),
            ("GET", Self.path, metrics, "403 7243"), ("GET", Self.base, rig.admin, "400 7256"),
            ("GET", Self.base + long, rig.admin, "400 7256"), ("GET", Self.base + "a%0Ab", rig.admin, "400 7256"),
            ("GET", Self.path + "/offerings", rig.admin, "404 7226"),
            ("GET", "/revenuecat/v1/receipts", nil, "404 7226"),
            ("POST", Self.path, rig.admin, "405 7226"), ("DELETE", Self.path, rig.admin, "405 7226"),
        ] as [(String, String, String?, String)] {
            #expect(try await refusal(method, target, key).0 == expected, "\(method) \(target) \(key ?? "-")")
        }
        #expect(try await refusal("POST", Self.path, rig.admin).1.header("Allow") == "GET, HEAD")
        #expect(try await refusal("GET", Self.path, nil).1.header("WWW-Authenticate")?.hasPrefix("Bearer") == true)
        let bare = try await rig.send("GET", Self.path, headers: [("Authorization", rig.admin)])
        #expect(bare.verdict == "401 unauthenticated")
        let head = HTTPRequestHead(method: "GET", target: Self.path)
        let refused = rig.application.refuse(.headersTooLarge(limit: 1), head)
        #expect(try refused.status == 431 && refused.json["code"] == .int(7226))
        await rig.pool.close()
        let (away, answer) = try await refusal("GET", Self.path, rig.admin)
        #expect(away == "503 7110" && answer.header("Retry-After") != nil)
        // Other paths keep their own shape.
        #expect(try await rig.send("GET", "/v1/ledger").header("Content-Type") == "application/problem+json")
    }

    @Test("too many requests are refused with the seconds to wait")
    func rateLimit() async throws {
        var limits = Application.Limits()
        limits.rates.secretKey = RateLimit(perSecond: 1, burst: 1)
        let rig = try await ServiceRig.make(limits: limits)
        let start = ContinuousClock.now
        func ask() async throws -> HTTPResponse {
            let head = HTTPRequestHead(
                method: "GET", target: Self.path, headers: [("Authorization", "Bearer " + rig.admin)],
                receivedAt: start)
            return await rig.application.handle(try HTTPRequest(head: head, body: []))
        }
        #expect(try await ask().status == 200)
        let refused = try await ask()
        #expect(try refused.status == 429 && refused.json["code"] == .int(7226))
        #expect(refused.header("Retry-After") == "1")
    }
}
