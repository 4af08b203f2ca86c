import EntitlementCore
import PostgresClient

/// Reads and writes the folded state of original transactions, and never trusts a view row beyond what it proves.
enum StateQuery {
    /// The last position of each original in the log, beside its view row.
    static func latest(of originals: [OriginalKey]) -> PostgresStatement {
        PostgresStatement(
            latestSQL(of: "unnest($2::text[], $3::text[])"),
            [
                .int(ledgerID), .textArray(originals.map(\.environment.rawValue)),
                .textArray(originals.map(\.originalTransactionID)),
            ])
    }

    /// The same for some originals and those whose events name a customer as whose they are; nothing beyond `bound` is
    /// looked at.
    static func latest(
        of customer: String?, and originals: [String], _ environment: StoreEnvironment, bound: Int64
    ) -> PostgresStatement {
        let number = "(SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)"
        let named = "SELECT $3::text, unnest($4::text[])"
        // Most reads are about nobody else's purchases; the parameter stays, so that both take the same.
        let more = originals.isEmpty ? " WHERE $4::text[] IS NOT NULL" : " UNION " + named
        return PostgresStatement(
            latestSQL(
                of: """
                    (SELECT * FROM (
                        SELECT DISTINCT $3::text, event.original_transaction_id FROM event
                        WHERE event.ledger_id = $1 AND event.environment = $3 AND event.identity = \(number)
                            AND event.original_transaction_id IS NOT NULL AND event.position <= $5) AS own\(more))
                    """, bound: "$5"),
            [
                .int(ledgerID), .text(customer), .text(environment.rawValue), .textArray(originals), .int(bound),
            ])
    }

    /// The same for everybody whom links connect with a customer.
    static func latest(
        ofConnected customer: String?, and originals: [String], _ environment: StoreEnvironment, bound: Int64
    ) -> PostgresStatement {
        let person = OwnershipQuery.connected(
            with: OwnershipQuery.numbers(of: "$2"), environment: "$3", upTo: "$5")
        return PostgresStatement(
            person
                + latestSQL(
                    of: """
                        (SELECT $3::text, event.original_transaction_id FROM person JOIN event
                            ON event.ledger_id = $1 AND event.environment = $3 AND event.identity = person.number
                        WHERE event.original_transaction_id IS NOT NULL AND event.position <= $5
                        UNION
                        SELECT $3::text, unnest($4::text[]))
                        """, bound: "$5"),
            [
                .int(ledgerID), .textArray([customer].compactMap(\.self)), .text(environment.rawValue),
                .textArray(originals),
                .int(bound),
            ])
    }

    /// The same for the originals that `source`, a FROM item of two columns, names.
    private static func latestSQL(of source: String, bound: String? = nil) -> String {
        """
        SELECT key.environment, key.original_transaction_id, log.position,
            view.fold_version, view.last_position, view.state
        FROM \(source) AS key (environment, original_transaction_id)
        LEFT JOIN LATERAL (
            SELECT event.position FROM event
            WHERE event.ledger_id = $1 AND event.environment = key.environment
                AND event.original_transaction_id = key.original_transaction_id
                \(bound.map { "AND event.position <= \($0)" } ?? "")
            ORDER BY event.position DESC LIMIT 1
        ) AS log ON true
        LEFT JOIN LATERAL (\(ViewTable.liveRow)) AS view ON true
        """
    }

    /// The states named by the rows of `latest`, as of `position`: from the view where it counts, else folded from
    /// the log.
    static func states(
        from result: PostgresResult, upTo position: Int64, on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: OriginalState] {
        var states: [OriginalKey: OriginalState] = [:]
        var unproven: [OriginalKey] = []
        for row in result.rows {
            let environment = try StoreEnvironment(stored: row.text(0))
            let key = OriginalKey(environment: environment, originalTransactionID: try row.text(1))
            guard let logged = try row.optionalInt(2) else { continue }
            if logged <= position, try row.optionalInt(3) == Int64(OriginalState.foldVersion),
                try row.optionalInt(4) == logged, let bytes = try row.optionalBytes(5),
                let state = try? OriginalState(encoded: bytes), state.lastPosition == logged
            {
                states[key] = state
            } else {
                unproven.append(key)
            }
        }
        if !unproven.isEmpty {
            states.merge(try fold(unproven, upTo: position, on: connection)) { _, folded in folded }
        }
        return states
    }

    /// Folds originals from the log alone; those without events up to `position` are left out.
    static func fold(
        _ originals: [OriginalKey], upTo position: Int64, on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: OriginalState] {
        let result = try connection.query(
            """
            SELECT event.environment, event.original_transaction_id, event.position, event.source, event.facts
            FROM unnest($2::text[], $3::text[]) AS key (environment, original_transaction_id)
            JOIN event ON event.ledger_id = $1 AND event.environment = key.environment
                AND event.original_transaction_id = key.original_transaction_id
            WHERE event.position <= $4
            ORDER BY event.position
            """,
            [
                .int(ledgerID), .textArray(originals.map(\.environment.rawValue)),
                .textArray(originals.map(\.originalTransactionID)), .int(position),
            ])
        var states: [OriginalKey: OriginalState] = [:]
        for row in result.rows {
            let environment = try StoreEnvironment(stored: row.text(0))
            let key = OriginalKey(environment: environment, originalTransactionID: try row.text(1))
            states[key, default: OriginalState()].join(
                try FactCodec.decode(row.bytes(4)), originalTransactionID: key.originalTransactionID,
                source: try EventSource(stored: row.text(3)).statementSource, position: try row.int(2))
        }
        return states
    }

    static func upsert(
        _ states: [OriginalKey: OriginalState], of keys: [OriginalKey], in table: ViewTable
    ) -> PostgresStatement? {
        let rows = keys.compactMap { key in states[key].map { (key, $0) } }
        guard !rows.isEmpty else { return nil }
        return PostgresStatement(
            """
            INSERT INTO \(table.name) (
                ledger_id, environment, original_transaction_id, fold_version, last_position, state)
            SELECT $1, new.environment, new.original_transaction_id, $2, new.last_position, new.state
            FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bytea[])
                AS new (environment, original_transaction_id, last_position, state)
            ON CONFLICT (ledger_id, environment, original_transaction_id) DO UPDATE SET
                fold_version = excluded.fold_version, last_position = excluded.last_position, state = excluded.state
            """,
            [
                .int4(Int32(ledgerID)), .int4(Int32(OriginalState.foldVersion)),
                .textArray(rows.map(\.0.environment.rawValue)), .textArray(rows.map(\.0.originalTransactionID)),
                .intArray(rows.map(\.1.lastPosition)), .bytesArray(rows.map { $0.1.encoded() }),
            ])
    }
}

extension StoreEnvironment {
    init(stored text: String) throws {
        guard let value = StoreEnvironment(rawValue: text) else {
            throw LedgerError(.corrupt, "a row names the environment \(text)")
        }
        self = value
    }
}

extension EventSource {
    init(stored text: String) throws {
        guard let value = EventSource(rawValue: text) else {
            throw LedgerError(.corrupt, "a row names the source \(text)")
        }
        self = value
    }
}
