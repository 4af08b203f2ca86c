import EntitlementCore
import PostgresClient

extension Rebuilder {
    typealias Report = @Sendable (RebuildProgress) -> Void

    /// Folds the log into the new generation, original by original, as of the position at which the rebuild started.
    ///
    /// What is written is written in the order of the walk, so the last original written tells the next rebuild where to
    /// go on. Meanwhile the steps that follow are read and folded on connections of their own.
    func fold(_ state: inout RebuildState, _ report: Report) async throws {
        let fold = LifeFold(limit: limits.pageEvents)
        var walk: LifeWalk? = LifeWalk(
            after: state.milestone, upTo: state.startPosition, policy: limits.policy, fold: fold,
            pageEvents: limits.walkEvents)
        try await withThrowingTaskGroup(of: FoldedStep.self) { group in
            var steps: ArraySlice<LifeWalk.Step> = []
            var folded: [Int: FoldedStep] = [:]
            var (started, written) = (0, 0)
            while true {
                let start = clock.now
                while started - written < max(1, limits.stepsAhead) {
                    if steps.isEmpty, let from = walk {
                        let next = try await retrying { connection in
                            try connection.transaction(.readCommittedReadOnly) { connection in
                                try connection.walkByIndex()
                                return try from.next(on: connection)
                            }
                        }
                        walk = next?.rest
                        steps = (next?.steps ?? [])[...]
                    }
                    guard let step = steps.popFirst() else { break }
                    group.addTask { [number = started] in
                        try await retrying { try FoldedStep(number, step, by: fold, on: $0) }
                    }
                    started += 1
                }
                if written == started { return }
                while folded[written] == nil, let step = try await group.next() { folded[step.number] = step }
                guard let step = folded.removeValue(forKey: written) else { return }
                let before = state.events
                do {
                    try await page(&state, since: start) { connection, state in
                        try Self.write(step, &state, on: connection)
                    }
                } catch let error as StrayRows {
                    try await startOver(&state)
                    throw LedgerError(.corrupt, error.description)
                }
                written += 1
                report(
                    RebuildProgress(state, total: state.startPosition, passed: state.events - before, held: step.held))
            }
        }
    }

    /// Writes a step's snapshots, and notes in `state` that it is done.
    private static func write(
        _ step: FoldedStep, _ state: inout RebuildState, on connection: isolated PostgresConnection
    ) throws {
        state.advance(by: step)
        // A commit whose answer was lost is not repeated.
        if let stored = try RebuildState.read(on: connection), stored.phase == state.phase,
            stored.cursor == state.cursor
        {
            return
        }
        // If the server crashes, the page and the note that it was done are lost together; the swap waits for all of it.
        try connection.execute(script: "SET LOCAL synchronous_commit = off")
        do {
            try SnapshotTable.insert(step.snapshots, generation: state.generation, on: connection)
        } catch  where error.kind == .uniqueViolation {
            throw StrayRows()
        }
    }

    /// Reads the new generation back and compares it with what was folded.
    ///
    /// The database hashes the states that it has stored, and the sum of all hashes must be that of what was folded. Only
    /// the holder of the lease writes to the generation, so the proof holds however long it takes and whatever is
    /// appended meanwhile.
    func prove(_ state: inout RebuildState, _ report: Report) async throws {
        var digest = SnapshotDigest()
        let parts = try await retrying { [state] in
            try ProofPart.divide(state.generation, rows: state.written.rows, on: $0)
        }
        try await withThrowingTaskGroup(of: (SnapshotDigest, rest: ProofPart?).self) { group in
            func add(_ part: ProofPart) {
                group.addTask { [rows = limits.pageRows] in
                    try await retrying { connection in
                        try connection.transaction(.readCommittedReadOnly) { connection in
                            try connection.walkByIndex()
                            return try part.next(rows, on: connection)
                        }
                    }
                }
            }
            for part in parts { add(part) }
            var start = clock.now
            while let (found, rest) = try await group.next() {
                if let rest { add(rest) }
                digest.add(found)
                try await page(&state, since: start) { _, _ in }
                start = clock.now
                report(RebuildProgress(state, total: state.written.rows))
            }
        }
        guard digest == state.written else {
            try await startOver(&state)
            throw LedgerError(
                .corrupt,
                "the rebuilt views are not what was folded (\(digest.rows) rows are stored, \(state.written.rows) were "
                    + "written), and stay unused; run `rightful rebuild` again")
        }
    }

    /// What is wrong once is not gone on from.
    private func startOver(_ state: inout RebuildState) async throws {
        try await page(&state) { _, state in state.enter(.emptying) }
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
                    .int4(Int32(ledgerID)), .text(ViewProjector.row.name), .int4(Int32(OriginalState.foldVersion)),
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
            report(RebuildProgress(state, total: 0))
        }
    }

    func clear(_ state: inout RebuildState, _ report: Report) async throws {
        try await empty(&state, report)
        try await page(&state) { _, state in state.enter(.done) }
    }
}

/// The new generation holds rows that the rebuild did not write.
struct StrayRows: Error, CustomStringConvertible {
    var description: String {
        "rows were written into the new views by somebody else; they stay unused; run `rightful rebuild` again"
    }
}

/// A step of the walk, folded.
private struct FoldedStep: Sendable {
    let number: Int
    let end: LifeWalk.Milestone
    private(set) var snapshots: [Snapshot] = []
    private(set) var digest = SnapshotDigest()
    /// The most events that were in memory at a time.
    private(set) var held = 0

    init(
        _ number: Int, _ step: LifeWalk.Step, by fold: LifeFold, on connection: isolated PostgresConnection
    ) throws {
        self.number = number
        end = step.end
        guard !step.lives.isEmpty else { return }
        let states: [LifeFold.Folded]
        do {
            states = try fold.fold(step.lives, on: connection)
        } catch let error as LifeFold.UnreadableEvent {
            throw LedgerError(.corrupt, error.description)
        }
        for (life, folded) in zip(step.lives, states) {
            guard folded.events == life.events else {
                throw LedgerError(
                    .corrupt,
                    "the log's index counts \(life.events) events of original transaction \(life.original), and the log "
                        + "holds \(folded.events)")
            }
            let snapshot = Snapshot(
                environment: life.environment, original: life.original, state: folded.state, events: folded.events)
            snapshots.append(snapshot)
            digest.add(snapshot)
        }
        held = states.map(\.held).max() ?? 0
    }
}

extension RebuildState {
    /// Where the walk is to go on.
    fileprivate var milestone: LifeWalk.Milestone? {
        cursor.map { LifeWalk.Milestone(key: $0, events: events, originals: originals) }
    }

    /// Notes that the originals of a step are done.
    fileprivate mutating func advance(by step: FoldedStep) {
        (cursor, events, originals) = (step.end.key, step.end.events, step.end.originals)
        written.add(step.digest)
    }
}

extension RebuildProgress {
    fileprivate init(_ state: RebuildState, total: Int64, passed: Int64 = 0, held: Int = 0) {
        self.init(
            phase: state.phase, events: state.events, originals: state.originals, total: total, passed: Int(passed),
            held: held)
    }
}
