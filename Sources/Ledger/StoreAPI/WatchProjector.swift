package import EntitlementCore
package import PostgresClient

/// Keeps, behind the log, of which original transactions the store is to be heard or asked and when, and when each app's
/// stream was heard last.
///
/// An original is folded once for all of its events in a page, and left to the page of its last event.
package struct WatchProjector: Sendable {
    static let row = ProjectionRow(name: "watch", version: 2)

    private let follower: LogFollower

    /// - Parameter pageEvents: how many positions one transaction goes through.
    package init(pool: PostgresPool, pageEvents: Int64 = 1000) {
        follower = LogFollower(
            Self.row, pool, doing: "looking what the store has to say next", pageEvents: pageEvents,
            former: .cleared { connection in
                try connection.query("DELETE FROM store_watch WHERE ledger_id = $1", [.int(ledgerID)])
            })
    }

    /// Goes on from the checkpoint to the head of the log.
    ///
    /// Events that were recorded while a clock was ahead count as heard now: the log's dates never go back.
    ///
    /// Between pages it rests for as long as they take, so that those who ask are served first.
    ///
    /// - Parameters:
    ///   - isHurried: it does not rest, because somebody waits for the end.
    ///   - patience: how long it waits for another process that is at it; after that it returns.
    package func catchUp(now: Timestamp, isHurried: Bool = false, patience: Duration = .zero) async throws {
        let rest: LogFollower.Rest = isHurried ? .never : .betweenPages
        try await follower.catchUp(rest: rest, patience: patience) { connection, stretch, _ in
            try connection.walkByIndex()
            try watch(from: stretch.start, to: stretch.end, on: connection)
            try hear(from: stretch.start, to: stretch.end, now: now, on: connection)
            return stretch.end
        }
    }

    /// Begins anew where nothing is kept of a log that speaks of purchases, such as after somebody deleted it.
    package func restore() async throws { try await follower.restore(whereEmpty: "store_watch") }

    /// Begins at the first event again with the next `catchUp`, which writes over what is kept: it stays known that the store
    /// was asked, which no event says, and the store is not asked about everything at once.
    package func reset() async throws {
        try await follower.reset { connection in
            try connection.query(
                """
                DELETE FROM store_watch AS watch WHERE watch.ledger_id = $1 AND NOT EXISTS (
                    SELECT FROM event WHERE event.ledger_id = $1 AND event.environment = watch.environment
                        AND event.original_transaction_id = watch.original_transaction_id)
                """, [.int(ledgerID)])
        }
    }

    // MARK: - What is expected

    struct Watch {
        let key: OriginalKey
        let app: String
        let reason: CheckReason
        let expectedAt: Timestamp?
        let dueAt: Timestamp

        init?(_ key: OriginalKey, _ state: OriginalState, now: Timestamp) {
            guard let app = state.transactions.first?.fact.bundleID else { return nil }
            let next = state.nextEvent
            let urgent = state.checkReason
            guard let dueAt = urgent.map({ _ in now }) ?? next?.overdueAt(in: key.environment) else { return nil }
            self.key = key
            self.app = app
            self.dueAt = dueAt
            reason = urgent ?? .overdue
            expectedAt = next?.at
        }
    }

    private func watch(from start: Int64, to end: Int64, on connection: isolated PostgresConnection) throws {
        let touched = try connection.query(
            """
            SELECT key.environment, key.original FROM (
                SELECT DISTINCT environment, original_transaction_id AS original FROM event
                WHERE ledger_id = $1 AND position > $2 AND position <= $3
                    AND environment IS NOT NULL AND original_transaction_id IS NOT NULL
            ) AS key
            WHERE NOT EXISTS (
                SELECT FROM event AS later WHERE later.ledger_id = $1 AND later.environment = key.environment
                    AND later.original_transaction_id = key.original AND later.position > $3)
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows.map {
            OriginalKey(environment: try StoreEnvironment(stored: $0.int(0)), originalTransactionID: try $0.text(1))
        }
        guard !touched.isEmpty else { return }
        let now = Timestamp(
            milliseconds: try connection.query(
                "SELECT recorded_at FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)]
            )
            .row(0).timestamp(0))
        let states = try StateQuery.states(of: touched, upTo: end, on: connection)
        let watches = touched.compactMap { key in states[key].flatMap { Watch(key, $0, now: now) } }
        let watched = Set(watches.map(\.key))
        let settled = touched.filter { !watched.contains($0) }
        if !settled.isEmpty {
            try connection.query(
                """
                DELETE FROM store_watch AS watch USING unnest($2::smallint[], $3::text[]) AS key (environment, original)
                WHERE watch.ledger_id = $1 AND watch.environment = key.environment
                    AND watch.original_transaction_id = key.original
                """,
                [
                    .int(ledgerID), .int2Array(settled.map(\.environment.number)),
                    .textArray(settled.map(\.originalTransactionID)),
                ])
        }
        guard !watches.isEmpty else { return }
        // Where nothing has changed, it stays known that the store was asked.
        try connection.query(
            """
            INSERT INTO store_watch AS watch (
                ledger_id, environment, original_transaction_id, app, reason, expected_at, due_at, next_try_at)
            SELECT $1, key.*, key.due_at FROM unnest(
                $2::smallint[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[], $7::timestamptz[])
                AS key (environment, original_transaction_id, app, reason, expected_at, due_at)
            ON CONFLICT (ledger_id, environment, original_transaction_id) DO UPDATE SET app = excluded.app,
                reason = excluded.reason, expected_at = excluded.expected_at, due_at = excluded.due_at,
                next_try_at = excluded.next_try_at, attempts = 0, last_error = NULL, failing_since = NULL
            WHERE watch.reason <> excluded.reason OR watch.expected_at IS DISTINCT FROM excluded.expected_at
                OR watch.app <> excluded.app
            """,
            [
                .int4(Int32(ledgerID)), .int2Array(watches.map(\.key.environment.number)),
                .textArray(watches.map(\.key.originalTransactionID)), .textArray(watches.map(\.app)),
                .int2Array(watches.map(\.reason.number)), .timestampArray(watches.map { $0.expectedAt?.milliseconds }),
                .timestampArray(watches.map(\.dueAt.milliseconds)),
            ])
    }

    // MARK: - What was heard

    private struct Hearing: Hashable {
        let app: String
        let environment: StoreEnvironment
    }

    /// Notes when each stream's newest notification came by itself, and since when what was sent did not.
    ///
    /// Of what was delivered one event of each product is read, to learn whose it is: where several apps sell a product of
    /// the same id, whoever heard the delivery notes the others. Of what never arrived each event is read.
    private func hear(from start: Int64, to end: Int64, now: Timestamp, on connection: isolated PostgresConnection)
        throws
    {
        let groups = try connection.query(
            """
            SELECT environment, source, max(recorded_at), min(least(occurred_at, recorded_at)),
                max(least(occurred_at, recorded_at)), (array_agg(facts))[1]
            FROM event
            WHERE ledger_id = $1 AND position > $2 AND position <= $3 AND environment IS NOT NULL
                AND source IN ($4, $5) AND type <> $6
            GROUP BY environment, source, product_id,
                CASE WHEN product_id IS NULL OR source = $5 THEN position END
            """,
            [
                .int(ledgerID), .int(start), .int(end), .int2(EventSource.notification.number),
                .int2(EventSource.serverAPI.number), .text(EventSource.serverAPI.statementsLabel),
            ]
        ).rows
        var heard: [Hearing: Int64] = [:]
        var missed: [Hearing: (first: Int64, last: Int64)] = [:]
        for row in groups {
            // What does not decode is for `verify` to name.
            guard case .notification(let fact)? = try? FactCodec.decode(row.bytes(5)) else { continue }
            let stream = Hearing(app: fact.bundleID, environment: try StoreEnvironment(stored: row.int(0)))
            if try row.int(1) == Int64(EventSource.notification.number) {
                heard[stream] = max(heard[stream] ?? .min, min(now.milliseconds, try row.timestamp(2)))
            } else if let first = try row.optionalTimestamp(3), let last = try row.optionalTimestamp(4) {
                let known = missed[stream] ?? (first, last)
                missed[stream] = (min(known.first, first), max(known.last, last))
            }
        }
        let streams = Array(Set(heard.keys).union(missed.keys))
        guard !streams.isEmpty else { return }
        try connection.query(
            """
            INSERT INTO store_stream AS stream (
                ledger_id, app, environment, last_heard_at, last_missed_at, missed_since)
            SELECT $1, new.app, new.environment, new.heard, new.last,
                CASE WHEN new.heard IS NULL OR new.first > new.heard THEN new.first
                    WHEN new.last > new.heard THEN new.last END
            FROM unnest($2::text[], $3::smallint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[])
                AS new (app, environment, heard, first, last)
            ON CONFLICT (ledger_id, app, environment) DO UPDATE SET
                last_heard_at = CASE WHEN excluded.last_heard_at IS NOT NULL AND stream.last_heard_at > $7
                    THEN excluded.last_heard_at ELSE greatest(stream.last_heard_at, excluded.last_heard_at) END,
                last_missed_at = greatest(stream.last_missed_at, excluded.last_missed_at),
                missed_since = least(
                    CASE WHEN stream.missed_since
                        > coalesce(greatest(stream.last_heard_at, excluded.last_heard_at), '-infinity')
                        THEN stream.missed_since END,
                    CASE WHEN excluded.missed_since
                        > coalesce(greatest(stream.last_heard_at, excluded.last_heard_at), '-infinity')
                        THEN excluded.missed_since
                    WHEN excluded.last_missed_at
                        > coalesce(greatest(stream.last_heard_at, excluded.last_heard_at), '-infinity')
                        THEN excluded.last_missed_at END)
            """,
            [
                .int4(Int32(ledgerID)), .textArray(streams.map(\.app)), .int2Array(streams.map(\.environment.number)),
                .timestampArray(streams.map { heard[$0] }), .timestampArray(streams.map { missed[$0]?.first }),
                .timestampArray(streams.map { missed[$0]?.last }),
                .timestamp(now.adding(milliseconds: StreamStanding.farAhead).milliseconds),
            ])
    }
}

extension CheckReason {
    /// As table `store_watch` numbers it.
    var number: Int16 {
        switch self {
        case .overdue: 1
        case .disputed: 2
        case .graceWithoutEnd: 3
        }
    }

    init(stored number: Int64) throws {
        guard let reason = Self.allCases.first(where: { Int64($0.number) == number }) else {
            throw LedgerError(
                .corrupt, "table store_watch holds the reason \(number), which this program does not know")
        }
        self = reason
    }
}
