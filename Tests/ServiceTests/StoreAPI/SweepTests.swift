import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import Testing

@testable import Service

/// The store's history of notifications, read from a store that does not make it easy.
@Suite("Sweeps of the store's history", .serialized, .timeLimit(.minutes(5)))
struct SweepTests {
    private static let hour: Int64 = 3_600_000

    /// A rig with its production store.
    private static func make() async throws -> (healing: HealingRig, rig: ServiceRig, store: SimulatedStoreAPI) {
        let healing = try await HealingRig.make()
        return (healing, healing.rig, try #require(healing.rig.asked?[ServiceRig.bundleID, .production]))
    }

    /// Lets the store send a renewal at each of these instants, which arrives nowhere.
    @discardableResult
    private static func send(
        _ name: String, at instants: [Timestamp], _ rig: ServiceRig, _ store: SimulatedStoreAPI
    ) throws -> [String] {
        let now = rig.clock.now
        defer { rig.clock.now = now }
        return try instants.enumerated().map { number, instant in
            rig.clock.now = instant
            let day = Double(instant.milliseconds - day(0).milliseconds) / Double(Timestamp.millisecondsPerDay)
            return try store.send(
                "SUBSCRIBED", uuid: "\(name)-\(number)",
                HeldTransaction(
                    id: "\(name)\(number)", product: "com.example.pro.monthly", from: day, until: day + 30, signed: day
                ).members)
        }
    }

    private static func standing(_ rig: ServiceRig) async throws -> SweepStanding {
        try #require(
            try await SweepRegister.standings(rig.pool).first {
                $0.app == ServiceRig.bundleID && $0.environment == .production
            })
    }

    /// How many notifications the ledger has, by the beginning of their ids.
    private static func known(_ name: String, _ rig: ServiceRig) async throws -> Int {
        try await rig.context.reader.events(after: 0, limit: 1000).events.count { shown in
            if case .notification(let fact) = shown.fact { fact.uuid.hasPrefix(name) } else { false }
        }
    }

    private static func ago(_ milliseconds: Int64, _ rig: ServiceRig) -> Timestamp {
        rig.clock.now.adding(milliseconds: -milliseconds)
    }

    @Test(
        "a first sweep that takes longer than the store's patience comes to its end, also when it is stopped each time")
    func slow() async throws {
        for isInterrupted in [false, true] {
            let (healing, rig, store) = try await Self.make()
            // Six pages of the whole window, each of which takes most of the time that a window's beginning is kept for.
            let days = (0..<120).map { Self.ago(Int64($0) * 34 * Self.hour + 60_000, rig) }
            try Self.send("slow", at: days, rig, store)
            let start = rig.clock.now
            let asked = try #require(rig.asked)
            asked.pace.milliseconds = 40 * 60_000
            var runs = 0
            var isComplete = false
            while !isComplete, runs < 60 {
                runs += 1
                // The second page of each run is not had: the store's limits are used up.
                if isInterrupted {
                    store.fail(
                        .slow(milliseconds: 0), .status(429), .status(429), .status(429), .status(429), .status(429))
                }
                // What came since is always yet to be read.
                isComplete = (try? await healing.sweep()) != nil
                if isInterrupted {
                    isComplete = try await Self.standing(rig).completedUntil.map { $0 >= start } ?? false
                }
                store.forgiveAll()
            }
            asked.pace.milliseconds = 0
            #expect(isComplete && runs < (isInterrupted ? 60 : 2), "\(runs) runs")
            // What the store still keeps when it is asked is known: all but the oldest few hours.
            let known = try await Self.known("slow", rig)
            #expect(known >= 118, "\(known)")
            #expect(try await Self.standing(rig).completedUntil.map { $0 >= start } == true)
        }
    }

