import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: endpoints made, changed and rotated", .timeLimit(.minutes(1)))
struct EndpointCommandTests {
    private static let grant = #"{"entitlement":"premium","reason":"r"}"#

    @Test(
        "the same request under one key, however often and at once, is one endpoint and one secret, kept in one place")
    func keyed() async throws {
        let rig = try await ServiceRig.make()
        func send(_ target: String, _ body: String, key: String) async throws -> WireValue {
            let answer = try await rig.send(
                "POST", target, key: rig.admin, headers: [("Idempotency-Key", key)], body: Array(body.utf8))
            #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
            return try answer.json
        }
        func sendAtOnce(_ target: String, _ body: String, key: String) async throws -> WireValue {
            let answers = try await withThrowingTaskGroup(of: WireValue.self) { group in
                for _ in 0..<6 { group.addTask { try await send(target, body, key: key) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(answers.map { $0["id"] }).count == 1 && Set(answers.map { $0["secret"] }).count == 1)
            return answers[0]
        }
        let order = #"{"url":"http://127.0.0.1:1/a","enviroment":"sandbox"}"#
        let made = try await sendAtOnce("/v1/webhook_endpoints", order, key: "make")
        #expect(made["remarks"] == .array([.string("unknown_member:enviroment")]))
        let listed = try await rig.get("/v1/webhook_endpoints").json["items"]
        #expect(listed?[0]?["id"] == made["id"] && listed?[1] == nil)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))/actions/rotate_secret"
        let rotated = try await sendAtOnce(path, "", key: "rotate")
        #expect(rotated["secret"] != made["secret"])
        let again = try await send(path, "", key: "rotate more")
        #expect(again["secret"] != rotated["secret"])
        #expect(try await send(path, "", key: "rotate")["secret"] == rotated["secret"])
        #expect(try await send("/v1/webhook_endpoints", order, key: "make")["secret"] == made["secret"])
        let (kept, values) = try await rig.pool.withConnection { connection in
            (
                try connection.query(
                    "SELECT string_agg(convert_from(answer, 'UTF8'), ' ') FROM command_key"
                ).row(0).text(0),
                try connection.query("SELECT count(*) FROM webhook_secret").row(0).int(0)
            )
        }
        for secret in [made, rotated, again].compactMap({ $0["secret"] }) {
            guard case .string(let text) = secret else { continue }
            #expect(!kept.contains(text.dropFirst(6)), "no secret beside the place where it lives")
        }
        #expect(!kept.contains("127.0.0.1"), "nor an address")
        #expect(values == 4, "the address and three secrets; what was made for nothing is gone")
        let other = try await rig.send(
            "POST", "/v1/webhook_endpoints", key: rig.admin, headers: [("Idempotency-Key", "make")],
            body: Array(#"{"url":"http://127.0.0.1:1/b"}"#.utf8))
        #expect(other.status == 409)
    }

    @Test("a changed address takes over at once what waits, and what was counted is counted on")
    func address() async throws {
        let rig = try await ServiceRig.make()
        let (old, new) = (try Receiver { _, _ in .reset }, try Receiver())
        let made = try await rig.endpoint(old, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path).json["failing_since"] == .null {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        #expect(try await rig.get(path).json["health"] == .string("failing"))
        // As after many tries: the next one is far away.
        try await rig.pool.withConnection { connection in
            _ = try connection.query("UPDATE webhook_delivery SET due_at = clock_timestamp() + interval '6 h'")
        }
        let changed = try await rig.patch(path, #"{"url":"\#(new.url)"}"#)
        #expect(changed.status == 200)
        #expect(try changed.json["url"] == .string(new.url) && changed.json["id"] == made["id"])
        #expect(try changed.json["secret"] == nil)
        _ = try await rig.command("grant", "c-1", #"{"entitlement":"plus","reason":"r"}"#)
        try await rig.telling { try await new.wait("both") { $0.count == 2 } }
        #expect(new.messages.map { $0.data["sequence"] } == [.int(1), .int(2)])
        #expect(new.messages[0].data["after"] == new.messages[1].data["before"])
        let log = String(decoding: try await rig.get("/v1/events?limit=1000").body, as: UTF8.self)
        #expect(log.contains("webhook_endpoint_changed") && !log.contains(new.url), "the log has the address as a hash")
        #expect(try await rig.get(path).json["health"] == .string("ok"))
    }

    @Test("terms change one by one, by null too; what cannot change says so, and what changes nothing is no event")
    func terms() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(
            receiver, #","types":["event.recorded"],"environment":"sandbox","description":"d""#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        for (body, param) in [
            (#"{"app":"com.other"}"#, "app"), (#"{"format":"revenuecat"}"#, "format"),
            (#"{"types":["nothing"]}"#, "types"), (#"{"url":"nowhere"}"#, "url"),
            (#"{"authorization_header":"a"}"#, "authorization_header"),
        ] {
            let refused = try await rig.patch(path, body)
            #expect(try refused.status == 422 && refused.json["param"] == .string(param), "\(body)")
        }
        func position() async throws -> WireValue? { try await rig.get("/v1/ledger").json["position"] }
        let before = try await position()
        for body in ["{}", #"{"app":null,"format":"standard","environment":"sandbox","types":["event.recorded"]}"#] {
            #expect(try await rig.patch(path, body).status == 200)
        }
        #expect(try await position() == before)
        let odd = try await rig.patch(path, #"{"descripton":"e"}"#).json
        #expect(odd["remarks"] == .array([.string("unknown_member:descripton")]) && odd["description"] == .string("d"))
        let wide = try await rig.patch(
            path, #"{"environment":null,"types":["entitlements.changed"],"description":null}"#, idempotencyKey: "k")
        #expect(try wide.json["environment"] == .null && wide.json["description"] == .null)
        let once = try await position()
        #expect(
            try await rig.patch(
                path, #"{"environment":null,"types":["entitlements.changed"],"description":null}"#,
                idempotencyKey: "k"
            ).status == 200)
        #expect(try await position() == once, "the same key again is the same change")
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling { try await receiver.wait("the new type") { !$0.isEmpty } }
        #expect(receiver.messages.map(\.type) == ["entitlements.changed"])
        #expect(receiver.messages.first?.data["environment"] == .string("production"))
        let bound = try await rig.keys.create(name: "s", scopes: [.admin], environment: .sandbox).secret
        #expect(try await rig.patch(path, #"{"description":"x"}"#, key: bound).status == 404)
        let own = try await rig.createEndpoint(#""url":"http://127.0.0.1:1/s""#, key: bound).json
        let ownPath = "/v1/webhook_endpoints/\(try ServiceRig.id(own))"
        #expect(try await rig.patch(ownPath, #"{"environment":null}"#, key: bound).status == 403)
    }

    @Test("what is sent as Authorization can be another, and none")
    func authorization() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver, #","format":"revenuecat","authorization_header":"first""#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        try await rig.telling {
            for (number, change) in [nil, #""second""#, "null"].enumerated() {
                if let change {
                    let answer = try await rig.patch(path, #"{"authorization_header":\#(change)}"#)
                    #expect(try answer.json["has_authorization_header"] == .bool(change != "null"))
                }
                #expect(try await rig.send("POST", path + "/actions/test", key: rig.admin).status == 200)
                try await receiver.wait("test \(number)") { $0.count == number + 1 }
            }
        }
        #expect(receiver.messages.map { $0.headers["authorization"] } == ["first", "second", nil])
    }

    @Test("a test is answered before its first attempt, as the description's example is")
    func testAnswer() async throws {
        let rig = try await ServiceRig.make()
        let made = try await rig.endpoint(try Receiver())
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))/actions/test"
        let answer = try await rig.send("POST", path, key: rig.admin).json
        for (name, value) in try WireValue(json: Example.testDelivery).members {
            #expect((answer[name] == .null) == (value == .null), "\(name): \(answer)")
            guard ["object", "state", "type", "attempts"].contains(name) else { continue }
            #expect(answer[name] == value, "\(name)")
        }
        guard case .document(_, let example) = APIOperation.testEndpoint.answer else { throw TestFailure("no example") }
        #expect(example == Example.testDelivery)
    }

    @Test("an old secret signs along for a day, for as long as is said, or not at all")
    func rotation() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver, #","types":["stream.silent"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        func signatures() async throws -> Int {
            let before = receiver.messages.count
            #expect(try await rig.send("POST", path + "/actions/test", key: rig.admin).status == 200)
            try await receiver.wait("the test") { $0.count == before + 1 }
            return receiver.messages.last?.headers["webhook-signature"]?.split(separator: " ").count ?? 0
        }
        func rotate(_ body: String) async throws -> Int {
            try await rig.send(
                "POST", path + "/actions/rotate_secret", key: rig.admin, body: Array(body.utf8)
            ).status
        }
        try await rig.telling {
            let got1 = try await signatures()
            #expect(got1 == 1)
            let got2 = try await rotate("")
            #expect(got2 == 200)
            let got3 = try await signatures()
            #expect(got3 == 2)
            let got4 = try await rotate(#"{"keep_old_seconds":3600}"#)
            #expect(got4 == 200)
            let got5 = try await signatures()
            #expect(got5 == 3)
            rig.wait(seconds: 3601)
            let got6 = try await signatures()
            #expect(got6 == 1, "what ends one ends those before it, too")
            let got7 = try await rotate("{}")
            #expect(got7 == 200)
            let got8 = try await rotate(#"{"keep_old_seconds":0}"#)
            #expect(got8 == 200)
            let got9 = try await signatures()
            #expect(got9 == 1)
            let got10 = try await rotate(#"{"keep_old_seconds":-1}"#)
            #expect(got10 == 422)
        }
    }

    @Test("a paused endpoint refuses a test, and says of nothing when it is sent")
    func paused() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver { _, _ in .reset }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path + "/deliveries").json["items"]?[0]?["attempts"] != .int(1) {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        #expect(try await rig.get(path + "/deliveries").json["items"]?[0]?["next_attempt_at"] != .null)
        let paused = try await rig.send("POST", path + "/actions/pause", key: rig.admin).json
        #expect(paused["health"] == .string("paused") && paused["status"] == .string("paused"))
        #expect(try await rig.get(path + "/deliveries").json["items"]?[0]?["next_attempt_at"] == .null)
        let test = try await rig.send("POST", path + "/actions/test", key: rig.admin)
        #expect(try test.status == 422 && "\(test.json)".contains("resume it first"))
    }

    @Test("an app that is not configured is remarked upon, and beyond the most endpoints none is made")
    func limits() async throws {
        let rig = try await ServiceRig.make()
        let url = #""url":"http://127.0.0.1:1/a""#
        let strange = try await rig.createEndpoint(url + #","app":"com.typo""#).json
        #expect(strange["remarks"] == .array([.string("unknown_app:com.typo")]))
        #expect(try await rig.createEndpoint(url + #","app":"\#(ServiceRig.bundleID)""#).json["remarks"] == nil)
        let register = EndpointRegister(
            pool: rig.pool, writer: LedgerWriter(pool: rig.pool, now: { rig.clock.now }), limit: 2)
        let order = try EndpointChoices.order(
            EndpointRequest(url: "http://127.0.0.1:1/a"), environment: nil, bundleID: nil, allowsPrivate: true)
        let refusal = await #expect(throws: LedgerError.self) { try await register.create(order) }
        #expect(refusal?.code == .tooMuch)
    }
}

extension ServiceRig {
    fileprivate func patch(
        _ path: String, _ body: String, key: String? = nil, idempotencyKey: String? = nil
    ) async throws -> HTTPResponse {
        try await send(
            "PATCH", path, key: key ?? admin, headers: idempotencyKey.map { [("Idempotency-Key", $0)] } ?? [],
            body: Array(body.utf8))
    }
}
