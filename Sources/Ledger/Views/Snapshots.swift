import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// One row of `original_view`.
struct Snapshot: Sendable {
    /// As the table numbers it.
    let environment: Int16
    let original: String
    let lastPosition: Int64
    /// How many events are folded into it.
    let events: Int64
    /// The canonical bytes of the state.
    let state: [UInt8]

    init(environment: Int16, original: String, state: OriginalState, events: Int64) {
        self.environment = environment
        self.original = original
        lastPosition = state.lastPosition
        self.events = events
        self.state = state.encoded()
    }
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

/// A sum over rows of `original_view` that does not depend on their order.
struct SnapshotDigest: Sendable, Equatable {
    private(set) var rows: Int64
    private(set) var bytes: [UInt8]

    init() { self.init(rows: 0, bytes: [UInt8](repeating: 0, count: 32)) }

    init(rows: Int64, bytes: [UInt8]) {
        self.rows = rows
        self.bytes = bytes
    }

    /// Adds a row, whose state is given by its SHA-256.
    mutating func add(environment: Int64, original: String, lastPosition: Int64, events: Int64, stateHash: [UInt8]) {
        var writer = CanonicalWriter()
        writer.integer(environment)
        writer.text(original)
        writer.integer(lastPosition)
        writer.integer(events)
        writer.data(stateHash)
        join(rows: 1, bytes: SHA256.hash(writer.bytes))
    }

    mutating func add(_ snapshot: Snapshot) {
        add(
            environment: Int64(snapshot.environment), original: snapshot.original, lastPosition: snapshot.lastPosition,
            events: snapshot.events, stateHash: SHA256.hash(snapshot.state))
    }

    /// Adds what was summed up of other rows.
    mutating func add(_ other: SnapshotDigest) { join(rows: other.rows, bytes: other.bytes) }

    private mutating func join(rows count: Int64, bytes other: [UInt8]) {
        rows += count
        for index in bytes.indices { bytes[index] ^= other[index] }
    }
}
