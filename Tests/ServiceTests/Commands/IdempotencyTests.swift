import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Commands under an idempotency key, over the whole table of routes", .timeLimit(.minutes(5)))
struct IdempotencyTests {
    /// What changes something, or may look as if it did, and takes no key; and why it needs none.
    private static let exempt: [String: String] = [
        "POST /v1/notifications/appstore": "the store's own id makes its deliveries one event",
        "POST /v1/notifications/stripe": "Stripe's own id makes its deliveries one event",
        "POST /v1/customers/{id}/reconcile": "what is signed is one event, whoever brings it and however often",
        "POST /v1/customers/{id}/portal": "a page that is opened; nothing is recorded",
        "POST /v1/customers/{id}/actions/preview": "nothing is recorded",
        "POST /v1/catalog/actions/try": "nothing is recorded",
        "POST /v1/offer_signatures": "a signature with a nonce of its own; nothing is recorded",
        "POST /console/session": "what is shown is good once, or a key",
        "DELETE /console/session": "what has ended has ended",
    ]

    /// Those of which the stage is somebody else's service.
    private static let provenElsewhere: [String: String] = [
        "POST /v1/subscriptions/{original_transaction_id}/actions/check": "CheckHandlerTests",
        "POST /v1/subscriptions/{original_transaction_id}/actions/extend": "ExtendHandlerTests",
        "POST /v1/customers/{id}/checkout": "CheckoutTests",
    ]

    /// A command, and another body for the same path.
    private struct Command {
        let target: String
        var body = ""
        var other = "{}"
        /// How many events, and how many messages to endpoints, come of it however often it is sent.
        var events: Int64 = 1
        var messages: Int64 = 0
        /// Lets happen whatever follows from it.
        var then: () async throws -> Void = {}
    }

