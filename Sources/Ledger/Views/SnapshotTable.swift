import EntitlementCore
import PostgresClient

/// Writes snapshots, and names what is stored.
enum SnapshotTable {
    /// Writes snapshots of a generation over what is there; whoever calls holds the row that lets only one write at a time.
    static func upsert(
        _ snapshots: [Snapshot], generation: Int64, on connection: isolated PostgresConnection
    ) throws {
        guard !snapshots.isEmpty else { return }
        try connection.query(
            """
            INSERT INTO original_view (
                ledger_id, generation, environment, original_transaction_id, fold_version, last_position, events, state)
            SELECT $1, $2, new.environment, new.original, $3, new.last_position, new.events, new.state
            FROM unnest($4::smallint[], $5::text[], $6::bigint[], $7::bigint[], $8::bytea[])
                AS new (environment, original, last_position, events, state)
            ON CONFLICT (ledger_id, generation, environment, original_transaction_id) DO UPDATE SET
                fold_version = excluded.fold_version, last_position = excluded.last_position,
                events = excluded.events, state = excluded.state
            """,
            [
                .int4(Int32(ledgerID)), .int4(Int32(generation)), .int4(Int32(OriginalState.foldVersion)),
                .int2Array(snapshots.map(\.environment)), .textArray(snapshots.map(\.original)),
                .intArray(snapshots.map(\.lastPosition)), .intArray(snapshots.map(\.events)),
                .bytesArray(snapshots.map(\.state)),
            ])
    }

    /// Adds snapshots to a generation that holds none of the same originals.
    ///
    /// - Throws: `PostgresError` of kind `uniqueViolation` where it does.
    static func insert(
        _ snapshots: [Snapshot], generation: Int64, on connection: isolated PostgresConnection
    ) throws(PostgresError) {
        guard !snapshots.isEmpty else { return }
        var rows = CopyRows(columns: 8, capacity: snapshots.reduce(0) { $0 + $1.state.count + 128 })
        for snapshot in snapshots {
            rows.beginRow()
            rows.int4(Int32(ledgerID))
            rows.int4(Int32(generation))
            rows.int2(snapshot.environment)
            try rows.text(snapshot.original)
            rows.int4(Int32(OriginalState.foldVersion))
            rows.int8(snapshot.lastPosition)
            rows.int8(snapshot.events)
            rows.bytes(snapshot.state)
        }
        try connection.copy(
            into: """
                original_view (ledger_id, generation, environment, original_transaction_id, fold_version, last_position,
                    events, state)
                """, rows)
    }
}
