import EntitlementCore
import PostgresClient

extension Rebuilder {
    typealias Report = @Sendable (RebuildProgress) -> Void

    /// Folds the log into the new generation, original by original, as of the position at which the rebuild started.
    func fold(_ state: inout RebuildState, _ report: Report) async throws {
        let limit = limits.pageEvents
        var walk = KeyOrderFold(after: state.cursor, policy: limits.policy)
        while true {
            let step = try await page(&state) { [walk] connection, state in
                try connection.walkByIndex()
                var walk = walk
                let page = try walk.nextPage(upTo: state.startPosition, limit: limit, on: connection)
                if let page {
                    try SnapshotTable.upsert(page.snapshots, generation: state.generation, on: connection)
                    state.advance(by: page)
                }
                return (walk: walk, page: page)
            }
            guard let page = step.page else { return }
            walk = step.walk
            report(RebuildProgress(state, total: state.startPosition, page: page.read))
        }
    }

    /// Reads the new generation back and compares it with what was folded.
    ///
    /// Only the holder of the lease writes to it, so the proof holds however long it takes and whatever is appended
    /// meanwhile.
    func prove(_ state: inout RebuildState, _ report: Report) async throws {
        var digest = SnapshotDigest()
        var after: (environment: Int64, original: String)? = (0, "")
        while let from = after {
            let limit = limits.pageRows
            let (rows, last) = try await page(&state) { [digest] connection, state in
                try connection.walkByIndex()
                let rows = try connection.query(
                    """
                    SELECT environment, original_transaction_id, last_position, events, state, fold_version
                    FROM original_view WHERE ledger_id = $1 AND generation = $2
                        AND (environment, original_transaction_id) > ($3, $4)
                    ORDER BY environment, original_transaction_id LIMIT $5
                    """,
                    [
                        .int(ledgerID), .int4(Int32(state.generation)), .int2(Int16(from.environment)),
                        .text(from.original), .int(limit),
                    ]
                ).rows
                var sum = digest
                for row in rows {
                    guard try row.int(5) == Int64(OriginalState.foldVersion) else { continue }
                    sum.add(
                        environment: try row.int(0), original: try row.text(1), lastPosition: try row.int(2),
                        events: try row.int(3), state: try row.bytes(4))
                }
                let last = try rows.last.map { (environment: try $0.int(0), original: try $0.text(1)) }
                return (sum, Int64(rows.count) < limit ? nil : last)
            }
            digest = rows
            after = last
            report(RebuildProgress(state, total: state.written.rows, page: 0))
        }
        guard digest == state.written else {
            // What is wrong once is not gone on from.
            try await page(&state) { _, state in state.enter(.emptying) }
            throw LedgerError(
                .corrupt,
                "the rebuilt views are not what was folded (\(digest.rows) rows are stored, \(state.written.rows) were "
                    + "written), and stay unused; run `rightful rebuild` again")
        }
    }

    /// Makes the new generation live, in one step; returns the position as of which it is the fold of the log.
    ///
    /// The projector goes on from there; until it has caught up, readers fold somewhat longer tails.
    func swap(_ state: inout RebuildState) async throws -> Int64 {
        try await page(&state) { connection, state in
            // A commit whose answer was lost is not repeated.
            if let written = try RebuildState.read(on: connection), written.phase == .clearing {
                state = written
                return written.startPosition
            }
            // In the order in which the projector takes them.
            try connection.query(
                """
                INSERT INTO projection (ledger_id, name, version, checkpoint) VALUES ($1, $2, $3, $4)
                ON CONFLICT (ledger_id, name) DO UPDATE SET version = $3, checkpoint = $4
                """,
                [
                    .int4(Int32(ledgerID)), .text(ViewProjector.name), .int4(Int32(OriginalState.foldVersion)),
                    .int(state.startPosition),
                ])
            let moved = try connection.query(
                """
                UPDATE ledger_head SET view_generation = $2 WHERE ledger_id = $1 AND view_generation <> $2 RETURNING 1
                """, [.int(ledgerID), .int4(Int32(state.generation))])
            guard moved.first != nil else {
                throw LedgerError(.invalid, "the views were swapped by somebody else; run `rightful rebuild` again")
            }
            state.enter(.clearing)
            return state.startPosition
        }
    }

    /// Deletes every generation but the live one; the serving role may not truncate, and a truncation would wait for
    /// every reader.
    func empty(_ state: inout RebuildState, _ report: Report) async throws {
        let limit = limits.pageRows
        var isEmpty = false
        while !isEmpty {
            isEmpty = try await page(&state) { connection, state in
                let deleted = try connection.query(
                    """
                    DELETE FROM original_view WHERE ctid = ANY (ARRAY(
                        SELECT ctid FROM original_view WHERE ledger_id = $1
                            AND generation <> (SELECT view_generation FROM ledger_head WHERE ledger_id = $1)
                        LIMIT $2))
                    """, [.int(ledgerID), .int(limit)]
                ).affectedRows
                state.originals += Int64(deleted)
                return Int64(deleted) < limit
            }
            report(RebuildProgress(state, total: 0, page: 0))
        }
    }

    func clear(_ state: inout RebuildState, _ report: Report) async throws {
        try await empty(&state, report)
        try await page(&state) { _, state in state.enter(.done) }
    }
}

extension RebuildState {
    /// Notes that the originals of a page are done.
    mutating func advance(by page: KeyOrderFold.Page) {
        events += Int64(page.read)
        originals += page.originals
        for snapshot in page.snapshots { written.add(snapshot) }
        if let last = page.last { cursor = last }
    }
}

extension RebuildProgress {
    init(_ state: RebuildState, total: Int64, page: Int) {
        self.init(phase: state.phase, events: state.events, originals: state.originals, total: total, page: page)
    }
}
