package import EntitlementCore
package import PostgresClient

/// Spreads requests to the store over time, for all instances of the service together.
///
/// One row holds the next free moment, which each reservation moves on, and until when the store takes no more
/// requests. Both go by the database's clock, so that instances whose clocks differ agree.
package struct StoreQuotas: Sendable {
    /// When a request may be sent; in milliseconds from now.
    package enum Turn: Sendable, Equatable {
        case after(Double)
        /// Nothing is reserved: it is later than anybody would wait.
        case usedUp
        /// Nothing is reserved: the store itself takes no more until then.
        case blocked(Double)
    }

    /// How fast requests of one kind may follow each other.
    package struct Pace: Sendable {
        /// Milliseconds between two requests.
        package let interval: Double
        /// How many may be sent at once after a pause.
        package let burst: Double
        /// The longest that anybody waits for their turn, in milliseconds.
        package let longestTurn: Double
        /// The longest that the store's refusal is remembered, in milliseconds.
        package let longestBlock: Double

        package init(interval: Double, burst: Double, longestTurn: Double = 60_000, longestBlock: Double = 3_600_000) {
            self.interval = interval
            self.burst = burst
            self.longestTurn = longestTurn
            self.longestBlock = longestBlock
        }
    }

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Reserves the next free moment.
    ///
    /// What lies farther ahead than anybody could have reserved or blocked was written before the clock was set back, and
    /// does not count.
    ///
    /// - Parameters:
    ///   - kind: what the store counts together.
    ///   - patience: how long the caller would wait, in milliseconds.
    package func reserve(
        _ kind: String, app: String, in environment: StoreEnvironment, _ pace: Pace, patience: Double
    ) async throws -> Turn {
        let patience = min(patience, pace.longestTurn)
        return try await pool.run(doing: "reserving a request to the store") { connection in
            let key: [PostgresValue] = [.int(ledgerID), .text(app), .int2(environment.number), .text(kind)]
            let reserved = try connection.query(
                """
                WITH clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now)
                INSERT INTO store_quota AS quota (ledger_id, app, environment, kind, next_at)
                SELECT $1, $2, $3, $4, now - ($6::float8 - 1) * $5::float8 + $5 FROM clock
                ON CONFLICT (ledger_id, app, environment, kind) DO UPDATE
                SET next_at = greatest(
                        excluded.next_at - $5,
                        CASE WHEN quota.next_at <= excluded.next_at + ($6 - 1) * $5 + $8::float8
                            THEN quota.next_at END,
                        CASE WHEN quota.blocked_until <= excluded.next_at - $5 + ($6 - 1) * $5 + $9::float8
                            THEN quota.blocked_until END) + $5
                WHERE greatest(
                        CASE WHEN quota.next_at <= excluded.next_at + ($6 - 1) * $5 + $8
                            THEN quota.next_at END,
                        CASE WHEN quota.blocked_until <= excluded.next_at - $5 + ($6 - 1) * $5 + $9
                            THEN quota.blocked_until END,
                        '-infinity') <= excluded.next_at - $5 + ($6 - 1) * $5 + $7::float8
                RETURNING greatest(0, next_at - $5 - (SELECT now FROM clock))
                """,
                key + [
                    .double(pace.interval), .double(pace.burst), .double(patience), .double(pace.longestTurn),
                    .double(pace.longestBlock),
                ]
            ).first
            if let reserved { return .after(try reserved.double(0)) }
            let blocked = try connection.query(
                """
                SELECT blocked_until - extract(epoch FROM clock_timestamp())::float8 * 1000 FROM store_quota
                WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND kind = $4 AND blocked_until IS NOT NULL
                """, key
            ).first.map { try $0.double(0) }
            guard let blocked, blocked > patience, blocked <= pace.longestBlock else { return .usedUp }
            return .blocked(blocked)
        }
    }

    /// Remembers that the store takes no more requests of a kind for so many milliseconds.
    package func block(
        _ kind: String, app: String, in environment: StoreEnvironment, _ pace: Pace, for pause: Double
    ) async throws {
        try await pool.run(doing: "noting when the store may be asked again") { connection in
            _ = try connection.query(
                """
                INSERT INTO store_quota AS quota (ledger_id, app, environment, kind, next_at, blocked_until)
                SELECT $1, $2, $3, $4, now, now + $5::float8
                FROM (SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now) AS clock
                ON CONFLICT (ledger_id, app, environment, kind) DO UPDATE SET blocked_until = excluded.blocked_until
                """,
                [
                    .int4(Int32(ledgerID)), .text(app), .int2(environment.number), .text(kind),
                    .double(min(pause, pace.longestBlock)),
                ])
        }
    }
}
