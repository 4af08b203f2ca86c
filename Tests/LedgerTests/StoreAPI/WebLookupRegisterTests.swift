import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("What is to be read from Stripe")
struct WebLookupRegisterTests {
    @Test("what never failed is read before what is tried again, however long that is due, and then the oldest first")
    func order() async throws {
        let ledger = try await TestLedger()
        let now = Timestamp(milliseconds: Int64(1_800_000_000_000))
        try await ledger.pool.withConnection { connection in
            for (position, isFailing) in [true, false, true, false].enumerated() {
                _ = try connection.query(
                    """
                    INSERT INTO web_lookup (ledger_id, environment, subject, position, is_urgent, next_try_at, failing_since)
                    VALUES ($1, 1, $2, $3, true, $4, CASE WHEN $5 THEN $4::timestamptz END)
                    """,
                    [
                        .int(ledgerID), .text("event \(position)"), .int(Int64(position)),
                        .timestamp(now.adding(milliseconds: Int64(position) * 1000 - 10_000).milliseconds),
                        .bool(isFailing),
                    ])
            }
        }
        let register = WebLookupRegister(pool: ledger.pool)
        var taken: [Int64] = []
        for _ in 0..<4 {
            taken += try await register.take(.production, for: .seconds(25), now: now, limit: 1).map(\.position)
        }
        #expect(taken == [1, 3, 0, 2])
    }

    @Test("what is due is read from the index in that order, and no more than is asked for, however much there is")
    func plan() async throws {
        let ledger = try await TestLedger()
        // One session, so that it knows the statement.
        let pool = ledger.database.pool(connections: 1)
        let now = Timestamp(milliseconds: Int64(1_800_000_000_000))
        let register = WebLookupRegister(pool: pool)
        _ = try await register.take(.production, for: .seconds(25), now: now, limit: 4)
        let plan = try await pool.withConnection { connection in
            _ = try connection.query(
                """
                INSERT INTO web_lookup (ledger_id, environment, subject, position, is_urgent, next_try_at, failing_since)
                SELECT 1, 1, 'bulk ' || n, n, n % 2 = 0, $1, CASE WHEN n % 3 = 0 THEN $1::timestamptz END
                FROM generate_series(1, 5000) AS n
                """, [.timestamp(now.adding(milliseconds: -1000).milliseconds)])
            let name = try connection.query(
                "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'UPDATE web_lookup%ORDER BY is_urgent DESC%'"
            ).rows.map { try $0.text(0) }
            let call = "\"\(try #require(name.first))\"(1, 1::smallint, NULL, NULL, NULL, 4)"
            return try connection.query("EXPLAIN (COSTS off) EXECUTE \(call)").rows.map { try $0.text(0) }
                .joined(separator: "\n")
        }
        #expect(plan.contains("web_lookup_next") && !plan.contains("Sort"), "\(plan)")
        #expect(try await register.take(.production, for: .seconds(25), now: now, limit: 4).count == 4)
        await pool.close()
    }
}
