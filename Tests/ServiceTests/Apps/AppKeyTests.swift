import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// What a secret key hears and does that was made for one of two apps.
@Suite("Keys of one app", .serialized, .timeLimit(.minutes(5)))
struct AppKeyTests {
    /// Has purchases in both apps, and is linked with an Apple account in each.
    private static let both = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
    /// Has purchases in the other app alone.
    private static let foreign = "1f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f1"
    /// Nobody, with an id as long as those.
    private static let nobody = "2f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f2"
    /// Whatever would tell of the other app.
    private static let secrets = ["555000000000001", "555000000000002", "777000001", "com.example.lifetime", foreign]

    private struct Scene {
        let rig: ServiceRig
        /// Bound to the first app, may do everything else.
        let key: String
        /// The positions of events about the other app, and of a transfer in it.
        let foreign: ClosedRange<Int64>
        let foreignTransfer: Int64

        func get(_ target: String) async throws -> HTTPResponse { try await rig.send("GET", target, key: key) }
    }

    private static func scene() async throws -> Scene {
        let passes = PassKeyRing([try ServiceRig.passKey()])
        let rig = try await ServiceRig.withCatalog(passKeys: passes, hasOtherApp: true)
        let key = try await rig.keys.create(name: "x", scopes: [.admin], bundleID: ServiceRig.bundleID).secret
        try await rig.notify(HeldTransaction(id: "1", token: both, appTransaction: "701"), uuid: "n1")
        let first = try await rig.head() + 1
        for (id, token) in [("555000000000001", both), ("555000000000002", foreign)] {
            var transaction = HeldTransaction.lifetime(id, token: token, appTransaction: "777000001")
            transaction.bundleID = ServiceRig.otherBundleID
            try await rig.notify(transaction, uuid: "n\(id)")
        }
        let transfer = try await rig.transfer("555000000000002", from: foreign, to: "c-9")
        #expect(transfer.status == 200, "\(transfer.text)")
        let moved = try await rig.head()
        _ = try await rig.command("transfer", "c-9", #"{"undo":\#(moved)}"#)
        _ = try await rig.ledger.writer.append(
            EventDraft(
                StoreRequestFact(
                    bundleID: ServiceRig.otherBundleID, originalTransactionID: "555000000000002",
                    content: .consumption(transactionID: "555000000000002", nil), outcome: .tooLate),
                in: .production, source: .serverAPI))
        let last = try await rig.head()
        #expect(try await rig.link("apple:777000001", to: both).status == 200)
        return Scene(rig: rig, key: key, foreign: first...last, foreignTransfer: moved)
    }

    private static let questions = ["entitlements", "timeline", "explain", "events"]

    @Test("of a customer of both apps it hears what is about its own, of one of the other what it hears of nobody")
    func customers() async throws {
        let scene = try await Self.scene()
        let at = "at=\(ServiceRig.noon)"
        #expect(try await scene.rig.entitlements(Self.both).map(\.id) == ["lifetime", "premium"])
        let answer = try await scene.get("/v1/customers/\(Self.both)/entitlements").json
        #expect(answer["entitlements"]?.count == 1 && answer["entitlements"]?[0]?["id"] == .string("premium"))
        for question in Self.questions {
            for query in ["?\(at)", "?\(at)&known_at=\(scene.foreign.upperBound)"] {
                func path(_ customer: String) -> String { "/v1/customers/\(customer)/\(question)\(query)" }
                let text = try await scene.get(path(Self.both)).text
                // The catalog is told to everybody, and explanations look into it.
                for secret in Self.secrets where question != "explain" || secret != "com.example.lifetime" {
                    #expect(!text.contains(secret), "\(question): \(text)")
                }
                let foreign = try await scene.get(path(Self.foreign))
                let nobody = try await scene.get(path(Self.nobody))
                #expect(foreign.status == 200)
                #expect(foreign.text == nobody.text.replacing(Self.nobody, with: Self.foreign), "\(question)")
                #expect(foreign.header("ETag") == nobody.header("ETag"))
            }
        }
    }

    @Test("as RevenueCat would show them, customers are told of its own app alone, too")
    func revenueCat() async throws {
        let scene = try await Self.scene()
        func path(_ customer: String) -> String { "/revenuecat/v1/subscribers/\(customer)" }
        let (own, whole) = (try await scene.get(path(Self.both)), try await scene.rig.get(path(Self.both)))
        #expect(whole.text.contains("com.example.lifetime"))
        #expect(try own.json["subscriber"]?["entitlements"]?["premium"] != nil)
        for secret in Self.secrets { #expect(!own.text.contains(secret), "\(own.text)") }
        let (foreign, nobody) = (try await scene.get(path(Self.foreign)), try await scene.get(path(Self.nobody)))
        #expect(foreign.status == 200)
        #expect(foreign.text == nobody.text.replacing(Self.nobody, with: Self.foreign))
    }

    @Test("what is another app's is looked up in vain, in the same words as what does not exist")
    func lookups() async throws {
        let scene = try await Self.scene()
        let rig = scene.rig
        func same(_ foreign: String, _ missing: String, _ pairs: [(String, String)]) async throws {
            let (one, other) = (try await scene.get(foreign), try await scene.get(missing))
            #expect(try await rig.get(foreign).status == 200)
            var words = other.text
            for (known, unknown) in pairs { words = words.replacing(unknown, with: known) }
            #expect(one.status == other.status && one.anonymous == words.anonymous, "\(foreign): \(one.text)")
        }
        try await same("/v1/subscriptions/555000000000001", "/v1/subscriptions/333", [("555000000000001", "333")])
        for (name, foreign, missing) in [
            ("transaction_id", "555000000000001", "333"), ("app_account_token", Self.foreign, Self.nobody),
            ("app_transaction_id", "777000001", "333"),
        ] {
            try await same("/v1/customers?\(name)=\(foreign)", "/v1/customers?\(name)=\(missing)", [])
        }
        let own = try await scene.get("/v1/customers?app_account_token=\(Self.both)").json
        #expect(own["items"]?.count == 1 && own["items"]?[0]?["original_transaction_id"] == .string("1"))
        let head = try await rig.head()
        for position in scene.foreign {
            for path in ["", "/proof"] {
                let foreign = try await scene.get("/v1/events/\(position)\(path)")
                let missing = try await scene.get("/v1/events/\(head + 9)\(path)")
                #expect(foreign.verdict == "404 not_found")
                #expect(
                    foreign.anonymous == missing.text.replacing("\(head + 9)", with: "\(position)").anonymous, "\(path)"
                )
                #expect(try await rig.get("/v1/events/\(position)\(path)").status == 200)
            }
        }
        #expect(try await scene.get("/v1/events/\(scene.foreign.lowerBound - 1)").status == 200)
        // Who is linked with whom is shown to nobody who does not name them.
        #expect(try await scene.get("/v1/events/\(head)").verdict == "404 not_found")
    }

    @Test("the feed holds what is about the app and the catalog, page by page")
    func feed() async throws {
        let scene = try await Self.scene()
        try await scene.rig.notify(
            HeldTransaction(id: "2", original: "1", from: 365, until: 400, token: Self.both, reason: "RENEWAL"),
            uuid: "n2")
        var types: [WireValue] = []
        for limit in [1, 2, 1000] {
            var after: Int64 = 0
            var told: [WireValue] = []
            while true {
                let response = try await scene.get("/v1/events?limit=\(limit)&after=\(after)")
                for secret in Self.secrets where secret != "com.example.lifetime" {
                    #expect(!response.text.contains(secret))
                }
                guard case .array(let items) = try response.json["items"] else { return #expect(Bool(false)) }
                #expect(items.count <= limit)
                told += items.compactMap { $0["type"] }
                guard try response.json["has_more"] == .bool(true) else { break }
                guard case .int(let next) = try response.json["next_after"], next > after else {
                    return #expect(Bool(false), "\(response.text)")
                }
                after = next
            }
            types = told
            #expect(types.count == 3 && types.first == .string("catalog_applied"), "\(types)")
        }
    }

    @Test("one of an environment and an app is held to both, in one way")
    func bothBounds() async throws {
        let scene = try await Self.scene()
        var sandbox = HeldTransaction(id: "5", token: Self.both, environment: "Sandbox")
        try await scene.rig.notify(sandbox, uuid: "s1")
        let shown = try await scene.rig.head()
        sandbox = .lifetime("555000000000005", token: Self.both).with {
            ($0.environment, $0.bundleID) = ("Sandbox", ServiceRig.otherBundleID)
        }
        try await scene.rig.notify(sandbox, uuid: "s2")
        let key = try await scene.rig.keys.create(
            name: "b", scopes: [.admin], environment: .sandbox, bundleID: ServiceRig.bundleID
        ).secret
        func get(_ path: String) async throws -> HTTPResponse { try await scene.rig.send("GET", path, key: key) }
        let items = try await get("/v1/events").json["items"]
        #expect(items?.count == 2 && items?[1]?["position"] == .int(shown))
        #expect(try await get("/v1/customers?app_account_token=\(Self.both)").json["items"]?.count == 1)
        let path = "/v1/customers/\(Self.both)/entitlements"
        #expect(try await get(path).json["entitlements"]?.count == 1)
        #expect(try await get(path + "?environment=production").verdict == "403 forbidden")
        #expect(try await get("/v1/subscriptions/1").status == 404, "it is in production")
        for position in 1...(try await scene.rig.head()) {
            let status = try await get("/v1/events/\(position)/proof").status
            #expect(status == (position == shown || position == 2 ? 200 : 404), "\(position)")
        }
    }

    @Test("it changes nothing that holds in other apps, and nothing of theirs")
    func commands() async throws {
        let scene = try await Self.scene()
        let rig = scene.rig
        let head = try await rig.head()
        func command(_ action: String, _ customer: String, _ body: String) async throws -> HTTPResponse {
            try await rig.command(action, customer, body, key: scene.key)
        }
        for (action, body) in [
            ("grant", #"{"entitlement":"premium","reason":"x"}"#), ("revoke_grant", #"{"grant_id":"g","reason":"x"}"#),
            ("link", #"{"customer_id":"\#(Self.foreign)"}"#), ("link", #"{"undo":\#(head)}"#),
        ] {
            #expect(try await command(action, Self.both, body).verdict == "403 forbidden", "\(action)")
        }
        #expect(try await scene.get("/metrics").verdict == "403 forbidden")
        for dryRun in [#","dry_run":true"#, ""] {
            let answers = try await ["555000000000001", "333"].asyncMap { original in
                try await command(
                    "transfer", Self.both, #"{"original_transaction_id":"\#(original)","to":"c-2"\#(dryRun)}"#)
            }
            #expect(answers[0].verdict == "404 not_found" && answers[0].anonymous == answers[1].anonymous)
        }
        let undone = try await ["\(scene.foreignTransfer)", "\(head + 99)"].asyncMap {
            try await command("transfer", "c-9", #"{"undo":\#($0)}"#)
        }
        #expect(undone[0].verdict == "404 not_found" && undone[0].anonymous == undone[1].anonymous)
        #expect(try await rig.head() == head)
        // What is its own app's it does move, and hears of nothing else by it.
        for dryRun in [#","dry_run":true"#, ""] {
            let moved = try await command(
                "transfer", Self.both, #"{"original_transaction_id":"1","to":"\#(Self.foreign)"\#(dryRun)}"#)
            #expect(moved.status == 200 && !moved.text.contains("lifetime"), "\(moved.text)")
            #expect(try ServiceRig.side(moved.json, "to", "before") == [])
            #expect(try ServiceRig.side(moved.json, "to", "after") == ["premium active paid_period"])
        }
        let position = try await rig.head()
        let undo = try await command("transfer", Self.foreign, #"{"undo":\#(position)}"#)
        #expect(undo.status == 200 && !undo.text.contains("lifetime"), "\(undo.text)")
    }

    @Test("grants hold in every app: it reads those of a customer that it names")
    func grants() async throws {
        let scene = try await Self.scene()
        let granted = try await scene.rig.command(
            "grant", "friend", #"{"entitlement":"premium","reason":"a friend"}"#)
        #expect(granted.status == 200)
        scene.rig.wait()
        let answer = try await scene.get("/v1/customers/friend/entitlements").json
        #expect(answer["entitlements"]?[0]?["source"] == .string("grant"))
        #expect(try await scene.get("/v1/events/\(scene.rig.head())").status == 404, "the feed names nobody by it")
        let sandbox = try await scene.get("/v1/customers/friend/entitlements?environment=sandbox").json
        #expect(sandbox["also_in"] == .array([.string("production")]))
        let elsewhere = try await scene.get("/v1/customers/\(Self.foreign)/entitlements?environment=sandbox").json
        #expect(elsewhere["also_in"] == nil)
    }

    @Test("reconciling, it and the tokens made with it hear of their app alone, and so does whoever they link")
    func reconciling() async throws {
        let scene = try await Self.scene()
        let rig = scene.rig
        let token = try await rig.token(Self.both, key: scene.key)
        // An Apple account of whoever holds the key.
        let posted = Posted(
            transactions: [try rig.sign(HeldTransaction(id: "9", appTransaction: "709"))],
            appTransaction: try rig.signAppTransaction("709"))
        for key in [scene.key, token] {
            let answer = try await rig.answer(Self.both, Posted(), key: key)
            #expect(answer.entitlements.map(\.id) == ["premium"] && answer.proof != .none)
            #expect(answer.timeline.map(\.id) == ["premium"] && answer.pass != nil)
            let body = try WireJSON.encode(
                ReconcileRequest(app: ServiceRig.bundleID, environment: nil, signedTransactions: [], wantsFacts: true))
            let text = try await rig.send(
                "POST", "/v1/customers/\(Self.both)/reconcile", key: key, body: body
            ).text
            #expect(!text.contains("555000000000001") && !text.contains("777000001"), "\(text)")
        }
        let linked = try await rig.answer(Self.both, posted, key: token)
        #expect(linked.verdicts == ["recorded"] && linked.entitlements.map(\.id) == ["premium"])
        let app = try await rig.answer(Self.both, posted, key: rig.publishableKey())
        #expect(app.proof == .appTransaction && app.entitlements.map(\.id) == ["premium"])
        // A token that is good for every app links for every app.
        let wide = Posted(appTransaction: try rig.signAppTransaction("708"))
        #expect(try await rig.answer(Self.both, wide, key: rig.token(Self.both)).entitlements.count == 2)
        #expect(try await rig.answer(Self.both, wide, key: rig.publishableKey()).entitlements.count == 2)
    }

    @Test("what is kept in memory for others is not asked for it, and nothing of the other app changes its tag")
    func memory() async throws {
        let scene = try await Self.scene()
        let instance = try await ServedInstance.start(on: scene.rig)
        var tags: Set<String?> = []
        for id in ["555000000000003", "555000000000004"] {
            for _ in 0..<3 {
                let all = try await instance.read(Self.both, key: scene.rig.admin)
                let own = try await instance.read(Self.both, key: scene.key)
                #expect(all.body.contains("lifetime") && !own.body.contains("lifetime"), "\(own)")
                tags.insert(own.headers["ETag"])
            }
            var transaction = HeldTransaction.lifetime(id, token: Self.both)
            transaction.bundleID = ServiceRig.otherBundleID
            try await scene.rig.notify(transaction, uuid: id)
        }
        #expect(tags.count == 1 && tags != [nil])
        await instance.stop()
    }
}

extension HTTPResponse {
    /// The body without the id of the request.
    var anonymous: String { text.anonymous }
}

extension String {
    fileprivate var anonymous: String { replacing(/"request_id":"[^"]*"/, with: "") }
}

extension Array {
    fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async throws -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await transform(element)) }
        return values
    }
}
