import EntitlementCore
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

@Suite("Charts in the database", .timeLimit(.minutes(5)))
struct ChartProjectorTests {
    /// Small, so that a short log has stretches of several levels.
    private static let layout = ChartLayout(positions: 4, width: 3)

    private typealias Answers = [String: ChartCells]

    private static func answers(_ ledger: TestLedger, _ knownAt: KnownAt = .head) async throws -> Answers {
        var answers: Answers = [:]
        for environment in StoreEnvironment.allCases {
            for chart in ChartName.allCases {
                answers["\(environment) \(chart)"] = try await ledger.reader.chart(
                    chart, environment: environment, knownAt: knownAt, layout: layout
                ).cells
            }
        }
        return answers
    }

    /// What the log's originals contribute, each folded whole.
    private static func folded(_ ledger: TestLedger, upTo position: Int64) async throws -> Answers {
        let cells = try await ledger.pool.withConnection { connection in
            let keys = try connection.query(
                "SELECT DISTINCT environment, original_transaction_id FROM event WHERE original_transaction_id IS NOT NULL"
            ).rows.map {
                OriginalKey(
                    environment: try StoreEnvironment(stored: $0.int(0)), originalTransactionID: try $0.text(1))
            }
            var cells: [StoreEnvironment: ChartCells] = [:]
            for (key, state) in try StateQuery.fold(keys, upTo: position, on: connection) {
                cells[key.environment, default: ChartCells()].add(ChartCells(state.chartContribution()))
            }
            return cells
        }
        var answers: Answers = [:]
        for environment in StoreEnvironment.allCases {
            for chart in ChartName.allCases {
                answers["\(environment) \(chart)"] = (cells[environment] ?? ChartCells())[chart]
            }
        }
        return answers
    }

    private static func stored(_ ledger: TestLedger) async throws -> [String] {
        try await ledger.pool.withConnection { connection in
            try connection.query("SELECT part::text FROM chart_part AS part ORDER BY 1").rows.map { try $0.text(0) }
        }
    }

    @Test(
        "what was answered at a position is answered for it ever after, and is the fold", arguments: Campaign.seeds(3))
    func pastAnswers(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let ledger = try await TestLedger()
        let projector = ChartProjector(pool: ledger.pool, layout: Self.layout)
        var told: [Int64: Answers] = [:]
        for draft in RandomDrafts(seed: seed, originals: 7).drafts(110) {
            let outcome = try await ledger.writer.append(draft)
            if Int.random(in: 0..<6, using: &random) == 0 { _ = try await ledger.writer.append(draft) }
            // At times nothing is counted for a while, and what is asked for lies beyond it.
            if Int.random(in: 0..<4, using: &random) == 0 { try await projector.catchUp(isHurried: true) }
            if Int.random(in: 0..<5, using: &random) == 0 {
                told[outcome.position] = try await Self.answers(ledger)
                if Int.random(in: 0..<4, using: &random) == 0 {
                    _ = try await ViewProjector(pool: ledger.pool, policy: .early).catchUp()
                }
            }
        }
        try await projector.catchUp(isHurried: true)
        let head = try await ledger.reader.status().position
        let whole = try await Self.answers(ledger)
        #expect(try await whole == Self.folded(ledger, upTo: head))
        #expect(whole.values.contains { $0.count > 20 })
        for position in 0...head {
            let answers = try await Self.answers(ledger, .position(position))
            #expect(try await answers == Self.folded(ledger, upTo: position), "seed \(seed), position \(position)")
            if let then = told[position] { #expect(answers == then, "seed \(seed), position \(position)") }
        }
        let stored = try await Self.stored(ledger)
        try await projector.reset()
        #expect(try await Self.stored(ledger).isEmpty)
        #expect(try await Self.answers(ledger) == whole, "what is not counted yet is counted for the answer")
        try await projector.catchUp(isHurried: true)
        #expect(try await Self.stored(ledger) == stored)
        for stretches in [2, 5] {
            try await projector.reset()
            try await projector.catchUp(isHurried: true, stretches: stretches)
            #expect(try await Self.stored(ledger) == stored, "seed \(seed), \(stretches) at a time")
        }
        var limits = Verifier.Limits()
        (limits.charts, limits.events) = (Self.layout, 5)
        let summary = try await Verifier(pool: ledger.pool, limits: limits, derive: nil).run()
        #expect(summary.chartParts > head / 4)
    }

    @Test("what was counted of events that the log has lost since is counted anew")
    func lostEnd() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let drafts = RandomDrafts(seed: 12, originals: 3).drafts(25)
        _ = try await ledger.writer.append(drafts[0])
        let end = try await LogEnd.now(of: owner)
        for draft in drafts[1...12] { _ = try await ledger.writer.append(draft) }
        let projector = ChartProjector(pool: ledger.pool, layout: Self.layout)
        let ready = try await projector.countAhead(2)
        #expect(ready.count == 2)
        try await end.restore(by: owner)
        for draft in drafts[13...] { _ = try await ledger.writer.append(draft) }
        for _ in ready { _ = try await projector.page(ready) }
        try await projector.catchUp(isHurried: true)
        let stored = try await Self.stored(ledger)
        try await projector.reset()
        try await projector.catchUp(isHurried: true)
        #expect(try await Self.stored(ledger) == stored)
    }

