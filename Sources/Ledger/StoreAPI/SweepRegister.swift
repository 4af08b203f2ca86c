package import EntitlementCore
package import PostgresClient

/// One reading of the store's history of notifications, which this process holds.
package struct Sweep: Sendable, Hashable {
    package let app: String
    package let environment: StoreEnvironment
    /// The window begins here.
    package let from: Timestamp
    /// The window ends before here.
    package let until: Timestamp
    /// The page to read next; `nil`: the first.
    package internal(set) var cursor: String?
    /// Whether somebody else began it.
    package let isResumed: Bool
}

/// How far the store's history was read, of one app and environment.
package struct SweepStanding: Sendable, Hashable {
    package let app: String
    package let environment: StoreEnvironment
    /// Of the sweep under way; `nil` where none is.
    package let window: Range<Timestamp>?
    /// Where the sweep under way, or the last one, began.
    package let from: Timestamp?
    package let isHeld: Bool
    package let read: Int64
    package let recorded: Int64
    package let refused: Int64
    /// From where on something was refused that no later reading took, and why it was; `nil` where nothing is.
    package let refusedFrom: Timestamp?
    package let refusedReason: String?
    /// Everything that the store sent before is known; `nil` before the first sweep was completed.
    package let completedUntil: Timestamp?
    package let completedAt: Timestamp?
    package let lastError: String?
    package let lastErrorAt: Timestamp?
}

