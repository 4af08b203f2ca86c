import EntitlementCore
import PostgresClient

/// For whom changes of answers, or of purchases, are told: every app, or one app's customers by that app's facts alone.
struct AnswerScope: Sendable {
    let audience: EndpointAudience
    /// What came before this position, or before this instant, is told to nobody.
    let sincePosition: Int64
    let since: Timestamp
    /// Up to which position everybody was looked at for events that concern all customers.
    private(set) var settledPosition: Int64
    /// The walk over everybody that is under way.
    private(set) var walk: Walk?

    struct Walk: Sendable {
        /// Up to which position everybody is looked at.
        let position: Int64
        /// Up to which number everybody was.
        var identity: IdentityRef
    }

    /// `nil`: every app.
    var app: AppScope? { audience.app }

    /// As columns `app` hold it.
    var name: String { audience.name }

    /// Up to which position somebody was looked at who is not watched.
    func settledPosition(of identity: IdentityRef) -> Int64 {
        guard let walk, identity <= walk.identity else { return settledPosition }
        return walk.position
    }

    /// Whether nobody has looked at them yet, as at the beginning.
    func isNew(_ identity: IdentityRef) -> Bool {
        guard let walk, walk.position == sincePosition else { return false }
        return identity > walk.identity
    }

    /// Begins to look at everybody where a catalog came since, unless that is done already.
    mutating func beginWalk(for catalogs: [AppliedCatalog], upTo position: Int64) {
        guard walk == nil, let last = catalogs.last(where: { $0.position <= position }),
            last.position > settledPosition
        else { return }
        walk = Walk(position: last.position, identity: IdentityRef(0))
    }

    /// Everybody was looked at up to a number; `nil`: all.
    mutating func advanceWalk(to identity: IdentityRef?) {
        guard let position = walk?.position else { return }
        if let identity {
            walk?.identity = identity
        } else {
            settledPosition = position
            walk = nil
        }
    }

    // MARK: - Rows

    private init(_ row: PostgresRow) throws {
        audience = EndpointAudience(name: try row.text(0))
        sincePosition = try row.int(1)
        since = try row.instant(2)
        settledPosition = try row.int(3)
        let identity = IdentityRef(try row.int(5))
        walk = try row.optionalInt(4).map { Walk(position: $0, identity: identity) }
    }

    static func all(on connection: isolated PostgresConnection) throws -> [AnswerScope] {
        try connection.query(
            """
            SELECT app, since_position, since, settled_position, walk_position, walk_identity
            FROM answer_scope WHERE ledger_id = $1 ORDER BY app
            """, [.int(ledgerID)]
        ).rows.map { try AnswerScope($0) }
    }

    /// Begins to tell what comes after a position.
    static func begin(
        _ app: String, after position: Int64, at instant: Timestamp, on connection: isolated PostgresConnection
    ) throws {
        try connection.query(
            """
            INSERT INTO answer_scope (ledger_id, app, since_position, since, settled_position, walk_position)
            VALUES ($1, $2, $3, $4, $3, $3) ON CONFLICT (ledger_id, app) DO NOTHING
            """,
            [.int4(Int32(ledgerID)), .text(app), .int(position), .timestamp(instant.milliseconds)])
    }

    /// Looks no more at answers that no endpoint wants to hear of.
    static func endUnwanted(on connection: isolated PostgresConnection) throws {
        for table in ["answer_scope", "answer_watch"] {
            try connection.query(
                """
                DELETE FROM \(table) AS unwanted WHERE unwanted.ledger_id = $1 AND NOT EXISTS (
                    SELECT FROM webhook_endpoint AS endpoint
                    WHERE endpoint.ledger_id = $1 AND endpoint.app = unwanted.app
                        AND endpoint.types && $2::smallint[])
                """, [.int(ledgerID), .int2Array(MessageType.allCases.filter(\.isCounted).map(\.number))])
        }
    }

    func write(on connection: isolated PostgresConnection) throws {
        try connection.query(
            """
            UPDATE answer_scope SET settled_position = $3, walk_position = $4, walk_identity = $5
            WHERE ledger_id = $1 AND app = $2
            """,
            [
                .int(ledgerID), .text(name), .int(settledPosition), .int(walk?.position),
                .int(walk?.identity.number ?? 0),
            ])
    }
}

/// Where and when a catalog was written.
struct AppliedCatalog: Hashable, Sendable {
    let mark: EventMark
    let recordedAt: Timestamp

    var position: Int64 { mark.position }

    /// All of them, in the order of their positions.
    static func all(on connection: isolated PostgresConnection) throws -> [AppliedCatalog] {
        try connection.query(
            """
            SELECT position, hash, recorded_at FROM event WHERE ledger_id = $1 AND type = 'catalog_applied'
            ORDER BY position
            """, [.int(ledgerID)]
        ).rows.map {
            AppliedCatalog(
                mark: try EventMark($0, 0), recordedAt: try $0.instant(2))
        }
    }
}
