import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import TestSupport
import Testing

@testable import Service

@Suite("GET /v1/customers/{id}/entitlements", .serialized, .timeLimit(.minutes(5)))
struct EntitlementsTests {
    static let path = "/v1/customers/\(Purchase.customer)/entitlements"

    /// A catalog at position 1, a purchase at position 2.
    static func rig(limits: Application.Limits = .init()) async throws -> ServiceRig {
        let rig = try await ServiceRig.make(limits: limits)
        #expect(try await rig.put(ServiceRig.proCatalog).status == 200)
        #expect(try await rig.notify(Purchase()).status == 200)
        return rig
    }

    @Test("the answer has every member of the contract")
    func shape() async throws {
        let rig = try await Self.rig()
        let answer = try await rig.get(Self.path)
        #expect(answer.header("Ledger-Position") == "3")
        #expect(answer.header("Content-Type") == "application/json")
        #expect(
            try answer.json
                == WireValue(
                    json: """
                        {"object":"entitlements","customer_id":"\(Purchase.customer)","environment":"production",
                        "at":"2026-11-20T12:00:00.000Z","known_at":3,"fold_version":1,
                        "entitlements":[{"id":"premium","gives_access":true,"state":"active",
                        "since":"2026-01-01T00:00:00.000Z","until":"2027-01-01T00:00:00.000Z",
                        "product_id":"com.example.pro.yearly","source":"app_store","ownership":"purchased",
                        "original_transaction_id":"2000000123456780","will_renew":true,
                        "offer":{"type":"introductory","discount":"free_trial"},
                        "reason":{"code":"paid_period","positions":[3]}}]}
                        """))
    }

    @Test("an id that is a UUID is compared in lower case, and read percent-decoded")
    func identifiers() async throws {
        let rig = try await Self.rig()
        let spelled = Purchase.customer.uppercased().replacing("-", with: "%2D")
        let answer = try await rig.get("/v1/customers/\(spelled)/entitlements").json
        #expect(answer["customer_id"] == .string(Purchase.customer))
        #expect(answer["entitlements"]?.count == 1)
    }

    @Test("an unknown customer has an empty list, and asking creates nothing")
    func unknownCustomer() async throws {
        let rig = try await Self.rig()
        let answer = try await rig.get("/v1/customers/nobody%2F1/entitlements")
        #expect(answer.status == 200)
        #expect(try answer.json["customer_id"] == .string("nobody/1"))
        #expect(try answer.json["entitlements"] == .array([]))
        #expect(try answer.json["also_in"] == nil)
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(3))
    }

    @Test("an empty answer says in which other environment the customer is known, as of known_at")
    func alsoIn() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        var purchase = Purchase()
        purchase.environment = "Sandbox"
        #expect(try await rig.notify(purchase).status == 200)
        #expect(try await rig.get(Self.path).json["also_in"] == .array([.string("sandbox")]))
        #expect(try await rig.get(Self.path + "?known_at=2").json["also_in"] == nil)
        let sandbox = try await rig.get(Self.path + "?environment=sandbox").json
        #expect(sandbox["entitlements"]?.count == 1)
        #expect(sandbox["also_in"] == nil)
    }

    @Test("a key of one environment means it, is refused the other, and hears nothing of it")
    func keyEnvironment() async throws {
        let rig = try await Self.rig()
        let key = try await rig.keys.create(name: "test", scopes: [.customersRead], environment: .sandbox).secret
        let answer = try await rig.send("GET", Self.path, key: key).json
        #expect(answer["environment"] == .string("sandbox"))
        let named = try await rig.send("GET", Self.path + "?environment=production", key: key)
        #expect(named.verdict == "403 forbidden")
        for query in ["timeline", "explain"] {
            let path = Self.path.replacing("entitlements", with: query) + "?environment=production"
            let answer = try await rig.send("GET", path, key: key)
            #expect(answer.verdict == "403 forbidden", "\(query)")
        }
        let production = try await rig.keys.create(
            name: "p", scopes: [.customersRead, .eventsRead], environment: .production
        ).secret
        // The customer who is known in the sandbox alone.
        try await rig.buy("77", by: "00000000-0000-4000-8000-000000000077", environment: "Sandbox")
        let path = "/v1/customers/00000000-0000-4000-8000-000000000077/entitlements"
        #expect(try await rig.get(path).json["also_in"] == .array([.string("sandbox")]))
        #expect(try await rig.send("GET", path, key: production).json["also_in"] == nil)
        let why = path.replacing("entitlements", with: "explain")
        #expect(try await rig.get(why).json["also_in"] == .array([.string("sandbox")]))
        #expect(try await rig.send("GET", why, key: production).json["also_in"] == nil)
        let lookup = "/v1/customers?app_account_token=00000000-0000-4000-8000-000000000077"
        #expect(try await rig.get(lookup).json["items"]?.count == 1)
        #expect(try await rig.send("GET", lookup, key: production).json["items"] == .array([]))
        let head = try await rig.head
        #expect(try await rig.send("GET", "/v1/events/\(head)", key: production).status == 404)
        #expect(try await rig.get("/v1/events/\(head)").status == 200)
        let all = try await rig.get("/v1/events").json
        let feed = try await rig.send("GET", "/v1/events", key: production).json
        guard case .array(let items) = all["items"] else { return #expect(Bool(false), "no list") }
        // Nor of other keys, which are of no environment.
        let readable = items.filter {
            $0["environment"] != .string("sandbox") && $0["type"] != .string("api_key_created")
        }
        #expect(readable.count < items.count && feed["items"] == .array(readable) && feed["has_more"] == .bool(false))
        #expect(feed["next_after"] == all["next_after"])
        for after in ["\(head)", "\(head + 5)", "99999999999999999999"] {
            let end = try await rig.send("GET", "/v1/events?after=\(after)", key: production).json
            #expect(end["items"] == .array([]) && end["has_more"] == .bool(false), "\(after)")
            #expect(
                end["next_after"] == (try await rig.get("/v1/events?after=\(after)").json["next_after"]), "\(after)")
        }
    }

    @Test("at reads the past and the future as now known")
    func at() async throws {
        let rig = try await Self.rig()
        let before = try await rig.get(Self.path + "?at=2025-12-31T23:59:59.999Z").json
        #expect(before["entitlements"] == .array([]))
        let after = try await rig.get(Self.path + "?at=2027-01-01T01:00:00%2B01:00").json
        #expect(after["at"] == .string("2027-01-01T00:00:00.000Z"))
        #expect(after["entitlements"]?[0]?["state"] == .string("expired"))
        #expect(after["entitlements"]?[0]?["until"] == .null)
        #expect(after["entitlements"]?[0]?["will_renew"] == .bool(false))
    }

    @Test("known_at takes a position or a recorded time, and refuses what is not settled")
    func knownAt() async throws {
        let rig = try await Self.rig()
        let first = try await rig.get(Self.path + "?known_at=2")
        #expect(try first.json["entitlements"] == .array([]))
        #expect(first.header("Ledger-Position") == "2")
        #expect(try await rig.get(Self.path + "?known_at=4").verdict == "422 unprocessable")
        #expect(try await rig.get(Self.path + "?known_at=99999999999999999999").verdict == "422 unprocessable")
        // The clock stands still, and each batch is recorded later than the one before.
        #expect(try await rig.get(Self.path + "?known_at=" + ServiceRig.noon).json["known_at"] == .int(2))
        let soon = "?known_at=2026-11-20T12:00:01Z"
        let early = try await rig.get(Self.path + soon)
        #expect(try early.verdict == "422 unprocessable" && early.json["retryable"] == .bool(true), "\(early.text)")
        rig.clock.now = rig.clock.now.adding(milliseconds: 60_000)
        #expect(try await rig.get(Self.path + soon).json["known_at"] == .int(3))
        #expect(try await rig.get(Self.path + "?known_at=2026-11-20T11:59:58Z").json["known_at"] == .int(0))
    }

    @Test("a tag holds until an event or time changes the answer, and a 304 still names the position")
    func entityTag() async throws {
        let rig = try await Self.rig()
        let tag = try #require(try await rig.get(Self.path).header("ETag"))
        #expect(tag.hasPrefix("W/\""))
        let condition = [("If-None-Match", "\"other\", " + tag)]

        rig.clock.now = try instant("2026-12-01T00:00:00Z")
        var unrelated = Purchase()
        unrelated.uuid = "another"
        unrelated.original = "300"
        unrelated.transaction = "300"
        unrelated.token = nil
        try await rig.notify(unrelated)
        let unchanged = try await rig.get(Self.path, headers: condition)
        #expect(unchanged.status == 304)
        #expect(unchanged.header("Ledger-Position") == "4")
        #expect(unchanged.header("ETag") == tag)
        #expect(unchanged.body.isEmpty)

        rig.clock.now = try instant("2027-01-01T00:00:00Z")
        let byTime = try await rig.get(Self.path, headers: condition)
        #expect(byTime.status == 200)
        try await rig.notify(Purchase().renewed())
        let byEvent = try await rig.get(Self.path, headers: [("If-None-Match", byTime.header("ETag") ?? "")])
        #expect(byEvent.status == 200)
        #expect(try byEvent.json["entitlements"]?[0]?["state"] == .string("active"))
    }

    @Test("min_position waits for an append, and gives up in time")
    func minimumPosition() async throws {
        var limits = Application.Limits()
        limits.positionWait = .milliseconds(100)
        let hasty = try await Self.rig(limits: limits)
        #expect(try await hasty.get(Self.path + "?min_position=3").status == 200)
        let late = try await hasty.get(Self.path + "?min_position=4")
        #expect(late.verdict == "409 position_not_reached")
        #expect(try late.json["retryable"] == .bool(true))
        // What was reached once may be lost, as after a failover.
        let owner = try await hasty.database.owner()
        let end = try await LogEnd.now(of: owner)
        try await hasty.notify(Purchase().renewed())
        #expect(try await hasty.get(Self.path + "?min_position=4").status == 200)
        try await end.restore(by: owner)
        #expect(try await hasty.get(Self.path + "?min_position=4").verdict == "409 position_not_reached")

        limits.positionWait = .seconds(60)
        let patient = try await Self.rig(limits: limits)
        async let waiting = patient.get(Self.path + "?min_position=4")
        try await Task.sleep(for: .milliseconds(200))
        patient.clock.now = patient.clock.now.adding(milliseconds: 1000)
        try await patient.notify(Purchase().renewed())
        let answer = try await waiting
        #expect(answer.status == 200)
        #expect(answer.header("Ledger-Position") == "4")
        #expect(try answer.json["at"] == .string(patient.clock.now.description), "not as of before it waited")
    }

    @Test(
        "a parameter that cannot be read is named",
        arguments: [
            ("?environment=xcode", "environment"), ("?at=yesterday", "at"), ("?at=", "at"),
            ("?known_at=-1", "known_at"), ("?known_at=soon", "known_at"), ("?min_position=x", "min_position"),
        ])
    func malformedParameters(_ query: String, _ name: String) async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.get(Self.path + query)
        #expect(answer.verdict == "400 malformed_request")
        #expect(try answer.json["param"] == .string(name))
    }
    @Test("a time is read however clients write its offset, and a position however they write a number")
    func times() async throws {
        let rig = try await Self.rig()
        for time in [
            "2026-11-20T12:00:00Z", "2026-11-20T12:00:00.000%2B00:00", "2026-11-20T12:00:00.000000%2B0000",
            "2026-11-20T12:00:00+0000", "2026-11-20T12:00:00 00:00", "2026-11-20T07:00:00-0500",
        ] {
            let answer = try await rig.get(Self.path + "?known_at=3&at=" + time.replacing(" ", with: "%20"))
            #expect(try answer.json["at"] == .string("2026-11-20T12:00:00.000Z"), "\(time): \(answer.text)")
        }
        for time in ["2026-11-20T12:00:00-050", "2026-11-20T12:00:00%2B05000", "2026-11-20T12:00:0000", "0000"] {
            #expect(try await rig.get(Self.path + "?at=" + time).verdict == "400 malformed_request", "\(time)")
        }
    }

    @Test("an id that no customer can have is refused, an unknown parameter ignored")
    func malformedIdentifier() async throws {
        let rig = try await ServiceRig.make()
        for id in ["", "a%0Ab", String(repeating: "x", count: 257)] {
            let answer = try await rig.get("/v1/customers/\(id)/entitlements")
            #expect(answer.verdict == "400 malformed_request")
            #expect(try answer.json["param"] == .string("id"))
        }
        #expect(try await rig.get("/v1/customers/a/entitlements?colour=red").status == 200)
    }
}
