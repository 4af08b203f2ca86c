import EntitlementCore
import Foundation
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// Batches that are written before the head is held.
@Suite("Appends ahead of the head", .serialized)
struct AheadAppendTests {
    private static func writer(
        _ database: TestDatabase, _ number: Int = 0, batchEvents: Int = 64, conninfo: String? = nil,
        report: @escaping @Sendable (LedgerWriter.BatchReport) -> Void = { _ in }
    ) -> LedgerWriter {
        var limits = LedgerWriter.Limits()
        (limits.batchEvents, limits.lockedBatches) = (batchEvents, 0)
        return LedgerWriter(
            pool: PostgresPool(
                conninfo ?? database.serveConninfo, limits: PostgresPool.Limits(connections: 2, wait: .seconds(30))),
            limits: limits, now: { Timestamp(milliseconds: Int64(1_800_000_000_000) + Int64(number) * 7_000) },
            report: report)
    }

    private static func appendAll(_ drafts: [EventDraft], _ writers: [LedgerWriter]) async throws -> [AppendOutcome] {
        try await withThrowingTaskGroup(of: (Int, AppendOutcome).self) { group in
            for (index, draft) in drafts.enumerated() {
                group.addTask { (index, try await writers[index % writers.count].append(draft)) }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    @Test("a writer that is alone needs no lock to decide, and what comes again is no event", arguments: [8, 64])
    func alone(batchEvents: Int) async throws {
        let database = try await TestDatabase.make()
        let writer = Self.writer(database, batchEvents: batchEvents)
        let drafts = RandomDrafts(seed: 61, originals: 9).drafts(150)
        let impostors = drafts.enumerated().map { index, draft in
            draft.posing(as: "uuid-61-\(index)", payloadHash: RandomDrafts.digest("impostor \(index)"))
        }
        let first = try await Self.appendAll(drafts, [writer])
        #expect(first.allSatisfy { !$0.isDuplicate } && Set(first.map(\.position)) == Set(1...150))
        let again = try await Self.appendAll(drafts + impostors + drafts + impostors, [writer])
        for index in 0..<150 {
            #expect(again[index] == AppendOutcome(position: first[index].position, isDuplicate: true))
            #expect(again[index] == again[300 + index])
            #expect(again[150 + index].position == again[450 + index].position)
            #expect(again[150 + index].isDuplicate != again[450 + index].isDuplicate)
        }
        // Another writer remembers nothing of it.
        let other = Self.writer(database)
        _ = try await other.append(RandomDrafts(seed: 62, originals: 1).drafts(1)[0])
        let known = try await Self.appendAll(drafts + impostors, [other])
        #expect(known.allSatisfy(\.isDuplicate) && known.prefix(150).map(\.position) == first.map(\.position))
        try await LogInspection(database).expectSound("alone")
        _ = try await Verifier(pool: database.pool(), derive: nil).run()
    }

    @Test("batches are written while somebody holds the head, and committed after whoever holds it")
    func heldHead() async throws {
        let database = try await TestDatabase.make()
        let writer = Self.writer(database)
        let drafts = RandomDrafts(seed: 63, originals: 5).drafts(400)
        _ = try await Self.appendAll(Array(drafts[..<100]), [writer])
        let holder = try await database.owner()
        try await holder.execute(script: "BEGIN; SELECT position FROM ledger_head FOR UPDATE")
        async let outcomes = Self.appendAll(Array(drafts[100...]), [writer])
        try await Task.sleep(for: .milliseconds(200))
        let reader = LedgerReader(pool: database.pool(), now: { .latest })
        #expect(try await reader.status().position == 100)
        #expect(try await reader.events(after: 0, limit: 1000).events.count == 100)
        try await holder.execute(script: "COMMIT")
        #expect(Set(try await outcomes.map(\.position)) == Set(101...400))
        try await LogInspection(database).expectSound("held")
    }

    @Test("instances that all write ahead, whatever the others do, keep one dense log", arguments: [UInt64(64), 65])
    func racing(seed: UInt64) async throws {
        let database = try await TestDatabase.make()
        let forgetter = Forgetter(pool: PostgresPool(database.ownerConninfo), now: { .earliest })
        let writers = (0..<3).map { Self.writer(database, $0, batchEvents: [1, 10, 64][$0]) }
        let drafts = RandomDrafts(seed: seed, originals: 7).drafts(300 * Campaign.factor)
        let isDone = Tally()
        let forgotten = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                var random = SplitMix64(seed: seed)
                while isDone.count == 0 {
                    let customer = try #require(CustomerID("customer-of-2000\(Int.random(in: 0..<7, using: &random))"))
                    if try await forgetter.forget(customer) != nil { forgotten.add() }
                    try await Task.sleep(for: .milliseconds(5))
                }
            }
            group.addTask {
                defer { isDone.add() }
                // Each at all three, so that they meet each other's statements.
                let outcomes = try await Self.appendAll(drafts.flatMap { [$0, $0, $0] }, writers)
                #expect(outcomes.count { !$0.isDuplicate } == drafts.count, "seed \(seed)")
                for index in drafts.indices {
                    #expect(Set(outcomes[(3 * index)..<(3 * index + 3)].map(\.position)).count == 1, "seed \(seed)")
                }
            }
            try await group.waitForAll()
        }
        #expect(forgotten.count > 0, "nothing was raced")
        try await ViewInspection(database).expectTrueNames("seed \(seed)")
        _ = try await Verifier(pool: database.pool(), derive: nil).run()
    }

    @Test(
        "connections that are cut anywhere lose nothing acknowledged and write nothing twice", arguments: [UInt64(66)])
    func cutAnywhere(seed: UInt64) async throws {
        let database = try await TestDatabase.make()
        let proxy = try CuttingProxy(database.serveConninfo, cut: .randomly(seed: seed, within: 200_000))
        defer { proxy.stop() }
        let writer = Self.writer(database, batchEvents: 10, conninfo: proxy.conninfo)
        let drafts = RandomDrafts(seed: seed, originals: 7).drafts(600 * Campaign.factor)
        var acknowledged: [Int: Int64] = [:]
        for round in 0..<3 {
            if round == 2 { proxy.calm() }
            await withTaskGroup(of: (Int, Int64?).self) { group in
                for (index, draft) in drafts.enumerated() {
                    group.addTask { (index, try? await writer.append(draft).position) }
                }
                for await case (let index, let position?) in group {
                    #expect(acknowledged[index] ?? position == position, "seed \(seed): \(index) moved")
                    acknowledged[index] = position
                }
            }
        }
        await writer.drain()
        #expect(proxy.cuts > 3, "nothing was tested")
        #expect(acknowledged.count == drafts.count, "seed \(seed)")
        #expect(Set(acknowledged.values) == Set(1...Int64(drafts.count)), "seed \(seed)")
        try await LogInspection(database).expectSound("seed \(seed)")
    }
}
