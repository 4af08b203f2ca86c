package import EntitlementCore
package import PostgresClient

/// Spreads requests to the store over time, for all instances of the service together.
///
/// One row holds the moment after the last one that was reserved; whoever asks moves it on. By the database's clock, so
/// that instances whose clocks differ agree.
package struct StoreQuotas: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Reserves the next free moment.
    ///
    /// - Parameters:
    ///   - kind: what the store counts together.
    ///   - interval: milliseconds between two requests.
    ///   - burst: how many may be sent at once after a pause.
    ///   - patience: how long the caller would wait, in milliseconds.
    /// - Returns: how long to wait, in milliseconds; `nil`, and nothing is reserved, where that is longer than `patience`.
    package func reserve(
        _ kind: String, app: String, in environment: StoreEnvironment, interval: Double, burst: Double, patience: Double
    ) async throws -> Double? {
        try await pool.run(doing: "reserving a request to the store") { connection in
            try connection.query(
                """
                WITH clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now)
                INSERT INTO store_quota AS quota (ledger_id, app, environment, kind, next_at)
                SELECT $1, $2, $3, $4, now - ($6::float8 - 1) * $5::float8 + $5 FROM clock
                ON CONFLICT (ledger_id, app, environment, kind) DO UPDATE
                SET next_at = CASE WHEN quota.next_at > excluded.next_at + $8::float8 THEN excluded.next_at
                    ELSE greatest(quota.next_at, excluded.next_at - $5) + $5 END
                WHERE quota.next_at <= excluded.next_at - $5 + ($6 - 1) * $5 + $7::float8
                    OR quota.next_at > excluded.next_at + $8
                RETURNING greatest(0, next_at - $5 - (SELECT now FROM clock))
                """,
                [
                    .int(ledgerID), .text(app), .int2(environment.number), .text(kind), .double(interval),
                    .double(burst), .double(patience), .double(Self.farAhead),
                ]
            ).first.map { try $0.double(0) }
        }
    }

    /// Milliseconds ahead of the clock at which no moment was reserved: the clock was set back since.
    private static let farAhead = 3_600_000.0
}
