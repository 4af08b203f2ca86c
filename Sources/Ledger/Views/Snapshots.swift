import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// One row of `original_view`.
struct Snapshot: Sendable {
    let key: OriginalKey
    let state: OriginalState
    /// How many events are folded into it.
    let events: Int64
}

/// Which original transactions have a snapshot, and when it is written anew.
package struct SnapshotPolicy: Sendable, Hashable {
    /// Events beyond a snapshot, or in all where there is none, that readers fold without ado; at least 1.
    package var tail: Int64 = 16
    /// A longer life is written anew when the tail has grown to this part of it, so that writing costs each event about
    /// the same however long the life is.
    package var part: Int64 = 4

    package init() {}

    /// How many events after a snapshot make it due, for SQL; `events` is a column that holds the snapshot's events.
    func tailLimitSQL(after events: String) -> String { "greatest(\(tail), \(events) / \(part))" }
}

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
                .int2Array(snapshots.map(\.key.environment.number)),
                .textArray(snapshots.map(\.key.originalTransactionID)),
                .intArray(snapshots.map(\.state.lastPosition)), .intArray(snapshots.map(\.events)),
                .bytesArray(snapshots.map { $0.state.encoded() }),
            ])
    }
}

/// A sum over rows of `original_view` that does not depend on their order.
struct SnapshotDigest: Sendable, Equatable {
    private(set) var rows: Int64
    private(set) var bytes: [UInt8]

    init() { self.init(rows: 0, bytes: [UInt8](repeating: 0, count: 32)) }

    init(rows: Int64, bytes: [UInt8]) {
        self.rows = rows
        self.bytes = bytes
    }

    mutating func add(environment: Int64, original: String, lastPosition: Int64, events: Int64, state: [UInt8]) {
        var writer = CanonicalWriter()
        writer.integer(environment)
        writer.text(original)
        writer.integer(lastPosition)
        writer.integer(events)
        writer.data(state)
        rows += 1
        for (index, byte) in SHA256.hash(writer.bytes).enumerated() { bytes[index] ^= byte }
    }

    mutating func add(_ snapshot: Snapshot) {
        add(
            environment: Int64(snapshot.key.environment.number), original: snapshot.key.originalTransactionID,
            lastPosition: snapshot.state.lastPosition, events: snapshot.events, state: snapshot.state.encoded())
    }
}
