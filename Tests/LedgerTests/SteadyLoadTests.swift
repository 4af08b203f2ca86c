import EntitlementCore
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// What follows the log while more comes into it all the time.
@Suite("Following the log under a steady load", .timeLimit(.minutes(1)))
struct SteadyLoadTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    @Test("differences are told apart up to the end of the log, and what comes meanwhile is left to the next time")
    func differences() async throws {
        let ledger = try await TestLedger()
        let drafts = RandomDrafts(seed: 71, originals: 9).drafts(600)
        for draft in drafts[..<20] { _ = try await ledger.writer.append(draft) }
        let pages = Mutex(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for draft in drafts[20...] where !Task.isCancelled { _ = try await ledger.writer.append(draft) }
            }
            let begun = ContinuousClock.now
            while try await LedgerReader(pool: ledger.pool, now: { .latest }).status().position < 30 {
                try #require(begun.duration(to: .now) < .seconds(20))
            }
            try await DriftProjector(pool: ledger.pool).catchUp(isHurried: true) { _ in pages.withLock { $0 += 1 } }
            group.cancelAll()
            try await group.waitForAll()
        }
        #expect(pages.withLock(\.self) == 1)
    }

    @Test("a step that reaches the end of the log says so, so that the next may wait for more to come")
    func webhooks() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(.endpoint("we_all"))
        let projector = WebhookProjector(ledger, pageEvents: 2)
        while try await projector.step(now: { Self.now }).isUnfinished {}
        let drafts = RandomDrafts(seed: 72, originals: 2).drafts(3)
        for draft in drafts[..<2] { _ = try await ledger.writer.append(draft) }
        try await DriftProjector(pool: ledger.pool).catchUp()
        _ = try await ledger.writer.append(drafts[2])
        #expect(try await projector.step(now: { Self.now }) == .more)
        #expect(try await projector.step(now: { Self.now }) == .news)
        // Differences are told of in the same step: the next may find events again.
        let told = try await ledger.pool.withConnection { connection in
            try connection.query("SELECT name, checkpoint FROM projection WHERE name IN ('drift', 'webhook_drift')")
                .rows
                .map { try $0.int(1) }
        }
        #expect(told == [3, 3])
        while try await projector.step(now: { Self.now }).isUnfinished {}
        guard case .done = try await projector.step(now: { Self.now }) else {
            Issue.record("something is left to do")
            return
        }
    }

    @Test("a walk over everybody goes on with each step, whatever else comes into the log")
    func walk() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(.endpoint("we_all"))
        let everybody = (0..<200).map { EventDraft.grant("grant-\($0)", of: "pro", to: "customer-\($0)") }
        for draft in everybody { _ = try await ledger.writer.append(draft) }
        let projector = WebhookProjector(ledger, pageCustomers: 16)
        while try await projector.step(now: { Self.now }).isUnfinished {}
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        let steps = 200 / 16 + 2
        for number in 0..<steps {
            _ = try await ledger.writer.append(.grant("later-\(number)", of: "other", to: "somebody else"))
            let progress = try await projector.step(now: { Self.now })
            #expect(progress == (number < steps - 1 ? .more : .news), "step \(number)")
        }
        let isWalked = try await ledger.pool.withConnection { connection in
            try connection.query("SELECT walk_position IS NULL FROM answer_scope").row(0).bool(0)
        }
        #expect(isWalked)
    }

    @Test("a step that tells of events and of differences waits for endpoints in their order")
    func lockOrder() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(.endpoint("we_a", types: [.driftFound]))
        _ = try await ledger.writer.append(.endpoint("we_b", types: [.eventRecorded]))
        let projector = WebhookProjector(ledger)
        while try await projector.step(now: { Self.now }).isUnfinished {}
        let found = try await ledger.writer.append(.grant("grant", of: "pro", to: "ann")).position
        let owner = try await ledger.database.owner()
        try await owner.execute(
            script: """
                INSERT INTO drift (ledger_id, position, environment, comparison, class, cause, app, is_open, found_at)
                VALUES (1, \(found), 1, 1, 1, 1, '', true, now());
                INSERT INTO projection (ledger_id, name, version, checkpoint)
                VALUES (1, '\(DriftProjector.row.name)', \(DriftProjector.row.version), \(found))
                ON CONFLICT (ledger_id, name) DO UPDATE
                SET version = excluded.version, checkpoint = excluded.checkpoint;
                """)
        // As whoever notes how deliveries to both went.
        let sender = try await ledger.database.owner()
        try await sender.execute(script: "BEGIN; SELECT FROM webhook_endpoint WHERE endpoint = 'we_a' FOR UPDATE")
        async let progress = projector.step(now: { Self.now })
        try await ledger.database.untilASessionWaits()
        try await sender.execute(script: "SELECT FROM webhook_endpoint WHERE endpoint = 'we_b' FOR UPDATE; COMMIT")
        #expect(try await progress == .news)
        let given = try await owner.query(
            "SELECT endpoint FROM webhook_delivery JOIN webhook_message USING (number) WHERE position = \(found) ORDER BY 1"
        )
        #expect(try given.rows.map { try $0.text(0) } == ["we_a", "we_b"])
    }
}
