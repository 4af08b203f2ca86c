import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("A rebuild's lease, its reasons and its proof")
struct RebuildLeaseTests {
    @Test("of two rebuilds at once, the second says so")
    func twoAtOnce() async throws {
        let rig = try await RebuildRig(seed: 21, originals: 10, events: 200)
        let (started, start) = AsyncStream<Void>.makeStream()
        let slow = rig.rebuilder { $0.share = 0.1 }
        let first = Task { try await slow.run { _ in start.yield() } }
        for await _ in started { break }
        await #expect(throws: RebuildUnderWay.self) {
            try await rig.rebuilder { $0.lease = .seconds(30) }.run()
        }
        _ = try await first.value
        try await rig.expectRebuilt()
    }

    @Test("a dead rebuild's lease runs out, and the next goes on from where it was")
    func deadHolder() async throws {
        let rig = try await RebuildRig(seed: 22, originals: 10, events: 100)
        try await rig.interrupt { $0.phase == .folding && $0.originals >= 3 }
        try await rig.owner.execute(script: "UPDATE rebuild SET holder = 'dead', heartbeat_at = clock_timestamp()")
        let progress = ProgressKeeper()
        let report = try await rig.rebuilder().run { progress.keep($0) }
        #expect(report.isResumed)
        #expect(try #require(progress.all.first).originals >= 3, "it began again")
        try await rig.expectRebuilt()
    }

    @Test("a sign of life that lies ahead, for the database's clock was set back, keeps nobody waiting until then")
    func clockSetBack() async throws {
        let rig = try await RebuildRig(seed: 33, originals: 10, events: 100)
        try await rig.interrupt { $0.phase == .folding && $0.originals >= 3 }
        func claim(ahead interval: String) async throws {
            try await rig.owner.execute(
                script: "UPDATE rebuild SET holder = 'dead', heartbeat_at = clock_timestamp() + interval '\(interval)'")
        }
        func isRunning() async throws -> Bool {
            try #require(try await rig.ledger.reader.statistics().rebuild).isRunning
        }
        try await claim(ahead: "5 seconds")
        #expect(try await isRunning(), "two sessions may read the clock a little apart")
        try await claim(ahead: "2 hours")
        // Else what follows would wait for two hours.
        try #require(try await !isRunning())
        let report = try await rig.rebuilder { $0.lease = .seconds(30) }.run()
        #expect(report.isResumed)
        try await rig.expectRebuilt()
    }

    @Test("one whose lease was taken writes nothing more")
    func takenOver() async throws {
        let rig = try await RebuildRig(seed: 23, originals: 10, events: 200)
        let (started, start) = AsyncStream<Void>.makeStream()
        let slow = rig.rebuilder { $0.share = 0.05 }
        let first = Task { try await slow.run { if $0.phase == .folding { start.yield() } } }
        for await _ in started { break }
        try await rig.owner.execute(script: "UPDATE rebuild SET holder = 'another'")
        let next = try await rig.views.generation() + 1
        let rows = try await rig.views.rows(of: next)
        await #expect(throws: LedgerError.self) { try await first.value }
        #expect(try await rig.views.rows(of: next) == rows)
        #expect(try await rig.owner.query("SELECT holder FROM rebuild").first?.text(0) == "another")
    }

    @Test("another fold version, events without views, missing and old rows are each a reason, and healed")
    func reasons() async throws {
        let rig = try await RebuildRig(seed: 24, originals: 6, events: 60)
        try await rig.projector.catchUp()
        #expect(try await rig.rebuilder().reasonToRebuild() == nil)
        let cases: [(String, (RebuildReason?) -> Bool)] = [
            ("UPDATE projection SET version = 0", { $0 == .otherVersion(0) }),
            ("DELETE FROM projection", { $0 == .otherVersion(nil) }),
            ("UPDATE projection SET checkpoint = 62", { $0 == .ahead(checkpoint: 62, head: 61) }),
            (
                "DELETE FROM original_view WHERE original_transaction_id = '20003'",
                { $0 == .unproven(originalTransactionID: "20003") }
            ),
            ("UPDATE original_view SET fold_version = 0", { if case .unproven = $0 { true } else { false } }),
            ("UPDATE original_view SET events = 0", { if case .unproven = $0 { true } else { false } }),
            ("UPDATE original_view SET generation = 77", { if case .unproven = $0 { true } else { false } }),
            ("TRUNCATE original_view", { if case .unproven = $0 { true } else { false } }),
        ]
        for (damage, isExpected) in cases {
            try await rig.owner.execute(script: damage)
            let reason = try await rig.rebuilder().reasonToRebuild()
            #expect(isExpected(reason), "\(damage): \(String(describing: reason))")
            _ = try await rig.rebuilder().run()
            try await rig.expectRebuilt(damage)
        }
        try await rig.interrupt { $0.phase == .folding }
        #expect(try await rig.rebuilder().reasonToRebuild() == .unfinished)
    }

    @Test("a rebuilt row that is not the fold is found by the proof, and the live views stay what they are")
    func failedProof() async throws {
        let damages = [
            "UPDATE original_view SET state = state || '\\x00' WHERE NEW",
            "UPDATE original_view SET last_position = last_position - 1 WHERE NEW",
            "UPDATE original_view SET events = events + 1 WHERE NEW",
            "UPDATE original_view SET fold_version = 0 WHERE NEW",
            "UPDATE original_view SET environment = environment + 2 WHERE NEW AND original_transaction_id = '20002'",
            "DELETE FROM original_view WHERE NEW AND original_transaction_id > '20004'",
            """
            INSERT INTO original_view SELECT ledger_id, generation, environment, original_transaction_id || 'x', 1, 1, 1,
                state FROM original_view WHERE NEW
            """,
            "INSERT INTO original_view SELECT 1, view_generation + 1, 2, 'zzz', 1, 1, 1, 'x' FROM ledger_head",
            "INSERT INTO original_view SELECT 1, view_generation + 1, 7, 'zzz', 1, 1, 1, 'x' FROM ledger_head",
            // Two at once, which a sum must not take for none.
            """
            WITH moved AS (
                SELECT original_transaction_id AS original, lead(state) OVER (ORDER BY original_transaction_id) AS state
                FROM original_view WHERE NEW AND environment = 1
            )
            UPDATE original_view SET state = moved.state FROM moved
            WHERE NEW AND environment = 1 AND original_transaction_id = moved.original AND moved.state IS NOT NULL
            """,
        ]
        let rig = try await RebuildRig(seed: 25, originals: 6, events: 80)
        for damage in damages {
            let live = try await rig.views.generation()
            try await rig.interrupt { $0.phase == .proving }
            try await rig.owner.execute(script: damage.replacing("NEW", with: "generation = \(live + 1)"))
            let error = await #expect(throws: LedgerError.self, "\(damage)") { try await rig.rebuilder().run() }
            #expect(error?.code == .corrupt, "\(damage)")
            #expect(try await rig.views.generation() == live)
            _ = try await rig.rebuilder().run()
            try await rig.expectRebuilt(damage)
        }
    }

    @Test("what an interrupted rebuild left of the old views is deleted")
    func leftovers() async throws {
        let rig = try await RebuildRig(seed: 26, originals: 12, events: 80)
        try await rig.projector.catchUp()
        try await rig.interrupt { $0.phase == .clearing }
        let live = try await rig.views.generation()
        #expect(live == 1)
        #expect(try await !rig.views.rows(of: 0).isEmpty)
        try await rig.rebuilder().clearLeftovers()
        #expect(try await rig.views.generation() == live)
        try await rig.expectRebuilt()
    }

    @Test("looking for leftovers of a ledger that was never rebuilt does not make it one that was")
    func neverRebuilt() async throws {
        let rig = try await RebuildRig(seed: 31, originals: 2, events: 5)
        try await rig.rebuilder().clearLeftovers()
        #expect(try await rig.ledger.reader.statistics().rebuild == nil)
        _ = try await rig.rebuilder().run()
        #expect(try await rig.ledger.reader.statistics().rebuild?.phase == .done)
    }

    @Test("rows that somebody else wrote into the new views stop the rebuild, and the next one heals it")
    func strayRows() async throws {
        let rig = try await RebuildRig(seed: 32, originals: 6, events: 80)
        try await rig.interrupt { $0.phase == .folding && $0.originals >= 1 }
        let live = try await rig.views.generation()
        try await rig.owner.execute(
            script: """
                INSERT INTO original_view
                SELECT 1, \(live + 1), environment, original_transaction_id, 1, max(position), count(*), 'x' FROM event
                WHERE original_transaction_id IS NOT NULL GROUP BY environment, original_transaction_id
                ON CONFLICT DO NOTHING
                """)
        let error = await #expect(throws: LedgerError.self) { try await rig.rebuilder().run() }
        #expect(error?.code == .corrupt)
        #expect(try await rig.views.generation() == live)
        _ = try await rig.rebuilder().run()
        try await rig.expectRebuilt()
    }

    @Test("the statistics say what is there")
    func statistics() async throws {
        let rig = try await RebuildRig(seed: 29, originals: 5, events: 50)
        let statistics = try await rig.ledger.reader.statistics()
        #expect(statistics.originals.rows > 5)
        #expect(statistics.roles == LedgerStatistics.Roles(serving: "rightful_serve", owner: "rightful"))
        #expect(statistics.originals == RowCount(rows: Int64(try await rig.views.lives().count), isEstimate: false))
        #expect(statistics.identities == RowCount(rows: 5, isEstimate: false))
        #expect(statistics.identitiesGiven == 5)
        #expect(statistics.rebuild == nil)
        #expect(statistics.sizes.log > 0 && statistics.sizes.evidence > 0 && statistics.sizes.views > 0)
        #expect(statistics.sizes.database > statistics.sizes.log)
        try await rig.interrupt { $0.phase == .proving }
        let rebuild = try #require(try await rig.ledger.reader.statistics().rebuild)
        #expect(rebuild.phase == .proving && !rebuild.isRunning && rebuild.isUnfinished)
    }
}

extension RebuildRig {
    /// Runs a rebuild and stops it when its progress is such.
    fileprivate func interrupt(_ condition: @escaping @Sendable (RebuildProgress) -> Bool) async throws {
        let rebuilder = rebuilder()
        let task = Task {
            try await rebuilder.run { progress in
                // Progress is reported from within the rebuild's own task.
                if condition(progress) { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
