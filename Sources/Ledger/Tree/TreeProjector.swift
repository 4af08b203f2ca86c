import EntitlementCore
import OpenSSLCrypto
package import PostgresClient

/// Stores the roots of complete subtrees of the tree over the log, behind it and apart from the appends.
///
/// Nobody waits for it: a proof computes what is not stored yet. A page is one transaction under the lock of the
/// projection's row, so any number of processes may do this at once.
package struct TreeProjector: Sendable {
    static let row = ProjectionRow(name: "tree", version: 2)

    private let pool: PostgresPool
    private let pageLeaves: Int64

    /// - Parameter pageLeaves: how many events one transaction goes through.
    package init(pool: PostgresPool, pageLeaves: Int64 = 1 << 14) {
        self.pool = pool
        self.pageLeaves = pageLeaves
    }

    /// Begins anew where stored roots are missing, such as after somebody deleted them.
    package func restore() async throws {
        try await with { connection in
            try connection.transaction { connection in
                guard let checkpoint = try Self.row.lock(on: connection, clear: Self.clear) else { return }
                let stored = try connection.query(
                    "SELECT level, count(*) FROM tree_node WHERE ledger_id = $1 GROUP BY level", [.int(ledgerID)])
                var counts: [Int64: Int64] = [:]
                for row in stored.rows { counts[try row.int(0)] = try row.int(1) }
                let isWhole = Self.levels.allSatisfy { level in
                    counts[Int64(level), default: 0] == checkpoint >> (level * LogTree.stepLevels)
                }
                if !isWhole { try Self.beginAnew(connection) }
            }
        }
    }

    /// Forgets what is stored; the next `catchUp` begins at the first event.
    package func reset() async throws {
        try await with { connection in
            try connection.transaction { connection in
                _ = try Self.row.lock(on: connection, waits: true, clear: Self.clear)
                try Self.beginAnew(connection)
            }
        }
    }

    /// Goes on from the checkpoint to the end of the log.
    package func catchUp() async throws {
        while try await !with({ try page(on: $0) }) { try Task.checkCancellation() }
    }

    /// Returns whether nothing is left to do for this process.
    private func page(on connection: isolated PostgresConnection) throws -> Bool {
        if try Self.row.isCurrent(on: connection) { return true }
        return try connection.transaction { connection in
            // Another process is at it: that will do.
            guard let checkpoint = try Self.row.lock(on: connection, clear: Self.clear) else { return true }
            let head = try Statements.headPosition(on: connection)
            guard checkpoint < head else { return true }
            let end = min(checkpoint + pageLeaves, head)
            try write(from: checkpoint, to: end, on: connection)
            try Self.row.note(end, on: connection)
            return end == head
        }
    }

    /// Stores the roots that become complete between two positions, the lower levels first, since the higher ones are
    /// made of them.
    private func write(from start: Int64, to end: Int64, on connection: isolated PostgresConnection) throws {
        for level in Self.levels {
            let shift = level * LogTree.stepLevels
            let numbers = start >> shift..<end >> shift
            guard !numbers.isEmpty else { break }
            let children = numbers.lowerBound << LogTree.stepLevels..<numbers.upperBound << LogTree.stepLevels
            let hashes = try TreeHashes.stored(children, step: level - 1, on: connection)
            let roots = TreeHash.roots(over: hashes, levels: LogTree.stepLevels, areEvents: level == 1)
            let size = SHA256.length
            try connection.query(
                """
                INSERT INTO tree_node (ledger_id, level, number, hash)
                SELECT $1, $2, * FROM unnest($3::bigint[], $4::bytea[])
                ON CONFLICT (ledger_id, level, number) DO UPDATE SET hash = excluded.hash
                """,
                [
                    .int4(Int32(ledgerID)), .int2(Int16(level)), .intArray(Array(numbers)),
                    .bytesArray(stride(from: 0, to: roots.count, by: size).map { Array(roots[$0..<$0 + size]) }),
                ])
        }
    }

    /// The levels that are stored: the highest one has a root only when there are 2^56 events.
    private static let levels = 1...14

    private static func beginAnew(_ connection: isolated PostgresConnection) throws {
        try clear(connection)
        try row.note(0, on: connection)
    }

    private static func clear(_ connection: isolated PostgresConnection) throws {
        try connection.query("DELETE FROM tree_node WHERE ledger_id = $1", [.int(ledgerID)])
    }

    private func with<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "storing the tree over the log", body)
    }
}
