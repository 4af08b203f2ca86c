import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// As where the log was restored from one backup, and what was derived from it from another.
@Suite("Projections beyond the end of the log", .timeLimit(.minutes(1)))
struct BeyondLogTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    @Test("those that are derived begin anew, and what is done once goes on from the end, also where its row was lost")
    func projections() async throws {
        let rig = try await RebuildRig(seed: 34, originals: 3, events: 20)
        let ledger = rig.ledger
        _ = try await ledger.writer.append(.endpoint("we_all"))
        let seen = SeenProjector(pool: ledger.pool)
        let webhooks = WebhookProjector(ledger)
        func catchUp() async throws {
            try await seen.catchUp()
            try await TreeProjector(pool: ledger.pool).catchUp()
            try await ChartProjector(pool: ledger.pool).catchUp()
            try await DriftProjector(pool: ledger.pool).catchUp()
            try await WatchProjector(pool: ledger.pool).catchUp(now: Self.now)
            try await WebLookupProjector(pool: ledger.pool) { _, _ in [] }.catchUp(now: Self.now)
            while try await webhooks.step(now: { Self.now }).isUnfinished {}
        }
        try await catchUp()
        let summary = try await seen.summary(besides: ledger.reader.catalog().catalog)
        let names = ["charts", "drift", "seen", "tree", "watch", "web_lookup", "webhook", "webhook_drift"]
        try await rig.owner.execute(
            script: """
                INSERT INTO projection VALUES (1, 'webhook_drift', 1, 0) ON CONFLICT DO NOTHING;
                UPDATE projection SET checkpoint = 99999 WHERE name <> 'originals';
                UPDATE seen SET events = events + 1
                """)
        #expect(try await ledger.reader.status().projectionsBeyondLog.map(\.name) == names)
        try await catchUp()
        // What drift was told had to be looked at before the differences were found anew.
        try await catchUp()
        let status = try await ledger.reader.status()
        #expect(status.projectionsBeyondLog.isEmpty)
        for projection in status.projections where projection.name != "originals" {
            #expect(projection.checkpoint == status.position, "\(projection.name)")
        }
        #expect(try await seen.summary(besides: ledger.reader.catalog().catalog) == summary)
        let count = "SELECT count(*) FROM webhook_message"
        let before = try await rig.owner.query(count).row(0).int(0)
        // What was told once is not told again where nothing says any more how far that came.
        for lost in ["'webhook', 'webhook_drift'", "'webhook'", "'webhook_drift'"] {
            try await rig.owner.execute(script: "DELETE FROM projection WHERE name IN (\(lost))")
            try await catchUp()
            let now = try await ledger.reader.status()
            for name in ["webhook", "webhook_drift"] {
                #expect(now.projections.first { $0.name == name }?.checkpoint == now.position, "\(lost): \(name)")
            }
        }
        #expect(try await rig.owner.query(count).row(0).int(0) == before)
        let grant = try await ledger.writer.append(.grant("grant", of: "pro", to: "ann")).position
        try await catchUp()
        let told = try await rig.owner.query("SELECT FROM webhook_message WHERE position = \(grant)")
        #expect(!told.isEmpty)
    }
}
