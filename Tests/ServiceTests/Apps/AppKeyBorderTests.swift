import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// What somebody who holds a key of one app tries in order to hear of another app, or to change something there.
@Suite("Attempts with a key of one app", .serialized, .timeLimit(.minutes(5)))
struct AppKeyBorderTests {
    private static let people = (1...3).map { "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f\($0)" }

    private static func rig() async throws -> ServiceRig {
        try await .withCatalog(passKeys: PassKeyRing([ServiceRig.passKey()]), hasOtherApp: true)
    }

    /// A key of the other app, whose customers are not to be heard of by the first one's.
    private static func key(
        _ rig: ServiceRig, environment: StoreEnvironment? = nil, bundleID: String? = ServiceRig.bundleID
    ) async throws -> String {
        try await rig.keys.create(name: "x", scopes: [.admin], environment: environment, bundleID: bundleID).secret
    }

    private static func foreign(_ id: String, token: String? = nil, appTransaction: String? = nil) -> HeldTransaction {
        .lifetime(id, token: token, appTransaction: appTransaction).with { $0.bundleID = ServiceRig.otherBundleID }
    }

    private static func facts(
        _ rig: ServiceRig, _ customer: String, key: String, environment: StoreEnvironment = .production,
        app: String = ServiceRig.bundleID
    ) async throws -> FactsCopy {
        let body = try WireJSON.encode(
            ReconcileRequest(app: app, environment: .init(environment), signedTransactions: [], wantsFacts: true))
        let answer = try await rig.send("POST", "/v1/customers/\(customer)/reconcile", key: key, body: body)
        try #require(answer.status == 200, "\(answer.text)")
        let document = try WireJSON.decode(ReconciliationDocument.self, from: answer.body)
        return try #require(document.facts)
    }

