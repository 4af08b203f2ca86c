import EntitlementCore
import PostgresClient

/// The customer whose answer is watched, and for which endpoints: those of every app, or of one.
struct WatchKey: Hashable, Sendable {
    /// As columns `app` hold it.
    let app: String
    let identity: IdentityRef
    let environment: StoreEnvironment
}

/// A customer whose answer may change by time alone, or has changed: when it was looked at last.
struct WatchedAnswer: Hashable, Sendable {
    let key: WatchKey
    /// All that bears on the customer up to here was told.
    let position: Int64
    let lookedAt: Timestamp
    /// When time alone may change the answer next.
    let nextAt: Timestamp?

    init(key: WatchKey, position: Int64, lookedAt: Timestamp, nextAt: Timestamp?) {
        (self.key, self.position, self.lookedAt, self.nextAt) = (key, position, lookedAt, nextAt)
    }

    private init(_ row: PostgresRow) throws {
        key = WatchKey(
            app: try row.text(0), identity: IdentityRef(try row.int(1)),
            environment: try StoreEnvironment(stored: row.int(2)))
        position = try row.int(3)
        lookedAt = try row.instant(4)
        nextAt = try row.optionalInstant(5)
    }

    /// Those of some identities, whoever hears of them.
    static func of(
        _ identities: Set<IdentityRef>, on connection: isolated PostgresConnection
    ) throws -> [WatchKey: WatchedAnswer] {
        guard !identities.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            SELECT watch.app, watch.identity, watch.environment, watch.position, watch.looked_at, watch.next_at
            FROM answer_scope AS scope CROSS JOIN unnest($2::bigint[]) AS key (identity)
            \(Statements.search(
                """
                SELECT * FROM answer_watch AS watch
                WHERE watch.ledger_id = $1 AND watch.app = scope.app AND watch.identity = key.identity
                """, as: "watch"))
            WHERE scope.ledger_id = $1
            """, [.int(ledgerID), .intArray(identities.map(\.number).sorted())]
        ).rows.map { try WatchedAnswer($0) }
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.key, $0) })
    }

    /// Those that time may have changed by an instant, the earliest first.
    static func due(
        by instant: Timestamp, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [WatchedAnswer] {
        try connection.query(
            """
            SELECT app, identity, environment, position, looked_at, next_at FROM answer_watch
            WHERE ledger_id = $1 AND next_at <= $2 ORDER BY next_at LIMIT \(limit)
            """, [.int(ledgerID), .timestamp(instant.milliseconds)]
        ).rows.map { try WatchedAnswer($0) }
    }

    /// Those that were looked at after an instant, in any order.
    ///
    /// No index finds them: it would be written with every look, and they are searched once in a while only.
    static func looked(
        after instant: Timestamp, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [WatchedAnswer] {
        try connection.query(
            """
            SELECT app, identity, environment, position, looked_at, next_at FROM answer_watch
            WHERE ledger_id = $1 AND looked_at > $2 LIMIT \(limit)
            """, [.int(ledgerID), .timestamp(instant.milliseconds)]
        ).rows.map { try WatchedAnswer($0) }
    }

    static func write(_ rows: [WatchedAnswer], on connection: isolated PostgresConnection) throws {
        guard !rows.isEmpty else { return }
        // In the same order as every other transaction, such as a forgetting, so that two cannot deadlock.
        try connection.query(
            """
            INSERT INTO answer_watch (ledger_id, app, identity, environment, position, looked_at, next_at)
            SELECT $1, key.* FROM unnest(
                $2::text[], $3::bigint[], $4::smallint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[]
            ) AS key (app, identity, environment, position, looked_at, next_at)
            ORDER BY key.app COLLATE "C", key.identity, key.environment
            ON CONFLICT (ledger_id, app, identity, environment) DO UPDATE SET
                position = excluded.position, looked_at = excluded.looked_at, next_at = excluded.next_at
            """,
            [
                .int4(Int32(ledgerID)), .textArray(rows.map(\.key.app)), .intArray(rows.map(\.key.identity.number)),
                .int2Array(rows.map(\.key.environment.number)), .intArray(rows.map(\.position)),
                .timestampArray(rows.map(\.lookedAt.milliseconds)),
                .timestampArray(rows.map { $0.nextAt?.milliseconds }),
            ])
    }
}
