package import EntitlementCore
package import PostgresClient

/// A reading of Stripe's list of events that this process does.
package struct WebSweep: Sendable, Hashable {
    package let environment: StoreEnvironment
    /// What is read next begins here, and everything before is known.
    package fileprivate(set) var from: Timestamp
    /// Where it ends.
    package private(set) var end: Timestamp
    /// What the list of events does not reach back to, as was noticed just now.
    package let gap: WebGap?
    /// Up to where the database says that everything is known.
    fileprivate var completed: Timestamp?

    /// Ends it earlier, where no later event can have been listed.
    package mutating func end(noLaterThan instant: Timestamp) { end = max(from, min(end, instant)) }
}

/// What Stripe's list of events did not reach back to: it holds thirty days.
package struct WebGap: Sendable, Hashable {
    /// Up to here everything is known; `nil`: nothing is known from before.
    package let from: Timestamp?
    /// From here on the list of events was there.
    package let until: Timestamp
}

/// How Stripe's webhooks of one environment stand.
package struct WebStreamStanding: Sendable, Hashable {
    package let environment: StoreEnvironment
    package let lastHeardAt: Timestamp?
    /// When the newest event was made that was read from the list and had not come.
    package let lastMissedAt: Timestamp?
    /// Where the reading of the list of events under way, or the last one, began.
    package let from: Timestamp?
    /// Everything is known that Stripe's list of events held before, and what is older unless there is a gap.
    package let eventsUntil: Timestamp?
    package let completedAt: Timestamp?
    /// Of the reading under way, or the last one.
    package let read: Int64
    package let recorded: Int64
    package let refused: Int64
    /// What the list of events did not reach back to, until the other lists are read; `nil` where there is nothing of the kind.
    package let gap: WebGap?
    package let lastError: String?
    package let lastErrorAt: Timestamp?
    package let isHeld: Bool

    /// Until when everything that Stripe stated is known; `nil` where nothing of the kind can be said.
    package var completedUntil: Timestamp? { gap == nil ? eventsUntil : gap?.from }

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

    private static let work = "looking after Stripe's list of events"

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
    /// Where that is not far enough there is a gap from then on, until everything else is read: see ``WebImportRegister``.
    ///
    /// - Returns: `nil` where another process is at work.
    package func begin(_ environment: StoreEnvironment, now: Timestamp) async throws -> WebSweep? {
        try await pool.run(doing: Self.work) { connection in
            try connection.transaction { connection in
                guard let row = try row(environment).take("completed_until", on: connection) else { return nil }
                let oldest = now.adding(milliseconds: -Self.kept)
                // What is yet to come was written while a clock was ahead, and nobody can tell what was read.
                let completed = try row.optionalInstant(0).flatMap {
                    $0 <= now.adding(milliseconds: Self.tolerance) ? $0 : nil
                }
                let from = max(oldest, completed?.adding(milliseconds: -Self.overlap) ?? oldest)
                let isGap = completed.map { $0 < oldest } ?? true
                let start = min(from, now)
                let sweep = WebSweep(
                    environment: environment, from: start, end: now,
                    gap: isGap ? WebGap(from: completed, until: start) : nil, completed: completed)
                try connection.query(
                    """
                    UPDATE web_stream SET begun_from = $3, read = 0, recorded = 0, refused = 0,
                        completed_until = CASE WHEN $4 THEN completed_until END,
                        gap_from = CASE WHEN NOT $5 THEN gap_from WHEN gap_until IS NULL AND $4 THEN completed_until
                            ELSE gap_from END,
                        gap_since = CASE WHEN $5 THEN clock_timestamp() ELSE gap_since END,
                        gap_until = CASE WHEN $5 THEN $3 ELSE gap_until END
                    WHERE ledger_id = $1 AND environment = $2
                    """,
                    [
                        .int(ledgerID), .int2(environment.number), .timestamp(sweep.from.milliseconds),
                        .bool(completed != nil), .bool(isGap),
                    ])
                return sweep
            }
        }
    }

    /// Says that all is in the log which Stripe listed up to an instant; the sweep ends where that is its end.
    ///
    /// - Parameter ends: where the log ended once it held that.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last, or what came since.
    package func advance(
        _ sweep: inout WebSweep, to until: Timestamp, read: Int, recorded: Int, refused: Int,
        restingOn ends: Set<EventMark> = []
    ) async throws {
        try await row(sweep.environment).change(
            """
            completed_until = greatest(completed_until, $4), read = read + $5, recorded = recorded + $6,
                refused = refused + $7, completed_at = CASE WHEN $8 THEN clock_timestamp() ELSE completed_at END,
                last_error = CASE WHEN $8 THEN NULL ELSE last_error END,
                last_error_at = CASE WHEN $8 THEN NULL ELSE last_error_at END,
                holder = CASE WHEN $8 THEN NULL ELSE holder END
            """,
            [
                .timestamp(until.milliseconds), .int(Int64(read)), .int(Int64(recorded)), .int(Int64(refused)),
                .bool(until >= sweep.end),
            ], from: [("completed_until", .timestamp(sweep.completed?.milliseconds))], restingOn: ends)
        sweep.from = until
        sweep.completed = max(sweep.completed ?? until, until)
    }

    /// Gives a sign of life while a page takes its time.
    ///
    /// - Throws: `invalid` where another has taken over.
    package func touch(_ sweep: WebSweep) async throws { try await row(sweep.environment).change() }

    /// Lets go of a sweep that does not go on now.
    package func letGo(of sweep: WebSweep, _ reason: String?) async throws {
        try await row(sweep.environment).letGo(
            """
            last_error = coalesce($4, last_error),
                last_error_at = CASE WHEN $4 IS NULL THEN last_error_at ELSE clock_timestamp() END
            """, [.reason(reason)])
    }

    /// How the streams of some environments stand, those that were never looked at left out.
    package func standings() async throws -> [WebStreamStanding] {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT environment, last_heard_at, last_missed_at, begun_from, completed_until, completed_at, last_error,
                    holder IS NOT NULL AND \(Lease.isFresh("heartbeat_at", "$2")), last_error_at, gap_from, gap_until,
                    read, recorded, refused
                FROM web_stream WHERE ledger_id = $1 ORDER BY environment
                """, [.int(ledgerID), .double(Lease.seconds)]
            ).rows.map { row in
                WebStreamStanding(
                    environment: try StoreEnvironment(stored: row.int(0)), lastHeardAt: try row.optionalInstant(1),
                    lastMissedAt: try row.optionalInstant(2), from: try row.optionalInstant(3),
                    eventsUntil: try row.optionalInstant(4),
                    completedAt: try row.optionalInstant(5), read: try row.int(11), recorded: try row.int(12),
                    refused: try row.int(13),
                    gap: try row.optionalInstant(10).map { WebGap(from: try row.optionalInstant(9), until: $0) },
                    lastError: try row.optionalText(6), lastErrorAt: try row.optionalInstant(8), isHeld: try row.bool(7)
                )
            }
        }
    }

    /// How the readings of everything that the accounts hold stand.
    package func imports() async throws -> [WebImportState] { try await WebImportRegister.states(pool) }

    /// Notes that a webhook came whose event was known, such as one that a sweep had read first.
    package func hear(_ environment: StoreEnvironment, at now: Timestamp) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE web_stream SET last_heard_at = greatest(last_heard_at, $3)
                WHERE ledger_id = $1 AND environment = $2
                """, [.int(ledgerID), .int2(environment.number), .timestamp(now.milliseconds)])
        }
    }

    private func row(_ environment: StoreEnvironment) -> LeasedRow {
        LeasedRow(
            pool, "web_stream", [("environment", .int2(environment.number))], holder: holder,
            work: "reading Stripe's list of events")
    }
}
