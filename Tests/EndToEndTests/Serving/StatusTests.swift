import EntitlementCore
import Foundation
import Ledger
import PostgresClient
import Testing

/// What `rightful status` and `rightful migrate` say of a database that somebody else runs.
@Suite(
    "What is said of a database", .serialized,
    .enabled(if: NetworkServer.address != nil, "needs an address that is not a loopback one"))
struct StatusTests {
    @Test("what is read from Stripe is left where it is without an account, and not behind; what was granted is named")
    func standing() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let url = server.url("owner", parameters: "sslmode=disable")
        let owner = try await PostgresConnection.connect(url)
        _ = try await installation.adminKey()
        try await owner.execute(
            script: """
                INSERT INTO projection (ledger_id, name, version, checkpoint) VALUES (1, 'web_lookup', 1, 0);
                REVOKE INSERT, SELECT ON drift FROM server
                """)
        let text = try await installation.rightful("migrate", "--migrate-database-url", url)
        #expect(text == "granted the role server SELECT on drift, INSERT on drift\nthe schema is current\n", "\(text)")
        let status = try await installation.rightful("status")
        #expect(status.contains(/projection web_lookup +at 0, left there: `stripe` is not configured \(/), "\(status)")
        let json = try JSONSerialization.jsonObject(
            with: Data(try await installation.rightful("status", "--json").utf8))
        let projections = (json as? [String: Any])?["projections"] as? [[String: Any]] ?? []
        let unfollowed = projections.filter { $0["is_followed"] as? Bool == false }
        #expect(unfollowed.compactMap { $0["name"] as? String } == ["web_lookup"])
    }

    @Test("a prepared transaction that holds nothing of the log is named to the role that serves, until it is ended")
    func prepared() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let owner = try await PostgresConnection.connect(server.url("owner", parameters: "sslmode=disable"))
        try await owner.execute(script: "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'harmless'")
        _ = try await installation.adminKey()
        let pool = PostgresPool(server.url("server", parameters: "sslmode=disable"))
        let words = try await CleaningObstacle.oldest(pool, olderThan: .zero)?.description ?? ""
        #expect(words.contains("'harmless' of the role owner is prepared since "), "\(words)")
        #expect(try await !installation.rightful("status").contains("not cleaned up"), "it is not an hour old")
        try await owner.execute(script: "ROLLBACK PREPARED 'harmless'")
        let after = try await CleaningObstacle.oldest(pool, olderThan: .zero)?.description ?? ""
        #expect(!after.contains("harmless"), "\(after)")
        await pool.close()
    }
}
