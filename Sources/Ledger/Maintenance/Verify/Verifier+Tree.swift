import EntitlementCore
import PostgresClient

/// The tree over the log, grown event by event while the log is walked.
struct TreeCheck: Sendable {
    /// Complete subtrees that are stored, and their roots.
    typealias Complete = [(level: Int, number: Int64, root: Digest)]

    /// The most roots that are held against the stored ones together.
    private static let pageRoots = 1000

    private let since: Checkpoint?
    private var size: Int64 = 0
    /// The complete subtrees that make up the tree so far, each smaller than the one before.
    private var parts: [(level: Int, root: Digest)] = []
    private var complete: Complete = []

    /// - Parameter since: what the log must begin with.
    init(since: Checkpoint?) { self.since = since }

    /// The root over the events so far.
    var root: Digest { TreeHash.root(ofSubtrees: parts.map(\.root)) }

    /// Whether enough subtrees are complete to be looked for.
    var isDue: Bool { complete.count >= Self.pageRoots }

    /// Adds the next event.
    ///
    /// - Throws: `VerificationDifference` where the log was to be what a checkpoint says, and is not.
    mutating func add(_ event: Digest) throws {
        parts.append((0, TreeHash.ofLeaf(event)))
        size += 1
        while let last = parts.last, parts.count > 1, parts[parts.count - 2].level == last.level {
            parts.removeLast()
            let level = last.level + 1
            parts[parts.count - 1] = (level, TreeHash.ofNode(parts[parts.count - 1].root, last.root))
            if level.isMultiple(of: LogTree.stepLevels) {
                complete.append((level / LogTree.stepLevels, size >> level - 1, parts[parts.count - 1].root))
            }
        }
        try checkCheckpoint()
    }

    /// Holds the tree against the checkpoint, if it is of this size.
    func checkCheckpoint() throws {
        guard let since, since.size == size, since.root != root else { return }
        throw VerificationDifference(
            checkpoint: since,
            "the first \(size) events are not those it was made of: something among them was changed since, or it is of another ledger"
        )
    }

    /// The subtrees that became complete since this was last called.
    mutating func takeComplete() -> Complete {
        defer { complete = [] }
        return complete
    }

    /// Holds stored roots against those of the log; one that is missing is computed by whoever needs it.
    static func compare(_ complete: Complete, on connection: isolated PostgresConnection) throws {
        guard !complete.isEmpty else { return }
        let rows = try connection.query(
            """
            SELECT key.index, stored.hash
            FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS key (level, number, index)
            \(Statements.search(
                """
                SELECT hash FROM tree_node
                WHERE tree_node.ledger_id = $1 AND tree_node.level = key.level AND tree_node.number = key.number
                """, as: "stored"))
            WHERE (SELECT version = $4 FROM projection WHERE ledger_id = $1 AND name = $5)
            """,
            [
                .int(ledgerID), .int2Array(complete.map { Int16($0.level) }), .intArray(complete.map(\.number)),
                .int4(Int32(TreeProjector.row.version)), .text(TreeProjector.row.name),
            ]
        ).rows
        for row in rows {
            let expected = complete[Int(try row.int(0)) - 1]
            guard try row.digest(1) != expected.root else { continue }
            throw VerificationDifference(
                "tree_node", "level \(expected.level), number \(expected.number)",
                "is not the root over its events; `rightful rebuild` stores the tree anew")
        }
    }
}
