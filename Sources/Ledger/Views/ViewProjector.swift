import EntitlementCore
package import PostgresClient

/// Writes snapshots of original transactions whose tail has grown long, behind the log and apart from the appends.
///
/// Nobody waits for it: readers fold the tail.
package struct ViewProjector: Sendable {
    static let row = ProjectionRow(name: "originals", version: Int64(OriginalState.foldVersion))

    private let follower: LogFollower
    private let policy: SnapshotPolicy

    /// - Parameters:
    ///   - pageEvents: how many positions one transaction goes through.
    ///   - policy: which original transactions get a snapshot, and when.
    package init(pool: PostgresPool, pageEvents: Int64 = 5000, policy: SnapshotPolicy = SnapshotPolicy()) {
        // Views of another fold are for a rebuild.
        follower = LogFollower(
            Self.row, pool, doing: "writing snapshots", pageEvents: pageEvents, former: .leftAlone)
        self.policy = policy
    }

    /// Goes on from the checkpoint to the head of the log, unless another process is at it.
    package func catchUp() async throws {
        try await follower.catchUp { connection, stretch, _ in
            // While the row is locked, no rebuild swaps the generations.
            let ledger = try connection.query(
                "SELECT view_generation FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)]
            ).first
            guard let ledger else { throw Statements.missingHead }
            try write(from: stretch.start, to: stretch.end, generation: ledger.int(0), on: connection)
            return stretch.end
        }
    }

    /// Writes the snapshots that the events of a stretch have made due, as of its end.
    private func write(
        from start: Int64, to end: Int64, generation: Int64, on connection: isolated PostgresConnection
    ) throws {
        let due = try connection.query(
            """
            SELECT key.environment, key.original, coalesce(view.events, 0) + tail.events
            FROM (
                SELECT DISTINCT environment, original_transaction_id AS original FROM event
                WHERE ledger_id = $1 AND position > $2 AND position <= $3
                    AND environment IS NOT NULL AND original_transaction_id IS NOT NULL
            ) AS key
            \(StateQuery.snapshotJoin(of: "key", version: "$4"))
            CROSS JOIN LATERAL (
                SELECT count(*) AS events FROM event
                WHERE event.ledger_id = $1 AND event.environment = key.environment
                    AND event.original_transaction_id = key.original
                    AND event.position > coalesce(view.last_position, 0) AND event.position <= $3
            ) AS tail
            WHERE tail.events >= \(policy.tailLimitSQL(after: "coalesce(view.events, 0)"))
            """,
            [.int(ledgerID), .int(start), .int(end), .int4(Int32(OriginalState.foldVersion))]
        ).rows.map { row in
            (
                key: OriginalKey(
                    environment: try StoreEnvironment(stored: row.int(0)), originalTransactionID: try row.text(1)),
                events: try row.int(2)
            )
        }
        let states = try StateQuery.states(of: due.map(\.key), upTo: end, on: connection)
        try SnapshotTable.upsert(
            due.compactMap { item in
                states[item.key].map {
                    Snapshot(
                        environment: item.key.environment.number, original: item.key.originalTransactionID, state: $0,
                        events: item.events)
                }
            }, generation: generation, on: connection)
    }
}
