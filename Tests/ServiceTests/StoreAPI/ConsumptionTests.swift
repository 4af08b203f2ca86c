import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// The store's questions about refund requests, answered behind the service.
@Suite("Consumption requests", .serialized, .timeLimit(.minutes(5)))
struct ConsumptionTests {
    private static let stream = StoreStream(app: ServiceRig.bundleID, environment: .production)

    @Test("a question is answered once, from the facts, and the answer is an event that names it")
    func answered() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await answerer.look()
        #expect(try await stage.ends().isEmpty && stage.store.count(of: "consumption") == 0)
        let payload = try await stage.ask()
        let question = try await stage.rig.head()
        try await answerer.look()
        #expect(
            stage.told() == [
                #"{"customerConsented":true,"deliveryStatus":"DELIVERED","refundPreference":"DECLINE","#
                    + #""sampleContentProvided":false}"#
            ])
        #expect(try await stage.ends() == ["accepted"])
        let event = try await stage.rig.get("/v1/events?after=\(question)").text
        #expect(event.contains(#""settles":\#(question)"#) && event.contains(#""outcome":"accepted""#), "\(event)")
        // Neither another look, nor another process, nor the same question delivered again asks for more.
        #expect(try await stage.rig.deliver(payload).status == 200)
        try await answerer.look()
        try await stage.answerer(holder: "two").look()
        #expect(stage.told().count == 1)
        #expect(try await stage.metric(#"rightful_consumption_requests_total{outcome="accepted"} 1"#))
        #expect(
            try await stage.metric(
                #"rightful_consumption_requests_open{app="com.example.app",environment="production"} 0"#))
        // The store asks on as long as it has not decided, under new ids: each of these is a question of its own.
        stage.pass(hours: 2)
        try await stage.ask("asked again")
        try await answerer.look()
        #expect(stage.told().count == 2 && Set(stage.told()).count == 1)
        #expect(try await stage.ends() == ["accepted", "accepted"])
        #expect(try await Verifier(pool: stage.rig.pool, derive: nil).run().position == stage.rig.head())
    }

    @Test("without consent nothing is ever sent, and questions from before the consent are not reported as too late")
    func notConsented() async throws {
        let stage = try await ConsumptionStage()
        try await stage.ask()
        try await stage.answerer(consents: false).look()
        stage.pass(hours: 13)
        try await stage.answerer(consents: false).look()
        #expect(stage.store.count(of: "consumption") == 0)
        // Consent comes later; that question's time was over by then.
        try await stage.answerer().look()
        #expect(try await stage.ends().isEmpty)
        // One whose time is not over is answered.
        try await stage.answerer(consents: false).look()
        try await stage.ask("second")
        stage.pass(hours: 11.5)
        try await stage.answerer().look()
        #expect(try await stage.ends() == ["accepted"])
    }

    @Test(
        "a store that cannot be told is tried again, with pauses, until the twelve hours are over",
        arguments: [true, false])
    func outage(recovers: Bool) async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await stage.ask()
        func fail() {
            stage.store.forgiveAll()
            for _ in 0..<100 { stage.store.fail(.status(503)) }
        }
        fail()
        try await answerer.look()
        #expect(try await stage.ends().isEmpty)
        #expect(
            try await stage.metric(
                #"rightful_consumption_requests_open{app="com.example.app",environment="production"} 1"#))
        stage.store.forgiveAll()
        try await answerer.look()
        #expect(stage.told().isEmpty, "it rests for a minute")
        stage.pass(hours: 11.9)
        if recovers {
            stage.store.fail(.status(429, code: 4_290_000, retryAfter: stage.rig.clock.now.milliseconds + 1000))
            try await answerer.look()
            #expect(try await stage.ends() == ["accepted"] && stage.told().count == 1)
            return
        }
        fail()
        try await answerer.look()
        stage.store.forgiveAll()
        stage.pass(hours: 0.1)
        for _ in 0..<2 {
            stage.pass(hours: 0.5)
            try await answerer.look()
        }
        #expect(try await stage.ends() == ["too_late"] && stage.told().isEmpty)
        #expect(try await stage.metric(#"rightful_consumption_requests_total{outcome="too_late"} 1"#))
        #expect(stage.rig.log.lines.count { $0.contains("was not answered within 12 hours") } == 1)
    }

    @Test("the last attempt comes before the twelve hours are over, however long the pauses have become")
    func lastAttempt() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await stage.ask()
        for _ in 0..<8 {
            for _ in 0..<10 { stage.store.fail(.status(503)) }
            try await answerer.look()
            stage.store.forgiveAll()
            stage.pass(hours: 0.26)
        }
        // It would rest for a quarter of an hour, and ten minutes are left.
        stage.pass(hours: 12 - 8 * 0.26 - 1.0 / 6)
        for _ in 0..<10 { stage.store.fail(.status(503)) }
        try await answerer.look()
        stage.store.forgiveAll()
        stage.pass(hours: 9.2 / 60)
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted"])
    }

    @Test("wrong credentials are said, and the question stays open")
    func unauthorized() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await stage.ask()
        stage.store.fail(.status(401))
        try await answerer.look()
        #expect(stage.rig.log.lines.contains { $0.contains("issuer_id, key_id") })
        stage.pass(hours: 0.1)
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted"])
    }

    @Test(
        "what the store refuses under a number is over, and the event holds the number",
        arguments: [
            (400, Int64(4_000_035), "refused 4000035"), (400, 4_000_047, "refused 4000047"),
            (404, 4_040_010, "refused 4040010"), (400, 4_999_999, "refused 4999999"),
        ])
    func refused(status: Int, code: Int64, end: String) async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await stage.ask()
        stage.store.fail(.status(status, code: code))
        try await answerer.look()
        stage.pass(hours: 1)
        try await answerer.look()
        #expect(try await stage.ends() == [end] && stage.told().isEmpty)
    }

    @Test("a question about which nothing can be told ends at once, with the reason")
    func withheld() async throws {
        let coins = HeldTransaction(
            id: "8", product: "com.example.coins", kind: "Consumable", from: 330, until: nil, signed: 330,
            token: ConsumptionStage.token)
        for (purchase, end) in [(coins, "delivery_unknown"), (nil, "refunded")] {
            let stage = try await ConsumptionStage(purchase)
            let answerer = try stage.answerer()
            try await stage.ask()
            if purchase == nil {
                try await stage.rig.notify(
                    stage.purchase.with { ($0.revoked, $0.signed) = (333, 334.4) }, type: "REFUND", uuid: "refunded")
            }
            try await answerer.look()
            #expect(try await stage.ends() == ["withheld \(end)"])
            #expect(stage.store.count(of: "consumption") == 0)
        }
        let stage = try await ConsumptionStage()
        try await stage.ask()
        try await stage.rig.database.owner().query(
            "DELETE FROM identity WHERE value = $1", [.text(ConsumptionStage.token)])
        try await stage.answerer().look()
        #expect(try await stage.ends() == ["withheld forgotten"] && stage.store.count(of: "consumption") == 0)
    }

    @Test("if a process dies between sending and recording, the same answer is sent again, and it is one event")
    func killed() async throws {
        struct Killed: Error {}
        let stage = try await ConsumptionStage()
        try await stage.ask()
        let dying = try stage.answerer(append: { _ in throw Killed() })
        await #expect(throws: Killed.self) { try await dying.look() }
        #expect(try await stage.ends().isEmpty && stage.told().count == 1)
        stage.pass(hours: 3)
        try await stage.answerer(holder: "two").look()
        #expect(try await stage.ends() == ["accepted"])
        #expect(stage.told().count == 2 && stage.told()[0] == stage.told()[1])
    }

    @Test("what was told is an event, also where somebody else settled the question meanwhile")
    func overtaken() async throws {
        let stage = try await ConsumptionStage()
        try await stage.ask()
        let writer = stage.rig.ledger.writer
        let overtaken = try stage.answerer(append: { draft in
            if case .storeRequest(var fact) = draft.fact, fact.settles != nil {
                fact.outcome = .tooLate
                _ = try await writer.append(EventDraft(fact, in: .production, source: .serverAPI))
            }
            return try await writer.append(draft)
        })
        try await overtaken.look()
        #expect(try await stage.ends() == ["too_late", "accepted"] && stage.told().count == 1)
        try await stage.answerer(holder: "two").look()
        #expect(stage.told().count == 1)
    }

    @Test("several processes answer each of many questions once, and one that is silent for long is not waited for")
    func together() async throws {
        let stage = try await ConsumptionStage()
        for number in 0..<12 { try await stage.ask("asked \(number)") }
        let dead = ConsumptionRegister(pool: stage.rig.pool, holder: "dead")
        let processes = try (0..<4).map { try stage.answerer(holder: "process \($0)") }
        _ = try await dead.begin([Self.stream], now: stage.rig.clock.now)
        #expect(try await dead.hold(Self.stream))
        for process in processes { try await process.look() }
        #expect(try await stage.ends().isEmpty)
        try await stage.rig.pool.withConnection { connection in
            _ = try connection.query(
                "UPDATE store_stream SET answer_heartbeat_at = answer_heartbeat_at - interval '31 seconds'")
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for process in processes { group.addTask { try await process.look() } }
            try await group.waitForAll()
        }
        for process in processes { try await process.look() }
        #expect(try await stage.ends().count == 12 && stage.told().count == 12)
    }

    @Test("a question that the log has lost is answered no more, and another at its position is")
    func lost() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await answerer.look()
        let owner = try await stage.rig.database.owner()
        let end = try await LogEnd.now(of: owner)
        let other = ConsumptionRegister(pool: stage.rig.pool, holder: "other")
        #expect(try await other.hold(Self.stream))
        try await stage.ask("lost")
        try await answerer.look()
        try await end.restore(by: owner)
        try await other.release(Self.stream)
        try await answerer.look()
        #expect(try await stage.ends().isEmpty && stage.told().isEmpty)
        try await stage.ask("another")
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted"] && stage.told().count == 1)
        // The log loses the end of a question too: it is answered once more.
        try await answerer.look()
        let answered = try await LogEnd.now(of: owner)
        try await stage.ask("third")
        try await answerer.look()
        try await answered.restore(by: owner)
        try await stage.ask("third")
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted", "accepted"] && stage.told().count == 3)
    }

    @Test("a question that the sweep finds is answered while its time is not over, and withheld after it")
    func swept() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await answerer.look()
        let healing = HealingRig(stage.rig)
        try await stage.ask("first", isDelivered: false)
        stage.pass(hours: 8)
        try await stage.ask("second", isDelivered: false)
        stage.pass(hours: 6)
        try await healing.sweep()
        try await answerer.look()
        // A page of the history is recorded in any order.
        let events = try await stage.rig.context.reader.events(after: 0, limit: 1000).events
        var uuids: [Int64: String] = [:]
        var ends: [String: String] = [:]
        for event in events {
            if case .notification(let fact) = event.fact { uuids[event.record.position] = fact.uuid }
            guard case .storeRequest(let fact) = event.fact, let asked = fact.settles else { continue }
            ends[uuids[asked] ?? "nothing"] = fact.outcome.word
        }
        #expect(ends == ["first": "withheld", "second": "accepted"])
        #expect(try await stage.ends().contains("withheld heard_too_late"), "it came too late for any answer")
    }
}
