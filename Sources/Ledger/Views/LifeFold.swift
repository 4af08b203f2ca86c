import EntitlementCore
import PostgresClient

/// The events of one original transaction up to a position.
struct LifeSpan: Sendable {
    /// As the tables number it.
    let environment: Int16
    let original: String
    /// The last position that belongs to it.
    let position: Int64
    /// How many events these are.
    let events: Int64
}

/// Folds original transactions from the log alone, with a bounded number of events in memory.
struct LifeFold: Sendable {
    /// What the log gives for one original transaction.
    struct Folded: Sendable {
        fileprivate(set) var state = OriginalState()
        /// How many events were found and folded.
        fileprivate(set) var events: Int64 = 0
        /// The most events that were in memory at a time.
        fileprivate(set) var held = 0
    }

    /// An event of the log that cannot be folded.
    struct UnreadableEvent: Error, CustomStringConvertible {
        let position: Int64
        let problem: String

        var description: String { "event \(position) cannot be folded: \(problem)" }
    }

    /// The most events that are read at a time.
    let limit: Int

    /// Divides lives, in their order, into parts whose events can be read at a time; a longer life is a part alone.
    func parts(of lives: [LifeSpan]) -> [ArraySlice<LifeSpan>] {
        var parts: [ArraySlice<LifeSpan>] = []
        var (start, events) = (0, Int64(0))
        for (index, life) in lives.enumerated() {
            if index > start, life.events > Int64(limit) - events {
                parts.append(lives[start..<index])
                (start, events) = (index, 0)
            }
            events = events.addingReportingOverflow(life.events).overflow ? .max : events + life.events
        }
        if start < lives.count { parts.append(lives[start...]) }
        return parts
    }

    /// Folds the lives of one part.
    ///
    /// - Throws: `UnreadableEvent`, and `LedgerError` of code `corrupt` for rows that come out of order.
    func fold(
        _ part: ArraySlice<LifeSpan>, on connection: isolated PostgresConnection
    ) throws -> [Folded] {
        if let life = part.first, part.count == 1, life.events > Int64(limit) {
            return [try foldInStretches(life, on: connection)]
        }
        let lives = Array(part)
        // LIMIT keeps each life's events in the order of the index, and their number to what was counted and one more.
        let result = try connection.query(
            """
            SELECT life.number, event.position, event.source, event.facts
            FROM unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[])
                WITH ORDINALITY AS life (environment, original, position, events, number)
            CROSS JOIN LATERAL (
                SELECT position, source, facts FROM event
                WHERE ledger_id = $1 AND environment = life.environment AND original_transaction_id = life.original
                    AND position <= life.position
                ORDER BY environment, original_transaction_id, position LIMIT life.events + 1
            ) AS event
            """,
            [
                .int(ledgerID), .int2Array(lives.map(\.environment)), .textArray(lives.map(\.original)),
                .intArray(lives.map(\.position)), .intArray(lives.map(\.events)),
            ])
        var folded = [Folded](repeating: Folded(), count: lives.count)
        for row in result.rows {
            let index = Int(try row.int(0)) - 1
            try folded[index].join(row, firstColumn: 1, of: lives[index])
        }
        for index in folded.indices { folded[index].held = result.rowCount }
        return folded
    }

    /// Folds a life that is longer than what is read at a time.
    private func foldInStretches(
        _ life: LifeSpan, on connection: isolated PostgresConnection
    ) throws -> Folded {
        var folded = Folded()
        while true {
            let result = try connection.query(
                """
                SELECT position, source, facts FROM event
                WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3
                    AND position > $4 AND position <= $5
                ORDER BY environment, original_transaction_id, position LIMIT $6
                """,
                [
                    .int(ledgerID), .int2(life.environment), .text(life.original), .int(folded.state.lastPosition),
                    .int(life.position), .int(Int64(limit)),
                ])
            for row in result.rows { try folded.join(row, firstColumn: 0, of: life) }
            folded.held = max(folded.held, result.rowCount)
            if result.rowCount < limit { return folded }
        }
    }

    fileprivate static let disorder = LedgerError(.corrupt, "the database returned the log's events out of order")
}

extension LifeFold.Folded {
    /// Joins an event: its position, source and facts, from that column on.
    fileprivate mutating func join(_ row: PostgresRow, firstColumn column: Int, of life: LifeSpan) throws {
        let position = try row.int(column)
        guard position > state.lastPosition else { throw LifeFold.disorder }
        events += 1
        do {
            let source = try EventSource(stored: row.int(column + 1)).statementSource
            try row.withBytes(column + 2) { facts in
                state.join(
                    try FactCodec.decode(facts), originalTransactionID: life.original, source: source,
                    position: position)
            }
        } catch {
            throw LifeFold.UnreadableEvent(position: position, problem: "\(error)")
        }
    }
}
