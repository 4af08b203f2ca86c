import EntitlementCore
import PostgresClient
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
        for _ in 0..<4 { taken += try await register.take(.production, now: now, limit: 1).map(\.position) }
        #expect(taken == [1, 3, 0, 2])
    }
}
