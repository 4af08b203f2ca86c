import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks in RevenueCat's format", .timeLimit(.minutes(1)))
struct EventWebhookTests {
    private func create(_ rig: ServiceRig, _ url: String, _ more: String = "") async throws -> HTTPResponse {
        try await rig.send(
            "POST", "/v1/webhook_endpoints", key: rig.admin,
            body: Array(#"{"url":"\#(url)","format":"revenuecat"\#(more)}"#.utf8))
    }

    private func path(_ endpoint: WireValue) throws -> String {
        "/v1/webhook_endpoints/\(try ServiceRig.id(endpoint))"
    }

    private static let grant = #"{"entitlement":"premium","until":"2026-11-20T13:00:00Z","reason":"a free hour"}"#

    /// A UUID is sent as it is kept, and as apps spell it.
    private static let spellings: [WireValue] = [
        .string(Purchase.customer), .string(Purchase.customer.uppercased()),
    ]

    /// Whether GET shows the entitlements that an event ends with.
    private func shown(_ rig: ServiceRig, _ customer: String) async throws -> WireValue? {
        try await rig.get("/revenuecat/v1/subscribers/\(customer)").json["subscriber"]?["entitlements"]
    }

    @Test("a purchase, a grant and its end by time alone arrive counted and signed, and GET shows what they say")
    func events() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let receiver = try Receiver()
        let plain = try Receiver()
        let made = try await create(rig, receiver.url, #","authorization_header":"Bearer theirs""#)
        #expect(made.status == 200)
        let standard = Array(#"{"url":"\#(plain.url)"}"#.utf8)
        #expect(try await rig.send("POST", "/v1/webhook_endpoints", key: rig.admin, body: standard).status == 200)
        let endpoint = try made.json
        #expect(endpoint["format"] == .string("revenuecat") && endpoint["has_authorization_header"] == .bool(true))
        guard case .string(let secret)? = endpoint["secret"] else { throw Missing("\(endpoint)") }
        try await rig.telling {
            try await rig.notify(Purchase())
            try await receiver.wait("the purchase") { $0.count == 1 }
            let first = try #require(receiver.messages.first)
            #expect(first.type == "INITIAL_PURCHASE" && first.data["sequence"] == .int(1))
            #expect(first.data["app_user_id"] == .string(Purchase.customer))
            #expect(first.data["period_type"] == .string("TRIAL"))
            #expect(first.data["before"] == .object([:]))
            #expect(try await first.data["after"] == shown(rig, Purchase.customer))
            guard case .array(let aliases)? = first.data["aliases"] else { throw Missing("\(first.text)") }
            #expect(aliases == Self.spellings)
            _ = try await rig.command("grant", "c-1", Self.grant)
            try await receiver.wait("the grant") { $0.count == 2 }
            rig.clock.now = try instant("2026-11-20T13:00:00.000Z")
            try await receiver.wait("its end") { $0.count == 3 }
            let last = try #require(receiver.messages.last)
            #expect(receiver.messages.map(\.type).suffix(2) == ["NON_RENEWING_PURCHASE", "EXPIRATION"])
            #expect(last.data["sequence"] == .int(2) && last.data["app_user_id"] == .string("c-1"))
            let end = try instant("2026-11-20T13:00:00.000Z").milliseconds
            #expect(last.data["expiration_at_ms"] == .int(end) && last.data["event_timestamp_ms"] == .int(end))
            #expect(try await last.data["after"] == shown(rig, "c-1"))
            let test = try await rig.send("POST", try path(endpoint) + "/actions/test", key: rig.admin)
            #expect(test.status == 200)
            try await receiver.wait("the test") { $0.count == 4 }
            #expect(receiver.messages.last?.type == "TEST")
            #expect(receiver.messages.last?.data["app_id"] == .string("test_app"))
        }
        for message in receiver.messages {
            #expect(message.headers["authorization"] == "Bearer theirs")
            let words = try #require(message.headers["x-revenuecat-webhook-signature"]).split(separator: ",")
            let time = try #require(words.first).dropFirst(2)
            let code = HMACSHA256.code(of: Array("\(time).\(message.text)".utf8), key: Array(secret.utf8))
            #expect(words.last.map(String.init) == "v1=" + (Digest(code) ?? .zero).hex)
        }
        // Nobody else is sent any of it, and nobody is told the header again.
        #expect(plain.messages.allSatisfy { !$0.text.contains("api_version") && $0.headers["authorization"] == nil })
        #expect(plain.messages.contains { $0.type == "entitlements.changed" })
        let told =
            rig.log.lines.joined() + String(decoding: try await rig.get("/v1/events").body, as: UTF8.self)
            + String(decoding: try await rig.get(path(endpoint)).body, as: UTF8.self)
        #expect(!told.contains("theirs"))
    }

    @Test("a message that is sent again is the same, its id and its time")
    func again() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await create(rig, receiver.url).json
        let granted = try await rig.command("grant", "c-1", Self.grant).json["position"]
        guard case .int(let position)? = granted else { throw Missing("no position") }
        try await rig.telling {
            try await receiver.wait("the grant") { $0.count == 1 }
            let list = try path(made) + "/deliveries"
            while try await rig.get(list).json["items"]?[0]?["state"] != .string("delivered") {
                try await Task.sleep(for: .milliseconds(5))
            }
            let body = Array(#"{"from":\#(position),"to":\#(position)}"#.utf8)
            let answer = try await rig.send("POST", path(made) + "/actions/redeliver", key: rig.admin, body: body)
            #expect(answer.status == 200)
            try await receiver.wait("the same again") { $0.count == 2 }
        }
        #expect(Set(receiver.messages.map(\.text)).count == 1)
        guard case .string(let id)? = receiver.messages.first?.data["id"] else { throw Missing("no id") }
        #expect(id.utf8.count == 36 && id.split(separator: "-").map(\.utf8.count) == [8, 4, 4, 4, 12])
    }

    @Test("what is linked to another customer is a TRANSFER for both, and is told of the other alone from then on")
    func transfer() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let receiver = try Receiver()
        _ = try await create(rig, receiver.url)
        try await rig.telling {
            try await rig.notify(Purchase())
            try await receiver.wait("the purchase") { $0.count == 1 }
            let link = #"{"customer_id":"\#(Purchase.customer)"}"#
            let linked = try await rig.command("link", "c-9", link)
            #expect(linked.status == 200, "\(String(decoding: linked.body, as: UTF8.self))")
            try await receiver.wait("both sides, and what came along") { $0.count == 4 }
            let sides = receiver.messages.filter { $0.type == "TRANSFER" }
            #expect(sides.count == 2 && sides.allSatisfy { $0.data["app_user_id"] == nil })
            #expect(
                sides.allSatisfy {
                    $0.data["transferred_from"] == .array(Self.spellings)
                        && $0.data["transferred_to"] == .array([.string("c-9")])
                })
            #expect(Set(sides.map { $0.data["id"] }).count == 2)
            let goingOn = try #require(receiver.messages.last { $0.type == "SUBSCRIPTION_EXTENDED" })
            #expect(goingOn.data["app_user_id"] == .string("c-9") && goingOn.data["sequence"] == .int(2))
            #expect(goingOn.data["original_transaction_id"] == .string(Purchase().original))
            #expect(goingOn.data["entitlement_ids"] == .array([.string("premium")]))
            try await rig.notify(Purchase().renewed())
            rig.clock.now = try instant("2027-01-02T00:00:00.000Z")
            try await receiver.wait("the renewal") { $0.count == 5 }
            let renewal = try #require(receiver.messages.last)
            #expect(renewal.type == "RENEWAL" && renewal.data["app_user_id"] == .string("c-9"))
            guard case .array(let aliases)? = renewal.data["aliases"] else { throw Missing("\(renewal.text)") }
            #expect(Set(aliases) == Set([.string("c-9")] + Self.spellings))
        }
    }

    @Test("one purchase of two that goes to somebody else is no TRANSFER: it ends for the one, and the other buys it")
    func transferOfOne() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let receiver = try Receiver()
        _ = try await create(rig, receiver.url)
        try await rig.telling {
            try await rig.buy("2000000000000001", by: Purchase.customer)
            try await rig.buy("2000000000000002", by: Purchase.customer)
            try await receiver.wait("two purchases") { $0.count == 2 }
            func transfer(_ original: String) async throws {
                let body = #"{"original_transaction_id":"\#(original)","to":"c-9"}"#
                let answer = try await rig.command("transfer", Purchase.customer, body)
                #expect(answer.status == 200, "\(answer.text)")
            }
            try await transfer("2000000000000001")
            try await receiver.wait("an end and a beginning") { $0.count == 4 }
            let (gone, come) = (
                receiver.messages.last { $0.type == "EXPIRATION" },
                receiver.messages.last { $0.type == "INITIAL_PURCHASE" }
            )
            #expect(gone?.data["app_user_id"] == .string(Purchase.customer))
            #expect(come?.data["app_user_id"] == .string("c-9"))
            for event in [gone, come] {
                #expect(event?.data["original_transaction_id"] == .string("2000000000000001"))
                #expect(event?.data["product_id"] == .string("com.example.pro.yearly"))
            }
            rig.wait()
            #expect(try await gone?.data["after"] == shown(rig, Purchase.customer))
            #expect(gone?.data["after"]?["premium"] != nil)
            #expect(try await come?.data["after"] == shown(rig, "c-9"))
            // What is left is all that there is.
            try await transfer("2000000000000002")
            try await receiver.wait("a transfer") { $0.count == 7 }
            #expect(
                receiver.messages.suffix(3).map(\.type).sorted() == ["SUBSCRIPTION_EXTENDED", "TRANSFER", "TRANSFER"])
        }
    }

    @Test("an endpoint of one app is told of this app's purchases alone")
    func oneApp() async throws {
        let rig = try await ServiceRig.make(hasOtherApp: true)
        let receiver = try Receiver()
        _ = try await create(rig, receiver.url, #","app":"\#(ServiceRig.bundleID)""#)
        var foreign = Purchase()
        foreign.bundleID = ServiceRig.otherBundleID
        foreign.uuid = "3838df56-31ab-4e2d-9f44-9b2b3b6b9a77"
        (foreign.original, foreign.transaction) = ("2000000777777777", "2000000777777777")
        foreign.appTransaction = "704000777"
        #expect(try await rig.notify(foreign).status == 200)
        #expect(try await rig.notify(Purchase()).status == 200)
        try await rig.telling { try await receiver.wait("the purchase") { $0.count == 1 } }
        let event = try #require(receiver.messages.first)
        #expect(event.data["app_id"] == .string(ServiceRig.bundleID) && event.data["sequence"] == .int(1))
        #expect(event.data["original_transaction_id"] == .string(Purchase().original))
    }

    @Test("types are RevenueCat's alone, and what is wrong is refused by name")
    func refusals() async throws {
        let rig = try await ServiceRig.make()
        let url = "https://example.com/hook"
        for (more, param) in [
            (#","types":["entitlements.changed"]"#, "types"), (#","types":["EXPIRED"]"#, "types"),
            (#","authorization_header":" a""#, "authorization_header"),
            (#","authorization_header":"ü""#, "authorization_header"), (#","app":"revenuecat/com.example""#, "app"),
        ] {
            let answer = try await create(rig, url, more)
            #expect(answer.status == 422, "\(more)")
            #expect(try answer.json["param"] == .string(param), "\(more)")
        }
        let standard = Array(#"{"url":"\#(url)","authorization_header":"a"}"#.utf8)
        #expect(try await rig.send("POST", "/v1/webhook_endpoints", key: rig.admin, body: standard).status == 422)
        let names = Array(#"{"url":"\#(url)","types":["RENEWAL"]}"#.utf8)
        #expect(try await rig.send("POST", "/v1/webhook_endpoints", key: rig.admin, body: names).status == 422)
        #expect(try await create(rig, url, #","types":["RENEWAL","EXPIRATION"]"#).status == 200)
    }

    @Test("whoever is forgotten is in no event any more")
    func forgotten() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let endpoint = try path(try await create(rig, receiver.url).json)
        #expect(try await rig.send("POST", endpoint + "/actions/pause", key: rig.admin).status == 200)
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(endpoint).json["waiting"] != .int(1) { try await Task.sleep(for: .milliseconds(5)) }
        }
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: rig.context.now)
        _ = try await forgetter.forget(try #require(CustomerID("c-1")))
        #expect(try await rig.send("POST", endpoint + "/actions/resume", key: rig.admin).status == 200)
        let listed = try await rig.get(endpoint + "/deliveries").json["items"]
        #expect(listed?[0]?["state"] == .string("withdrawn") && listed?[0]?["customer_id"] == .null)
        let left = try await rig.pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_message WHERE identity <> 0").row(0).int(0)
        }
        #expect(left == 0 && receiver.messages.isEmpty)
    }
}

private struct Missing: Error {
    let what: String

    init(_ what: String) { self.what = what }
}
