package import EntitlementCore
package import PostgresClient

/// One app's notifications from one environment of the store.
package struct StoreStream: Sendable, Hashable {
    package let app: String
    package let environment: StoreEnvironment

    package init(app: String, environment: StoreEnvironment) {
        self.app = app
        self.environment = environment
    }

    /// The columns beside `ledger_id` by which tables name it.
    var key: [(column: String, value: PostgresValue)] {
        [("app", .text(app)), ("environment", .int2(environment.number))]
    }
}

/// How a stream stands at an instant.
package struct StreamStanding: Sendable, Hashable {
    package let stream: StoreStream
    /// When a notification came last that the store delivered by itself; `nil` where none ever has.
    package var lastHeardAt: Timestamp?
    /// When the first was sent, since the stream was heard last, that never arrived and was read from the store's history.
    package var missedSince: Timestamp?
    /// How many original transactions' next event should have been heard of by now.
    package var overdue: Int64 = 0
    /// When the first and the last of these events took place.
    package var overdueEvents: ClosedRange<Timestamp>?
    /// The newest instant at which the store had something to tell that never came, as was found out since.
    package var unheardAt: Timestamp?
    /// When a test notification was asked for last, and why the last attempt to ask for one failed.
    package var canaryAt: Timestamp?
    package var canaryError: String?
    package var watchedSince: Timestamp?
    /// Checks that were made of what is overdue or disputed, and how many found something.
    package var checked: Int64 = 0
    package var repaired: Int64 = 0
    package var checkError: String?
    package var checkErrorAt: Timestamp?

    /// How long the store may take to deliver what it has sent, in milliseconds: where it was not heard it tries again after
    /// an hour, in the sandbox not at all.
    private static func tolerance(in environment: StoreEnvironment) -> Int64 {
        switch environment {
        case .production: 6 * 3_600_000
        case .sandbox: 3_600_000
        }
    }

    /// What is dated farther ahead than this was written while a clock was wrong; instances may differ by seconds.
    static let farAhead: Int64 = 5 * 60_000

    /// How long a test notification may take.
    package static let canaryPatience: Int64 = 15 * 60_000

    /// Whether the store has sent something since it was last heard.
    ///
    /// What is overdue, what was found in its history and test notifications show it, and what was found out before and
    /// has been repaired since: only a delivery shows that the store is heard again.
    package func isSilent(at now: Timestamp) -> Bool {
        let oldest = now.adding(milliseconds: -SweepRegister.kept(in: stream.environment))
        let latest = now.adding(milliseconds: Self.farAhead)
        var evidence = [overdueEvents?.upperBound, unheardAt, unansweredCanary(at: now)].compactMap(\.self)
        if let missedSince, missedSince.adding(milliseconds: Self.tolerance(in: stream.environment)) < now {
            evidence.append(missedSince)
        }
        // What lies ahead was written while a clock was wrong.
        guard let newest = evidence.filter({ oldest < $0 && $0 <= latest }).max() else { return false }
        return lastHeardAt.map { $0 < newest || $0 > latest } ?? true
    }

    /// The test notification that should have come by now, had it been delivered.
    package func unansweredCanary(at now: Timestamp) -> Timestamp? {
        guard let canaryAt, canaryAt.adding(milliseconds: Self.canaryPatience) < now else { return nil }
        let isHeard = lastHeardAt.map { canaryAt <= $0 && $0 <= now.adding(milliseconds: Self.farAhead) } ?? false
        return isHeard ? nil : canaryAt
    }
}

