import EntitlementCore
import PostgresClient

/// Reads the state of original transactions: a snapshot, where there is one, joined with the log's later events.
///
/// A snapshot is never trusted beyond what it proves: it must be of the live generation and of this fold, and end at
/// one of the original's events. Else the state is folded from the log alone.
enum StateQuery {
    /// The lives of originals up to a position: of each its snapshot, and the events from the snapshot's last on.
    ///
    /// One statement, so one snapshot of the database: a rebuild or a projector that writes meanwhile does no harm.
    static func lives(of originals: [OriginalKey], upTo position: Int64 = .max) -> PostgresStatement {
        PostgresStatement(
            """
            WITH life AS MATERIALIZED (
                SELECT key.number, key.environment, key.original, view.last_position, view.state
                FROM unnest($2::smallint[], $3::text[]) WITH ORDINALITY AS key (environment, original, number)
                \(snapshotJoin(of: "key", version: "$4", upTo: "$5"))
            )
            SELECT number, last_position, NULL::smallint, state FROM life WHERE state IS NOT NULL
            UNION ALL
            SELECT life.number, event.position, event.source, event.facts
            FROM life \(tailJoin(of: "life", upTo: "$5"))
            """,
            [
                .int(ledgerID), .int2Array(originals.map(\.environment.number)),
                .textArray(originals.map(\.originalTransactionID)), .int4(Int32(OriginalState.foldVersion)),
                .int(position),
            ])
    }

    /// Joins the snapshots of rows with columns `environment` and `original`; $1 is the ledger.
    ///
    /// LIMIT holds the planner to one search for each row. All snapshots share ledger and generation, and before the first
    /// ANALYZE the planner takes these two for a choice of few: it would read every snapshot once and compare.
    static func snapshotJoin(of rows: String, version: String, upTo position: String? = nil) -> String {
        """
        LEFT JOIN LATERAL (
            SELECT stored.last_position, stored.events, stored.state FROM original_view AS stored
            WHERE stored.ledger_id = $1
                AND stored.generation = (SELECT view_generation FROM ledger_head WHERE ledger_id = $1)
                AND stored.environment = \(rows).environment AND stored.original_transaction_id = \(rows).original
                AND stored.fold_version = \(version) \(position.map { "AND stored.last_position <= \($0)" } ?? "")
            LIMIT 1
        ) AS view ON true
        """
    }

    /// Joins the events that a snapshot does not hold, and its last one, which proves where it ends.
    static func tailJoin(of rows: String, upTo position: String? = nil) -> String {
        Statements.search(
            """
            SELECT position, source, facts, recorded_at FROM event
            WHERE event.ledger_id = $1 AND event.environment = \(rows).environment
                AND event.original_transaction_id = \(rows).original
                AND event.position >= coalesce(\(rows).last_position, 0) \(position.map { "AND event.position <= \($0)" } ?? "")
            """, as: "event")
    }

    /// The states named by the rows of `lives`; originals without events are left out.
    static func states(
        from result: PostgresResult, of originals: [OriginalKey], upTo position: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: OriginalState] {
        var lives = originals.map { Life(originalTransactionID: $0.originalTransactionID) }
        for row in result.rows {
            let number = Int(try row.int(0)) - 1
            guard lives.indices.contains(number) else { continue }
            try lives[number].add(
                position: row.int(1), source: row.optionalInt(2), bytes: row.bytes(3))
        }
        var states: [OriginalKey: OriginalState] = [:]
        var unproven: [OriginalKey] = []
        for (key, life) in zip(originals, lives) where !life.isEmpty {
            if let state = try life.state() { states[key] = state } else { unproven.append(key) }
        }
        if !unproven.isEmpty {
            states.merge(try fold(unproven, upTo: position, on: connection)) { _, folded in folded }
        }
        return states
    }