    @Test("a page that cannot be had is given up for its hour alone, told, and read when somebody asks for it later")
    func badPage() async throws {
        let (healing, rig, store) = try await Self.make()
        let days = (1...100).map { Self.ago(Int64($0) * 40 * Self.hour, rig) }
        try Self.send("bad", at: days, rig, store)
        store.spoil([days[50].milliseconds])
        var runs = 0
        var report: NotificationSweep.Report?
        while report == nil, runs < 20 {
            runs += 1
            report = try? await healing.sweep()
        }
        #expect(runs > 3 && runs < 12, "\(runs): not at once, for it may be an outage")
        #expect(report?.gap?.contains("cannot be read") == true)
        #expect(try await Self.known("bad", rig) == 99)
        var standing = try await Self.standing(rig)
        #expect(standing.completedUntil == rig.clock.now && standing.hasGap && standing.lastError == nil)
        let told = try await rig.get("/v1/streams").json["items"]?[0]?["sweep"]
        #expect(told?["state"] == .string("idle"), "\(String(describing: told))")
        guard case .string(let error) = told?["last_error"] else {
            throw TestFailure("nothing is told: \(String(describing: told))")
        }
        #expect(error.contains("5000000"), "\(error)")
        let from = try #require(standing.refusedFrom)
        #expect(days[50] >= from && days[50] < from.adding(milliseconds: Self.hour))
        // It holds nothing up, and is not forgotten.
        healing.pass(days: 0.1)
        try await healing.sweep()
        standing = try await Self.standing(rig)
        #expect(standing.lastError == nil && standing.refusedFrom == from)
        store.spoil([])
        try await healing.sweep(since: from)
        #expect(try await Self.known("bad", rig) == 100)
        standing = try await Self.standing(rig)
        #expect(standing.refusedFrom == nil && standing.lastError == nil)
    }