/// What is known of the streams.
package struct StreamRegister: Sendable {
    /// More than these are not counted.
    private static let mostCounted = 1_000_000

    private static let work = "looking after the store's streams"

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// How the streams stand, in their order.
    package func standings(of streams: [StoreStream], at now: Timestamp) async throws -> [StreamStanding] {
        guard !streams.isEmpty else { return [] }
        return try await pool.run(doing: Self.work) { connection in
            let rows = try connection.query(
                """
                SELECT stream.last_heard_at, stream.missed_since, due.count, due.first, due.last, stream.canary_at,
                    stream.canary_error, stream.watched_since, stream.checked, stream.repaired,
                    coalesce(stream.check_error, failing.error), coalesce(stream.check_error_at, failing.since),
                    stream.unheard_at
                FROM unnest($2::text[], $3::smallint[], $4::timestamptz[]) WITH ORDINALITY
                    AS key (app, environment, oldest, number)
                LEFT JOIN store_stream AS stream ON stream.ledger_id = $1 AND stream.app = key.app
                    AND stream.environment = key.environment
                CROSS JOIN LATERAL (
                    SELECT count(*), min(expected_at) AS first, max(expected_at) AS last FROM (
                        SELECT expected_at FROM store_watch AS watch
                        WHERE watch.ledger_id = $1 AND watch.app = key.app AND watch.environment = key.environment
                            AND due_at <= $5 AND due_at > key.oldest AND reason = 1
                        LIMIT \(Self.mostCounted)) AS overdue
                ) AS due
                LEFT JOIN LATERAL (
                    SELECT 'original transaction ' || original_transaction_id || ': ' || last_error AS error,
                        failing_since AS since
                    FROM store_watch AS watch
                    WHERE watch.ledger_id = $1 AND watch.app = key.app AND watch.environment = key.environment
                        AND failing_since IS NOT NULL AND due_at > key.oldest
                    ORDER BY failing_since LIMIT 1
                ) AS failing ON true
                ORDER BY key.number
                """,
                [
                    .int(ledgerID), .textArray(streams.map(\.app)), .int2Array(streams.map(\.environment.number)),
                    .timestampArray(streams.map { Self.oldest($0.environment, now) }),
                    .timestamp(now.milliseconds),
                ]
            ).rows
            return try zip(streams, rows).map { stream, row in
                var standing = StreamStanding(stream: stream)
                standing.lastHeardAt = try row.optionalInstant(0)
                standing.missedSince = try row.optionalInstant(1)
                standing.overdue = try row.int(2)
                if let first = try row.optionalInstant(3), let last = try row.optionalInstant(4) {
                    standing.overdueEvents = first...last
                }
                standing.canaryAt = try row.optionalInstant(5)
                standing.canaryError = try row.optionalText(6)
                standing.watchedSince = try row.optionalInstant(7)
                standing.checked = try row.optionalInt(8) ?? 0
                standing.repaired = try row.optionalInt(9) ?? 0
                standing.checkError = try row.optionalText(10)
                standing.checkErrorAt = try row.optionalInstant(11)
                standing.unheardAt = try row.optionalInstant(12)
                return standing
            }
        }
    }

    /// The apps that events are known to be about.
    ///
    /// Those are the apps of which the store was heard or is waited for, and whose devices differed. One of which there is
    /// nothing but what devices reported may be missing.
    package func apps() async throws -> [String] {
        try await pool.run(doing: Self.work) { connection in
            // From one app of the index to the next, however many rows each has.
            try connection.query(
                """
                WITH RECURSIVE watched (app) AS (
                    SELECT (SELECT min(app) FROM store_watch WHERE ledger_id = $1)
                    UNION ALL
                    SELECT (SELECT min(app) FROM store_watch WHERE ledger_id = $1 AND app > watched.app)
                    FROM watched WHERE app IS NOT NULL
                )
                SELECT app FROM watched WHERE app IS NOT NULL
                UNION SELECT app FROM store_stream
                WHERE ledger_id = $1 AND coalesce(last_heard_at, last_missed_at) IS NOT NULL
                UNION SELECT app FROM drift_stream WHERE ledger_id = $1
                ORDER BY 1
                """, [.int(ledgerID)]
            ).rows.map { try $0.text(0) }
        }
    }

    /// What was due before is given up: the store itself does not remember it any more.
    static func oldest(_ environment: StoreEnvironment, _ now: Timestamp) -> Int64 {
        now.adding(milliseconds: -SweepRegister.kept(in: environment)).milliseconds
    }

    /// How far the store's history was read, of each app and environment.
    package func sweeps() async throws -> [SweepStanding] { try await SweepRegister.standings(pool) }

    /// How many positions the projection is behind the log.
    package func lag() async throws -> Int64 {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT head.position - coalesce(projection.checkpoint, 0) FROM ledger_head AS head
                LEFT JOIN projection ON projection.ledger_id = head.ledger_id AND projection.name = $2
                WHERE head.ledger_id = $1
                """, [.int(ledgerID), .text(WatchProjector.row.name)]
            ).row(0).int(0)
        }
    }

    /// Notes deliveries that became no event, because what they brought was known already.
    ///
    /// What was noted while a clock was far ahead counts for nothing.
    package func noteHeard(_ heard: [StoreStream: Timestamp], at now: Timestamp) async throws {
        let streams = Array(heard.keys)
        guard !streams.isEmpty else { return }
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                INSERT INTO store_stream AS stream (ledger_id, app, environment, last_heard_at)
                SELECT $1, * FROM unnest($2::text[], $3::smallint[], $4::timestamptz[])
                ON CONFLICT (ledger_id, app, environment) DO UPDATE
                SET last_heard_at = CASE WHEN stream.last_heard_at > $5 THEN excluded.last_heard_at
                    ELSE greatest(stream.last_heard_at, excluded.last_heard_at) END
                """,
                [
                    .int4(Int32(ledgerID)), .textArray(streams.map(\.app)),
                    .int2Array(streams.map(\.environment.number)),
                    .timestampArray(streams.map { heard[$0].map { min($0, now).milliseconds } }),
                    .timestamp(now.adding(milliseconds: StreamStanding.farAhead).milliseconds),
                ])
        }
    }

    // MARK: - Test notifications

    /// How long after an attempt that failed, or was never finished, the next is made, in milliseconds.
    private static let canaryRetry: Int64 = 15 * 60_000

    /// Takes it upon this process to ask for a test notification, unless one was asked for within `pause`, or somebody
    /// has just tried.
    ///
    /// - Parameter pause: in milliseconds.
    package func beginCanary(_ stream: StoreStream, now: Timestamp, pause: Int64) async throws -> Bool {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                UPDATE store_stream SET canary_next_at = $6
                WHERE ledger_id = $1 AND app = $2 AND environment = $3
                    AND (canary_at IS NULL OR canary_at <= $5 OR canary_at > $4)
                    AND (canary_next_at IS NULL OR canary_next_at <= $4 OR canary_next_at > $6)
                RETURNING 1
                """,
                Self.key(stream) + [
                    .timestamp(now.milliseconds), .timestamp(now.adding(milliseconds: -pause).milliseconds),
                    .timestamp(now.adding(milliseconds: Self.canaryRetry).milliseconds),
                ]
            ).first != nil
        }
    }

    /// Says that the store will send a test notification.
    package func noteCanary(_ stream: StoreStream, at now: Timestamp) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE store_stream SET canary_at = $4, canary_error = NULL, canary_next_at = NULL
                WHERE ledger_id = $1 AND app = $2 AND environment = $3
                """, Self.key(stream) + [.timestamp(now.milliseconds)])
        }
    }

    /// Says that no test notification could be asked for, and why.
    ///
    /// - Parameter unheardAt: as of when the store can deliver nothing at all, where that is the reason.
    package func failCanary(_ stream: StoreStream, _ reason: String, unheardAt: Timestamp? = nil) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE store_stream SET canary_error = $4, unheard_at = greatest(unheard_at, $5)
                WHERE ledger_id = $1 AND app = $2 AND environment = $3
                """,
                Self.key(stream) + [
                    .reason(reason),
                    unheardAt.map { .timestamp($0.milliseconds) } ?? .null,
                ])
        }
    }

    /// Keeps what shows that something never came, after what showed it is gone.
    package func noteUnheard(_ stream: StoreStream, at instant: Timestamp) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE store_stream SET unheard_at = greatest(unheard_at, $4)
                WHERE ledger_id = $1 AND app = $2 AND environment = $3
                """, Self.key(stream) + [.timestamp(instant.milliseconds)])
        }
    }

    private static func key(_ stream: StoreStream) -> [PostgresValue] {
        [.int(ledgerID), .text(stream.app), .int2(stream.environment.number)]
    }
}