    @Test("the facts a device may keep say of whom another app or environment knows what they say of nobody")
    func numbersOfFacts() async throws {
        let rig = try await Self.rig()
        for (index, person) in Self.people.prefix(2).enumerated() {
            try await rig.notify(Self.foreign("55\(index)", token: person), uuid: "n\(index)")
        }
        let bound = try await Self.key(rig)
        let sandbox = try await Self.key(rig, environment: .sandbox, bundleID: nil)
        func told(_ person: String) async throws -> [FactsCopy] {
            let token = try await rig.token(person, key: bound)
            return [
                try await Self.facts(rig, person, key: bound), try await Self.facts(rig, person, key: token),
                try await Self.facts(rig, person, key: sandbox, environment: .sandbox),
            ]
        }
        for isLinked in [false, true] {
            if isLinked { #expect(try await rig.link(Self.people[0], to: Self.people[1]).status == 200) }
            let nobody = try await told(Self.people[2])
            for person in Self.people.prefix(2) {
                for (known, unknown) in zip(try await told(person), nobody) {
                    #expect(known.encoded == unknown.encoded)
                    #expect(known.identities == [person: 1] && unknown.identities == [Self.people[2]: 1])
                }
            }
        }
        // Whoever has something here is found in the facts by the number that goes with the id.
        try await rig.notify(HeldTransaction(id: "1", token: Self.people[0], appTransaction: "701"), uuid: "own")
        let copy = try await Self.facts(rig, Self.people[0], key: bound)
        let facts = try #require(copy.facts)
        #expect(facts.answers(at: day(1)).map(\.entitlementID) == ["premium"])
        let number = try #require(copy.identities[Self.people[0]])
        #expect(facts.ownership.customer(of: IdentityRef(number)) == facts.customer)
        #expect(facts.originals["1"]?.transactions.map(\.fact.accountToken) == [IdentityRef(number)])
    }

    @Test("the facts of an event bear no number of the ledger")
    func numbersOfEvents() async throws {
        let rig = try await Self.rig()
        try await rig.notify(HeldTransaction(id: "1", token: Self.people[0], appTransaction: "701"), uuid: "n1")
        try await rig.notify(Self.foreign("555", token: Self.people[1]), uuid: "n2")
        let key = try await Self.key(rig)
        var told: [WireValue?] = []
        for target in [Self.people[1], Self.people[2]] {
            let moved = try await rig.command(
                "transfer", Self.people[0], #"{"original_transaction_id":"1","to":"\#(target)"}"#, key: key)
            #expect(moved.status == 200, "\(moved.text)")
            let position = try await rig.head()
            let events = [
                try await rig.send("GET", "/v1/events/\(position)", key: key).json,
                try await rig.send("GET", "/v1/events?after=\(position - 1)", key: key).json["items"]?[0],
                try await rig.send(
                    "GET", "/v1/customers/\(Self.people[0])/events?after=\(position - 1)", key: key
                ).json["items"]?[0],
            ]
            told += events.map { $0?["facts"]?["customer"] }
            // Whoever may hear of everything still tells people apart by the ledger's numbers.
            #expect(try await rig.get("/v1/events/\(position)").json["facts"]?["customer"] != .string("1"))
            #expect(try await rig.command("transfer", Self.people[0], #"{"undo":\#(position)}"#).status == 200)
        }
        #expect(told == Array(repeating: .string("1"), count: 6))
        let bought = try await rig.send("GET", "/v1/events?limit=2", key: key).json["items"]?[1]?["facts"]?[
            "transaction"]
        #expect(bought?["app_account_token"] == .string("1") && bought?["app_transaction"] == .string("2"))
    }

    /// How something of the other app comes to be an Apple account's of this one.
    enum Gift: CaseIterable, Sendable { case transfer, accountToken, claim, chain }

    @Test(
        "a login with a token of one app moves on no purchase of another app that the Apple account owns",
        arguments: Gift.allCases)
    func foreignPurchases(gift: Gift) async throws {
        let rig = try await Self.rig()
        let person = Self.people[0]
        try await rig.notify(HeldTransaction(id: "1", appTransaction: "701"), uuid: "n1")
        let account = "apple:701"
        switch gift {
        case .transfer, .chain:
            try await rig.notify(Self.foreign("555", token: person), uuid: "n2")
            var receiver = account
            if gift == .chain {
                // Another Apple account of the app, which a login with a token of the app made an alias of this one.
                let token = try await rig.token(account, key: Self.key(rig))
                _ = try await rig.answer(
                    account, Posted(appTransaction: try rig.signAppTransaction("702")), key: token)
                receiver = "apple:702"
            }
            let moved = try await rig.command(
                "transfer", person, #"{"original_transaction_id":"555","to":"\#(receiver)"}"#)
            #expect(moved.status == 200, "\(moved.text)")
            rig.wait()
        case .accountToken:
            let issued = try await rig.send("POST", "/v1/customers/\(account)/tokens", key: rig.admin).json[
                "app_account_token"]
            guard case .string(let token) = issued else { throw TestFailure("no account token") }
            try await rig.notify(Self.foreign("555", token: token), uuid: "n2")
        case .claim:
            let posted = Posted(app: ServiceRig.otherBundleID, transactions: [try rig.sign(Self.foreign("555"))])
            _ = try await rig.answer(account, posted)
        }
        let accounts = Array(repeating: WireValue.string(account), count: 2)
        #expect(try await rig.owners() == accounts)
        // Whoever holds a key of the app names somebody of their own, and brings the Apple account's app transaction.
        let thief = try await rig.token("thief", key: Self.key(rig))
        let own = Posted(appTransaction: try rig.signAppTransaction("701"))
        for _ in 0..<2 {
            let answer = try await rig.answer("thief", own, key: thief)
            #expect(answer.entitlements.isEmpty && answer.appTransaction?.status == .refused)
            #expect(answer.appTransaction?.detail?.contains("link it by a command") == true)
        }
        #expect(try await rig.owners() == accounts)
        // A token made with a key of every app links it, with all that it was given.
        let login = try await rig.answer("c-1", own, key: rig.token("c-1"))
        #expect(login.appTransaction?.status == .accepted)
        #expect(try await rig.owners() == Array(repeating: .string("c-1"), count: 2))
    }

    @Test(
        "whoever holds a key of one app keeps no Apple account of another app from its login, and no device of it out",
        arguments: [false, true])
    func loginKeptAway(isUnlinkedOnly: Bool) async throws {
        let rig = try await ServiceRig.withCatalog(
            passKeys: PassKeyRing([ServiceRig.passKey()]),
            trust: DeviceTrust(appTransactionProof: isUnlinkedOnly ? .unlinkedOnly : .on), hasOtherApp: true)
        try await rig.notify(HeldTransaction(id: "1", appTransaction: "701"), uuid: "n1")
        try await rig.notify(Self.foreign("555", token: Self.people[0]), uuid: "n2")
        try await rig.notify(Self.foreign("556", appTransaction: "801"), uuid: "n3")
        let other = try await Self.key(rig, bundleID: ServiceRig.otherBundleID)
        let issued = try await rig.send("POST", "/v1/customers/apple:701/tokens", key: rig.admin).json[
            "app_account_token"]
        guard case .string(let alias) = issued else { throw TestFailure("no account token") }
        func give(to receiver: String) async throws -> String {
            try await rig.command(
                "transfer", Self.people[0], #"{"original_transaction_id":"555","to":"\#(receiver)"}"#, key: other
            ).verdict
        }
        // By a transfer, to it or to whoever leads to it; by a token or a device's report in its name.
        for receiver in ["apple:701", "apple:702", alias] { #expect(try await give(to: receiver) == "403 forbidden") }
        let token = try await rig.send("POST", "/v1/customers/apple:701/tokens", key: other)
        #expect(token.verdict == "403 forbidden")
        let nameless = Posted(app: ServiceRig.otherBundleID, transactions: [try rig.sign(Self.foreign("557"))])
        #expect(try await rig.reconcile("apple:701", nameless, key: other).verdict == "403 forbidden")
        // To the Apple accounts that its own app knows it may give.
        #expect(try await give(to: "apple:801") == "200 -")
        let known = try await rig.send("POST", "/v1/customers/apple:801/tokens", key: other)
        #expect(known.status == 200, "\(known.text)")
        // The device before anybody logs in, and the login.
        let own = Posted(appTransaction: try rig.signAppTransaction("701"))
        let device = try await rig.answer("apple:701", own, key: rig.publishableKey())
        #expect(device.proof == .appTransaction && device.entitlements.map(\.id) == ["premium"])
        let login = try await rig.answer("c-1", own, key: rig.token("c-1", key: Self.key(rig)))
        #expect(login.appTransaction?.status == .accepted)
        #expect(login.entitlements.map(\.id) == ["premium"])
    }

    @Test("a command makes a link good for every app that a login with a token of one app had made")
    func linkedByCommand() async throws {
        let rig = try await Self.rig()
        try await rig.notify(HeldTransaction(id: "1", appTransaction: "701"), uuid: "n1")
        try await rig.notify(Self.foreign("555", token: Self.people[0]), uuid: "n2")
        let own = Posted(appTransaction: try rig.signAppTransaction("701"))
        _ = try await rig.answer(Self.people[0], own, key: rig.token(Self.people[0], key: Self.key(rig)))
        func told() async throws -> [String] {
            try await rig.answer(Self.people[0], own, key: rig.publishableKey()).entitlements.map(\.id).sorted()
        }
        #expect(try await told() == ["premium"])
        for position in [try await rig.head() + 1, try await rig.head() + 1] {
            let linked = try await rig.command("link", Self.people[0], #"{"app_transaction_id":"701"}"#)
            #expect(linked.status == 200, "\(linked.text)")
            #expect(try await rig.head() == position)
        }
        #expect(try await told() == ["lifetime", "premium"])
    }

    @Test("look-ups go on behind what another app knows, page by page, and say whether there is more")
    func lookups() async throws {
        let rig = try await Self.rig()
        for id in ["100", "101", "102", "103", "104"] {
            try await rig.notify(Self.foreign(id, token: Self.people[0], appTransaction: "801"), uuid: id)
        }
        for id in ["201", "202"] {
            try await rig.notify(HeldTransaction(id: id, token: Self.people[0], appTransaction: "701"), uuid: id)
        }
        try await rig.notify(Self.foreign("301", token: Self.people[0], appTransaction: "801"), uuid: "301")
        let scope = LogScope(environment: nil, app: AppScope(ServiceRig.bundleID))
        let reader = rig.context.reader
        for (scope, most, originals, hasMore) in [
            (scope, 1, ["201"], true), (scope, 2, ["201", "202"], false), (scope, 3, ["201", "202"], false),
            (.whole, 2, ["100", "101"], true), (.whole, 8, nil, false), (.whole, 7, nil, true),
        ] as [(LogScope, Int, [String]?, Bool)] {
            let found = try await reader.customers(.appAccountToken(Self.people[0]), only: scope, most: most)
            #expect(found.hasMore == hasMore, "\(most)")
            #expect(found.matches.count == originals?.count ?? most, "\(most)")
            if let originals { #expect(found.matches.map(\.originalTransactionID) == originals, "\(most)") }
        }
    }

    @Test("what a device of one app believes of another's products is not recorded, and takes no room of that one's")
    func drift() async throws {
        let rig = try await Self.rig()
        let person = Self.people[0]
        try await rig.notify(HeldTransaction(id: "1", token: person), uuid: "n1")
        try await rig.notify(Self.foreign("555", token: person), uuid: "n2")
        let own = try await Self.key(rig)
        let other = try await Self.key(rig, bundleID: ServiceRig.otherBundleID)
        func report(_ claims: [(String, EntitlementState)], app: String, key: String) async throws -> [String] {
            let head = try await rig.head()
            let posted = Posted(app: app, claims: claims.map { .init(productID: $0.0, state: $0.1) })
            let answer = try await rig.answer(person, posted, key: key)
            #expect(answer.drift.map(\.productID).sorted() == claims.map(\.0).sorted())
            return try await rig.eventTypes(after: head)
        }
        let junk = (0..<30).map { ("com.example.p\($0)", EntitlementState.active) }
        let (pro, lifetime) = ("com.example.pro.yearly", "com.example.lifetime")
        let sold = (junk.map(\.0) + [pro, lifetime]).map { #"{"product_id":"\#($0)","entitlements":["x"]}"# }
        #expect(try await rig.put(#"{"products":[\#(sold.joined(separator: ","))]}"#).status == 200)
        let otherID = ServiceRig.otherBundleID
        for key in [other, try await rig.token(person, key: other)] {
            #expect(try await report(junk + [(pro, .active)], app: otherID, key: key) == [])
        }
        #expect(try await report([(lifetime, .expired)], app: otherID, key: other) == ["drift"])
        // What others had recorded of the same customer is neither known already to this app nor counts against it.
        #expect(try await report(junk, app: otherID, key: rig.admin).count == 19)
        for expected in [["drift"], []] {
            #expect(try await report([(pro, .expired)], app: ServiceRig.bundleID, key: own) == expected)
        }
    }
}

extension ServiceRig {
    /// Whose the two apps' purchases are.
    fileprivate func owners() async throws -> [WireValue?] {
        try await [get("/v1/subscriptions/1").json, get("/v1/subscriptions/555").json].map {
            $0["periods"]?[0]?["customer_id"]
        }
    }
}
