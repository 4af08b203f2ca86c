import EntitlementCore
import OpenSSLCrypto

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
