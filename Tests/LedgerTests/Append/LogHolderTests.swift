import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// Somebody's transaction that is forgotten, and holds what every append needs.
@Suite("Transactions that hold the log", .timeLimit(.minutes(1)))
struct LogHolderTests {
    @Test(
        "whoever keeps appends waiting is named, until that is over",
        arguments: ["SELECT FROM ledger_head FOR UPDATE", "LOCK TABLE event IN SHARE MODE"])
    func named(lock: String) async throws {
        let database = try await TestDatabase.make()
        let pool = PostgresPool(database.serveConninfo, options: ConnectionOptions(lockTimeoutMilliseconds: 400))
        let writer = LedgerWriter(pool: pool, now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
        _ = try await writer.append(.grant("first", of: "pro", to: "ann"))
        let holder = try await PostgresConnection.connect(
            database.ownerConninfo, options: ConnectionOptions(applicationName: "forgotten"))
        try await holder.execute(script: "BEGIN; \(lock)")
        // Whoever waits before it, holding what this one waits for, is not the one to look for.
        let waiting = Task {
            try await pool.withConnection { connection in
                try connection.transaction { _ = try $0.query("SELECT FROM ledger_head FOR UPDATE") }
            }
        }
        let error = await #expect(throws: LedgerError.self) {
            try await writer.append(.grant("second", of: "pro", to: "ann"))
        }
        let process = await holder.serverProcessID
        let words = "session \(process) of the role rightful (forgotten"
        #expect(error?.code == .unavailable)
        #expect(error?.description.contains(words) == true, "\(String(describing: error))")
        #expect(try await writer.lookForObstacle()?.description.contains(words) == true)
        try await holder.execute(script: "COMMIT")
        #expect(try await writer.lookForObstacle() == nil)
        #expect(writer.obstacle == nil)
        _ = try await writer.append(.grant("third", of: "pro", to: "ann"))
        _ = await waiting.result
        await pool.close()
    }
}
