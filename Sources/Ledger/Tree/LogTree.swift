package import EntitlementCore
package import PostgresClient

/// Proofs from the tree over the log, at any size that the log has had.
///
/// The roots of complete subtrees of 16 leaves, of 16 such subtrees, and so on are stored (`TreeProjector`); a proof reads at
/// most 15 hashes of each, on both sides of its path, whatever the log's length. A root that is not stored yet is computed
/// from what lies below it, within a limit.
package struct LogTree: Sendable {
    /// Of how many levels the hashes of one are stored.
    static let stepLevels = 4
    /// The most leaves that are hashed for one answer because nobody has stored the roots over them yet.
    static let computedLeaves: Int64 = 1 << 17
    /// How many of them are read with one statement.
    static let leavesPerRead: Int64 = 1 << 12

    private let pool: PostgresPool

    /// The tree of the ledger behind a pool.
    package init(pool: PostgresPool) { self.pool = pool }

    /// The ledger's own id and where its log ends.
    package func end() async throws -> (ownID: String, size: Int64) {
        try await read { connection in
            let row = try connection.query(
                "SELECT own_id::text, position FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)]
            ).first
            guard let row else { throw Statements.missingHead }
            return (try row.text(0), try row.int(1))
        }
    }

    /// The root over the first `size` events; `nil` where the log is shorter.
    package func root(size: Int64) async throws -> Digest? {
        try await hashes(of: [0..<size], size: size).map { $0.first ?? TreeHash.ofNothing }
    }

    /// The root over the whole log as it is now, and how many events it covers.
    package func currentRoot() async throws -> (size: Int64, root: Digest) {
        let size = try await end().size
        guard let root = try await root(size: size) else { throw Statements.missingHead }
        return (size, root)
    }

    /// What proves that the event at `position` is among the first `size`, from the leaf upwards; `nil` where the log is
    /// shorter.
    ///
    /// - Parameter position: 1 to `size`.
    package func inclusionProof(
        of position: Int64, size: Int64
    ) async throws -> (leaf: Digest, hashes: [Digest])? {
        let parts = [position - 1..<position] + TreeShape.inclusion(of: position - 1, size: size)
        guard let hashes = try await hashes(of: parts, size: size), let leaf = hashes.first else { return nil }
        return (leaf, Array(hashes.dropFirst()))
    }

    /// What proves that the first `size` events begin with the first `old`; `nil` where the log is shorter.
    ///
    /// - Parameter old: 1 to `size`.
    package func consistencyProof(from old: Int64, to size: Int64) async throws -> [Digest]? {
        try await hashes(of: TreeShape.consistency(from: old, to: size), size: size)
    }

    private func hashes(of parts: [Range<Int64>], size: Int64) async throws -> [Digest]? {
        try await read { connection in
            let row = try connection.query(Statements.head.sql, Statements.head.parameters).first
            guard let row else { throw Statements.missingHead }
            guard try row.int(0) >= size else { return nil }
            let subtrees = parts.map { TreeShape.subtrees(of: $0) }
            var hashes = TreeHashes()
            try hashes.fetch(subtrees.flatMap(\.self), on: connection)
            return try subtrees.map { try TreeHash.root(ofSubtrees: $0.map { try hashes.hash(of: $0) }) }
        }
    }

    private func read<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "reading the tree over the log", body)
    }
}
