import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

@Suite("Customer tokens over HTTP", .serialized, .timeLimit(.minutes(5)))
struct TokenTests {
    private static let path = "/v1/customers/c-1/tokens"

    private static func ask(
        _ rig: ServiceRig, _ body: String = "", target: String = path, key: String? = nil, idempotency: String? = nil
    ) async throws -> HTTPResponse {
        try await rig.send(
            "POST", target, key: key ?? rig.admin, headers: idempotency.map { [("Idempotency-Key", $0)] } ?? [],
            body: Array(body.utf8))
    }

    @Test("a token is for the customer, the environment and the time asked for, and says so")
    func answers() async throws {
        let rig = try await ServiceRig.make()
        let table: [(body: String, query: String, environment: String, expiresAt: String)] = [
            ("", "", "production", "2026-11-20T13:00:00.000Z"),
            ("{}", "?environment=sandbox", "sandbox", "2026-11-20T13:00:00.000Z"),
            (#"{"expires_in":60,"colour":"red"}"#, "", "production", "2026-11-20T12:01:00.000Z"),
            (#"{"expires_in":86400,"environment":"sandbox"}"#, "", "sandbox", "2026-11-21T12:00:00.000Z"),
            (#"{"expires_in":null,"environment":null}"#, "", "production", "2026-11-20T13:00:00.000Z"),
            (#"{"environment":"sandbox"}"#, "?environment=sandbox", "sandbox", "2026-11-20T13:00:00.000Z"),
        ]
        var issued: [String: String] = [:]
        for row in table {
            let answer = try await Self.ask(rig, row.body, target: Self.path + row.query)
            #expect(answer.status == 200, "\(row): \(answer.text)")
            #expect(answer.header("Cache-Control") == "no-store")
            guard case .object(let members) = try answer.json, case .string(let token) = members["token"] else {
                Issue.record("\(answer.text)")
                continue
            }
            #expect(token.hasPrefix("rc_"))
            let accountToken = try members["app_account_token"].map { try #require($0.textValue) }
            #expect(accountToken.map { CustomerID.isUUID($0) && $0 == $0.lowercased() } == true)
            #expect(issued[row.environment] ?? accountToken == accountToken, "the same at each token")
            issued[row.environment] = accountToken
            #expect(
                members == [
                    "object": .string("customer_token"), "token": .string(token), "customer_id": .string("c-1"),
                    "environment": .string(row.environment), "expires_at": .string(row.expiresAt),
                    "app_account_token": .string(accountToken ?? ""),
                ])
        }
        let head = try await rig.head()
        #expect(try await rig.eventTypes(after: 1) == ["linked", "linked"], "one an environment")
        let uuid = try await Self.ask(rig, target: "/v1/customers/\(Purchase.customer.uppercased())/tokens")
        #expect(try uuid.json["customer_id"] == .string(Purchase.customer))
        #expect(try uuid.json["app_account_token"] == .string(Purchase.customer), "an id that is a UUID needs no other")
        #expect(try await rig.head() == head, "no event, and nobody's id, is kept for it")
    }

    @Test("a customer whose id is no UUID is issued one, once, and what bears it is theirs")
    func accountToken() async throws {
        let rig = try await ServiceRig.withCatalog()
        let before = try await rig.head()
        let instances = [rig.application, rig.secondInstance(), rig.secondInstance()]
        let issued = try await withThrowingTaskGroup(of: String.self) { group in
            for number in 0..<24 {
                group.addTask {
                    let head = HTTPRequestHead(
                        method: "POST", target: Self.path, headers: [("Authorization", "Bearer " + rig.admin)])
                    let answer = await instances[number % instances.count].handle(try HTTPRequest(head: head))
                    return try answer.json["app_account_token"]?.textValue ?? answer.text
                }
            }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        let token = try #require(issued.first)
        #expect(issued.count == 1 && CustomerID.isUUID(token))
        #expect(try await rig.eventTypes(after: before) == ["linked"])
        let event = try await rig.get("/v1/events/\(before + 1)").json
        #expect(event["facts"]?["cause"] == .string("issued"))
        try await rig.notify(HeldTransaction(id: "1", token: token.uppercased()), uuid: "n1")
        #expect(try await rig.entitlements("c-1").map(\.id) == ["premium"])
        #expect(try await rig.entitlements(token).map(\.id) == ["premium"], "the token is an alias")
        #expect(try await rig.get("/v1/customers?app_account_token=\(token)").text.contains(#""customer_id":"c-1""#))
    }

    @Test("who was given away is issued another token, and one that a backend linked is not handed out")
    func lostAccountToken() async throws {
        let rig = try await ServiceRig.make()
        func issued() async throws -> String { try await Self.ask(rig).json["app_account_token"]?.textValue ?? "" }
        _ = try await rig.command("link", "c-1", #"{"app_account_token":"\#(Purchase.customer)"}"#)
        let first = try await issued()
        #expect(first != Purchase.customer)
        #expect(try await issued() == first)
        _ = try await rig.command("link", "c-2", #"{"app_account_token":"\#(first)"}"#)
        let second = try await issued()
        #expect(second != first && CustomerID.isUUID(second))
        #expect(try await issued() == second)
        // Somebody else is linked with it by mistake: once that is taken back, it is theirs as it was issued.
        let mistake = try await rig.command("link", "c-3", #"{"app_account_token":"\#(second)"}"#).json["position"]
        guard case .int(let position)? = mistake else { return #expect(Bool(false), "no position") }
        let undone = try await rig.command("link", "c-3", #"{"undo":\#(position)}"#).json["position"]
        guard case .int(let restored)? = undone else { return #expect(Bool(false), "no position") }
        #expect(try await rig.get("/v1/events/\(restored)").json["facts"]?["cause"] == .string("issued"))
        #expect(try await issued() == second)
        // The customer becomes another's alias: what they buy goes along.
        _ = try await rig.command("link", "c-9", #"{"customer_id":"c-1"}"#)
        #expect(try await issued() == second)
    }

    @Test("a token that claims a longer life than may be given, or to begin later, is refused")
    func longLives() async throws {
        let rig = try await ServiceRig.make()
        let now = rig.clock.now
        let customer = try #require(CustomerID("c-1"))
        let table: [(from: Int64, seconds: Int64, isGood: Bool)] = [
            (0, 86_400, true), (-3600, 86_400, true), (30, 60, true), (0, 86_401, false), (0, 31_536_000, false),
            (3600, 60, false), (-86_400, 172_800, false), (31_536_000, 60, false),
        ]
        for row in table {
            let issuedAt = now.adding(milliseconds: row.from * 1000)
            let text = try await rig.ledger.tokens.make(
                CustomerTokenClaims(
                    customerID: customer, environment: .production, bundleID: nil, issuedAt: issuedAt,
                    expiresAt: issuedAt.adding(milliseconds: row.seconds * 1000)))
            let answer = try await rig.reconcile("c-1", Posted(), key: text)
            #expect(answer.status == (row.isGood ? 200 : 401), "\(row): \(answer.text)")
            if !row.isGood { #expect(answer.text.contains("claims a longer life than may be given"), "\(row)") }
        }
    }

    @Test("the environment and the app of the key are those of its tokens")
    func boundKeys() async throws {
        let rig = try await ServiceRig.make()
        let key = try await rig.keys.create(
            name: "k", scopes: [.customersWrite], environment: .sandbox, bundleID: "com.example.app"
        ).secret
        let answer = try await Self.ask(rig, key: key)
        guard case .string(let text) = try answer.json["token"],
            case .valid(let token) = try await rig.ledger.tokens.verify(text, now: rig.clock.now)
        else {
            Issue.record("\(answer.text)")
            return
        }
        #expect(token.environment == .sandbox && token.bundleID == "com.example.app")
    }

    @Test("what cannot be is refused by name")
    func refusals() async throws {
        let rig = try await ServiceRig.make()
        let table: [(body: String, query: String, verdict: String, param: String?)] = [
            (#"{"expires_in":59}"#, "", "422 unprocessable", "expires_in"),
            (#"{"expires_in":86401}"#, "", "422 unprocessable", "expires_in"),
            (#"{"expires_in":1e30}"#, "", "422 unprocessable", "expires_in"),
            (#"{"expires_in":60.5}"#, "", "400 malformed_request", "expires_in"),
            (#"{"expires_in":"3600"}"#, "", "400 malformed_request", "expires_in"),
            (#"{"expires_in":true}"#, "", "400 malformed_request", "expires_in"),
            (#"{"environment":"xcode"}"#, "", "400 malformed_request", "environment"),
            (#"{"environment":1}"#, "", "400 malformed_request", "environment"),
            ("", "?environment=xcode", "400 malformed_request", "environment"),
            (#"{"environment":"sandbox"}"#, "?environment=production", "400 malformed_request", "environment"),
            ("[]", "", "400 malformed_request", nil), ("{", "", "400 malformed_request", nil),
        ]
        for row in table {
            let answer = try await Self.ask(rig, row.body, target: Self.path + row.query)
            #expect(answer.verdict == row.verdict, "\(row)")
            #expect(try answer.json["param"] == row.param.map { .string($0) }, "\(row)")
        }
        #expect(try await Self.ask(rig, target: "/v1/customers/%01/tokens").verdict == "400 malformed_request")
    }

    @Test("under an idempotency key the same token is answered for a day, and another request is refused")
    func idempotency() async throws {
        let rig = try await ServiceRig.make()
        let first = try await Self.ask(rig, idempotency: "a")
        rig.clock.now = try instant("2026-11-21T11:59:59.999Z")
        #expect(try await Self.ask(rig, idempotency: "a").body == first.body)
        #expect(try await Self.ask(rig).body != first.body)
        for (body, target) in [
            (#"{"expires_in":60}"#, Self.path), ("", Self.path + "?environment=sandbox"),
            ("", "/v1/customers/c-2/tokens"),
        ] {
            let other = try await Self.ask(rig, body, target: target, idempotency: "a")
            #expect(other.verdict == "409 idempotency_conflict", "\(body) \(target)")
        }
        let catalog = try await rig.put(ServiceRig.proCatalog, headers: [("Idempotency-Key", "a")])
        #expect(catalog.verdict == "409 idempotency_conflict")
        let stranger = try await rig.keys.create(name: "other", scopes: [.customersWrite]).secret
        #expect(try await Self.ask(rig, key: stranger, idempotency: "a").body != first.body)
        rig.clock.now = try instant("2026-11-21T12:00:00.000Z")
        #expect(try await Self.ask(rig, #"{"expires_in":60}"#, idempotency: "a").status == 200)
    }

    @Test("idempotency keys that no longer count are swept away behind the service")
    func sweep() async throws {
        let rig = try await ServiceRig.make()
        _ = try await Self.ask(rig, idempotency: "old")
        rig.clock.now = try instant("2026-11-21T12:00:00.000Z")
        _ = try await Self.ask(rig, idempotency: "new")
        let sweep = Task {
            await CommandKeySweep(
                keys: rig.ledger.commandKeys, watch: rig.watch(), logger: rig.context.logger, now: rig.context.now
            ).run()
        }
        var kept: [String] = []
        repeat {
            kept = try await rig.pool.withConnection { connection in
                try connection.query("SELECT command_key FROM command_key").rows.map { try $0.text(0) }
            }
        } while kept.count > 1
        #expect(kept.first?.hasSuffix(rig.context.sha256(Array("new".utf8)).hex) == true)
        sweep.cancel()
        await sweep.value
    }

    @Test("a token reads nothing and changes nothing, an expired one is told so, a forged one is unknown")
    func bearers() async throws {
        let rig = try await ServiceRig.make()
        guard case .string(let token) = try await Self.ask(rig).json["token"] else {
            Issue.record("no token")
            return
        }
        let routes = Route.all.filter { if case .scope = $0.access { true } else { false } }
        func answers(_ text: String) async throws -> [HTTPResponse] {
            var answers: [HTTPResponse] = []
            for route in routes {
                let target = route.template.replacing("{id}", with: "c-1").replacing("{position}", with: "1")
                answers.append(try await rig.send(route.method, target, key: text))
            }
            return answers
        }
        for answer in try await answers(token) {
            #expect(answer.verdict == "403 forbidden")
            #expect(answer.text.contains("A customer token may only reconcile"))
        }
        for answer in try await answers(token + "x") {
            #expect(answer.verdict == "401 unauthenticated")
            #expect(answer.header("WWW-Authenticate") == #"Bearer error="invalid_token""#)
            #expect(!answer.text.contains("expired"))
        }
        rig.clock.now = try instant("2026-11-20T13:00:00.000Z")
        for answer in try await answers(token) {
            #expect(answer.verdict == "401 unauthenticated")
            #expect(answer.header("WWW-Authenticate") == #"Bearer error="invalid_token""#)
            #expect(answer.text.contains("customer token has expired; ask your server for a new one"))
        }
        #expect(rig.log.lines.allSatisfy { !$0.contains(token) && !$0.contains("c-1") })
    }
}

extension WireValue {
    /// A text; `nil` for anything else.
    fileprivate var textValue: String? {
        if case .string(let text) = self { text } else { nil }
    }
}