    /// Reads and folds originals up to a position; what is about one app is folded from the log alone, since a snapshot does
    /// not tell apps apart.
    static func states(
        of originals: [OriginalKey], upTo position: Int64, app: AppScope? = nil,
        on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: OriginalState] {
        guard !originals.isEmpty else { return [:] }
        if let app { return try fold(originals, upTo: position, app: app, on: connection) }
        let statement = lives(of: originals, upTo: position)
        return try states(
            from: connection.query(statement.sql, statement.parameters), of: originals, upTo: position, on: connection)
    }

    /// Folds originals from the log alone; those without events up to `position` are left out.
    static func fold(
        _ originals: [OriginalKey], upTo position: Int64, app: AppScope? = nil,
        on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: OriginalState] {
        let result = try connection.query(
            """
            SELECT key.number, event.position, event.source, event.facts
            FROM unnest($2::smallint[], $3::text[]) WITH ORDINALITY AS key (environment, original, number)
            \(Statements.search(
                """
                SELECT position, source, facts FROM event
                WHERE event.ledger_id = $1 AND event.environment = key.environment
                    AND event.original_transaction_id = key.original AND event.position <= $4
                """, as: "event"))
            """,
            [
                .int(ledgerID), .int2Array(originals.map(\.environment.number)),
                .textArray(originals.map(\.originalTransactionID)), .int(position),
            ])
        var lives = originals.map { Life(originalTransactionID: $0.originalTransactionID) }
        for row in result.rows {
            try lives[Int(row.int(0)) - 1].add(
                position: row.int(1), source: row.optionalInt(2), bytes: row.bytes(3))
        }
        var states: [OriginalKey: OriginalState] = [:]
        for (key, life) in zip(originals, lives) where !life.isEmpty { states[key] = try life.state(of: app) }
        return states
    }
}

/// What was read of one original transaction: its snapshot, where there is one, and events of the log.
struct Life: Sendable {
    private let originalTransactionID: String
    private var snapshot: (lastPosition: Int64, state: [UInt8])?
    private var events: [(position: Int64, source: Int64, facts: [UInt8])] = []

    init(originalTransactionID: String) { self.originalTransactionID = originalTransactionID }

    /// Nothing was found of it.
    var isEmpty: Bool { snapshot == nil && events.isEmpty }

    /// Adds a snapshot, which has no source, or an event.
    mutating func add(position: Int64, source: Int64?, bytes: [UInt8]) {
        if let source {
            events.append((position, source, bytes))
        } else {
            snapshot = (position, bytes)
        }
    }

    /// The fold of all that was added; `nil` when the snapshot does not prove itself.
    ///
    /// - Parameter app: leaves out the events that are not about this app; `nil` when none is. There must be no snapshot.
    /// - Throws: `LedgerError` of code `corrupt` for an event whose facts do not read.
    func state(of app: AppScope? = nil) throws -> OriginalState? {
        var state = OriginalState()
        var isKept = app == nil
        var sieve = app.map { AppScope.OriginalFilter(of: $0) }
        var sorted = events
        if zip(sorted, sorted.dropFirst()).contains(where: { $0.position > $1.position }) {
            sorted.sort { $0.position < $1.position }
        }
        var rest = sorted[...]
        if let snapshot {
            guard sorted.first?.position == snapshot.lastPosition,
                let stored = try? OriginalState(encoded: snapshot.state), stored.lastPosition == snapshot.lastPosition
            else { return nil }
            state = stored
            rest = sorted.dropFirst()
        }
        for event in rest {
            let fact: LedgerFact
            do {
                fact = try FactCodec.decode(event.facts)
            } catch {
                throw LedgerError(.corrupt, "event \(event.position) cannot be folded: \(error)")
            }
            guard sieve?.keeps(fact) ?? true else { continue }
            isKept = true
            state.join(
                fact, originalTransactionID: originalTransactionID,
                source: try EventSource(stored: event.source).statementSource, position: event.position)
        }
        return isKept ? state : nil
    }
}
