package import EntitlementCore
package import PostgresClient

/// A reading of Stripe's list of events that this process does.
package struct WebSweep: Sendable, Hashable {
    package let environment: StoreEnvironment
    /// What is read next begins here, and everything before is known.
    package fileprivate(set) var from: Timestamp
    /// Where it ends.
    package let end: Timestamp
}

/// How Stripe's webhooks of one environment stand.
package struct WebStreamStanding: Sendable, Hashable {
    package let environment: StoreEnvironment
    package let lastHeardAt: Timestamp?
    /// When the newest event was made that was read from the list and had not come.
    package let lastMissedAt: Timestamp?
    package let from: Timestamp?
    package let completedUntil: Timestamp?
    package let completedAt: Timestamp?
    package let lastError: String?
    package let isHeld: Bool

    /// Whether Stripe has sent something that never came since a webhook came last.
    ///
    /// Only what is older than `tolerance` counts: Stripe tries again for days, the first times within minutes.
    package func isSilent(at now: Timestamp) -> Bool {
        guard let lastMissedAt, lastMissedAt.adding(milliseconds: Self.tolerance) < now else { return false }
        return lastHeardAt.map { $0 < lastMissedAt } ?? true
    }

    /// How long a webhook may take, in milliseconds.
    private static let tolerance: Int64 = 3_600_000
}

