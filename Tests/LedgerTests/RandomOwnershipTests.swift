import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Random ownership events", .timeLimit(.minutes(5)))
struct RandomOwnershipTests {
    @Test(
        "every customer reads the same from the views, from the log, and from what the log said then",
        arguments: 1...8 as ClosedRange<UInt64>)
    func sameAnswers(seed: UInt64) async throws {
        let ledger = try await TestLedger()
        var words = RandomOwnershipEvents(seed: seed)
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        var then: [String: [EntitlementTimeline]] = [:]
        let last: Int64 = 61
        let middle: Int64 = 30
        let projector = ViewProjector(pool: ledger.pool, policy: .early)
        for position in 2...last {
            #expect(try await ledger.writer.append(words.draft(at: position)).position == position)
            if position.isMultiple(of: 20) { try await projector.catchUp() }
            guard position == middle else { continue }
            then = try await timelines(ledger, at: .head)
        }
        let now = try await timelines(ledger, at: .head)
        #expect(now == (try await timelines(ledger, at: .position(last))), "seed \(seed)")
        #expect(then == (try await timelines(ledger, at: .position(middle))), "seed \(seed)")
        #expect(now.values.contains { !$0.isEmpty }, "seed \(seed): something is held")
        let deleted = try await ledger.pool.withConnection { connection in
            try connection.query("DELETE FROM original_view").affectedRows
        }
        #expect(deleted > 0, "seed \(seed)")
        #expect(now == (try await timelines(ledger, at: .head)), "seed \(seed): without views")
    }

    /// How everybody reads; at the head by the views, else from the history.
    private func timelines(
        _ ledger: TestLedger, at knownAt: KnownAt
    ) async throws -> [String: [EntitlementTimeline]] {
        var all: [String: [EntitlementTimeline]] = [:]
        for person in RandomOwnershipEvents.people {
            for environment in StoreEnvironment.allCases {
                let customer = try #require(CustomerID(person))
                all["\(person) \(environment)"] = try await ledger.reader.customerFacts(
                    customer, environment: environment, knownAt: knownAt
                ).facts.timelines()
            }
        }
        return all
    }
}
