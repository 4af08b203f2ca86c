import EntitlementCore
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

@Suite("Rebuild")
struct RebuildTests {
    @Test("a rebuild is the fold of the log, whatever stood in either generation, and holds no more than a page")
    func healing() async throws {
        let rig = try await RebuildRig(seed: 11, originals: 9, events: 150)
        let truth = try await rig.folded()
        #expect(truth.count > 8)
        let columns =
            "ledger_id, GENERATION, environment, original_transaction_id, fold_version, last_position, events, state"
        let damages = [
            "UPDATE original_view SET state = decode('00', 'hex'), last_position = last_position + 1",
            "DELETE FROM original_view WHERE original_transaction_id < '20004'", "DELETE FROM original_view",
            "INSERT INTO original_view SELECT 1, LIVE, environment, 'x' || original_transaction_id, 1, 1, 1, state FROM original_view",
            // What would be taken for the new generation's, of an environment that there is none, and of other times.
            "INSERT INTO original_view SELECT \(columns.replacing("GENERATION", with: "LIVE + 1")) FROM original_view",
            "INSERT INTO original_view VALUES (1, LIVE + 1, 7, '1', 1, 1, 1, 'a'), (1, LIVE + 1, 1, '2000', 1, 1, 1, 'b')",
            "INSERT INTO original_view VALUES (1, LIVE + 2, 1, '20001', 1, 1, 1, 'a'), (1, -1, 1, '20001', 1, 1, 1, 'a')",
            "UPDATE original_view SET generation = generation + 1",
        ]
        for damage in damages {
            let before = try await rig.views.generation()
            try await rig.owner.execute(script: damage.replacing("LIVE", with: "\(before)"))
            let progress = ProgressKeeper()
            let report = try await rig.rebuilder().run { progress.keep($0) }
            #expect(try await rig.views.generation() == before + 1, "\(damage)")
            #expect(try await rig.views.rows() == truth, "\(damage)")
            try await rig.expectRebuilt(damage)
            #expect(report.events == 150 && !report.isResumed)
            #expect(report.originals == Int64(try await rig.views.lives().count))
            #expect(progress.all.allSatisfy { $0.held <= 7 })
            #expect(Set(progress.all.map(\.phase)).isSuperset(of: [.emptying, .folding, .proving, .clearing]))
        }
    }

    @Test(
        "however much is read at a time, the same rows are written, and nothing twice",
        arguments: [(1, 1), (3, 2), (5, 1000), (7, 20), (40, 13), (1000, 1000)])
    func pageSizes(events: Int, counted: Int64) async throws {
        let rig = try await RebuildRig(seed: 30, originals: 6, events: 130)
        let truth = try await rig.folded()
        let lives = try await rig.views.lives()
        #expect(lives.values.contains { $0.events.count > 20 }, "no life is longer than a page")
        let progress = ProgressKeeper()
        let report = try await rig.rebuilder {
            $0.pageEvents = events
            $0.walkEvents = counted
        }.run { progress.keep($0) }
        #expect(try await rig.views.rows() == truth)
        #expect(report.events == 130 && report.originals == Int64(lives.count))
        let folding = progress.all.filter { $0.phase == .folding }
        #expect(folding.reduce(0) { $0 + $1.passed } == 130)
        #expect(folding.allSatisfy { $0.held <= events })
        try await rig.expectRebuilt()
    }

    @Test("an empty log has empty views")
    func empty() async throws {
        let rig = try await RebuildRig(seed: 12, originals: 1, events: 0)
        #expect(try await rig.rebuilder().run().originals == 0)
        try await rig.expectRebuilt()
    }

