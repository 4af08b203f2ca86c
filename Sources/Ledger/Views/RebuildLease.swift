import EntitlementCore
import PostgresClient

/// Lets one process at a time work on the rebuild: its name is in the row, with a heartbeat at every page.
///
/// An advisory lock of a session would not do: a pooler between us and the database could lose or keep it. A lease that
/// runs out while its holder still works does no harm, because each page checks the name under the row's lock.
struct RebuildLease: Sendable {
    let holder: String
    /// How long it may be silent before another may take over.
    let duration: Duration

    enum Attempt: Sendable {
        case taken(RebuildState, isResumed: Bool)
        case held(RebuildState)
        /// There is nothing of the kind to take up.
        case nothing
    }

    /// Takes the lease if nobody holds it.
    ///
    /// What was left unfinished goes on; else, unless only a rebuild in phase `only` is wanted, a new one begins.
    func take(only phase: RebuildPhase?, on connection: isolated PostgresConnection) throws -> Attempt {
        try connection.transaction { connection in
            // Whoever only looks for work to go on with leaves no row behind: it would read as a rebuild that was done.
            if phase == nil { try makeRow(on: connection) }
            let row = try connection.query(
                "SELECT \(RebuildState.columns) FROM rebuild WHERE ledger_id = $1 FOR UPDATE", [.int(ledgerID)]
            ).first
            if row == nil, phase != nil { return .nothing }
            guard let row else { throw LedgerError(.unavailable, "the row of table rebuild went away; try again") }
            var state = try RebuildState(row)
            if state.isHeld(within: duration) { return .held(state) }
            if let phase, state.phase != phase { return .nothing }
            let head = try connection.query(
                "SELECT position, view_generation FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)]
            ).first
            guard let head else { throw Statements.missingHead }
            let live = try head.int(1)
            let fits =
                state.foldVersion == Int64(OriginalState.foldVersion) && state.generation != live
                && state.phase != .done && state.phase != .clearing
            if phase == nil, !fits { state.beginAnew(generation: live + 1, head: try head.int(0)) }
            try state.save(on: connection)
            try connection.query(
                """
                UPDATE rebuild SET holder = $2, heartbeat_at = clock_timestamp(),
                    started_at = CASE WHEN $3 THEN started_at ELSE clock_timestamp() END
                WHERE ledger_id = $1
                """, [.int(ledgerID), .text(holder), .bool(fits || phase != nil)])
            return .taken(state, isResumed: fits)
        }
    }

    private func makeRow(on connection: isolated PostgresConnection) throws {
        try connection.query(
            """
            INSERT INTO rebuild (ledger_id, phase, fold_version, generation, started_at, start_position,
                events, originals, written, digest, heartbeat_at)
            VALUES ($1, 'done', $2, 0, clock_timestamp(), 0, 0, 0, 0, $3, clock_timestamp())
            ON CONFLICT (ledger_id) DO NOTHING
            """,
            [.int4(Int32(ledgerID)), .int4(Int32(OriginalState.foldVersion)), .bytes(SnapshotDigest().bytes)])
    }

    /// Locks the row for the transaction, and gives a sign of life; throws when another has taken over.
    func hold(on connection: isolated PostgresConnection) throws {
        let row = try connection.query(
            "UPDATE rebuild SET heartbeat_at = clock_timestamp() WHERE ledger_id = $1 AND holder = $2 RETURNING 1",
            [.int(ledgerID), .text(holder)]
        ).first
        guard row != nil else {
            throw LedgerError(.invalid, "another rebuild has taken over from this one, which was silent too long")
        }
    }

    func release(on connection: isolated PostgresConnection) throws {
        try connection.query(
            "UPDATE rebuild SET holder = NULL WHERE ledger_id = $1 AND holder = $2", [.int(ledgerID), .text(holder)])
    }
}