/// Who reads Stripe's list of events, one process at a time for each environment, and how far that has come.
package struct WebSweepRegister: Sendable {
    /// How much of what was read already is read again: an event may be listed late.
    static let overlap: Int64 = 3_600_000
    /// How long Stripe lists its events, a little less, in milliseconds.
    static let kept = 30 * Timestamp.millisecondsPerDay - 3_600_000
    /// Clocks of instances differ by so much.
    private static let tolerance: Int64 = 60_000
    private static let errorLimit = 1000

    private let pool: PostgresPool
    private let holder: String

    /// - Parameter holder: a name that no other process has.
    package init(pool: PostgresPool, holder: String) {
        self.pool = pool
        self.holder = holder
    }

    /// Begins a sweep that goes on from the last that was completed, with some overlap; the first time as far back as Stripe
    /// lists events.
    ///
    /// - Returns: `nil` where another process is at work.
    package func begin(_ environment: StoreEnvironment, now: Timestamp) async throws -> WebSweep? {
        try await run { connection in
            try connection.transaction { connection in
                let key: [PostgresValue] = [.int(ledgerID), .int2(environment.number)]
                try connection.query(
                    "INSERT INTO web_stream (ledger_id, environment) VALUES ($1, $2) ON CONFLICT DO NOTHING", key)
                let row = try connection.query(
                    """
                    SELECT holder IS NOT NULL AND holder <> $3 AND \(Lease.isFresh("heartbeat_at", "$4")), completed_until
                    FROM web_stream WHERE ledger_id = $1 AND environment = $2 FOR UPDATE
                    """, key + [.text(holder), .double(Lease.seconds)]
                ).row(0)
                if try row.bool(0) { return nil }
                let oldest = now.adding(milliseconds: -Self.kept)
                // What is yet to come was written while a clock was ahead, and nobody can tell what was read.
                let completed = try row.optionalTimestamp(1).map { Timestamp(milliseconds: $0) }.flatMap {
                    $0 <= now.adding(milliseconds: Self.tolerance) ? $0 : nil
                }
                let from = max(oldest, completed?.adding(milliseconds: -Self.overlap) ?? oldest)
                let sweep = WebSweep(environment: environment, from: min(from, now), end: now)
                try connection.query(
                    """
                    UPDATE web_stream SET begun_from = $4, read = 0, recorded = 0, refused = 0,
                        completed_until = CASE WHEN $5 THEN completed_until END,
                        holder = $3, heartbeat_at = clock_timestamp()
                    WHERE ledger_id = $1 AND environment = $2
                    """,
                    key + [.text(holder), .timestamp(sweep.from.milliseconds), .bool(completed != nil)])
                return sweep
            }
        }
    }

    /// Says that all is in the log which Stripe listed up to an instant; the sweep ends where that is its end.
    ///
    /// - Throws: `invalid` where another has taken over.
    package func advance(
        _ sweep: inout WebSweep, to until: Timestamp, read: Int, recorded: Int, refused: Int
    ) async throws {
        try await change(
            sweep,
            """
            UPDATE web_stream SET completed_until = greatest(completed_until, $4), read = read + $5,
                recorded = recorded + $6, refused = refused + $7, heartbeat_at = clock_timestamp(),
                completed_at = CASE WHEN $8 THEN clock_timestamp() ELSE completed_at END,
                last_error = CASE WHEN $8 THEN NULL ELSE last_error END,
                last_error_at = CASE WHEN $8 THEN NULL ELSE last_error_at END,
                holder = CASE WHEN $8 THEN NULL ELSE holder END
            WHERE ledger_id = $1 AND environment = $2 AND holder = $3
            RETURNING 1
            """,
            [
                .timestamp(until.milliseconds), .int(Int64(read)), .int(Int64(recorded)), .int(Int64(refused)),
                .bool(until >= sweep.end),
            ])
        sweep.from = until
    }

    /// Gives a sign of life while a page takes its time.
    ///
    /// - Throws: `invalid` where another has taken over.
    package func touch(_ sweep: WebSweep) async throws {
        try await change(
            sweep,
            """
            UPDATE web_stream SET heartbeat_at = clock_timestamp()
            WHERE ledger_id = $1 AND environment = $2 AND holder = $3
            RETURNING 1
            """, [])
    }

    /// Lets go of a sweep that does not go on now.
    package func letGo(of sweep: WebSweep, _ reason: String?) async throws {
        try await run { connection in
            _ = try connection.query(
                """
                UPDATE web_stream SET holder = NULL, last_error = coalesce($4, last_error),
                    last_error_at = CASE WHEN $4 IS NULL THEN last_error_at ELSE clock_timestamp() END
                WHERE ledger_id = $1 AND environment = $2 AND holder = $3
                """,
                [
                    .int(ledgerID), .int2(sweep.environment.number), .text(holder),
                    .text(reason.map { String($0.prefix(Self.errorLimit)) }),
                ])
        }
    }

    /// How the streams of some environments stand, those that were never looked at left out.
    package func standings() async throws -> [WebStreamStanding] {
        try await run { connection in
            try connection.query(
                """
                SELECT environment, last_heard_at, last_missed_at, begun_from, completed_until, completed_at, last_error,
                    holder IS NOT NULL AND \(Lease.isFresh("heartbeat_at", "$2"))
                FROM web_stream WHERE ledger_id = $1 ORDER BY environment
                """, [.int(ledgerID), .double(Lease.seconds)]
            ).rows.map { row in
                func instant(_ column: Int) throws -> Timestamp? {
                    try row.optionalTimestamp(column).map { Timestamp(milliseconds: $0) }
                }
                return WebStreamStanding(
                    environment: try StoreEnvironment(stored: row.int(0)), lastHeardAt: try instant(1),
                    lastMissedAt: try instant(2), from: try instant(3), completedUntil: try instant(4),
                    completedAt: try instant(5), lastError: try row.optionalText(6), isHeld: try row.bool(7))
            }
        }
    }

    /// Notes that a webhook came whose event was known, such as one that a sweep had read first.
    package func hear(_ environment: StoreEnvironment, at now: Timestamp) async throws {
        try await run { connection in
            _ = try connection.query(
                """
                UPDATE web_stream SET last_heard_at = greatest(last_heard_at, $3)
                WHERE ledger_id = $1 AND environment = $2
                """, [.int(ledgerID), .int2(environment.number), .timestamp(now.milliseconds)])
        }
    }

    private func change(_ sweep: WebSweep, _ statement: String, _ parameters: [PostgresValue]) async throws {
        try await run { connection in
            let key: [PostgresValue] = [.int(ledgerID), .int2(sweep.environment.number), .text(holder)]
            guard try connection.query(statement, key + parameters).first != nil else {
                throw LedgerError(.invalid, "another process has taken over reading Stripe's list of events")
            }
        }
    }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "looking after Stripe's list of events", body)
    }
}
