import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

/// Whatever customers do, and whatever the store asks about it.
@Suite("Consumption requests of random lives", .serialized, .timeLimit(.minutes(5)))
struct ConsumptionLivesTests {
    @Test(
        "each question comes to one end, and the store refuses nothing of what it is told",
        arguments: [1, 2] as [UInt64])
    func lives(seed: UInt64) async throws {
        let rig = try await ServiceRig.make(asksStore: true)
        let catalog = try StoreWorld.standard.catalogFile.encoded()
        #expect(try await rig.put(String(decoding: catalog, as: UTF8.self)).status == 200)
        let client = try #require(rig.asked?.clients.first)
        let writer = rig.ledger.writer
        let answerer = ConsumptionAnswerer(
            StoreEnvironment.allCases.map {
                ConsumptionAnswerer.ConsentedApp(
                    client: client, environment: $0,
                    policy: ConsumptionPolicy(
                        sampleContentProvided: true, refundPreference: seed == 1 ? .grantProrated : .grantFull,
                        deliversConsumables: seed == 1))
            }, register: ConsumptionRegister(pool: rig.pool, holder: "one"), reader: rig.context.reader,
            metrics: rig.context.metrics, logger: rig.context.logger, watch: nil, now: rig.context.now
        ) { try await writer.append($0) }
        try await answerer.look()
        // Lives that begin once the service runs.
        var world = StoreWorld.standard
        world.start = rig.clock.now.milliseconds + Span.day
        let lives = (0..<20).map { StoreLife.random(seed: seed * 100 + $0, world: world) }
        let notifications = lives.flatMap(\.notifications)
            .filter { $0.signedDate < SimulatedAuthority.validity.upperBound }
            .sorted { $0.signedDate < $1.signedDate }
        try #require(notifications.count > 100)
        for notification in notifications {
            rig.clock.now = max(rig.clock.now, Timestamp(milliseconds: notification.signedDate + Span.second))
            let store = try #require(
                rig.asked?[ServiceRig.bundleID, notification.environment == .production ? .production : .sandbox])
            let payload = try store.send(notification)
            let answer = try await rig.deliver(payload)
            try #require(answer.status == 200, "seed \(seed): \(answer.text)")
            if notification.type == "CONSUMPTION_REQUEST" { try await answerer.look() }
        }
        rig.clock.now = rig.clock.now.adding(milliseconds: 13 * Span.hour)
        try await answerer.look()

        var asked: [Int64] = []
        var settled: [Int64] = []
        var ends: [String: Int] = [:]
        var after: Int64 = 0
        while true {
            let page = try await rig.context.reader.events(after: after, limit: 1000)
            for event in page.events {
                if event.record.type == "consumption_requested" { asked.append(event.record.position) }
                guard case .storeRequest(let fact) = event.fact, let position = fact.settles else { continue }
                settled.append(position)
                ends[fact.outcome.word, default: 0] += 1
            }
            guard page.hasMore else { break }
            after = page.nextAfter
        }
        #expect(settled.sorted() == asked, "seed \(seed): \(ends)")
        #expect(ends["refused"] == nil && ends["too_late"] == nil && ends["accepted"] ?? 0 > 0, "seed \(seed): \(ends)")
        #expect(try await Verifier(pool: rig.pool, derive: nil).run().position == rig.head())
    }
}
