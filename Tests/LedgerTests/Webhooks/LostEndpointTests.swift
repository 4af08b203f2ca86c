import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// As where some tables of webhooks were left out of a restore.
@Suite("Endpoints that the database has lost", .timeLimit(.minutes(1)))
struct LostEndpointTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    @Test("one without its row, its address or its secret is told of; one that was not looked at yet is not")
    func lost() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        func lost() async throws -> Set<String> {
            try await EndpointRegister(pool: ledger.pool, writer: ledger.writer).lost(now: Self.now)
        }
        let position = try await EndpointRegister(pool: ledger.pool, writer: ledger.writer).create(
            EndpointOrder(
                url: "https://example.com/", origin: "https://example.com", types: [], environment: nil, bundleID: nil,
                format: .standard, description: nil))
        #expect(try await lost().isEmpty)
        let projector = WebhookProjector(ledger)
        while try await projector.step(now: { Self.now }).isUnfinished {}
        #expect(try await ledger.reader.status().position == position)
        #expect(try await lost().isEmpty)
        for table in ["webhook_endpoint", "webhook_secret"] {
            try await owner.execute(script: "CREATE TABLE kept AS TABLE \(table); DELETE FROM \(table)")
            #expect(try await lost().count == 1, "\(table)")
            try await owner.execute(script: "INSERT INTO \(table) TABLE kept; DROP TABLE kept")
            #expect(try await lost().isEmpty, "\(table)")
        }
    }
}
