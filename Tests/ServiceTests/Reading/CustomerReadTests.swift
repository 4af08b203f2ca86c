import EntitlementAPI
import HTTPServer
import Testing

@testable import Service

@Suite("Timelines, subscriptions and lookups", .serialized, .timeLimit(.minutes(5)))
struct CustomerReadTests {
    @Test("a timeline has its intervals without gaps, and may be asked for one entitlement")
    func timeline() async throws {
        let rig = try await EntitlementsTests.rig()
        try await rig.notify(Purchase().renewed())
        let path = "/v1/customers/\(Purchase.customer)/timeline"
        let answer = try await rig.get(path)
        #expect(answer.header("Ledger-Position") == "4")
        #expect(
            try answer.json
                == WireValue(
                    json: """
                        {"object":"timeline","customer_id":"\(Purchase.customer)","environment":"production",
                        "known_at":4,"fold_version":1,"entitlements":[{"id":"premium","intervals":[
                        {"from":"2026-01-01T00:00:00.000Z","until":"2028-01-01T00:00:00.000Z","state":"active",
                        "gives_access":true,"product_id":"com.example.pro.yearly","source":"app_store",
                        "original_transaction_id":"2000000123456780","positions":[3,4]},
                        {"from":"2028-01-01T00:00:00.000Z","until":null,"state":"expired","gives_access":false,
                        "product_id":"com.example.pro.yearly","source":"app_store",
                        "original_transaction_id":"2000000123456780","positions":[4]}]}]}
                        """))
        #expect(try await rig.get(path + "?entitlement=premium").json["entitlements"]?.count == 1)
        #expect(try await rig.get(path + "?entitlement=other").json["entitlements"] == .array([]))
        #expect(try await rig.get(path + "?known_at=2").json["entitlements"] == .array([]))
    }

    @Test("a subscription shows its state, its periods and whose they are")
    func subscription() async throws {
        let rig = try await EntitlementsTests.rig()
        let path = "/v1/subscriptions/2000000123456780"
        let answer = try await rig.get(path)
        #expect(answer.header("Ledger-Position") == "3")
        #expect(
            try answer.json
                == WireValue(
                    json: """
                        {"object":"subscription","original_transaction_id":"2000000123456780",
                        "environment":"production","at":"2026-11-20T12:00:00.000Z","known_at":3,"fold_version":1,
                        "state":"active","product_id":"com.example.pro.yearly","will_renew":true,"renews_as":null,
                        "awaits_consent":false,"paused":false,"claimed":true,
                        "periods":[{"product_id":"com.example.pro.yearly","transaction_ids":["2000000123456780"],
                        "starts_at":"2026-01-01T00:00:00.000Z","ends_at":"2027-01-01T00:00:00.000Z",
                        "expires_at":"2027-01-01T00:00:00.000Z","ended_by":"expiry","revoked_at":null,
                        "refunded_in_part":false,"ownership":"purchased","offer":{"type":"introductory","discount":"free_trial"},
                        "customer_id":"\(Purchase.customer)","positions":[3],"needs_store_check":false}],
                        "without_period":[]}
                        """))
        let before = try await rig.get(path + "?at=2025-01-01T00:00:00Z").json
        #expect(before["state"] == .null)
        let after = try await rig.get(path + "?at=2027-06-01T00:00:00Z").json
        #expect(after["state"] == .string("expired"))
        #expect(after["will_renew"] == .bool(false))
        for missing in ["/v1/subscriptions/1", path + "?environment=sandbox", path + "?known_at=2"] {
            #expect(try await rig.get(missing).verdict == "404 not_found")
        }
        let tooLong = "/v1/subscriptions/" + String(repeating: "1", count: 513)
        #expect(try await rig.get(tooLong).verdict == "400 malformed_request")
    }

    @Test("what is used up shows what was bought, when, whose it is, and its refund, at each time as it was known")
    func usedUp() async throws {
        let rig = try await ServiceRig.withCatalog()
        var coins = HeldTransaction(
            id: "1", product: "com.example.coins", kind: "Consumable", from: 1, until: nil, signed: 1,
            token: Purchase.customer)
        try await rig.notify(coins, type: "ONE_TIME_CHARGE", uuid: "bought")
        let bought = try await rig.head()
        (coins.revoked, coins.signed) = (2, 2)
        try await rig.notify(coins, type: "REFUND", uuid: "refunded")
        for (known, revoked) in [(bought, "null"), (try await rig.head(), #""2026-01-03T00:00:00.000Z""#)] {
            let answer = try await rig.get("/v1/subscriptions/1?known_at=\(known)").json
            #expect(answer["periods"] == .array([]) && answer["product_id"] == .null, "\(answer)")
            #expect(
                try answer["without_period"]
                    == WireValue(
                        json: """
                            [{"product_id":"com.example.coins","transaction_id":"1",
                            "purchased_at":"2026-01-02T00:00:00.000Z","revoked_at":\(revoked),"refunded_in_part":false,
                            "ownership":"purchased","customer_id":"\(Purchase.customer)"}]
                            """))
        }
    }

    @Test("a purchase that bears no identity is shown as unclaimed")
    func unclaimed() async throws {
        let rig = try await ServiceRig.make()
        var purchase = Purchase()
        purchase.token = nil
        purchase.appTransaction = nil
        try await rig.notify(purchase)
        let answer = try await rig.get("/v1/subscriptions/2000000123456780").json
        #expect(answer["claimed"] == .bool(false))
        #expect(answer["periods"]?[0]?["customer_id"] == .null)
    }

    @Test("a customer is found by transaction, by account token and by app transaction id")
    func lookup() async throws {
        let rig = try await EntitlementsTests.rig()
        var other = Purchase()
        other.uuid = "other"
        other.original = "300"
        other.transaction = "301"
        other.token = nil
        try await rig.notify(other)
        let mine = try WireValue(
            json: """
                {"customer_id":"\(Purchase.customer)","environment":"production",
                "original_transaction_id":"2000000123456780"}
                """)
        for query in ["transaction_id=2000000123456780", "app_account_token=7E3FB20B-4CDB-47CC-936D-99D65F608138"] {
            let answer = try await rig.get("/v1/customers?" + query).json
            #expect(answer["items"] == .array([mine]))
            #expect(answer["has_more"] == .bool(false))
        }
        #expect(
            try await rig.get("/v1/customers?transaction_id=301").json["items"]?[0]?["customer_id"]
                == .string("apple:704000001"))
        #expect(try await rig.get("/v1/customers?app_transaction_id=704000001").json["items"]?.count == 2)
        #expect(try await rig.get("/v1/customers?transaction_id=9").json["items"] == .array([]))
        for query in ["", "?transaction_id=", "?transaction_id=1&app_account_token=2"] {
            #expect(try await rig.get("/v1/customers" + query).verdict == "400 malformed_request")
        }
    }
}