    @Test("while three writers append, the rebuilt views are complete and exact", arguments: [UInt64(13), 14])
    func concurrentAppends(seed: UInt64) async throws {
        let rig = try await RebuildRig(seed: seed, originals: 12, events: 60)
        // Of so many originals hardly any comes often: what a swap forgets is not healed by the next event.
        let more = RandomDrafts(seed: seed + 100, originals: 2000).drafts(9000)
        let next = Tally()
        for round in 1...4 {
            let isSwapped = Tally()
            let before = next.count
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    // Writers of their own, as in other processes: only the head row orders them.
                    let writer = LedgerWriter(
                        pool: rig.ledger.database.pool(connections: 1), now: { Timestamp(milliseconds: Int64(1)) })
                    group.addTask {
                        while isSwapped.count == 0 { _ = try await writer.append(more[next.add()]) }
                    }
                }
                _ = try await rig.rebuilder { $0.pageEvents = 50 }.run { progress in
                    if progress.phase == .clearing { isSwapped.add() }
                }
                try await group.waitForAll()
            }
            #expect(next.count >= before + 3, "nothing was appended meanwhile")
            try await rig.expectRebuilt("seed \(seed) round \(round)")
        }
    }

    @Test("interrupted anywhere, it goes on where it stopped", arguments: [UInt64(15), 16, 17])
    func interrupted(seed: UInt64) async throws {
        let rig = try await RebuildRig(seed: seed, originals: 8, events: 100)
        var more = RandomDrafts(seed: seed + 100, originals: 20).drafts(60)[...]
        var random = SplitMix64(seed: seed)
        try await rig.owner.execute(
            script: "UPDATE original_view SET fold_version = 0; UPDATE projection SET version = 0")
        var resumed = 0
        var foldedPages = 0
        for attempt in 1... {
            let stop = Int.random(in: 1...(attempt < 40 ? 6 : 10_000), using: &random)
            // Progress is reported from within the rebuild's own task.
            let progress = ProgressKeeper { count, _ in
                if count == stop { withUnsafeCurrentTask { $0?.cancel() } }
            }
            let rebuilder = rig.rebuilder()
            let task = Task { try await rebuilder.run { progress.keep($0) } }
            let result = await task.result
            foldedPages += progress.all.count { $0.phase == .folding }
            if case .success(let report) = result {
                resumed += report.isResumed ? 1 : 0
                break
            }
            #expect(throws: CancellationError.self, "seed \(seed)") { try result.get() }
            try await rig.append(more.prefix(2))
            more = more.dropFirst(2)
            let reason = try await rebuilder.reasonToRebuild()
            #expect(reason != nil || progress.all.contains { $0.phase == .clearing }, "seed \(seed)")
            if reason == nil {
                try await rebuilder.clearLeftovers()
                resumed += 1
                break
            }
        }
        #expect(resumed == 1, "seed \(seed)")
        // 160 events in pages of 7 are 23, and each life may fold one original's pages again.
        #expect(foldedPages < 200, "seed \(seed): \(foldedPages) pages were folded; it begins again every time")
        try await rig.expectRebuilt("seed \(seed)")
    }

    @Test("the swap is one step: every read sees views that count")
    func atomicSwap() async throws {
        let rig = try await RebuildRig(seed: 18, originals: 10, events: 120)
        try await rig.projector.catchUp()
        let keys = try await rig.folded().keys.sorted()
        let isDone = Tally()
        let reads = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    while isDone.count == 0 {
                        let found = try await rig.ledger.pool.withConnection { connection in
                            let query = StateQuery.lives(of: keys)
                            // Snapshots have no source.
                            return try connection.query(query.sql, query.parameters).rows.count { try $0.isNull(2) }
                        }
                        #expect(found == keys.count, "a read found a snapshot missing")
                        reads.add()
                    }
                }
            }
            for _ in 0..<4 { _ = try await rig.rebuilder().run() }
            isDone.add()
            try await group.waitForAll()
        }
        #expect(reads.count > 10)
    }

    @Test("answers given once are given again after a rebuild")
    func sameAnswers() async throws {
        let rig = try await RebuildRig(seed: 19, originals: 3, events: 0)
        let customers = try (0..<3).map { try #require(CustomerID(rig.drafts.customer(of: "2000\($0)"))) }
        let at = Timestamp(milliseconds: Int64(1_710_000_000_000))
        func answers(_ knownAt: KnownAt) async throws -> [[EntitlementAnswer]] {
            var all: [[EntitlementAnswer]] = []
            for customer in customers {
                all.append(
                    try await rig.ledger.reader.customerFacts(customer, environment: .production, knownAt: knownAt)
                        .facts.answers(at: at))
            }
            return all
        }
        var given: [[[EntitlementAnswer]]] = []
        for draft in rig.drafts.drafts(40) {
            _ = try await rig.ledger.writer.append(draft)
            try await rig.projector.catchUp()
            given.append(try await answers(.head))
        }
        try await rig.owner.execute(script: "UPDATE original_view SET fold_version = 0 WHERE random() < 0.5")
        _ = try await rig.rebuilder().run()
        for (index, answer) in given.enumerated() {
            #expect(try await answers(.position(Int64(index + 2))) == answer)
        }
        #expect(try await answers(.head) == given.last)
    }
}