/// Who reads the store's history, one at a time for each app and environment, and how far that has come.
///
/// A lease in a row: see `RebuildLease`. Times of leases are the database's own.
package struct SweepRegister: Sendable {
    /// How long a holder may be silent before another may take over.
    private static let leaseSeconds = 30.0
    /// How much of what was read already is read again: the store may list a notification late.
    private static let overlapMilliseconds: Int64 = 2 * 3_600_000
    /// How much less than the store keeps a new window reaches back.
    private static let leadMilliseconds: Int64 = 3_600_000
    private static let errorLimit = 1000

    private let pool: PostgresPool
    private let holder: String

    /// - Parameter holder: a name that no other process has.
    package init(pool: PostgresPool, holder: String) {
        self.pool = pool
        self.holder = holder
    }

    /// How long the store keeps its history, in milliseconds.
    package static func kept(in environment: StoreEnvironment) -> Int64 {
        switch environment {
        case .production: 180 * Timestamp.millisecondsPerDay
        case .sandbox: 30 * Timestamp.millisecondsPerDay
        }
    }

    /// Takes up the sweep under way, or begins one that goes on from the last that was completed.
    ///
    /// A window always begins where everything before is known, so that its end can be called known when it is read.
    ///
    /// - Parameters:
    ///   - since: where to begin at the latest; else where the last one ended, with some overlap, and the first time as far
    ///     back as the store keeps.
    ///   - now: the clock's instant, at which the window ends.
    /// - Returns: `nil` where somebody else is at work.
    package func begin(
        _ app: String, in environment: StoreEnvironment, since: Timestamp? = nil, now: Timestamp
    ) async throws -> Sweep? {
        // The store refuses a window that begins before what it keeps. A new one leaves some time for itself to be read.
        let kept = now.adding(milliseconds: -Self.kept(in: environment))
        let oldest = kept.adding(milliseconds: Self.leadMilliseconds)
        return try await run { connection in
            try connection.transaction { connection in
                let key: [PostgresValue] = [.int(ledgerID), .text(app), .int2(environment.number)]
                try connection.query(
                    "INSERT INTO store_sweep (ledger_id, app, environment) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                    key)
                let row = try connection.query(
                    """
                    SELECT window_from, window_until, cursor, completed_until,
                        holder IS NOT NULL AND holder <> $4
                            AND heartbeat_at > clock_timestamp() - make_interval(secs => $5)
                    FROM store_sweep WHERE ledger_id = $1 AND app = $2 AND environment = $3 FOR UPDATE
                    """, key + [.text(holder), .double(Self.leaseSeconds)]
                ).row(0)
                if try row.bool(4) { return nil }
                let completed = try row.optionalTimestamp(3).map { Timestamp(milliseconds: $0) }
                let left = try row.optionalTimestamp(0).map { Timestamp(milliseconds: $0) }
                if let from = left?.milliseconds, let until = try row.optionalTimestamp(1), from >= kept.milliseconds,
                    since.map({ $0.milliseconds >= from }) ?? true
                {
                    try connection.query(
                        """
                        UPDATE store_sweep SET holder = $4, heartbeat_at = clock_timestamp()
                        WHERE ledger_id = $1 AND app = $2 AND environment = $3
                        """, key + [.text(holder)])
                    return Sweep(
                        app: app, environment: environment, from: Timestamp(milliseconds: from),
                        until: Timestamp(milliseconds: until), cursor: try row.optionalText(2), isResumed: true)
                }
                let usual = completed?.adding(milliseconds: -Self.overlapMilliseconds) ?? oldest
                let earliest = [since, left].compactMap(\.self).reduce(usual, min)
                let from = max(oldest, min(earliest, now.adding(milliseconds: -1)))
                try connection.query(
                    """
                    UPDATE store_sweep SET window_from = $5, begun_from = $5, window_until = $6, cursor = NULL, read = 0, recorded = 0,
                        refused = 0, holder = $4, heartbeat_at = clock_timestamp()
                    WHERE ledger_id = $1 AND app = $2 AND environment = $3
                    """, key + [.text(holder), .timestamp(from.milliseconds), .timestamp(now.milliseconds)])
                return Sweep(app: app, environment: environment, from: from, until: now, cursor: nil, isResumed: false)
            }
        }
    }

    /// Says that a page is in the log, and which is next.
    ///
    /// - Parameter next: `nil` where it was the last: then the sweep is completed.
    /// - Throws: `invalid` where another has taken over.
    package func finishPage(
        _ sweep: inout Sweep, next: String?, read: Int, recorded: Int, refused: Int, reason: String? = nil
    ) async throws {
        try await change(
            sweep,
            """
            UPDATE store_sweep SET cursor = $5, read = read + $6, recorded = recorded + $7, refused = refused + $8,
                heartbeat_at = clock_timestamp(),
                refused_from = CASE WHEN $8 > 0 THEN least(refused_from, window_from)
                    WHEN $9 AND refused = 0 AND window_from <= greatest(refused_from, window_until - $11 * interval '1 ms')
                        THEN NULL ELSE refused_from END,
                refused_reason = CASE WHEN $8 > 0 THEN $10
                    WHEN $9 AND refused = 0 AND window_from <= greatest(refused_from, window_until - $11 * interval '1 ms')
                        THEN NULL ELSE refused_reason END,
                window_from = CASE WHEN $9 THEN NULL ELSE window_from END,
                completed_until = CASE WHEN $9 THEN greatest(completed_until, window_until) ELSE completed_until END,
                window_until = CASE WHEN $9 THEN NULL ELSE window_until END,
                completed_at = CASE WHEN $9 THEN clock_timestamp() ELSE completed_at END,
                last_error = CASE WHEN $9 THEN NULL ELSE last_error END,
                last_error_at = CASE WHEN $9 THEN NULL ELSE last_error_at END,
                holder = CASE WHEN $9 THEN NULL ELSE holder END
            WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND holder = $4
            RETURNING 1
            """,
            [
                .text(next), .int(Int64(read)), .int(Int64(recorded)), .int(Int64(refused)), .bool(next == nil),
                .text(reason.map { String($0.prefix(Self.errorLimit)) }),
                .double(Double(Self.kept(in: sweep.environment) - Self.leadMilliseconds)),
            ])
        sweep.cursor = next
    }

    /// Goes back to the window's first page: the store does not know the next one any more.
    ///
    /// - Throws: `invalid` where another has taken over.
    package func startOver(_ sweep: inout Sweep) async throws {
        try await change(
            sweep,
            """
            UPDATE store_sweep SET cursor = NULL, heartbeat_at = clock_timestamp()
            WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND holder = $4
            RETURNING 1
            """, [])
        sweep.cursor = nil
    }

    /// Gives a sign of life while a page takes its time.
    package func touch(_ sweep: Sweep) async throws {
        try await change(
            sweep,
            """
            UPDATE store_sweep SET heartbeat_at = clock_timestamp()
            WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND holder = $4
            RETURNING 1
            """, [])
    }

    /// Lets go of a sweep that does not go on now.
    ///
    /// - Parameter reason: why, where something went wrong.
    package func letGo(of sweep: Sweep, _ reason: String?) async throws {
        try await run { connection in
            _ = try connection.query(
                """
                UPDATE store_sweep SET holder = NULL, last_error = $5,
                    last_error_at = CASE WHEN $5 IS NULL THEN NULL ELSE clock_timestamp() END
                WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND holder = $4
                """,
                [
                    .int(ledgerID), .text(sweep.app), .int2(sweep.environment.number), .text(holder),
                    .text(reason.map { String($0.prefix(Self.errorLimit)) }),
                ])
        }
    }

    /// How far each sweep has come, in the order of apps and environments.
    package static func standings(_ pool: PostgresPool) async throws -> [SweepStanding] {
        try await pool.run(doing: "looking how far the store's history was read") { connection in
            try connection.query(
                """
                SELECT app, environment, window_from, window_until,
                    holder IS NOT NULL AND heartbeat_at > clock_timestamp() - make_interval(secs => $2),
                    read, recorded, refused, completed_until, completed_at, last_error, last_error_at,
                    refused_from, refused_reason, begun_from
                FROM store_sweep WHERE ledger_id = $1 ORDER BY app, environment
                """, [.int(ledgerID), .double(leaseSeconds)]
            ).rows.map { row in
                func instant(_ column: Int) throws -> Timestamp? {
                    try row.optionalTimestamp(column).map { Timestamp(milliseconds: $0) }
                }
                let window: Range<Timestamp>? =
                    if let from = try instant(2), let until = try instant(3), from < until { from..<until } else { nil }
                return SweepStanding(
                    app: try row.text(0), environment: try StoreEnvironment(stored: row.int(1)), window: window,
                    from: try instant(14),
                    isHeld: try row.bool(4), read: try row.int(5), recorded: try row.int(6), refused: try row.int(7),
                    refusedFrom: try instant(12), refusedReason: try row.optionalText(13),
                    completedUntil: try instant(8), completedAt: try instant(9), lastError: try row.optionalText(10),
                    lastErrorAt: try instant(11))
            }
        }
    }

    private func change(_ sweep: Sweep, _ sql: String, _ values: [PostgresValue]) async throws {
        let isHeld = try await run { connection in
            try connection.query(
                sql,
                [.int(ledgerID), .text(sweep.app), .int2(sweep.environment.number), .text(holder)] + values
            ).first != nil
        }
        guard isHeld else {
            throw LedgerError(.invalid, "another process has taken over this sweep, which was silent too long")
        }
    }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "looking after what is read from the store", body)
    }
}
