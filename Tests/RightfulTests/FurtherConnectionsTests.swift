import EntitlementCore
import Ledger
import PostgresClient
import Service
import TestSupport
import Testing

@testable import rightful

@Suite("Further connections to the database", .timeLimit(.minutes(1)))
struct FurtherConnectionsTests {
    @Test("where they are refused while others go on, that is told for status, until one can be made")
    func refused() async throws {
        let database = try await TestDatabase.make()
        let name = try await database.owner().run { try $0.query("SELECT current_database()::text").row(0).text(0) }
        let administrator = try await PostgresConnection.connect(database.ownerConninfo + " dbname=postgres")
        let pool = database.pool(connections: 1)
        try await pool.keepReady()
        func reason(isExpected: Bool) async throws -> String? {
            let failures = WorkFailures(pool: pool)
            let watch = WorkWatch(
                failures: failures, host: "here", logger: Logger(now: { .earliest }, sink: { _ in }))
            let looking = Task { await FurtherConnections(pool: pool).run(watch) }
            defer { looking.cancel() }
            for _ in 0..<1000 where try await failures.list().isEmpty == isExpected {
                try await Task.sleep(for: .milliseconds(10))
            }
            return try await failures.list().first { $0.work == "connections" }?.reason
        }
        try await administrator.execute(script: "ALTER DATABASE \(name) ALLOW_CONNECTIONS false")
        let words = try await reason(isExpected: true)
        #expect(words?.contains("is not currently accepting connections") == true, "\(words ?? "nothing is told")")
        try await administrator.execute(script: "ALTER DATABASE \(name) ALLOW_CONNECTIONS true")
        #expect(try await reason(isExpected: false) == nil)
        await pool.close()
    }
}
