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

/// What was refused because the ledger could not take it, and is read from the store's history soon.
@Suite("Notifications that the ledger could not take", .timeLimit(.minutes(1)))
struct MissedDeliveriesTests {
    private static let production = StoreStream(app: ServiceRig.bundleID, environment: .production)
    private static let sandbox = StoreStream(app: ServiceRig.bundleID, environment: .sandbox)
    private let start = ContinuousClock.now
    private let missed = MissedDeliveries()

    private func refuse(_ second: Int) { missed.refuse(Self.production, at: start + .seconds(second)) }

    private func take(_ second: Int) { missed.take(at: start + .seconds(second)) }

    private func isDue(_ second: Int, _ stream: StoreStream = Self.production) -> Bool {
        missed.isDue(stream, at: start + .seconds(second))
    }

    @Test("however many were refused, the history is read once one is taken again, and once more ten minutes later")
    func bounded() {
        take(0)
        #expect(!isDue(0), "nothing was refused")
        for second in 0..<50 { refuse(second) }
        #expect(!isDue(50), "the ledger takes nothing yet")
        take(51)
        take(52)
        #expect(!isDue(52, Self.sandbox))
        #expect(isDue(52) && !isDue(53) && !isDue(651) && isDue(652) && !isDue(653) && !isDue(90_000))
    }

    @Test("outages that follow each other closely share what is read, every ten minutes")
    func flapping() {
        var readings: [Int] = []
        for second in 0..<3600 {
            refuse(second)
            take(second)
            if isDue(second) { readings.append(second) }
        }
        #expect(readings == [0, 600, 1200, 1800, 2400, 3000])
        #expect(isDue(3600) && isDue(4200) && !isDue(90_000))
    }

    @Test("where nothing comes that the ledger could take, it is tried a minute after the last was refused")
    func quiet() {
        refuse(0)
        refuse(30)
        #expect(!isDue(89) && isDue(90) && !isDue(91) && isDue(690) && !isDue(90_000))
    }

    @Test("what was refused during an outage is recorded soon after it, and is asked for once however many were")
    func recovery() async throws {
        let rig = try await HealingRig.make().rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let client = try #require(rig.asked?.clients.first)
        let sweep = NotificationSweep(
            client: client, register: SweepRegister(pool: rig.pool, holder: "sweep"),
            verifier: rig.trust.notifications, logger: rig.context.logger, now: rig.context.now
        ) { try await rig.ledger.writer.append($0) }
        let sweeper = StoreSweeper(
            [(sweep, .production)], missed: rig.application.notifications.missed, logger: rig.context.logger,
            intervals: Repetition(
                regular: .seconds(3600), elsewhere: .seconds(10), retry: .seconds(900), longestRetry: .seconds(900),
                look: .milliseconds(5)))
        let work = Task { await sweeper.run() }
        defer { work.cancel() }
        func wait(_ what: Comment, _ isSo: () async throws -> Bool) async throws {
            for _ in 0..<2000 {
                if try await isSo() { return }
                try await Task.sleep(for: .milliseconds(10))
            }
            Issue.record(what)
        }
        func sweeps() -> Int { rig.log.lines.count { $0.contains("history is read") || $0.contains("were missing") } }
        try await wait("the sweep of the start") { sweeps() == 1 }
        func send(_ uuid: String) throws -> String {
            let held = HeldTransaction(
                id: uuid, product: "com.example.pro.monthly", from: 320, until: 350, signed: 320)
            return try store.send("SUBSCRIBED", uuid: uuid, held.members)
        }
        // As a full disk has it.
        let owner = try await rig.database.owner()
        try await owner.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'could not extend the file' USING ERRCODE = '53100'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse();
                """)
        let refused = ["refused-1", "refused-2", "refused-3"]
        for uuid in refused { #expect(try await rig.deliver(send(uuid)).verdict == "503 unavailable") }
        try await owner.execute(script: "DROP TRIGGER refuse ON event")
        rig.clock.now = rig.clock.now.adding(milliseconds: 600_000)
        #expect(try await rig.deliver(send("taken")).status == 200)
        func known() async throws -> [String] {
            try await rig.context.reader.events(after: 0, limit: 100).events.compactMap { shown in
                guard case .notification(let fact) = shown.fact else { return nil }
                return fact.uuid
            }
        }
        try await wait("what was refused") { try await Set(known()) == Set(refused + ["taken"]) }
        try await wait("the end of the sweep") { sweeps() == 2 }
        try await Task.sleep(for: .milliseconds(100))
        #expect(sweeps() == 2)
    }
}