    /// Lets there be what a route needs, and says what to send.
    private static func command(_ route: String, _ rig: ServiceRig, _ receiver: Receiver) async throws -> Command? {
        let grant = #"{"entitlement":"premium","reason":"r"}"#
        func endpoint() async throws -> String {
            let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
            return "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        }
        switch route {
        case "POST /v1/customers/{id}/tokens":
            return Command(target: "/v1/customers/c-1/tokens", other: #"{"expires_in":60}"#)
        case "POST /v1/customers/{id}/actions/link":
            return Command(
                target: "/v1/customers/c-1/actions/link", body: #"{"customer_id":"device-1"}"#,
                other: #"{"customer_id":"device-2"}"#)
        case "POST /v1/customers/{id}/actions/transfer":
            try await rig.buy("801", by: "7e3fb20b-4cdb-47cc-936d-99d65f608138")
            return Command(
                target: "/v1/customers/7e3fb20b-4cdb-47cc-936d-99d65f608138/actions/transfer",
                body: #"{"original_transaction_id":"801","to":"c-2"}"#,
                other: #"{"original_transaction_id":"801","to":"c-3"}"#)
        case "POST /v1/customers/{id}/actions/grant":
            return Command(
                target: "/v1/customers/c-1/actions/grant", body: grant, other: #"{"entitlement":"plus","reason":"r"}"#)
        case "POST /v1/customers/{id}/actions/revoke_grant":
            guard case .string(let id)? = try await rig.command("grant", "c-1", grant).json["grant_id"] else {
                return nil
            }
            return Command(
                target: "/v1/customers/c-1/actions/revoke_grant", body: #"{"grant_id":"\#(id)","reason":"a"}"#,
                other: #"{"grant_id":"\#(id)","reason":"b"}"#)
        case "POST /v1/customers/{id}/actions/forget":
            _ = try await rig.command("grant", "c-1", grant)
            return Command(
                target: "/v1/customers/c-1/actions/forget", body: #"{"confirm":"c-1"}"#,
                other: #"{"confirm":"c-1","dry_run":false}"#)
        case "PUT /v1/catalog":
            return Command(target: "/v1/catalog", body: ServiceRig.proCatalog, other: #"{"products":[]}"#)
        case "POST /v1/webhook_endpoints":
            return Command(
                target: "/v1/webhook_endpoints", body: #"{"url":"\#(receiver.url)"}"#,
                other: #"{"url":"\#(receiver.url)/other"}"#)
        case "PATCH /v1/webhook_endpoints/{id}":
            return Command(
                target: try await endpoint(), body: #"{"description":"a"}"#, other: #"{"description":"b"}"#)
        case "DELETE /v1/webhook_endpoints/{id}":
            return Command(target: try await endpoint())
        case "POST /v1/webhook_endpoints/{id}/actions/rotate_secret":
            return Command(target: try await endpoint() + "/actions/rotate_secret")
        case "POST /v1/webhook_endpoints/{id}/actions/pause":
            return Command(target: try await endpoint() + "/actions/pause")
        case "POST /v1/webhook_endpoints/{id}/actions/resume":
            let path = try await endpoint()
            #expect(try await rig.send("POST", path + "/actions/pause", key: rig.admin).status == 200)
            return Command(target: path + "/actions/resume")
        case "POST /v1/webhook_endpoints/{id}/actions/test":
            return Command(target: try await endpoint() + "/actions/test", events: 0, messages: 1) {
                try await rig.telling { try await receiver.wait("the test") { !$0.isEmpty } }
                #expect(receiver.requests.count == 1)
            }
        case "POST /v1/webhook_endpoints/{id}/actions/redeliver":
            let path = try await endpoint()
            for customer in 1...3 { _ = try await rig.command("grant", "c-\(customer)", grant) }
            try await rig.telling {
                try await receiver.wait("what is sent again") { $0.count == 3 }
                while try await rig.get(path).json["waiting"] != .int(0) {
                    try await Task.sleep(for: .milliseconds(5))
                }
            }
            return Command(
                target: path + "/actions/redeliver", body: #"{"from":1,"to":100}"#, other: #"{"failed":true}"#,
                events: 0
            ) {
                try await rig.telling {
                    try await receiver.wait("each once more") { $0.count >= 6 }
                    while try await rig.get(path).json["waiting"] != .int(0) {
                        try await Task.sleep(for: .milliseconds(5))
                    }
                }
                #expect(receiver.requests.count == 6)
            }
        default: return nil
        }
    }

    private static let keyed = Route.all.filter { $0.operation.takes(.idempotencyKey) }.map(name)

    private static func name(_ route: Route) -> String { "\(route.method) \(route.template)" }

    @Test("each route that changes something takes an idempotency key, or is exempt for a stated reason")
    func table() {
        let changing = Route.all.filter { $0.method != "GET" }.map(Self.name)
        #expect(changing.count > 20)
        for route in changing {
            #expect(
                Self.keyed.contains(route) != (Self.exempt[route] != nil),
                "\(route) has to honour Idempotency-Key, or to stand here with the reason why it need not")
        }
        #expect(Set(Self.exempt.keys).union(Self.provenElsewhere.keys).isSubset(of: changing))
    }

    @Test(
        "the same again, and at once, is answered the same and done once; another body under the key is refused",
        arguments: keyed)
    func once(route: String) async throws {
        guard Self.provenElsewhere[route] == nil else { return }
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let command = try #require(
            try await Self.command(route, rig, receiver), "\(route) takes a key, and nothing here says what to send")
        let method = try #require(route.split(separator: " ").first.map(String.init))
        let (target, body) = (command.target, command.body)
        func send(_ body: String) async throws -> HTTPResponse {
            try await rig.send(
                method, target, key: rig.admin, headers: [("Idempotency-Key", "k")], body: Array(body.utf8))
        }
        func text(_ answer: HTTPResponse) -> String {
            "\(answer.verdict) \(answer.header("Ledger-Position") ?? "-") \(answer.text)"
        }
        let before = try await rig.counts()
        let answers = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<5 { group.addTask { text(try await send(body)) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let first = try #require(answers.first)
        #expect(first.hasPrefix("200") && Set(answers).count == 1, "\(Set(answers))")
        let after = try await rig.counts()
        #expect(after.events - before.events == command.events && after.messages - before.messages == command.messages)
        try await command.then()
        // Whatever became of it since.
        rig.wait(seconds: 3600)
        #expect(text(try await send(command.body)) == first)
        try await command.then()
        #expect(try await send(command.other).verdict == "409 idempotency_conflict")
        #expect(try await rig.counts() == after)
        #expect(try await rig.verdictOfVerify() == nil, "what a route writes is what the verifier takes from it")
        let kept = try await rig.kept()
        #expect(!kept.contains("whsec_") && !kept.contains(receiver.url), "\(kept)")
        if case .string(let secret)? = try WireValue(json: String(first.drop { $0 != "{" }))["secret"] {
            #expect(!kept.contains(secret.dropFirst(6)))
        }
    }

    @Test("an id that is a UUID is the same in any case, in the path and in the body; other text is not")
    func cases() async throws {
        let rig = try await ServiceRig.make()
        let id = "7e3fb20b-4cdb-47cc-936d-99d65f608138"
        func send(_ key: String, _ action: String, to customer: String, _ body: String) async throws -> HTTPResponse {
            try await rig.send(
                "POST", "/v1/customers/\(customer)/actions/\(action)?environment=production", key: rig.admin,
                headers: [("Idempotency-Key", key)], body: Array(body.utf8))
        }
        let grant = #"{"entitlement":"premium","reason":"r"}"#
        let granted = try await send("a", "grant", to: id, grant)
        let grantedAgain = try await send("a", "grant", to: id.uppercased(), grant)
        #expect(granted.status == 200 && grantedAgain.text == granted.text, "\(grantedAgain.text)")
        let linked = try await send("b", "link", to: "c-1", #"{"customer_id":"\#(id.uppercased())"}"#)
        let linkedAgain = try await send("b", "link", to: "c-1", #"{"customer_id":"\#(id)"}"#)
        #expect(linked.status == 200 && linkedAgain.text == linked.text, "\(linkedAgain.text)")
        let reason = #"{"entitlement":"premium","reason":"R"}"#
        #expect(try await send("a", "grant", to: id, reason).verdict == "409 idempotency_conflict")
        let other = try await send("b", "link", to: "C-1", #"{"customer_id":"\#(id)"}"#)
        #expect(other.verdict == "409 idempotency_conflict")
    }

    @Test("what is kept of a forgetting names nobody, and is found by nobody who tries ids and has not the key")
    func forgotten() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.command("grant", "ann@example.com", #"{"entitlement":"premium","reason":"r"}"#)
        let (path, body) = ("/v1/customers/ann@example.com/actions/forget", #"{"confirm":"ann@example.com"}"#)
        func send(_ body: String) async throws -> HTTPResponse {
            try await rig.send(
                "POST", path, key: rig.admin, headers: [("Idempotency-Key", "4711")], body: Array(body.utf8))
        }
        let dry = try await send(#"{"dry_run":true}"#)
        #expect(dry.status == 200 && dry.text.contains("ann@"), "\(dry.text)")
        let first = try await send(body)
        #expect(first.status == 200, "\(first.text)")
        #expect(try await send(#"{"dry_run":true}"#).verdict == "409 idempotency_conflict")
        let row = try await rig.pool.withConnection { connection in
            let rows = try connection.query(
                "SELECT command_key, request_sha256, customer_sha256 IS NULL, convert_from(answer, 'UTF8') FROM command_key"
            )
            #expect(rows.rows.count == 1)
            return (try rows.row(0).text(0), try rows.row(0).bytes(1), try rows.row(0).bool(2), try rows.row(0).text(3))
        }
        #expect(!row.0.contains("4711") && row.2 && !row.3.contains("ann@"), "\(row)")
        #expect(row.1 != SHA256.hash(Array("POST \(path)\n\(body)".utf8)))
        // Whoever comes anew under the id is somebody else, whom a repetition leaves alone.
        _ = try await rig.command("grant", "ann@example.com", #"{"entitlement":"premium","reason":"r"}"#)
        rig.wait()
        #expect(try await send(body).text == first.text)
        #expect(try await rig.holdings("ann@example.com").count == 1)
    }
}

extension ServiceRig {
    fileprivate struct Counts: Equatable {
        let events: Int64
        let messages: Int64
    }

    /// How much there is in the log, and to be told.
    fileprivate func counts() async throws -> Counts {
        try await pool.withConnection { connection in
            let row = try connection.query(
                "SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM webhook_message WHERE type = 7)"
            ).row(0)
            return Counts(events: try row.int(0), messages: try row.int(1))
        }
    }

    /// What is kept under keys.
    fileprivate func kept() async throws -> String {
        try await pool.withConnection { connection in
            try connection.query(
                "SELECT coalesce(string_agg(convert_from(answer, 'UTF8'), ' '), '') FROM command_key"
            ).row(0).text(0)
        }
    }
}
