import EntitlementCore
import PostgresClient

/// A row of table `drift`: a difference, why there is one, and what resolved it.
struct DriftRow: Hashable, Sendable {
    struct End: Hashable, Sendable {
        let position: Int64
        let at: Timestamp
        let by: DriftEnd
    }

    /// Of the event that found it.
    let position: Int64
    let environment: StoreEnvironment
    let comparison: DriftComparison
    let identity: IdentityRef?
    let productID: String?
    let foundAt: Timestamp
    var originalTransactionID: String?
    /// Empty where nothing tells it.
    var app: String
    var cause: DriftCause
    /// `nil` while it is open.
    var end: End?

    var isOpen: Bool { end == nil }
}

/// A key of a difference, as its row of table `drift_key` has it: an event that names the same key may change the difference.
struct DriftKey: Hashable, Sendable {
    /// 0 in the key of an original.
    private let identity: Int64
    /// 0 in the key of an identity.
    private let environment: Int16
    /// Empty in the key of an identity.
    private let originalTransactionID: String

    static func identity(_ identity: IdentityRef) -> DriftKey {
        DriftKey(identity: identity.number, environment: 0, originalTransactionID: "")
    }

    static func original(_ key: OriginalKey) -> DriftKey {
        DriftKey(identity: 0, environment: key.environment.number, originalTransactionID: key.originalTransactionID)
    }
}

extension DriftRow {
    static let columns = """
        position, environment, comparison, identity, product_id, found_at, original_transaction_id, app, cause,
        resolved_position, resolved_at, resolved_by
        """

    /// The same, each with the name of its table before it.
    static func columns(of table: String) -> String {
        columns.split(whereSeparator: { $0 == "," || $0.isWhitespace }).map { "\(table).\($0)" }.joined(separator: ", ")
    }

    /// Reads a row of `columns`.
    init(_ row: PostgresRow) throws {
        position = try row.int(0)
        environment = try StoreEnvironment(stored: row.int(1))
        comparison = try DriftComparison(stored: row.int(2))
        identity = try row.optionalInt(3).map { IdentityRef($0) }
        productID = try row.optionalText(4)
        foundAt = try row.instant(5)
        originalTransactionID = try row.optionalText(6)
        app = try row.text(7)
        cause = try DriftCause(stored: row.int(8))
        if let position = try row.optionalInt(9), let at = try row.optionalTimestamp(10),
            let by = try row.optionalInt(11)
        {
            end = End(position: position, at: Timestamp(milliseconds: at), by: try DriftEnd(stored: by))
        } else {
            end = nil
        }
    }

    /// Writes rows, whole, over what stands there.
    static func write(_ rows: [DriftRow], on connection: isolated PostgresConnection) throws {
        guard !rows.isEmpty else { return }
        try connection.query(
            """
            INSERT INTO drift (
                ledger_id, position, environment, comparison, class, cause, app, is_open, identity, product_id,
                original_transaction_id, found_at, resolved_position, resolved_at, resolved_by)
            SELECT $1, * FROM unnest(
                $2::bigint[], $3::smallint[], $4::smallint[], $5::smallint[], $6::smallint[], $7::text[],
                $8::boolean[], $9::bigint[], $10::text[], $11::text[], $12::timestamptz[], $13::bigint[],
                $14::timestamptz[], $15::smallint[])
            ON CONFLICT (ledger_id, position) DO UPDATE SET class = excluded.class, cause = excluded.cause,
                app = excluded.app, is_open = excluded.is_open,
                original_transaction_id = excluded.original_transaction_id,
                resolved_position = excluded.resolved_position, resolved_at = excluded.resolved_at,
                resolved_by = excluded.resolved_by
            """,
            [
                .int4(Int32(ledgerID)), .intArray(rows.map(\.position)), .int2Array(rows.map(\.environment.number)),
                .int2Array(rows.map(\.comparison.number)), .int2Array(rows.map(\.cause.driftClass.number)),
                .int2Array(rows.map(\.cause.number)), .textArray(rows.map(\.app)), .boolArray(rows.map(\.isOpen)),
                .optionalIntArray(rows.map { $0.identity?.number }), .textArray(rows.map(\.productID)),
                .textArray(rows.map(\.originalTransactionID)), .timestampArray(rows.map(\.foundAt.milliseconds)),
                .optionalIntArray(rows.map { $0.end?.position }),
                .timestampArray(rows.map { $0.end?.at.milliseconds }), .int2Array(rows.map { $0.end?.by.number }),
            ])
    }
}

