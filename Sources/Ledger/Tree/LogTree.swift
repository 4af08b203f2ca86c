package import EntitlementCore
package import PostgresClient

/// Proofs from the tree over the log, at any size that the log has had.
///
/// The roots of complete subtrees of 256 leaves and more are stored (`TreeProjector`); a proof reads a few pages of at most
/// 256 hashes, whatever the log's length. A root that is not stored yet is computed from what lies below it, within a limit.
package struct LogTree: Sendable {
    /// Leaves of a page, as a power of two: pages hold the hashes of one level in eight.
    static let pageLevels = 8
    static let pageLeaves: Int64 = 1 << pageLevels
    /// The most pages that are computed for one answer because nobody has stored their roots yet.
    static let computedPages = 2000

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
            var pages = TreePages(size: size)
            return try parts.map { part in
                try TreeHash.root(
                    ofSubtrees: TreeShape.subtrees(of: part).map { try pages.hash(of: $0, on: connection) })
            }
        }
    }

    private func read<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "reading the tree over the log", body)
    }
}

/// The pages of a tree that were read for one answer.
struct TreePages {
    private struct Name: Hashable {
        /// 0: leaves; 1: roots of pages of leaves, and so on.
        let level: Int
        let number: Int64
    }

    /// Leaves of the tree.
    private let size: Int64
    private var pages: [Name: [Digest]] = [:]
    private var computed = 0

    init(size: Int64) { self.size = size }

    /// The hash of a complete subtree.
    mutating func hash(of subtree: Subtree, on connection: isolated PostgresConnection) throws -> Digest {
        let (pageLevel, rest) = subtree.level.quotientAndRemainder(dividingBy: LogTree.pageLevels)
        let first = subtree.number << rest
        let page = try page(Name(level: pageLevel, number: first >> LogTree.pageLevels), on: connection)
        let start = Int(first % LogTree.pageLeaves)
        guard start + 1 << rest <= page.count else { throw Self.incomplete }
        return TreeHash.root(ofComplete: page[start..<start + 1 << rest])
    }

    private mutating func page(_ name: Name, on connection: isolated PostgresConnection) throws -> [Digest] {
        if let page = pages[name] { return page }
        let page = try name.level == 0 ? leaves(name.number, on: connection) : roots(name, on: connection)
        pages[name] = page
        return page
    }

    private func leaves(_ number: Int64, on connection: isolated PostgresConnection) throws -> [Digest] {
        let start = number << LogTree.pageLevels
        let end = min(start + LogTree.pageLeaves, size)
        let rows = try connection.query(
            """
            SELECT hash FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $3 ORDER BY position
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows
        guard rows.count == end - start else {
            throw LedgerError(.corrupt, "the log lacks events from \(start + 1) to \(end); run `rightful verify`")
        }
        return try rows.map { TreeHash.ofLeaf(try $0.digest(0)) }
    }

    private mutating func roots(_ name: Name, on connection: isolated PostgresConnection) throws -> [Digest] {
        let start = name.number << LogTree.pageLevels
        let end = min(start + LogTree.pageLeaves, size >> (name.level * LogTree.pageLevels))
        let rows = try connection.query(
            "SELECT number, hash FROM tree_node WHERE ledger_id = $1 AND level = $2 AND number >= $3 AND number < $4",
            [.int(ledgerID), .int2(Int16(name.level)), .int(start), .int(end)]
        ).rows
        var stored: [Int64: Digest] = [:]
        for row in rows { stored[try row.int(0)] = try row.digest(1) }
        var roots: [Digest] = []
        for number in start..<max(start, end) {
            if let root = stored[number] {
                roots.append(root)
                continue
            }
            computed += 1
            guard computed <= LogTree.computedPages else {
                throw LedgerError(
                    .unavailable, "the tree over the log is being built in the background; try again later")
            }
            let below = Name(level: name.level - 1, number: number)
            roots.append(TreeHash.root(ofComplete: try page(below, on: connection)))
            // It is needed once.
            pages[below] = nil
        }
        return roots
    }

    private static let incomplete = LedgerError(
        .corrupt, "the tree over the log lacks a subtree; run `rightful verify`")
}
