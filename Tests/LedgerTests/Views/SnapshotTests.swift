import EntitlementCore
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// A snapshot and the events after it say what the log alone says, whatever stands in the table.
@Suite("Snapshots")
struct SnapshotTests {
    @Test(
        "a snapshot at any event, with the tail after it, is the fold of the log up to any position",
        arguments: [UInt64(41), 42])
    func anyEnd(seed: UInt64) async throws {
        let rig = try await RebuildRig(seed: seed, originals: 4, events: 160)
        let lives = try await rig.views.lives()
        var random = SplitMix64(seed: seed)
        var ends = 0
        for round in 0..<12 {
            try await rig.owner.execute(script: "DELETE FROM original_view")
            for (key, life) in lives.sorted(by: { $0.key < $1.key }) where Int.random(in: 0..<5, using: &random) > 0 {
                let end = try #require(life.events.randomElement(using: &random)).record.position
                let row = try #require(life.row(upTo: end))
                try await rig.write(row, of: key, generation: 0)
                ends += 1
            }
            let upTo = round.isMultiple(of: 3) ? Int64.max : Int64.random(in: 1...161, using: &random)
            try await Self.expectReads(rig, lives, upTo: upTo, "seed \(seed) round \(round)")
        }
        #expect(ends > 40)
    }

    @Test(
        "what is garbled, of another version, another generation or a half-done rebuild is passed over",
        arguments: [UInt64(43)])
    func garbled(seed: UInt64) async throws {
        let rig = try await RebuildRig(seed: seed, originals: 4, events: 120)
        try await rig.projector.catchUp()
        let lives = try await rig.views.lives()
        try await rig.owner.execute(script: "CREATE TABLE saved_view AS TABLE original_view")
        var random = SplitMix64(seed: seed)
        let damages = [
            "state = substr(state, 1, length(state) / 2)", "state = ''", "state = state || '\\x00'",
            "last_position = last_position + 1", "last_position = last_position - 1", "last_position = 0",
            "last_position = 100000", "events = events + 5", "fold_version = fold_version + 1",
            "generation = generation + 1", "generation = generation - 1",
        ]
        for round in 0..<30 {
            let damage = try #require(damages.randomElement(using: &random))
            let hit = try await rig.owner.query(
                """
                UPDATE original_view SET \(damage)
                WHERE ('x' || substr(md5(original_transaction_id || \(round)), 1, 2))::bit(8)::int < 128
                """
            ).affectedRows
            let upTo = round.isMultiple(of: 2) ? Int64.max : Int64.random(in: 1...121, using: &random)
            try await Self.expectReads(rig, lives, upTo: upTo, "seed \(seed) \(damage) \(hit)")
            try await rig.owner.execute(
                script: "DELETE FROM original_view; INSERT INTO original_view SELECT * FROM saved_view")
        }
        // A rebuild that was killed has left rows of the generation to come; the live ones are gone.
        let rebuilder = rig.rebuilder()
        let task = Task {
            try await rebuilder.run { progress in
                if progress.phase == .folding, progress.originals >= 3 { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        _ = await task.result
        #expect(try await !rig.views.rows(of: 1).isEmpty)
        try await rig.owner.execute(script: "UPDATE original_view SET state = 'garbled' WHERE generation = 1")
        try await rig.owner.execute(script: "DELETE FROM original_view WHERE generation = 0")
        try await Self.expectReads(rig, lives, upTo: .max, "seed \(seed) half a rebuild")
    }

    @Test(
        "three projectors and a rebuild beside appends, killed at any page, leave true views", arguments: [UInt64(44)])
    func projectors(seed: UInt64) async throws {
        let rig = try await RebuildRig(seed: seed, originals: 10, events: 0)
        let drafts = RandomDrafts(seed: seed, originals: 10).drafts(400)
        let isDone = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<3 {
                group.addTask {
                    // Pools of their own, as in other processes.
                    let pool = rig.ledger.database.pool(connections: 1)
                    while isDone.count == 0 {
                        let projector = ViewProjector(pool: pool, pageEvents: Int64(3 + number), policy: .early)
                        _ = try? await projector.catchUp()
                    }
                }
            }
            group.addTask {
                // Ends sessions in whatever they are at.
                let owner = try await rig.ledger.database.owner()
                while isDone.count == 0 {
                    try await owner.query(
                        """
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND query LIKE '%original_view%'
                            AND pid <> pg_backend_pid() AND random() < 0.3
                        """)
                    try await Task.sleep(for: .milliseconds(15))
                }
            }
            group.addTask {
                while isDone.count == 0 { _ = try? await rig.rebuilder().run() }
            }
            try await rig.append(drafts)
            isDone.add()
            try await group.waitForAll()
        }
        // The last one may have been killed at work.
        try await rig.owner.execute(script: "UPDATE rebuild SET holder = NULL")
        if try await rig.rebuilder().reasonToRebuild() != nil { _ = try await rig.rebuilder().run() }
        try await rig.rebuilder().clearLeftovers()
        try await rig.expectRebuilt("seed \(seed)")
        try await rig.views.expectTrueNames("seed \(seed)")
    }

    private static func expectReads(
        _ rig: RebuildRig, _ lives: [OriginalKey: ViewInspection.Life], upTo position: Int64, _ comment: String
    ) async throws {
        let read = try await rig.ledger.pool.withConnection { connection in
            try StateQuery.states(of: lives.keys.sorted(), upTo: position, on: connection)
        }
        for (key, life) in lives {
            #expect(read[key]?.encoded() == life.row(upTo: position)?.state, "\(key) up to \(position): \(comment)")
        }
    }
}

extension RebuildRig {
    /// Puts a snapshot into the table.
    fileprivate func write(_ row: ViewInspection.Row, of key: OriginalKey, generation: Int64) async throws {
        try await owner.query(
            "INSERT INTO original_view VALUES (1, $1, $2, $3, $4, $5, $6, $7)",
            [
                .int4(Int32(generation)), .int2(key.environment.number), .text(key.originalTransactionID),
                .int4(Int32(OriginalState.foldVersion)), .int(row.lastPosition), .int(row.events), .bytes(row.state),
            ])
    }
}
