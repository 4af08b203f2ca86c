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
        let terms = EndpointTerms(
            urlHash: .zero, secretHash: .zero, origin: "https://example.com", types: [], environment: nil,
            bundleID: nil, format: "standard", description: nil)
        _ = try await ledger.writer.append(
            EventDraft(
                environment: nil, source: .api, occurredAt: nil,
                fact: .access(.endpoint(EndpointFact(endpointID: "we_all", change: .made(terms)))), identities: [],
                deduplication: .unique))
        let projector = WebhookProjector(
            pool: ledger.pool, pageEvents: 2, teller: NoTeller(), showDrift: { _ in [] }, show: { _ in [] })
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
}
