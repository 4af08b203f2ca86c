package import EntitlementCore
package import PostgresClient

/// Who reads the store's history, one at a time for each app and environment, and how far that has come.
///
/// Its row is leased: see `LeasedRow`.
package struct SweepRegister: Sendable {
    /// How much of what was read already is read again: the store may list a notification late.
    static let overlapMilliseconds: Int64 = 2 * 3_600_000
    /// How much less than the store keeps a new window reaches back.
    static let leadMilliseconds: Int64 = 3_600_000
    /// How far a sweep goes back once a day.
    static let rereadMilliseconds = 2 * Timestamp.millisecondsPerDay
    /// How often reading fails in a row before something else is tried than the same again.
    package static let patience = 3

    private static let work = "looking after what is read from the store"

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

    /// The earliest instant at which a new window begins: the store refuses what is older than it keeps, and takes some time.
    package static func oldest(in environment: StoreEnvironment, at now: Timestamp) -> Timestamp {
        now.adding(milliseconds: leadMilliseconds - kept(in: environment))
    }

    // MARK: - Beginning

    /// Takes up the sweep under way, or begins one that goes on from the last that was completed.
    ///
    /// A window always begins where everything before is known, so that what is read of it can be called known. Once a day it
    /// goes back two days: the store may have listed nothing for some hours.
    ///
    /// - Parameters:
    ///   - since: where to begin at the latest; else where the last one ended, with some overlap, and the first time as far
    ///     back as the store keeps.
    ///   - now: the clock's instant, at which the window ends.
    /// - Returns: `nil` where somebody else is at work.
    package func begin(
        _ app: String, in environment: StoreEnvironment, since: Timestamp? = nil, now: Timestamp
    ) async throws -> Sweep? {
        try await pool.run(doing: Self.work) { connection in
            try connection.transaction { connection in
                let columns = """
                    window_from, window_until, part_until, part_pages, cursor, failures, completed_until, reread_at, begun_from
                    """
                guard let row = try row(app, environment).take(columns, on: connection) else { return nil }
                let left = try LeftSweep(row, now: now)
                let resumed = left.resumed(app, environment, since: since, now: now)
                let sweep = resumed ?? left.beginning(app, environment, since: since, now: now)
                try connection.query(
                    """
                    UPDATE store_sweep SET window_from = $5, window_until = $6, part_until = $7, part_pages = $8, cursor = $9,
                        begun_from = CASE WHEN $10 THEN begun_from ELSE $5 END,
                        read = CASE WHEN $10 THEN read ELSE 0 END,
                        recorded = CASE WHEN $10 THEN recorded ELSE 0 END,
                        refused = CASE WHEN $10 THEN refused ELSE 0 END,
                        gaps = CASE WHEN $10 THEN gaps ELSE 0 END,
                        failures = $11, completed_until = CASE WHEN $12 THEN NULL ELSE completed_until END,
                        reread_at = CASE WHEN $12 THEN NULL ELSE reread_at END
                    WHERE ledger_id = $1 AND app = $2 AND environment = $3 AND holder = $4
                    """,
                    [
                        .int(ledgerID), .text(app), .int2(environment.number), .text(holder),
                        .timestamp(sweep.from.milliseconds), .timestamp(sweep.end.milliseconds),
                        .timestamp(sweep.until.milliseconds), .int4(Int32(clamping: sweep.pages)), .text(sweep.cursor),
                        .bool(sweep.isResumed), .int4(Int32(clamping: sweep.failures)), .bool(left.isAhead),
                    ])
                return sweep
            }
        }
    }

    // MARK: - Going on

    /// Says that a page is in the log, and which is next.
    ///
    /// - Parameters:
    ///   - next: `nil` where it was the part's last.
    ///   - ends: where the log ended once it held what the page says.
    /// - Returns: whether that was the end of the window, and the sweep is completed.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last, or what the page says.
    @discardableResult
    package func finishPage(
        _ sweep: inout Sweep, next: String?, read: Int, recorded: Int, refused: Int, reason: String? = nil,
        restingOn ends: Set<EventMark> = []
    ) async throws -> Bool {
        var after = sweep
        after.pages += 1
        after.cursor = next
        if next == nil {
            after.begin(at: sweep.until, length: after.nextLength)
            after.failures = min(after.failures, Self.patience)
        } else if after.isTooLong {
            after.begin(at: sweep.from, length: after.shorterLength)
        }
        return try await move(
            &sweep, to: after, isPartDone: next == nil,
            Found(read: read, recorded: recorded, refused: refused, reason: reason, ends: ends))
    }

    /// Goes on behind a part that cannot be read.
    ///
    /// - Parameter reason: why not.
    /// - Returns: whether that was the end of the window.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last.
    package func giveUpPart(_ sweep: inout Sweep, _ reason: String) async throws -> Bool {
        var after = sweep
        after.begin(at: sweep.until, length: sweep.length)
        after.failures = min(after.failures, Self.patience)
        return try await move(&sweep, to: after, isPartDone: true, Found(gaps: 1, reason: reason))
    }

    /// Reads the part from its first page: the store does not know the next one any more.
    ///
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last.
    package func startOver(_ sweep: inout Sweep) async throws {
        var after = sweep
        after.begin(at: sweep.from, length: sweep.length)
        _ = try await move(&sweep, to: after)
    }

    /// Reads a shorter part first.
    ///
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last.
    package func shorten(_ sweep: inout Sweep) async throws {
        var after = sweep
        after.begin(at: sweep.from, length: sweep.shorterLength)
        _ = try await move(&sweep, to: after)
    }

    /// Leaves out what the store does not keep any more.
    ///
    /// - Parameter from: where to begin; before the window's end.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last.
    package func skip(_ sweep: inout Sweep, to from: Timestamp) async throws {
        var after = sweep
        after.begin(at: from, length: sweep.pages > 0 ? sweep.shorterLength : sweep.length)
        _ = try await move(&sweep, to: after)
    }

    /// What a page brought.
    private struct Found {
        var read = 0
        var recorded = 0
        var refused = 0
        var gaps = 0
        var reason: String?
        var ends: Set<EventMark> = []
    }

    /// Notes what was found, and goes on; lets go of the sweep where that was the end of its window.
    ///
    /// - Returns: whether it was.
    private func move(
        _ sweep: inout Sweep, to after: Sweep, isPartDone: Bool = false, _ found: Found = Found()
    ) async throws -> Bool {
        let isEnd = isPartDone && after.from >= sweep.end
        try await row(sweep.app, sweep.environment).change(
            [Self.counts, Self.refusals, Self.knowledge, Self.place].joined(separator: ", "),
            [
                .text(isEnd ? nil : after.cursor), .int(Int64(found.read)), .int(Int64(found.recorded)),
                .int(Int64(found.refused)), .bool(isEnd),
                .reason(found.reason),
                .double(Double(Self.kept(in: sweep.environment) - Self.leadMilliseconds)),
                .timestamp(after.from.milliseconds), .timestamp(after.until.milliseconds),
                .int4(Int32(clamping: after.pages)), .int4(Int32(clamping: after.failures)),
                .int4(Int32(found.gaps)), .bool(isPartDone), .double(Double(Self.rereadMilliseconds)),
            ], from: Self.place(sweep), restingOn: found.ends)
        sweep = after
        return isEnd
    }

    // What `move` assigns, by subject. `$5` is the cursor, `$9` whether the window is at its end, `$17` whether a part is; found
    // were `$6` read, `$7` recorded, `$8` refused and `$16` gaps, for the reason `$10`. The store keeps `$11` ms, and `$18` ms are
    // read again once a day. It goes on from `$12` to `$13`, after `$14` pages and `$15` failures.

    private static let counts =
        "read = read + $6, recorded = recorded + $7, refused = refused + $8, gaps = gaps + $16"

    /// What was refused, or could not be read, since when and why.
    private static let refusals: String = {
        // A sweep clears what was refused only where it has read all of that again.
        let isCleared = """
            $9 AND refused = 0 AND gaps + $16 = 0
                AND begun_from <= greatest(refused_from, window_until - $11 * interval '1 ms')
            """
        func noted(_ column: String, if isFound: String, as value: String, cleared: String = "NULL") -> String {
            "\(column) = CASE WHEN \(isFound) THEN \(value) WHEN \(isCleared) THEN \(cleared) ELSE \(column) END"
        }
        return [
            noted("refused_from", if: "$8 + $16 > 0", as: "least(refused_from, window_from)"),
            noted("refused_reason", if: "$8 + $16 > 0", as: "$10"),
            noted("has_gap", if: "$16 > 0", as: "true", cleared: "false"),
        ].joined(separator: ", ")
    }()

    /// Up to where the store's history is known, and since when.
    private static let knowledge = """
        completed_until = CASE WHEN $17 THEN greatest(completed_until, part_until) ELSE completed_until END,
        \(atEnd("read_until", "window_until")), \(atEnd("completed_at", "clock_timestamp()")),
        reread_at = CASE WHEN $9 AND begun_from <= window_until - $18 * interval '1 ms' THEN window_until
            ELSE reread_at END
        """

    /// Where it goes on, and whose it is.
    private static let place = [
        "cursor = $5, part_pages = $14", atEnd("failures", "0", else: "$15"), atEnd("window_from", "NULL", else: "$12"),
        atEnd("window_until", "NULL"), atEnd("part_until", "NULL", else: "$13"), atEnd("last_error", "NULL"),
        atEnd("last_error_at", "NULL"), atEnd("holder", "NULL"),
    ].joined(separator: ", ")

    /// Gives a column another value at the window's end.
    private static func atEnd(_ column: String, _ value: String, else other: String? = nil) -> String {
        "\(column) = CASE WHEN $9 THEN \(value) ELSE \(other ?? column) END"
    }

    /// Ends a sweep at a part that was read and is not believed, so that the next one begins there.
    ///
    /// - Parameter reason: why not.
    /// - Throws: `invalid` where another has taken over, or the database has lost what was said last.
    package func stopShort(of sweep: Sweep, _ reason: String) async throws {
        try await row(sweep.app, sweep.environment).change(
            """
            cursor = NULL, part_pages = 0, failures = 0, completed_at = clock_timestamp(),
                read_until = window_until, refused_from = least(refused_from, window_from),
                refused_reason = $5, has_gap = true, window_from = NULL, window_until = NULL, part_until = NULL, last_error = NULL,
                last_error_at = NULL, holder = NULL
            """, [.reason(reason)], from: Self.place(sweep))
    }

    private static func place(_ sweep: Sweep) -> [(column: String, value: PostgresValue)] {
        [
            ("window_from", .timestamp(sweep.from.milliseconds)), ("part_pages", .int4(Int32(clamping: sweep.pages))),
            ("cursor", .text(sweep.cursor)),
        ]
    }

    /// Gives a sign of life while a page takes its time.
    package func touch(_ sweep: Sweep) async throws { try await row(sweep.app, sweep.environment).change() }

    /// Lets go of a sweep that does not go on now.
    ///
    /// - Parameters:
    ///   - reason: why, where something went wrong.
    ///   - isFailure: whether it is the store's history that could not be read, so that something else is tried in the end.
    package func letGo(of sweep: Sweep, _ reason: String?, isFailure: Bool = false) async throws {
        try await row(sweep.app, sweep.environment).letGo(
            """
            last_error = $5, last_error_at = CASE WHEN $5 IS NULL THEN NULL ELSE clock_timestamp() END,
                failures = CASE WHEN $6 THEN failures + 1 ELSE failures END
            """, [.reason(reason), .bool(isFailure)])
    }

    // MARK: - What was delivered

    /// When something was signed, within the part under way, that the store delivered by itself; `nil` where the log's last
    /// events hold nothing of the kind.
    ///
    /// - Parameter end: what was signed from here on is not looked for.
    package func delivered(in sweep: Sweep, until end: Timestamp) async throws -> Timestamp? {
        let until = min(sweep.until, end)
        guard sweep.from < until else { return nil }
        return try await pool.run(doing: Self.work) { connection in
            let rows = try connection.query(
                """
                SELECT occurred_at, facts FROM (
                    SELECT environment, source, occurred_at, facts FROM event
                    WHERE ledger_id = $1 AND position > $2 - $7
                    ORDER BY position DESC LIMIT $7
                ) AS late
                WHERE environment = $3 AND source = $4 AND occurred_at >= $5 AND occurred_at < $6
                """,
                [
                    .int(ledgerID), .int(try Statements.headPosition(on: connection)),
                    .int2(sweep.environment.number), .int2(EventSource.notification.number),
                    .timestamp(sweep.from.milliseconds), .timestamp(until.milliseconds), .int(Self.eventsLookedAt),
                ]
            ).rows
            for row in rows {
                // What does not decode is for `verify` to name.
                guard case .notification(let fact)? = try? FactCodec.decode(row.bytes(1)),
                    fact.bundleID == sweep.app, fact.type != Self.testType
                else { continue }
                return try row.instant(0)
            }
            return nil
        }
    }

    private static let eventsLookedAt: Int64 = 2000
    /// The store does not promise to list these.
    private static let testType = "TEST"

    // MARK: - Standing

    /// How far each sweep has come, in the order of apps and environments.
    package static func standings(_ pool: PostgresPool) async throws -> [SweepStanding] {
        try await pool.run(doing: "looking how far the store's history was read") { connection in
            try connection.query(
                """
                SELECT app, environment, window_from, window_until,
                    holder IS NOT NULL AND \(Lease.isFresh("heartbeat_at", "$2")),
                    read, recorded, refused, completed_until, completed_at, last_error, last_error_at,
                    refused_from, refused_reason, begun_from, has_gap
                FROM store_sweep WHERE ledger_id = $1 ORDER BY app, environment
                """, [.int(ledgerID), .double(Lease.seconds)]
            ).rows.map { row in
                let window: Range<Timestamp>? =
                    if let from = try row.optionalInstant(2), let until = try row.optionalInstant(3), from < until {
                        from..<until
                    } else { nil }
                return SweepStanding(
                    app: try row.text(0), environment: try StoreEnvironment(stored: row.int(1)), window: window,
                    from: try row.optionalInstant(14),
                    isHeld: try row.bool(4), read: try row.int(5), recorded: try row.int(6), refused: try row.int(7),
                    refusedFrom: try row.optionalInstant(12), refusedReason: try row.optionalText(13),
                    hasGap: try row.bool(15),
                    completedUntil: try row.optionalInstant(8), completedAt: try row.optionalInstant(9),
                    lastError: try row.optionalText(10),
                    lastErrorAt: try row.optionalInstant(11))
            }
        }
    }

    private func row(_ app: String, _ environment: StoreEnvironment) -> LeasedRow {
        LeasedRow(
            pool, "store_sweep", StoreStream(app: app, environment: environment).key, holder: holder,
            work: "reading the store's history")
    }
}
