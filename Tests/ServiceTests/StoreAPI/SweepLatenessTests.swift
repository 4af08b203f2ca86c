import AppStoreServer
import EntitlementCore
import Ledger
import StoreSimulator
import Synchronization
import Testing

@testable import Service

/// What the store lists while its history is read, or only afterwards, and what was sent so lately that it may be on its way.
@Suite("Sweeps, and what the store lists late", .serialized, .timeLimit(.minutes(5)))
struct SweepLatenessTests {
    private static let minute: Int64 = 60_000

    /// Lets the store send something, signed so many minutes before now, that arrives nowhere.
    private static func send(_ name: String, minutesAgo: Double, _ rig: ServiceRig, _ store: SimulatedStoreAPI) throws {
        let now = rig.clock.now
        defer { rig.clock.now = now }
        rig.clock.now = now.adding(milliseconds: -Int64(minutesAgo * Double(minute)))
        let day = Double(rig.clock.now.milliseconds - day(0).milliseconds) / Double(Timestamp.millisecondsPerDay)
        _ = try store.send(
            "SUBSCRIBED", uuid: name,
            HeldTransaction(id: name, product: "com.example.pro.monthly", from: day, until: day + 30, signed: day)
                .members)
    }

    @Test(
        "completed_until is at or after all that was seen, and the next sweep begins early enough for what was listed late"
    )
    func late() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let client = try #require(rig.asked?.clients.first)
        let sweep = NotificationSweep(
            client: client, register: SweepRegister(pool: rig.pool, holder: "one"), verifier: rig.trust.notifications,
            logger: rig.context.logger, now: rig.context.now
        ) { try await rig.ledger.writer.append($0) }
        func standing() async throws -> SweepStanding {
            try #require(try await SweepRegister.standings(rig.pool).first)
        }
        /// The newest that was read from the store's history.
        func newest() async throws -> Timestamp {
            try #require(
                try await rig.context.reader.events(after: 0, limit: 1000).events
                    .filter { $0.record.source == .serverAPI }.compactMap(\.record.occurredAt).max())
        }
        func known() async throws -> Set<String> {
            Set(
                try await rig.context.reader.events(after: 0, limit: 1000).events.flatMap(\.fact.transactions)
                    .map(\.transactionID))
        }

        // Three pages; the last ones may still be on their way.
        for number in 0..<45 { try Self.send("a\(number)", minutesAgo: 49.5 - Double(number), rig, store) }
        let begun = rig.clock.now
        let pages = Mutex(0)
        let first = try await sweep.run(in: .production) { _, report in
            guard
                pages.withLock({
                    $0 += 1; return $0
                }) == 1
            else { return }
            // While the second page is asked for: one that belongs on the first, one at the end, and one of after the beginning.
            try? Self.send("early", minutesAgo: 49.9, rig, store)
            try? Self.send("lately", minutesAgo: 2, rig, store)
            rig.clock.now = rig.clock.now.adding(milliseconds: 3 * Self.minute)
            try? Self.send("after", minutesAgo: 0, rig, store)
            _ = report
        }
        #expect(first.isComplete && first.recorded > 0, "\(first)")
        #expect(first.early > 0, "what was sent within five minutes is recorded, and not called missing: \(first)")
        var completed = try #require(try await standing().completedUntil)
        let seen = try await newest()
        #expect(completed >= seen && completed >= begun)

        // Some of it is listed only now, signed long before what the first sweep saw.
        try Self.send("later", minutesAgo: 6, rig, store)
        rig.clock.now = rig.clock.now.adding(milliseconds: Self.minute)
        for round in 0..<3 {
            let next = try await sweep.run(in: .production)
            #expect(next.isComplete)
            let from = try #require(next.from)
            #expect(from <= completed.adding(milliseconds: -5 * Self.minute), "round \(round)")
            let end = try #require(try await standing().completedUntil)
            let seen = try await newest()
            #expect(end >= completed && end >= seen, "round \(round)")
            completed = end
            rig.clock.now = rig.clock.now.adding(milliseconds: Self.minute)
        }
        let all = try await known()
        let missing = (0..<45).map { "a\($0)" }.filter { !all.contains($0) }
        #expect(
            missing.isEmpty && all.isSuperset(of: ["early", "lately", "after", "later"]), "\(missing) \(all.count)")
    }
}
