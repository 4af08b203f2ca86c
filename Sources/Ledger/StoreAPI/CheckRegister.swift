package import EntitlementCore
package import PostgresClient

/// An original transaction about which the store is to be asked.
package struct DueCheck: Sendable, Hashable {
    package let stream: StoreStream
    package let originalTransactionID: String
    package let reason: CheckReason
    /// By when the store must have spoken.
    package let dueAt: Timestamp
    package let nextTryAt: Timestamp
    /// How often the store was asked and told nothing new, or could not be asked.
    package let attempts: Int
    /// When the event that is waited for takes place, as far as known.
    package let expectedAt: Timestamp?
}

/// What the store is to be asked about, and which process does it: one at a time for each stream.
///
/// There are two instants: by when the store must have spoken, and when it is asked next. A question without news moves
/// only the second, so an overdue original stays overdue until the store has spoken.
package struct CheckRegister: Sendable {
    /// How long something waits for the history of notifications to be read, in milliseconds.
    private static let longestWait: Int64 = 2 * 3_600_000

    private let pool: PostgresPool
    private let holder: String

    /// - Parameter holder: a name that no other process has.
    package init(pool: PostgresPool, holder: String) {
        self.pool = pool
        self.holder = holder
    }

    /// Takes or renews this process's lease on the stream's checks; `false` where another process has it.
    package func hold(_ stream: StoreStream) async throws -> Bool { try await row(stream).hold() }

    /// Gives the lease on the stream's checks up.
    package func release(_ stream: StoreStream) async throws { try await row(stream).letGo() }

    private func row(_ stream: StoreStream) -> LeasedRow {
        LeasedRow(pool, "store_stream", stream.key, holder: holder, work: Self.work)
    }

    private static let work = "looking after what the store is to be asked about"

    /// What the store is to be asked about now: what is asked about at once, then the longest due.
    ///
    /// What is overdue waits until the history of notifications was read up to then, for it may have been told long ago; but
    /// not where that reading fails, and not for more than two hours.
    package func due(_ stream: StoreStream, now: Timestamp, limit: Int) async throws -> [DueCheck] {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT * FROM (
                    (SELECT original_transaction_id, reason, due_at, next_try_at, attempts, expected_at
                    FROM store_watch AS watch
                    WHERE watch.ledger_id = $1 AND watch.app = $2 AND watch.environment = $3
                        AND next_try_at <= $4 AND due_at <= least($4::timestamptz, (
                            SELECT CASE WHEN bool_or(last_error IS NOT NULL) THEN $4
                                ELSE greatest(max(completed_until), max(read_until), $7::timestamptz) END
                            FROM store_sweep AS sweep
                            WHERE sweep.ledger_id = $1 AND sweep.app = $2 AND sweep.environment = $3))
                        AND next_try_at > $5 AND due_at > $5 AND reason = 1
                    ORDER BY next_try_at LIMIT $6)
                    UNION ALL
                    (SELECT original_transaction_id, reason, due_at, next_try_at, attempts, expected_at
                    FROM store_watch AS watch
                    WHERE watch.ledger_id = $1 AND watch.app = $2 AND watch.environment = $3
                        AND next_try_at <= $4 AND next_try_at > $5 AND due_at > $5 AND reason <> 1
                    ORDER BY next_try_at LIMIT $6)
                ) AS due
                ORDER BY reason = 1, next_try_at LIMIT $6
                """,
                Self.key(stream) + [
                    .timestamp(now.milliseconds), .timestamp(StreamRegister.oldest(stream.environment, now)),
                    .int(Int64(limit)), .timestamp(now.adding(milliseconds: -Self.longestWait).milliseconds),
                ]
            ).rows.map { row in
                DueCheck(
                    stream: stream, originalTransactionID: try row.text(0), reason: try CheckReason(stored: row.int(1)),
                    dueAt: try row.instant(2),
                    nextTryAt: try row.instant(3), attempts: Int(try row.int(4)),
                    expectedAt: try row.optionalInstant(5))
            }
        }
    }

    /// Says that the store was asked and answered, and when it is asked again unless it speaks before.
    ///
    /// - Parameters:
    ///   - isRepaired: whether it told something new.
    ///   - isSettled: whether nothing is missing: until it is asked again it has nothing to say.
    ///   - ends: where the log ended once it held the answer. Where the log has lost one of them, as after a failover, the
    ///     store is asked again as soon as if it had not answered.
    package func finish(
        _ check: DueCheck, again: Timestamp, isRepaired: Bool, isSettled: Bool, restingOn ends: Set<EventMark> = []
    ) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.pipeline([
                // What was derived from the log meanwhile stands.
                PostgresStatement(
                    """
                    UPDATE store_watch SET next_try_at = $5, due_at = CASE WHEN $8 THEN $5 ELSE due_at END,
                        attempts = attempts + 1, last_error = NULL, failing_since = NULL
                    WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND original_transaction_id = $4
                        AND due_at = $6 AND next_try_at = $7 AND \(Set<EventMark>.areHeld(9))
                    """, Self.key(check, again) + [.bool(isSettled)] + ends.columns),
                PostgresStatement(
                    """
                    UPDATE store_stream SET checked = checked + 1, repaired = repaired + $4, check_error = NULL,
                        unheard_at = greatest(unheard_at, $6), check_error_at = NULL,
                        heartbeat_at = CASE WHEN holder = $5 THEN clock_timestamp() ELSE heartbeat_at END
                    WHERE ledger_id = $1 AND app = $2 AND environment = $3
                    """,
                    Self.key(check.stream) + [
                        .int(isRepaired ? 1 : 0), .text(holder),
                        isRepaired ? check.expectedAt.map { .timestamp($0.milliseconds) } ?? .null : .null,
                    ]),
            ])
        }
    }

    /// Says why the store could not be asked about this one, and when it is tried again.
    package func postpone(_ check: DueCheck, again: Timestamp, _ reason: String) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE store_watch SET next_try_at = $5, attempts = attempts + 1, last_error = $8,
                    failing_since = coalesce(failing_since, clock_timestamp())
                WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND original_transaction_id = $4
                    AND due_at = $6 AND next_try_at = $7
                """, Self.key(check, again) + [.reason(reason)])
        }
    }

    /// Says why the store cannot be asked now about anything.
    package func fail(_ stream: StoreStream, _ reason: String) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE store_stream SET check_error = $4, check_error_at = clock_timestamp()
                WHERE ledger_id = $1 AND app = $2 AND environment = $3
                """, Self.key(stream) + [.reason(reason)])
        }
    }

    private static func key(_ check: DueCheck, _ again: Timestamp) -> [PostgresValue] {
        key(check.stream) + [
            .text(check.originalTransactionID), .timestamp(again.milliseconds), .timestamp(check.dueAt.milliseconds),
            .timestamp(check.nextTryAt.milliseconds),
        ]
    }

    private static func key(_ stream: StoreStream) -> [PostgresValue] {
        [.int(ledgerID)] + stream.key.map(\.value)
    }
}