    @Test("an outage of the whole store is no gap, however long it takes")
    func outage() async throws {
        let (healing, rig, store) = try await Self.make()
        let days = (1...30).map { Self.ago(Int64($0) * 100 * Self.hour, rig) }
        try Self.send("out", at: days, rig, store)
        store.spoil(days.map(\.milliseconds))
        for _ in 0..<3 { await #expect(throws: (any Error).self) { try await healing.sweep() } }
        // Now every request fails.
        for _ in 0..<15 {
            store.fail(.status(500), .status(500), .status(500), .status(500), .status(500))
            for _ in 0..<20 { store.fail(.status(503), .status(503), .status(503), .status(503), .status(503)) }
            await #expect(throws: (any Error).self) { try await healing.sweep() }
            store.forgiveAll()
        }
        #expect(try await Self.standing(rig).refusedFrom == nil)
        store.spoil([])
        try await healing.sweep()
        #expect(try await Self.known("out", rig) == 30)
        #expect(try await Self.standing(rig).lastError == nil)
    }

    @Test("a clock that was ahead costs another reading, and nothing that the store sent")
    func clockAhead() async throws {
        let (healing, rig, store) = try await Self.make()
        let now = rig.clock.now
        healing.pass(days: 3)
        try await healing.sweep()
        #expect(try await Self.standing(rig).completedUntil == rig.clock.now)
        rig.clock.now = now.adding(milliseconds: Self.hour)
        try Self.send("late", at: [Self.ago(10 * 60_000, rig)], rig, store)
        try await healing.sweep()
        #expect(try await Self.known("late", rig) == 1)
        #expect(try await Self.standing(rig).completedUntil == rig.clock.now)
        #expect(rig.log.lines.contains { $0.contains("by a clock that was ahead") })
        // Nor does a window that ends in the future.
        try await rig.pool.withConnection { connection in
            _ = try connection.query(
                """
                UPDATE store_sweep SET window_from = completed_until - interval '2 hours',
                    window_until = completed_until + interval '3 days', part_until = completed_until + interval '3 days',
                    cursor = 'x.1'
                """)
        }
        healing.pass(days: 0.1)
        try await healing.sweep()
        #expect(try await Self.standing(rig).completedUntil == rig.clock.now)
    }

    @Test(
        "a store that lists nothing of what it delivered is not believed; what was not delivered either is read next day"
    )
    func emptyHistory() async throws {
        let (healing, rig, store) = try await Self.make()
        try await healing.sweep()
        let known = try await Self.standing(rig).completedUntil
        healing.pass(days: 0.1)
        // One arrives in the outage's hours, and six do not.
        let delivered = try Self.send("heard", at: [Self.ago(Self.hour, rig)], rig, store)
        #expect(try await rig.deliver(delivered[0]).status == 200)
        try Self.send("missed", at: (1...6).map { Self.ago(Self.hour + $0 * 60_000, rig) }, rig, store)
        store.listNothing(true)
        let report = try await healing.sweep()
        #expect(report.gap?.contains("lists nothing") == true)
        var standing = try await Self.standing(rig)
        #expect(standing.completedUntil == known && standing.refusedReason?.contains("not taken for the truth") == true)
        store.listNothing(false)
        try await healing.sweep()
        #expect(try await Self.known("missed", rig) == 6)
        standing = try await Self.standing(rig)
        #expect(standing.completedUntil == rig.clock.now && standing.refusedFrom == nil)

        // Nothing arrives at all: hours like any other, but for the next day's reading.
        healing.pass(days: 0.2)
        try await healing.sweep()
        healing.pass(days: 0.2)
        try Self.send("silent", at: (1...6).map { Self.ago($0 * 60_000, rig) }, rig, store)
        store.listNothing(true)
        try await healing.sweep()
        healing.pass(days: 0.15)
        try await healing.sweep()
        store.listNothing(false)
        healing.pass(days: 0.1)
        try await healing.sweep()
        #expect(try await Self.known("silent", rig) == 0)
        healing.pass(days: 0.8)
        try await healing.sweep()
        #expect(try await Self.known("silent", rig) == 6)
        // Once a day, not each time.
        let asked = store.count(of: "notification_history")
        try await healing.sweep()
        #expect(store.count(of: "notification_history") == asked + 1)
    }

    @Test("what was sent a moment ago is recorded, and not called missing")
    func onItsWay() async throws {
        let (healing, rig, store) = try await Self.make()
        try Self.send("old", at: [Self.ago(10 * 60_000, rig)], rig, store)
        try Self.send("new", at: [Self.ago(500, rig)], rig, store)
        let report = try await healing.sweep()
        #expect(report.recorded == 1 && report.early == 1 && report.read == 2)
        #expect(try await Self.standing(rig).recorded == 1)
        #expect(try await Self.known("new", rig) == 1)
    }

    @Test("an item without a payload is refused alone, as one that does not verify")
    func withoutPayload() async throws {
        let (healing, rig, store) = try await Self.make()
        try Self.send("sent", at: (1...5).map { Self.ago($0 * Self.hour, rig) }, rig, store)
        store.fail(.unsigned)
        let report = try await healing.sweep()
        #expect(report.isComplete && report.read == 5 && report.recorded == 4 && report.refused == 1)
        #expect(report.reason?.contains("signedPayload") == true && report.gap == nil)
        #expect(try await Self.known("sent", rig) == 4)
    }

    @Test("a store that keeps a few hours less than it should is asked for what it has, and for no less")
    func keepsLess() async throws {
        let (healing, rig, store) = try await Self.make()
        let kept = SweepRegister.kept(in: .production)
        try Self.send("kept", at: (1...10).map { Self.ago(kept - $0 * Self.hour - 60_000, rig) }, rig, store)
        for _ in 0..<4 { store.fail(.status(400, code: 4_000_012)) }
        try await healing.sweep()
        // Begun an hour within, and three more hours were refused, and the fourth.
        #expect(try await Self.known("kept", rig) == 6)
        #expect(try await Self.standing(rig).completedUntil == rig.clock.now)
    }

    @Test("a small history is one part, and what is up to date one request")
    func cheap() async throws {
        let (healing, rig, store) = try await Self.make()
        let days = (1...50).map { Self.ago(Int64($0) * 80 * Self.hour, rig) }
        try Self.send("few", at: days, rig, store)
        try await healing.sweep()
        #expect(store.count(of: "notification_history") == 3)
        healing.pass(days: 0.05)
        try await healing.sweep()
        #expect(store.count(of: "notification_history") == 4)
    }
}
