import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: endpoints and what they are told", .timeLimit(.minutes(1)))
struct WebhookTests {
    private static let grant = #"{"entitlement":"premium","until":"2026-11-20T13:00:00Z","reason":"a free hour"}"#

    @Test("a changed answer is told with the whole sets, counted, and by time alone with its instant")
    func changes() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        _ = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        try await rig.telling {
            let granted = try await rig.command("grant", "c-1", Self.grant)
            try await receiver.wait("the grant") { $0.count == 1 }
            let first = try #require(receiver.messages.first)
            rig.wait(seconds: 1)
            let now = try await rig.get("/v1/customers/c-1/entitlements").json
            #expect(first.type == "entitlements.changed")
            #expect(first.data["customer_id"] == .string("c-1") && first.data["environment"] == .string("production"))
            #expect(first.data["before"] == .array([]) && first.data["after"] == now["entitlements"])
            #expect(first.data["sequence"] == .int(1))
            let position = try #require(try granted.json["position"])
            #expect(first.data["position"] == position)
            #expect(first.data["cause"] == .object(["kind": .string("event"), "positions": .array([position])]))
            rig.clock.now = try instant("2026-11-20T13:00:00.000Z")
            try await receiver.wait("its end") { $0.count == 2 }
            let second = try #require(receiver.messages.last)
            let then = try await rig.get("/v1/customers/c-1/entitlements").json
            #expect(second.data["before"] == first.data["after"] && second.data["after"] == then["entitlements"])
            #expect(second.data["after"]?[0]?["gives_access"] == .bool(false))
            #expect(second.data["sequence"] == .int(2))
            #expect(second.data["cause"]?["kind"] == .string("time"))
            #expect(second.data["cause"]?["at"] == .string("2026-11-20T13:00:00.000Z"))
        }
    }

    /// Verifies as Standard Webhooks has it; returns whether one of the signatures holds.
    private func holds(_ message: Receiver.Message, secret: WireValue?) throws -> Bool {
        guard case .string(let secret)? = secret, secret.hasPrefix("whsec_") else { return false }
        let key = try #require(Base64.decode(String(secret.dropFirst(6))))
        let time = try #require(message.headers["webhook-timestamp"])
        let code = HMACSHA256.code(of: Array("\(message.id).\(time).\(message.text)".utf8), key: key)
        let signatures = try #require(message.headers["webhook-signature"]).split(separator: " ")
        return signatures.contains { $0 == "v1," + Base64.encode(code) }
    }

    @Test("a rotated secret's predecessor signs along for a day, and then no more; neither is told again")
    func rotation() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        #expect(try await rig.get(path).json["secret"] == nil)
        try await rig.telling {
            func test() async throws -> Receiver.Message {
                func tests(_ messages: [Receiver.Message]) -> [Receiver.Message] {
                    messages.filter { $0.type == "test" }
                }
                let before = tests(receiver.messages).count
                #expect(try await rig.send("POST", path + "/actions/test", key: rig.admin).status == 200)
                try await receiver.wait("the test") { tests($0).count == before + 1 }
                return try #require(tests(receiver.messages).last)
            }
            let first = try await test()
            #expect(first.type == "test")
            #expect(try holds(first, secret: made["secret"]))
            let answer = try await rig.send(
                "POST", path + "/actions/rotate_secret", key: rig.admin, headers: [("Idempotency-Key", "r")])
            let rotated = try answer.json
            #expect(rotated["secret"] != made["secret"])
            #expect(
                try await rig.send(
                    "POST", path + "/actions/rotate_secret", key: rig.admin, headers: [("Idempotency-Key", "r")]
                ).body == answer.body)
            let second = try await test()
            #expect(try holds(second, secret: rotated["secret"]) && holds(second, secret: made["secret"]))
            rig.clock.now = rig.clock.now.adding(milliseconds: 25 * 3_600_000)
            let third = try await test()
            #expect(try holds(third, secret: rotated["secret"]) && !holds(third, secret: made["secret"]))
        }
        let log = rig.log.lines.joined()
        guard case .string(let secret)? = made["secret"] else { return }
        #expect(!log.contains(secret))
        #expect(!String(decoding: try await rig.get("/v1/events").body, as: UTF8.self).contains(receiver.url))
    }

    @Test(
        "what is refused is sent again, in order for each customer, and delays no other customer and no other endpoint")
    func retries() async throws {
        let rig = try await ServiceRig.make()
        // Takes nothing about c-1 at the first attempt.
        let refusals = Tally(1)
        let receiver = try Receiver { request, _ in
            request.body.contains(#""customer_id":"c-1""#) && refusals.take() ? .answer(503, "busy") : .answer(200, "")
        }
        let other = try Receiver()
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        _ = try await rig.endpoint(other, #","types":["entitlements.changed"]"#)
        for (name, entitlement) in [("c-1", "premium"), ("c-1", "plus"), ("c-2", "premium")] {
            _ = try await rig.command("grant", name, #"{"entitlement":"\#(entitlement)","reason":"r"}"#)
        }
        try await rig.telling {
            try await other.wait("the other endpoint") { $0.count == 3 }
            try await receiver.wait("the other customer") { $0.contains { $0.data["customer_id"] == .string("c-2") } }
            try await receiver.wait("all") { $0.count == 3 }
        }
        let own = receiver.messages.filter { $0.data["customer_id"] == .string("c-1") }
        try #require(own.map { $0.data["sequence"] } == [.int(1), .int(2)])
        #expect(own[0].data["after"] == own[1].data["before"])
        #expect(receiver.requests.filter { $0.headers["webhook-id"] == own[0].id }.count == 2, "the same id each time")
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))/deliveries"
        let listed = try await rig.get(path).json["items"]
        #expect(listed?[0]?["attempts"] == .int(2) && listed?[0]?["state"] == .string("delivered"))
        #expect(listed?[0]?["status"] == .int(200))
    }

    @Test(
        "an endpoint that takes nothing for three days is paused, told of, and goes on where it was when it is resumed")
    func paused() async throws {
        let rig = try await ServiceRig.make()
        let isMended = Tally(0)
        let receiver = try Receiver { _, _ in isMended.isUp ? .answer(200, "") : .reset }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", #"{"entitlement":"premium","reason":"r"}"#)
        try await rig.telling {
            // Noted, not only made: it is dated when it is over.
            while try await rig.get(path).json["failing_since"] == .null {
                try await Task.sleep(for: .milliseconds(5))
            }
            rig.clock.now = rig.clock.now.adding(milliseconds: DeliverySchedule.patience)
            // Another customer's is tried beside the first one's.
            _ = try await rig.command("grant", "c-2", #"{"entitlement":"premium","reason":"r"}"#)
            while try await rig.get(path).json["status"] != .string("paused") {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(try await rig.get(path).json["paused_because"] == .string("unreachable"))
            // It is said once it is done.
            while !rig.log.lines.contains(where: { $0.contains("is paused; resume it") }) {
                try await Task.sleep(for: .milliseconds(5))
            }
            isMended.put(1)
            #expect(receiver.messages.isEmpty)
            #expect(
                try await rig.send("POST", path + "/actions/resume", key: rig.admin).json["status"] == .string("active")
            )
            #expect(
                try await rig.send(
                    "POST", path + "/actions/redeliver", key: rig.admin, body: Array(#"{"failed":true}"#.utf8)
                ).status == 200)
            try await receiver.wait("both") { Set($0.map(\.id)).count == 2 }
        }
    }

    @Test("a range of positions is sent again with the same ids, and what is out of it is not")
    func redelivery() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver, #","types":["event.recorded"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))/actions/redeliver"
        var positions: [Int64] = []
        for number in 0..<4 {
            let answer = try await rig.command("grant", "c-\(number)", #"{"entitlement":"premium","reason":"r"}"#).json
            if case .int(let position)? = answer["position"] { positions.append(position) }
        }
        try await rig.telling {
            try await receiver.wait("all") { $0.count == 4 }
            while try await rig.get("/v1/webhook_endpoints/\(try ServiceRig.id(made))").json["waiting"] != .int(0) {
                try await Task.sleep(for: .milliseconds(5))
            }
            let first = positions.compactMap { position in
                receiver.messages.first { $0.data["position"] == .int(position) }
            }
            try #require(first.count == 4)
            let body = #"{"from":\#(positions[1]),"to":\#(positions[2])}"#
            let answer = try await rig.send("POST", path, key: rig.admin, body: Array(body.utf8))
            #expect(try answer.json["deliveries"] == .int(2))
            try await receiver.wait("two again") { $0.count == 6 }
            #expect(Set(receiver.messages.suffix(2).map(\.text)) == Set(first[1...2].map(\.text)))
            #expect(Set(receiver.messages.suffix(2).map(\.id)) == Set(first[1...2].map(\.id)))
        }
        for bad in ["{}", #"{"from":1}"#, #"{"from":3,"to":2}"#, #"{"from":1,"to":2,"failed":true}"#] {
            #expect(try await rig.send("POST", path, key: rig.admin, body: Array(bad.utf8)).status == 400, "\(bad)")
        }
    }

    @Test("what is wrong with an endpoint is refused by name, and nothing is written")
    func refusals() async throws {
        let rig = try await ServiceRig.make()
        let before = try await rig.get("/v1/ledger").json["position"]
        for (members, status, param) in [
            ("", 400, "url"), (#""url":"nowhere""#, 422, "url"), (#""url":"https://a:b@example.com/""#, 422, "url"),
            (#""url":"https://example.com","types":["entitlements.chnged"]"#, 422, "types"),
            (#""url":"https://example.com","types":["TEST"]"#, 422, "types"),
            (#""url":"https://example.com","format":"soap""#, 422, "format"),
            (#""url":"https://example.com","environment":"moon""#, 400, "environment"),
        ] {
            let answer = try await rig.createEndpoint(members)
            #expect(answer.status == status, "\(members)")
            #expect(try answer.json["param"] == .string(param), "\(members)")
        }
        let reader = try await rig.keys.create(name: "r", scopes: [.customersRead, .eventsRead, .customersWrite]).secret
        #expect(try await rig.createEndpoint(#""url":"https://example.com""#, key: reader).status == 403)
        #expect(try await rig.get("/v1/webhook_endpoints/we_none").status == 404)
        #expect(
            try await rig.get("/v1/ledger").json["position"]
                == before.map { value in
                    if case .int(let position) = value { .int(position + 1) } else { value }
                }, "only the key that was made here")
    }

    @Test("a key of one environment and app makes and sees endpoints of these alone")
    func boundKeys() async throws {
        let rig = try await ServiceRig.make(hasOtherApp: true)
        let own = try await rig.keys.create(
            name: "own", scopes: [.admin], environment: .sandbox, bundleID: ServiceRig.bundleID
        ).secret
        let url = #""url":"https://example.com/a""#
        let wide = try await rig.createEndpoint(url).json
        let made = try await rig.createEndpoint(url, key: own).json
        #expect(made["environment"] == .string("sandbox") && made["app"] == .string(ServiceRig.bundleID))
        #expect(try await rig.createEndpoint(url + #","environment":"production""#, key: own).status == 403)
        #expect(try await rig.createEndpoint(url + #","app":"\#(ServiceRig.otherBundleID)""#, key: own).status == 403)
        let listed = try await rig.send("GET", "/v1/webhook_endpoints", key: own).json["items"]
        #expect(listed?[0]?["id"] == made["id"] && listed?[1] == nil)
        let foreign = "/v1/webhook_endpoints/\(try ServiceRig.id(wide))"
        for (method, path) in [
            ("GET", foreign), ("DELETE", foreign), ("POST", foreign + "/actions/rotate_secret"),
            ("POST", foreign + "/actions/test"), ("POST", foreign + "/actions/pause"), ("GET", foreign + "/deliveries"),
        ] {
            #expect(try await rig.send(method, path, key: own).status == 404, "\(method) \(path)")
        }
    }

    @Test("whoever is forgotten is in no message any more: what waits is withdrawn")
    func forgotten() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        #expect(try await rig.send("POST", path + "/actions/pause", key: rig.admin).json["status"] == .string("paused"))
        _ = try await rig.command("grant", "c-1", #"{"entitlement":"premium","reason":"r"}"#)
        try await rig.telling {
            while try await rig.get(path).json["waiting"] != .int(1) { try await Task.sleep(for: .milliseconds(5)) }
        }
        let customer = try #require(CustomerID("c-1"))
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: rig.context.now)
        _ = try await forgetter.forget(customer)
        let rows = try await rig.pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_message WHERE identity <> 0").row(0).int(0)
        }
        #expect(rows == 0)
        let listed = try await rig.get(path + "/deliveries").json["items"]
        #expect(listed?[0]?["state"] == .string("withdrawn") && listed?[0]?["customer_id"] == .null)
    }
}
