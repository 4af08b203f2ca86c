import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

/// `POST /v1/subscriptions/{id}/actions/check`, with a simulated store that is asked in this process.
@Suite("Asking the store over HTTP", .serialized, .timeLimit(.minutes(5)))
struct CheckHandlerTests {
    private static let id = "2000000000000001"
    private static let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
    private static let first = HeldTransaction(id: id, until: 200, token: token)
    private static let renewal = HeldTransaction(
        id: "2000000000000002", original: id, from: 200, until: 565, signed: 200.1, token: token, reason: "RENEWAL")

    @Test("a renewal that was missed is recorded, and both sides are told before and after")
    func missedRenewal() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.first, HeldRenewal(signed: 0.2), uuid: "n1")
        try store.remember(Self.first.members)
        try store.remember(Self.renewal.members, HeldRenewal(signed: 200.1).members)
        #expect(try await rig.holdings(Self.token) == ["premium expired expired"])
        let answer = try await rig.check(Self.id)
        let json = try answer.json
        #expect(answer.status == 200, "\(answer.text)")
        #expect(json["before"]?["ledger"]?["state"] == .string("expired"))
        #expect(json["before"]?["store"]?["state"] == .string("active"))
        #expect(json["before"]?["store"]?["status"] == .int(1))
        #expect(json["after"]?["ledger"]?["state"] == .string("active"))
        #expect(json["after"]?["ledger"]?["periods"]?.count == 2)
        #expect(json["agrees"] == .bool(true) && json["refused"] == .int(0))
        #expect(
            json["recorded"]?.count == 1, "the subscription's state says all; the history adds nothing: \(answer.text)")
        #expect(try await rig.holdings(Self.token) == ["premium active paid_period"])
        let position = try await rig.head()
        #expect(json["recorded"]?[0]?["position"] == .int(position))
        let event = try await rig.get("/v1/events/\(position)").json
        #expect(event["source"] == .string("app_store_api") && event["type"] == .string("store_report"))
        #expect(answer.header("Ledger-Position") == "\(position)")
        // The store signs anew each time, and says nothing new.
        #expect(try await rig.check(Self.id).json["recorded"]?.count == 0)
        #expect(try await rig.head() == position)
        // Asked about by another of its transactions, it is the same original.
        let other = try await rig.check("2000000000000002").json
        #expect(other["original_transaction_id"] == .string(Self.id))
        #expect(other["before"]?["ledger"]?["state"] == .string("active"))
    }

    @Test("each transaction of a history that came at once is found by its id")
    func transactionsAtOnce() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let periods: [HeldTransaction] = (0..<6).map { number in
            let start = Double(number * 60)
            return HeldTransaction(
                id: "200000000000000\(number + 1)", original: Self.id, from: start, until: start + 60,
                signed: start + 0.1, token: Self.token, reason: number == 0 ? "PURCHASE" : "RENEWAL")
        }
        for period in periods { try store.remember(period.members, HeldRenewal(signed: period.signed).members) }
        let answer = try await rig.check(Self.id).json
        #expect(answer["after"]?["ledger"]?["periods"]?.count == 6)
        #expect(answer["recorded"]?.count ?? 6 < 6, "several transactions in one event")
        let reader = rig.context.reader
        let mine = try WireValue(
            json: """
                {"customer_id":"\(Self.token)","environment":"production","original_transaction_id":"\(Self.id)"}
                """)
        for period in periods {
            let found = try await rig.get("/v1/customers?transaction_id=\(period.id)").json["items"]
            #expect(found == .array([mine]), "\(period.id)")
            #expect(try await reader.original(of: period.id, in: .production) == Self.id, "\(period.id)")
        }
        #expect(try await reader.original(of: periods[2].id, in: .sandbox) == nil)
        _ = try await Verifier(pool: rig.pool, derive: nil).run()
    }

    @Test("under an idempotency key the store is asked once, and the answer is the same whatever came since")
    func idempotency() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.first, uuid: "n1")
        try store.remember(Self.renewal.members, HeldRenewal(signed: 200.1).members)
        let first = try await rig.check(Self.id, idempotencyKey: "k")
        let asked = store.count(of: "subscription_statuses")
        try await rig.notify(
            Self.renewal.with { ($0.revoked, $0.signed) = (300, 300) }, uuid: "n2")
        rig.clock.now = rig.clock.now.adding(milliseconds: 60_000)
        let again = try await rig.check(Self.id, idempotencyKey: "k")
        #expect(first.status == 200 && again.text == first.text, "\(again.text)")
        #expect(store.count(of: "subscription_statuses") == asked)
        let other = try await rig.check(Self.id, body: #"{"note":1}"#, idempotencyKey: "k")
        #expect(other.verdict == "409 idempotency_conflict")
        // A day later the key is free again.
        rig.clock.now = rig.clock.now.adding(milliseconds: 25 * 3_600_000)
        #expect(try await rig.check(Self.id, idempotencyKey: "k").text != first.text)
        #expect(store.count(of: "subscription_statuses") == asked + 1)
    }

    @Test("sent several times at once under one idempotency key, a check gets one answer")
    func atOnce() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.first, uuid: "n1")
        try store.remember(Self.renewal.members, HeldRenewal(signed: 200.1).members)
        store.slow(milliseconds: 100)
        let answers = try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
            for _ in 0..<4 {
                group.addTask { try await rig.check(Self.id, idempotencyKey: "k") }
                // Those that come while the store is asked ask it, too, and would tell another time.
                while store.count(of: "subscription_statuses") == 0 { try await Task.sleep(for: .milliseconds(1)) }
                rig.wait(seconds: 1)
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(answers.map(\.text)).count == 1 && answers[0].status == 200, "\(answers.map(\.text))")
        #expect(Set(answers.map { $0.header("Ledger-Position") }).count == 1)
        #expect(try await rig.check(Self.id, idempotencyKey: "k").text == answers[0].text)
    }

    @Test("a revocation that a device disputes is settled by the store's word, either way", arguments: [true, false])
    func dispute(isReversed: Bool) async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let bought = HeldTransaction(id: Self.id, until: 365, signed: 0.1, token: Self.token)
        let refunded = bought.with { ($0.revoked, $0.signed) = (100, 100) }
        try await rig.notify(refunded, uuid: "n1")
        let held = bought.with { $0.signed = 110 }
        #expect(try await rig.reconcile(Self.token, Posted(transactions: [try rig.sign(held)])).status == 200)
        func needsCheck() async throws -> WireValue? {
            try await rig.get("/v1/subscriptions/\(Self.id)").json["periods"]?[0]?["needs_store_check"]
        }
        #expect(try await needsCheck() == .bool(true))
        try store.remember((isReversed ? held : refunded).members)
        let answer = try await rig.check(Self.id).json
        #expect(answer["recorded"]?.count == 1 && answer["agrees"] == .bool(true))
        #expect(try await needsCheck() == .bool(false))
        let state = isReversed ? "active paid_period" : "revoked refunded"
        #expect(try await rig.holdings(Self.token) == ["premium \(state)"])
        #expect(try await rig.check(Self.id).json["recorded"]?.count == 0)
    }

    @Test("what the ledger does not know is recorded too, with all that the Apple account bought in the app")
    func unknownToLedger() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 1...45 {
            var coin = HeldTransaction(id: "30000000000000\(number)", from: Double(number), token: Self.token)
            (coin.product, coin.kind, coin.until) = ("com.example.coins", "Consumable", nil)
            coin.appTransaction = "701"
            try store.remember(coin.members)
        }
        try store.remember(
            HeldTransaction.lifetime("3100000000000001", token: Self.token, appTransaction: "701").members)
        let answer = try await rig.check("3100000000000001")
        #expect(answer.status == 200)
        #expect(try answer.json["before"]?["ledger"] == .null && answer.json["agrees"] == .null)
        #expect(try answer.json["recorded"]?.count == 46, "\(answer.text)")
        #expect(store.count(of: "transaction_history") == 3, "every page of twenty")
        #expect(try await rig.holdings(Self.token) == ["lifetime active one_time_purchase"])
        #expect(try await rig.check("999").verdict == "404 not_found")
    }

    @Test("a key of one app asks that app's store alone, and hears of nothing else")
    func keysOfOneApp() async throws {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: true, asksStore: true)
        let bound = try await rig.keys.create(
            name: "x", scopes: [.customersWrite], bundleID: ServiceRig.bundleID
        ).secret
        let foreign = Self.first.with { $0.bundleID = ServiceRig.otherBundleID }
        try await rig.notify(foreign, uuid: "n1")
        let otherStore = try #require(rig.asked?[ServiceRig.otherBundleID, .production])
        try otherStore.remember(foreign.members)
        let hidden = try await rig.check(Self.id, key: bound)
        let nothing = try await rig.check("2000000000000009", key: bound)
        #expect(hidden.verdict == "404 not_found" && otherStore.count(of: "transaction_history") == 0)
        #expect(try hidden.json["detail"] == nothing.json["detail"])
        #expect(
            try await rig.check(Self.id, body: #"{"app":"\#(ServiceRig.otherBundleID)"}"#, key: bound).verdict
                == "403 forbidden")
        #expect(try await rig.check(Self.id).status == 200)
        #expect(try await rig.check("2000000000000009").verdict == "400 malformed_request", "which app is meant?")
        #expect(
            try await rig.check("2000000000000009", body: #"{"app":"\#(ServiceRig.bundleID)"}"#).verdict
                == "404 not_found")
        let sandbox = try await rig.keys.create(name: "s", scopes: [.customersWrite], environment: .sandbox).secret
        #expect(try await rig.check(Self.id, query: "?environment=production", key: sandbox).verdict == "403 forbidden")
        let reading = try await rig.keys.create(name: "r", scopes: [.customersRead]).secret
        #expect(try await rig.check(Self.id, key: reading).verdict == "403 forbidden")
    }

    @Test("whatever the store does instead of answering, nothing false is recorded, and the answer says what to do")
    func failures() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.first, uuid: "n1")
        try store.remember(Self.renewal.members, HeldRenewal(signed: 200.1).members)
        let head = try await rig.head()
        let busy = rig.clock.now.adding(milliseconds: 90_000).milliseconds
        let table: [(SimulatedStoreAPI.Fault, String)] = [
            (.status(401), "30"), (.status(429, code: 4_290_000, retryAfter: busy), "91"), (.status(500), "30"),
            (.truncated, "30"), (.status(403, code: 4_030_000), "30"), (.status(404), "30"),
            (.status(404, code: 4_040_003), "30"), (.status(404, code: 4_040_006), "30"),
        ]
        for (fault, retryAfter) in table {
            // More often than it is asked: where one answer cannot be read, another is asked for.
            for _ in 0..<40 { store.fail(fault) }
            let answer = try await rig.check(Self.id)
            #expect(answer.verdict == "503 unavailable", "\(fault): \(answer.text)")
            #expect(answer.header("Retry-After") == retryAfter, "\(fault)")
            store.forgiveAll()
        }
        #expect(try await rig.head() == head)
        store.failAlways(.forged)
        let forged = try await rig.check(Self.id)
        #expect(try forged.status == 200 && forged.json["refused"] != .int(0) && forged.json["recorded"]?.count == 0)
        // Something of another app, which the store would never give.
        store.forgiveAll()
        try store.remember(
            Self.renewal.with { ($0.id, $0.from, $0.bundleID) = ("7", 20, "com.example.stranger") }.members)
        let strange = try await rig.check(Self.id).json
        #expect(strange["refused"] != .int(0) && strange["agrees"] == .bool(true), "the rest of it counts")

        let mute = try await ServiceRig.withCatalog()
        try await mute.notify(Self.first, uuid: "n1")
        #expect(try await mute.check(Self.id).verdict == "422 unprocessable")
    }

    @Test("where the statuses alone cannot be read, the history is asked all the same, and the failure is told")
    func unreadableStatuses() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.first, uuid: "n1")
        try store.remember(Self.renewal.members, HeldRenewal(signed: 200.1).members)
        rig.asked?.garbled.statuses = true
        #expect(try await rig.check(Self.id).verdict == "503 unavailable")
        #expect(try await rig.holdings(Self.token) == ["premium active paid_period"])
        rig.asked?.garbled.statuses = false
        #expect(try await rig.check(Self.id).json["agrees"] == .bool(true))
    }

    @Test("a store that takes too long is not waited for, and the next check goes through")
    func slow() async throws {
        var limits = Application.Limits()
        limits.storePatience = .milliseconds(300)
        let rig = try await ServiceRig.withCatalog(limits: limits, asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.first, uuid: "n1")
        try store.remember(Self.renewal.members, HeldRenewal(signed: 200.1).members)
        store.fail(.slow(milliseconds: 60_000))
        let start = ContinuousClock.now
        #expect(try await rig.check(Self.id).verdict == "503 unavailable")
        #expect(start.duration(to: .now) < .seconds(5))
        #expect(try await rig.check(Self.id).json["agrees"] == .bool(true))
    }

    @Test("of a long history the purchase itself comes first, and each check goes on where the last one stopped")
    func longHistory() async throws {
        var limits = Application.Limits()
        limits.storePatience = .milliseconds(1500)
        let rig = try await ServiceRig.withCatalog(limits: limits, asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 0..<300 {
            var coin = HeldTransaction(id: "\(3_000_000_000_000_000 + number)", from: Double(number), token: Self.token)
            (coin.product, coin.kind, coin.until, coin.signed) = (
                "com.example.coins", "Consumable", nil, Double(number)
            )
            coin.appTransaction = "701"
            try store.remember(coin.members)
        }
        // In the middle of it.
        var bought = HeldTransaction.lifetime("3100000000000001", token: Self.token, appTransaction: "701")
        bought.signed = 150
        try store.remember(bought.members)
        store.slow(milliseconds: 120)
        let end = ContinuousClock.now + .seconds(120)
        var answer = try await rig.check("3100000000000001")
        #expect(answer.verdict == "503 unavailable", "there are more pages than time")
        #expect(try await rig.holdings(Self.token) == ["lifetime active one_time_purchase"])
        func reports() async throws -> Int {
            guard case .array(let items) = try await rig.get("/v1/events?limit=1000").json["items"] else { return 0 }
            return items.count { $0["type"] == .string("store_report") }
        }
        while try await reports() < 301, ContinuousClock.now < end {
            answer = try await rig.check("3100000000000001")
        }
        #expect(try await reports() == 301)
        answer = try await rig.check("3100000000000001")
        #expect(answer.status == 200, "what is new is known: \(answer.text)")
    }

    @Test("what the store does not know stays what the ledger knows")
    func unknownToStore() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        try await rig.notify(Self.first, uuid: "n1")
        let answer = try await rig.check(Self.id)
        #expect(try answer.status == 200 && answer.json["before"]?["store"] == .null, "\(answer.text)")
        #expect(try answer.json["after"]?["ledger"]?["state"] == .string("expired"))
    }
}

extension ServiceRig {
    func check(
        _ id: String, query: String = "", body: String = "", key: String? = nil, idempotencyKey: String? = nil
    ) async throws -> HTTPResponse {
        try await send(
            "POST", "/v1/subscriptions/\(id)/actions/check\(query)", key: key ?? admin,
            headers: idempotencyKey.map { [("Idempotency-Key", $0)] } ?? [], body: Array(body.utf8))
    }
}

extension HeldTransaction {
    var members: [String: PayloadValue] {
        if case .object(let members) = payload { members } else { [:] }
    }
}

extension HeldRenewal {
    var members: [String: PayloadValue] {
        if case .object(let members) = payload { members } else { [:] }
    }
}
