import EmbeddedPostgres
import Foundation
import PostgresClient
import SeededRandom
import StoreSimulator
import Synchronization
import TestSupport
import Testing

/// Three services read one store's history; whichever reads is killed.
@Suite("A sweep that is killed", .serialized, .timeLimit(.minutes(5)))
struct SweepKillTests {
    private static let kills = 6
    /// How long the store takes for a page, in milliseconds.
    private static let pageTime: Int64 = 150

    @Test(
        "however often services are killed while they read, each fact is recorded once, no page is left out, and none that was done is read again",
        arguments: 1...UInt64(Campaign.factor))
    func killed(seed: UInt64) async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        // Within what both environments keep, and longer ago than what is read anew each time.
        let lives = StoreLife.recent(seed: 500 * seed, customers: 60, until: StoreAPIStage.now)
        let oldest = StoreAPIStage.now - 29 * Span.day
        var told: [StoreNotification] = []
        for notification in lives.flatMap(\.notifications) {
            // The sandbox's history is short: of what is older only the customers' production is told.
            if notification.environment == .sandbox, notification.signedDate < oldest { continue }
            let known = StoreAPIStage.now - 179 * Span.day..<StoreAPIStage.now
            guard known.contains(notification.signedDate) else { continue }
            try stage.api(notification.environment).send(notification)
            told.append(notification)
        }
        let count = told.count { $0.environment == .production }
        let pages = (count + SimulatedStoreAPI.pageSize - 1) / SimulatedStoreAPI.pageSize
        try #require(pages > 12, "seed \(seed): \(pages) pages")
        for api in [stage.production, stage.sandbox] {
            api.holdLimits()
            api.slow(milliseconds: Int(Self.pageTime))
        }
        var random = SplitMix64(seed: seed)
        let fleet = try await InstanceFleet.start(3, on: installation)
        defer { fleet.signalAll(SIGKILL) }
        let shortener = LeaseShortener(installation)
        let shortening = Task { try await shortener.run() }
        // At random points of the reading, of which the store knows; some kills hit whoever does not read.
        for number in 1...Self.kills {
            let target = pages * number / (Self.kills + 2) + Int(random.number(in: 0...1))
            // Whoever does not read looks each ten seconds whether there is something to take up.
            let end = ContinuousClock.now + .seconds(60)
            while stage.production.pagesGiven.all < target {
                try #require(.now < end, "seed \(seed): nobody goes on reading")
                try await Task.sleep(for: .milliseconds(5))
            }
            try await Task.sleep(for: .milliseconds(random.number(in: 0...Self.pageTime)))
            try await fleet.replace(Int(random.number(in: 0...2)), after: SIGKILL)
        }
        try await stage.awaitSweeps()
        shortening.cancel()
        _ = await shortening.result

        let client = HTTPClient(fleet.service(0).url, key: key)
        let events = try await client.events()
        #expect(events.map { ($0["position"] as? NSNumber)?.intValue } == Array(1...events.count), "seed \(seed)")
        let uuids = events.compactMap { ($0["notification"] as? [String: Any])?["uuid"] as? String }
        #expect(Set(uuids).count == uuids.count, "seed \(seed): a notification is two events")
        let leftOut = told.filter { !uuids.contains($0.uuid.lowercased()) }
            .map { "\($0.environment) \($0.type) \(($0.signedDate - StoreAPIStage.now) / Span.hour) h" }
        #expect(leftOut.isEmpty && uuids.count == told.count, "seed \(seed): \(leftOut)")
        let evidence = events.compactMap { $0["evidence_sha256"] as? String }
        #expect(Set(evidence).count == evidence.count, "seed \(seed): one statement is two events")
        // A page is given again where whoever had it was killed before it was in the log, and nowhere else.
        let again = stage.production.pagesGiven.again + stage.sandbox.pagesGiven.again
        #expect(again <= shortener.takeovers, "seed \(seed): \(again) pages again, \(shortener.takeovers) takeovers")
        #expect(shortener.takeovers > 0, "seed \(seed): nobody was killed while reading")
        for (api, limit) in [(stage.production, 50), (stage.sandbox, 5)] {
            for kind in ["notification_history", "subscription_statuses", "transaction_history", "transaction"] {
                #expect(api.most(of: kind, within: 1000) <= limit, "seed \(seed): \(kind)")
                #expect(api.mostInAnHour(of: kind) <= limit * 3600, "seed \(seed): \(kind)")
            }
        }
        // What a restart reads lies after what was completed.
        let given = stage.production.pagesGiven.all
        try await fleet.replace(0, after: SIGKILL)
        try await stage.awaitSweeps()
        let more = stage.production.pagesGiven
        #expect(more.all - given <= 2 && more.again <= again, "seed \(seed): \(more) after \(given)")
        try await Self.expectRecords(lives, told, HTTPClient(fleet.service(0).url, key: key), seed)
        #expect(try await installation.rightful("verify").contains("verified"), "seed \(seed)")
        await stage.remove()
    }

    /// Compares the answers about everybody of whom everything was told.
    private static func expectRecords(
        _ lives: [StoreLife], _ told: [StoreNotification], _ client: HTTPClient, _ seed: UInt64
    ) async throws {
        let uuids = Set(told.map(\.uuid))
        let whole = lives.filter { $0.notifications.allSatisfy { uuids.contains($0.uuid) } }
        try #require(whole.count > 5, "seed \(seed)")
        for life in whole {
            for customer in life.record.customers {
                try await client.expectRecord(
                    life.record.customer(customer), of: customer, limit: 4, "seed \(seed), life \(life.seed)")
            }
        }
    }
}

/// Takes whoever holds a sweep and has not been heard of for a second for dead, so that nobody waits half a minute.
private final class LeaseShortener: Sendable {
    private let installation: Installation
    private let count = Mutex(0)

    init(_ installation: Installation) { self.installation = installation }

    /// How often a sweep was taken from its holder.
    var takeovers: Int { count.withLock { $0 } }

    func run() async throws {
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        do {
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            while !Task.isCancelled {
                let taken = try await owner.run { connection in
                    try connection.query(
                        """
                        UPDATE store_sweep SET heartbeat_at = heartbeat_at - interval '1 minute'
                        WHERE holder IS NOT NULL AND heartbeat_at BETWEEN clock_timestamp() - interval '30 seconds'
                            AND clock_timestamp() - interval '1 second'
                        RETURNING 1
                        """
                    ).rows.count
                }
                count.withLock { $0 += taken }
                try? await Task.sleep(for: .milliseconds(100))
            }
            try await cluster.release()
        } catch {
            try await cluster.release()
            throw error
        }
    }
}
