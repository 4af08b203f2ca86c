import EntitlementCore
import OpenSSLCrypto
package import PostgresClient

/// Stores the roots of complete subtrees of the tree over the log, behind it and apart from the appends.
///
/// Nobody waits for it: a proof computes what is not stored yet.
package struct TreeProjector: Sendable {
    static let row = ProjectionRow(name: "tree", version: 2)

    private let follower: LogFollower

    /// - Parameter pageLeaves: how many events one transaction goes through.
    package init(pool: PostgresPool, pageLeaves: Int64 = 1 << 14) {
        follower = LogFollower(
            Self.row, pool, doing: "storing the tree over the log", pageEvents: pageLeaves,
            former: .cleared { connection in
                try connection.query("DELETE FROM tree_node WHERE ledger_id = $1", [.int(ledgerID)])
            })
    }

    /// Begins anew where stored roots are missing, such as after somebody deleted them.
    package func restore() async throws {
        try await follower.restore { connection, checkpoint in
            let stored = try connection.query(
                "SELECT level, count(*) FROM tree_node WHERE ledger_id = $1 GROUP BY level", [.int(ledgerID)])
            var counts: [Int64: Int64] = [:]
            for row in stored.rows { counts[try row.int(0)] = try row.int(1) }
            return !Self.levels.allSatisfy { level in
                counts[Int64(level), default: 0] == checkpoint >> (level * LogTree.stepLevels)
            }
        }
    }

    /// Forgets what is stored; the next `catchUp` begins at the first event.
    package func reset() async throws { try await follower.reset() }

    /// Goes on from the checkpoint to the end of the log, unless another process is at it.
    package func catchUp() async throws {
        try await follower.catchUp { connection, stretch, _ in
            try Self.write(from: stretch.start, to: stretch.end, on: connection)
            return stretch.end
        }
    }

    /// Stores the roots that become complete between two positions, the lower levels first, since the higher ones are
    /// made of them.
    private static func write(from start: Int64, to end: Int64, on connection: isolated PostgresConnection) throws {
        for level in levels {
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
}
