import EntitlementCore
import PostgresClient

extension Rebuilder {
    /// Compares the whole target with a fresh fold of the log as of the position it is caught up to.
    ///
    /// Both are fixed: the log up to a position never changes, and only the holder of the lease writes to the target.
    /// So the proof holds however long it takes and whatever is appended meanwhile.
    func prove(_ state: inout RebuildState, _ report: Report) async throws {
        let limit = limits.pageEvents
        var walk = KeyOrderFold(after: state.cursor)
        do {
            while true {
                let step = try await page(&state) { [walk] connection, state in
                    try connection.walkByIndex()
                    var walk = walk
                    let page = try walk.nextPage(upTo: state.caughtUp, limit: limit, on: connection)
                    if let page {
                        try Self.compare(page, with: state.target, on: connection)
                        state.advance(by: page)
                    }
                    return (walk: walk, page: page)
                }
                guard let page = step.page else { break }
                walk = step.walk
                report(RebuildProgress(state, total: state.caughtUp, page: page.read))
            }
            try await page(&state) { connection, state in
                try Self.expectNoForeignEnvironment(in: state.target, on: connection)
            }
        } catch let difference as ProofFailure {
            // What is wrong once is not gone on from.
            try await page(&state) { _, state in state.enter(.emptying) }
            throw LedgerError(.corrupt, "the rebuilt views are not the fold of the log, and stay unused: \(difference)")
        }
    }

    /// The rows from the page's beginning to its last original: each is the fold, and there is no other.
    private static func compare(
        _ page: KeyOrderFold.Page, with table: ViewTable, on connection: isolated PostgresConnection
    ) throws {
        let last = page.complete.last?.key.originalTransactionID
        guard last != nil || page.endsEnvironment else { return }
        let rows = try connection.query(
            """
            SELECT original_transaction_id, fold_version, last_position, state FROM \(table.name)
            WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id > $3
                AND ($6 OR original_transaction_id <= $4)
            ORDER BY original_transaction_id LIMIT $5
            """,
            [
                .int(ledgerID), .text(page.environment.rawValue), .text(page.after ?? ""), .text(last ?? ""),
                .int(Int64(page.complete.count) + 1), .bool(page.endsEnvironment),
            ]
        ).rows
        for (row, folded) in zip(rows, page.complete) {
            let id = folded.key.originalTransactionID
            let name = "original transaction \(id) of \(page.environment.rawValue)"
            guard try row.text(0) == id else { throw ProofFailure(description: "no row for \(name), or one too many") }
            guard try row.int(1) == Int64(OriginalState.foldVersion), try row.int(2) == folded.state.lastPosition,
                try row.bytes(3) == folded.state.encoded()
            else { throw ProofFailure(description: "the row of \(name)") }
        }
        guard rows.count == page.complete.count else {
            throw ProofFailure(
                description: rows.count < page.complete.count
                    ? "rows are missing behind original transaction \(page.after ?? "(none)")"
                    : "there is a row for something the log does not know behind \(page.after ?? "(none)")")
        }
    }

    private static func expectNoForeignEnvironment(
        in table: ViewTable, on connection: isolated PostgresConnection
    ) throws {
        let row = try connection.query(
            "SELECT environment FROM \(table.name) WHERE ledger_id = $1 AND environment <> ALL ($2) LIMIT 1",
            [.int(ledgerID), .textArray(KeyOrderFold.environments.map(\.rawValue))]
        ).first
        if let row { throw ProofFailure(description: "a row of the environment \(try row.text(0))") }
    }
}

/// The first place where the rebuilt views are not the fold of the log.
struct ProofFailure: Error, CustomStringConvertible {
    let description: String
}
