import EntitlementCore
import TestSupport
import Testing

@testable import Ledger

@Suite("The log as one app's key reads it", .timeLimit(.minutes(5)))
struct ScopedFeedTests {
    @Test("one page decodes a bounded number of other apps' events, and says that there is more")
    func bounded() async throws {
        let ledger = try await TestLedger()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for draft in RandomDrafts(seed: 71, originals: 400).drafts(LedgerReader.appScanLimit + 2_000) {
                group.addTask { _ = try await ledger.writer.append(draft) }
            }
            try await group.waitForAll()
        }
        let head = try await ledger.reader.status().position
        #expect(head > Int64(LedgerReader.appScanLimit) + 1_000)
        let scope = LogScope(environment: nil, app: AppScope("com.example.other"))
        let first = try await ledger.reader.events(after: 0, limit: 10, only: scope)
        #expect(first.events.isEmpty && first.hasMore && first.nextAfter < head)
        let last = try await ledger.reader.events(after: first.nextAfter, limit: 10, only: scope)
        #expect(last.events.isEmpty && !last.hasMore && last.nextAfter == head)
    }
}