    @Test("several processes that count at once count each event once")
    func together() async throws {
        let ledger = try await TestLedger()
        for draft in RandomDrafts(seed: 9, originals: 5).drafts(60) { _ = try await ledger.writer.append(draft) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for stretches in [1, 2, 3] {
                group.addTask {
                    try await ChartProjector(pool: ledger.pool, layout: Self.layout)
                        .catchUp(isHurried: true, stretches: stretches, patience: .seconds(60))
                }
            }
            try await group.waitForAll()
        }
        let head = try await ledger.reader.status().position
        #expect(try await Self.answers(ledger) == Self.folded(ledger, upTo: head))
        let counted = try await ledger.pool.withConnection { try ChartProjector.row.checkpoint(on: $0) }
        #expect(counted == head)
    }

    @Test("where much is left to be counted, an answer says so")
    func behind() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(RandomDrafts(seed: 9, originals: 5).drafts(1)[0])
        let owner = try await ledger.database.owner()
        try await owner.execute(
            script: """
                INSERT INTO event SELECT 1, 1 + n, head.recorded_at, NULL, NULL, 5, 'granted', NULL, NULL, NULL, NULL, NULL,
                    NULL, '\\x00', NULL, head.hash, head.hash
                FROM ledger_head AS head, generate_series(1, \(LedgerReader.uncountedChartEvents)) AS n;
                UPDATE ledger_head SET position = position + \(LedgerReader.uncountedChartEvents)
                """)
        await #expect {
            _ = try await ledger.reader.chart(.active, environment: .production)
        } throws: { ($0 as? LedgerError)?.code == .notReady }
        // What can be answered is.
        #expect(try await ledger.reader.chart(.active, environment: .production, knownAt: .position(1)).position == 1)
        try await ChartProjector(pool: ledger.pool).catchUp(isHurried: true)
        #expect(try await !ledger.reader.chart(.active, environment: .production).cells.isEmpty)
    }

    @Test("stretches cover the log without gaps, and what ends with a position is put together then")
    func layout() {
        let layout = ChartLayout.standard
        for position in [0, 1, 1023, 1024, 1025, 32_768, 40_000, 1_048_576, 5_000_000, 40_000_000_000] as [Int64] {
            let parts = layout.covering(upTo: position)
            var reached: Int64 = 0
            for part in parts {
                #expect(layout.start(of: part) == reached)
                reached = layout.end(of: part)
                #expect(part.level == 0 || layout.completed(at: reached).contains(part))
            }
            #expect(reached == position / 1024 * 1024 && parts.count < 200)
            #expect(layout.part(after: reached).number == position / 1024)
        }
    }
}
