import EntitlementCore
import PostgresClient

extension Rebuilder {
    typealias Report = @Sendable (RebuildProgress) -> Void

    /// Folds the log into the target, original by original.
    func fold(_ state: inout RebuildState, _ report: Report) async throws {
        let limit = limits.pageEvents
        var walk = KeyOrderFold(after: state.cursor)
        while true {
            let step = try await page(&state) { [walk] connection, state in
                try connection.walkByIndex()
                var walk = walk
                let page = try walk.nextPage(upTo: .max, limit: limit, on: connection)
                if let page {
                    let states = Dictionary(uniqueKeysWithValues: page.complete.map { ($0.key, $0.state) })
                    try Self.put(states, page.complete.map(\.key), in: state.target, on: connection)
                    state.advance(by: page)
                }
                return (walk: walk, page: page)
            }
            guard let page = step.page else { return }
            walk = step.walk
            report(RebuildProgress(state, total: state.startPosition, page: page.read))
        }
    }

    /// Folds again what was touched since the walk began, up to the head of now.
    func catchUp(_ state: inout RebuildState, _ report: Report) async throws {
        let step = limits.catchUpPositions
        let head = try await page(&state, isRacing: true) { connection, _ in try Self.head(on: connection) }
        while state.caughtUp < head {
            let before = state.caughtUp
            try await page(&state, isRacing: true) { connection, state in
                try Self.catchUp(&state, to: min(head, state.caughtUp + step), on: connection)
            }
            report(RebuildProgress(state, total: 0, page: Int(state.caughtUp - before)))
        }
    }

    /// Catches up round after round until little is left, and makes the target live; returns the position at which it
    /// did.
    func catchUpAndSwap(_ state: inout RebuildState, _ report: Report) async throws -> Int64 {
        for _ in 0..<limits.rounds {
            try await catchUp(&state, report)
            if let position = try await swap(&state) { return position }
        }
        throw LedgerError(
            .unavailable, "events are appended faster than they can be folded; run `rightful rebuild` again later")
    }

    /// Makes the target live, in one step under the head's lock; `nil` when too much is left for that.
    private func swap(_ state: inout RebuildState) async throws -> Int64? {
        let limit = limits.swapPositions
        return try await page(&state, isRacing: true) { connection, state in
            // A commit that went unheard is not repeated.
            if let written = try RebuildState.read(on: connection), written.phase == .clearing {
                state = written
                return written.caughtUp
            }
            let row = try connection.query(
                "SELECT position, live_views FROM ledger_head WHERE ledger_id = $1 FOR UPDATE", [.int(ledgerID)]
            ).first
            guard let row else { throw Statements.missingHead }
            let head = try row.int(0)
            guard try row.int(1) == state.target.other.rawValue else {
                throw LedgerError(.invalid, "the views were swapped by somebody else; run `rightful rebuild` again")
            }
            guard head - state.caughtUp <= limit else { return nil }
            try Self.catchUp(&state, to: head, on: connection)
            try connection.query(
                "UPDATE ledger_head SET live_views = $2 WHERE ledger_id = $1",
                [.int(ledgerID), .int4(Int32(state.target.rawValue))])
            try connection.query(
                """
                INSERT INTO projection (ledger_id, name, version, checkpoint) VALUES ($1, 'originals', $2, $3)
                ON CONFLICT (ledger_id, name) DO UPDATE SET version = $2, checkpoint = $3
                """, [.int4(Int32(ledgerID)), .int4(Int32(OriginalState.foldVersion)), .int(head)])
            state.target = state.target.other
            state.enter(.clearing)
            return head
        }
    }

    /// Deletes what is in the target; the serving role may not truncate, and a truncation would wait for every reader.
    func empty(_ state: inout RebuildState, _ report: Report) async throws {
        let limit = limits.deletedRows
        var isEmpty = false
        while !isEmpty {
            isEmpty = try await page(&state) { connection, state in
                try connection.walkByIndex()
                let table = state.target.name
                // From the last one deleted, so that no page looks again at all the rows deleted before it.
                let after: [PostgresValue] = [
                    .int(ledgerID), .text(state.cursor?.environment.rawValue ?? ""),
                    .text(state.cursor?.originalTransactionID ?? ""),
                ]
                let last = try connection.query(
                    """
                    SELECT environment, original_transaction_id FROM \(table)
                    WHERE ledger_id = $1 AND (environment, original_transaction_id) > ($2, $3)
                    ORDER BY environment, original_transaction_id OFFSET $4 LIMIT 1
                    """, after + [.int(limit - 1)]
                ).first
                guard let last else {
                    try connection.query("DELETE FROM \(table) WHERE ledger_id = $1", [.int(ledgerID)])
                    return true
                }
                let (environment, original) = (try last.text(0), try last.text(1))
                try connection.query(
                    """
                    DELETE FROM \(table) WHERE ledger_id = $1 AND (environment, original_transaction_id) > ($2, $3)
                        AND (environment, original_transaction_id) <= ($4, $5)
                    """, after + [.text(environment), .text(original)])
                // A row of no known environment is nothing to go on from; the walk begins again behind it.
                state.cursor = StoreEnvironment(rawValue: environment).map {
                    OriginalKey(environment: $0, originalTransactionID: original)
                }
                state.originals += limit
                return false
            }
            report(RebuildProgress(state, total: 0, page: 0))
        }
    }

    func clear(_ state: inout RebuildState, _ report: Report) async throws {
        try await empty(&state, report)
        try await page(&state) { _, state in state.enter(.done) }
    }

    static func head(on connection: isolated PostgresConnection) throws -> Int64 {
        let head = try connection.query(Statements.head.sql, Statements.head.parameters)
        guard let row = head.first else { throw Statements.missingHead }
        return try row.int(0)
    }

    /// Folds everything that has events in the positions up to `end`, from the log alone and as of `end`.
    private static func catchUp(
        _ state: inout RebuildState, to end: Int64, on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            SELECT DISTINCT environment, original_transaction_id FROM event
            WHERE ledger_id = $1 AND position > $2 AND position <= $3
                AND environment IS NOT NULL AND original_transaction_id IS NOT NULL
            """, [.int(ledgerID), .int(state.caughtUp), .int(end)]
        ).rows
        let keys = try rows.map {
            OriginalKey(environment: try StoreEnvironment(stored: $0.text(0)), originalTransactionID: try $0.text(1))
        }
        try put(try StateQuery.fold(keys, upTo: end, on: connection), keys, in: state.target, on: connection)
        state.caughtUp = end
    }

    private static func put(
        _ states: [OriginalKey: OriginalState], _ keys: [OriginalKey], in table: ViewTable,
        on connection: isolated PostgresConnection
    ) throws {
        guard let upsert = StateQuery.upsert(states, of: keys, in: table) else { return }
        try connection.query(upsert.sql, upsert.parameters)
    }
}

extension RebuildState {
    /// Notes that the originals of a page are done.
    mutating func advance(by page: KeyOrderFold.Page) {
        events += page.completeEvents
        originals += Int64(page.complete.count)
        if let last = page.complete.last { cursor = last.key }
    }
}

extension RebuildProgress {
    init(_ state: RebuildState, total: Int64, page: Int) {
        self.init(phase: state.phase, events: state.events, originals: state.originals, total: total, page: page)
    }
}
