import EntitlementCore
import Foundation
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// Somebody's transaction that is forgotten, and touches nothing of the log.
@Suite("Transactions that keep the database from cleaning up", .timeLimit(.minutes(1)))
struct CleaningObstacleTests {
    private static func ledger() async throws -> (TestDatabase, LedgerWriter) {
        let database = try await TestDatabase.make()
        let writer = LedgerWriter(
            pool: database.pool(), now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) })
        _ = try await writer.append(.grant("first", of: "pro", to: "ann"))
        return (database, writer)
    }

    private static func until(_ condition: () async throws -> Bool) async throws {
        for _ in 0..<200 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        Issue.record("not within 10 s")
    }

    @Test("a snapshot is named to every role, once something was recorded since, until it ends")
    func snapshot() async throws {
        let (database, writer) = try await Self.ledger()
        let holder = try await PostgresConnection.connect(
            database.ownerConninfo, options: ConnectionOptions(applicationName: "forgotten"))
        try await holder.execute(script: "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        _ = try await writer.append(.grant("second", of: "pro", to: "ann"))
        let owners = PostgresPool(database.ownerConninfo, limits: PostgresPool.Limits(connections: 1))
        let process = await holder.serverProcessID
        for (pool, since) in [(database.pool(), "at least since "), (owners, "in a transaction since ")] {
            try await Self.until { try await CleaningObstacle.oldest(pool, olderThan: .zero) != nil }
            let words = try await CleaningObstacle.oldest(pool, olderThan: .zero)?.description ?? ""
            #expect(words.contains("session \(process) of the role rightful (forgotten)"), "\(words)")
            #expect(words.contains(since) && words.contains("pg_terminate_backend(\(process))"), "\(words)")
            #expect(try await CleaningObstacle.oldest(pool) == nil, "it is not an hour old")
        }
        try await holder.execute(script: "COMMIT")
        let (pool, name) = (database.pool(), "session \(process) ")
        let after = try await CleaningObstacle.oldest(pool, olderThan: .zero)?.description ?? ""
        #expect(!after.contains(name), "\(after)")
    }

    @Test("of those who hold on to a number of a transaction that runs, the transaction itself is named")
    func culprit() async throws {
        let (database, writer) = try await Self.ledger()
        let holder = try await database.owner()
        try await holder.execute(script: "BEGIN")
        let number = try await holder.run {
            try $0.query("SELECT pg_current_xact_id()::xid::text", []).first?.text(0)
        }
        _ = try await writer.append(.grant("second", of: "pro", to: "ann"))
        let reader = try await database.owner()
        let (pool, process) = (database.pool(), await reader.serverProcessID)
        // A transaction of another database, such as one that vacuums, may have an older number at that moment.
        try await Self.until {
            try await reader.execute(script: "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            return try await pool.run(doing: "looking what the reader holds on to") {
                try $0.query("SELECT backend_xmin::text FROM pg_stat_activity WHERE pid = $1", [.int(Int64(process))])
                    .first?.text(0)
            } == number
        }
        try await Self.until { try await CleaningObstacle.oldest(pool, olderThan: .zero) != nil }
        let words = try await CleaningObstacle.oldest(pool, olderThan: .zero)?.description ?? ""
        #expect(words.contains("session \(await holder.serverProcessID) "), "\(words)")
        try await holder.execute(script: "COMMIT")
        try await reader.execute(script: "COMMIT")
    }
}

/// What else of the database's own upkeep can stand still.
@Suite("A database that is not looked after", .timeLimit(.minutes(1)))
struct UpkeepTests {
    @Test("what was recorded long ago and is in no checkpoint is told of, until one succeeds")
    func checkpoints() async throws {
        let database = try await TestDatabase.make()
        let now = try await database.owner().run { try Statements.clock(on: $0) }
        func record(_ source: String, after minutes: Int64) async throws {
            let date = now.adding(milliseconds: minutes * 60_000)
            let writer = LedgerWriter(pool: database.pool(), now: { date })
            _ = try await writer.append(.grant(source, of: "pro", to: "ann"))
        }
        try await database.owner().execute(script: "CHECKPOINT")
        #expect(try await OverdueCheckpoint.find(database.pool(), olderThan: -4) == nil, "nothing is recorded")
        try await record("before", after: -30)
        #expect(try await OverdueCheckpoint.find(database.pool(), olderThan: -4) == nil)
        // As the last checkpoint is, seen by somebody who looks an hour from now.
        try await record("since", after: 30)
        #expect(try await OverdueCheckpoint.find(database.pool()) == nil)
        let words = try await OverdueCheckpoint.find(database.pool(), olderThan: -4)?.description ?? ""
        #expect(words.contains("no checkpoint has succeeded since "), "\(words)")
    }

    @Test("how many numbers of transactions are used is told once they are many")
    func numbers() async throws {
        let database = try await TestDatabase.make()
        _ = try await LedgerWriter(pool: database.pool(), now: { .earliest }).append(.grant("g", of: "pro", to: "ann"))
        #expect(try await NumberShortage.find(database.pool()) == nil)
        let words = try await NumberShortage.find(database.pool(), beyond: 0)?.description ?? ""
        #expect(words.hasPrefix("0 of 2147 million"), "\(words)")
    }
}
