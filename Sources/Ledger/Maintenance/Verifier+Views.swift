import EntitlementCore
import PostgresClient

extension Verifier {
    /// Folds every original transaction anew and compares its view row, and looks for rows that nothing folds to.
    func verifyViews(into summary: inout VerificationSummary) async throws {
        var after: ViewRow.Key?
        var done: Int64 = 0
        repeat {
            let limit = limits.originals
            let rows = try await page { [after] connection in
                let rows = try ViewRow.page(after: after, limit: limit, on: connection)
                try compare(rows, on: connection)
                return rows
            }
            for row in rows {
                switch row.standing {
                case .counts: summary.views += 1
                case .outdated: summary.outdatedViews += 1
                case .missing: summary.missingViews += 1
                }
            }
            done += Int64(rows.count)
            progress(VerificationProgress(stage: .views, done: done, total: nil))
            after = rows.count == limit ? rows.last?.key : nil
        } while after != nil
    }

    private func compare(_ rows: [ViewRow], on connection: isolated PostgresConnection) throws {
        for row in rows { try row.check() }
        let counting = rows.filter { $0.standing == .counts }
        let folds = try fold(counting, on: connection)
        for (row, fold) in zip(counting, folds) { try row.check(against: fold) }
    }

    /// What the log alone says of each original up to the position its row claims, a bounded number of events at a
    /// time.
    private func fold(_ rows: [ViewRow], on connection: isolated PostgresConnection) throws -> [OriginalState] {
        var states = rows.map { _ in OriginalState() }
        guard let last = rows.compactMap(\.logged).max() else { return states }
        var after: Int64 = 0
        while true {
            let result = try connection.query(
                """
                SELECT key.number, log.position, log.source, log.facts
                FROM unnest($2::text[], $3::text[]) WITH ORDINALITY
                    AS key (environment, original_transaction_id, number)
                CROSS JOIN LATERAL (
                    SELECT position, source, facts FROM event
                    WHERE ledger_id = $1 AND event.environment = key.environment
                        AND event.original_transaction_id = key.original_transaction_id
                        AND position > $4 AND position <= $5
                    ORDER BY environment, original_transaction_id, position LIMIT $6
                ) AS log
                ORDER BY log.position LIMIT $6
                """,
                [
                    .int(ledgerID), .textArray(rows.map(\.key.environment)),
                    .textArray(rows.map(\.key.originalTransactionID)), .int(after), .int(last),
                    .int(Int64(limits.events)),
                ])
            for row in result.rows {
                let index = Int(try row.int(0)) - 1
                let position = try row.int(1)
                after = position
                // Of another original's row there may be later events than this one's row claims.
                guard let logged = rows[index].logged, position <= logged else { continue }
                do {
                    states[index].join(
                        try FactCodec.decode(row.bytes(3)),
                        originalTransactionID: rows[index].key.originalTransactionID,
                        source: try EventSource(stored: row.text(2)).statementSource, position: position)
                } catch {
                    throw VerificationDifference(event: position, "cannot be read: \(error)")
                }
            }
            if result.rowCount < limits.events { return states }
        }
    }
}

/// One original transaction: its view row and its last event, both of one instant.
struct ViewRow: Sendable {
    struct Key: Sendable, CustomStringConvertible {
        let environment: String
        let originalTransactionID: String

        var description: String { "\(environment) \(originalTransactionID)" }
    }

    enum Standing: Sendable {
        /// It is what reads answer from.
        case counts
        /// Another version of the fold wrote it; reads pass it over.
        case outdated
        /// Reads fold from the log.
        case missing
    }

    let key: Key
    /// The last event of the log about it.
    let logged: Int64?
    private let table: String
    private let version: Int64?
    private let lastPosition: Int64?
    private let state: [UInt8]?
    /// Whether the projection says that every original has its row.
    private let isComplete: Bool

    private init(_ row: PostgresRow, table: String) throws {
        self.table = table
        key = Key(environment: try row.text(0), originalTransactionID: try row.text(1))
        logged = try row.optionalInt(2)
        version = try row.optionalInt(3)
        lastPosition = try row.optionalInt(4)
        state = try row.optionalBytes(5)
        let head = try row.int(6)
        let checkpoint = try row.optionalInt(8) ?? 0
        guard checkpoint <= head else {
            throw VerificationDifference(
                "projection", "originals", "its checkpoint is \(checkpoint), beyond the end of the log at \(head)")
        }
        isComplete = try row.optionalInt(7) == Int64(OriginalState.foldVersion) && checkpoint == head
    }

    var standing: Standing {
        guard let version else { return .missing }
        return version == Int64(OriginalState.foldVersion) ? .counts : .outdated
    }

    /// What can be said without folding.
    func check() throws {
        guard let logged else { throw differs("the log has no event of this original transaction") }
        switch standing {
        case .missing:
            if isComplete { throw differs("is missing, though the projection is complete") }
        case .outdated:
            if isComplete {
                throw differs(
                    "fold_version is \(version ?? 0); the projection is complete at \(OriginalState.foldVersion)")
            }
        case .counts:
            guard lastPosition == logged else {
                throw differs("last_position is \(lastPosition ?? 0); the last event of the log is \(logged)")
            }
        }
    }

    func check(against fold: OriginalState) throws {
        guard state == fold.encoded() else { throw differs("state is not the fold of its events") }
    }

    private func differs(_ problem: String) -> VerificationDifference {
        VerificationDifference(table, key.description, problem)
    }

    /// The next originals in the order of their keys, whether the log or the view knows them.
    static func page(
        after: Key?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [ViewRow] {
        while true {
            let table = try ViewTable.live(on: connection)
            let result = try read(table.name, after: after, limit: limit, on: connection)
            // Swapped between the two statements: the rows read are nobody's business any more.
            if let first = result.first, try first.int(9) != table.rawValue { continue }
            return try result.rows.map { try ViewRow($0, table: table.name) }
        }
    }

    private static func read(
        _ table: String, after: Key?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> PostgresResult {
        let rest = after == nil ? "" : "AND (environment, original_transaction_id) > ($3, $4)"
        return try connection.query(
            """
            WITH key AS (
                (SELECT DISTINCT environment, original_transaction_id FROM event
                WHERE ledger_id = $1 AND environment IS NOT NULL AND original_transaction_id IS NOT NULL \(rest)
                ORDER BY environment, original_transaction_id LIMIT $2)
                UNION
                (SELECT environment, original_transaction_id FROM \(table) WHERE ledger_id = $1 \(rest)
                ORDER BY environment, original_transaction_id LIMIT $2)
                ORDER BY environment, original_transaction_id LIMIT $2
            )
            SELECT key.environment, key.original_transaction_id, log.position,
                view.fold_version, view.last_position, view.state, head.position, projection.version,
                projection.checkpoint, head.live_views::bigint
            FROM key
            LEFT JOIN LATERAL (
                SELECT event.position FROM event
                WHERE event.ledger_id = $1 AND event.environment = key.environment
                    AND event.original_transaction_id = key.original_transaction_id
                ORDER BY event.position DESC LIMIT 1
            ) AS log ON true
            LEFT JOIN \(table) AS view ON view.ledger_id = $1 AND view.environment = key.environment
                AND view.original_transaction_id = key.original_transaction_id
            JOIN ledger_head AS head ON head.ledger_id = $1
            LEFT JOIN projection ON projection.ledger_id = $1 AND projection.name = 'originals'
            ORDER BY key.environment, key.original_transaction_id
            """,
            [.int(ledgerID), .int(Int64(limit))]
                + (after.map { [.text($0.environment), .text($0.originalTransactionID)] } ?? []))
    }
}