extension DriftKey {
    private static func parameters(_ keys: [DriftKey]) -> [PostgresValue] {
        [
            .intArray(keys.map(\.identity)), .int2Array(keys.map(\.environment)),
            .textArray(keys.map(\.originalTransactionID)),
        ]
    }

    /// The differences on which some of these keys bear, each beside its keys.
    static func rows(
        with keys: Set<DriftKey>, on connection: isolated PostgresConnection
    ) throws -> [(row: DriftRow, keys: Set<DriftKey>)] {
        // Most of the time nothing is open.
        guard !keys.isEmpty,
            try connection.query("SELECT 1 FROM drift_key WHERE ledger_id = $1 LIMIT 1", [.int(ledgerID)]).first != nil
        else { return [] }
        let found = try connection.query(
            """
            SELECT DISTINCT found.position FROM unnest($2::bigint[], $3::smallint[], $4::text[])
                AS key (identity, environment, original)
            \(Statements.search(
                """
                SELECT position FROM drift_key AS stored
                WHERE stored.ledger_id = $1 AND stored.identity = key.identity
                    AND stored.environment = key.environment AND stored.original_transaction_id = key.original
                """, as: "found"))
            """, [.int(ledgerID)] + parameters(Array(keys))
        ).rows.map { try $0.int(0) }
        guard !found.isEmpty else { return [] }
        let rows = try connection.query(
            "SELECT \(DriftRow.columns) FROM drift WHERE ledger_id = $1 AND position = ANY ($2)",
            [.int(ledgerID), .intArray(found)]
        ).rows.map { try DriftRow($0) }
        let byPosition = try stored(of: found, on: connection)
        return rows.map { ($0, byPosition[$0.position] ?? []) }
    }

    /// The keys that are stored of some differences.
    static func stored(
        of positions: [Int64], on connection: isolated PostgresConnection
    ) throws -> [Int64: Set<DriftKey>] {
        var byPosition: [Int64: Set<DriftKey>] = [:]
        let stored = try connection.query(
            """
            SELECT position, identity, environment, original_transaction_id FROM drift_key
            WHERE ledger_id = $1 AND position = ANY ($2)
            """, [.int(ledgerID), .intArray(positions)])
        for row in stored.rows {
            let key = DriftKey(
                identity: try row.int(1), environment: Int16(clamping: try row.int(2)),
                originalTransactionID: try row.text(3))
            byPosition[try row.int(0), default: []].insert(key)
        }
        return byPosition
    }

    /// Writes the keys of some differences in place of those that they had.
    static func write(_ keys: [Int64: Set<DriftKey>], on connection: isolated PostgresConnection) throws {
        guard !keys.isEmpty else { return }
        try connection.query(
            "DELETE FROM drift_key WHERE ledger_id = $1 AND position = ANY ($2)",
            [.int(ledgerID), .intArray(Array(keys.keys))])
        let pairs = keys.flatMap { position, keys in keys.map { (position, $0) } }
        guard !pairs.isEmpty else { return }
        try connection.query(
            """
            INSERT INTO drift_key (ledger_id, identity, environment, original_transaction_id, position)
            SELECT $1, * FROM unnest($2::bigint[], $3::smallint[], $4::text[], $5::bigint[])
            """, [.int4(Int32(ledgerID))] + parameters(pairs.map(\.1)) + [.intArray(pairs.map(\.0))])
    }
}
