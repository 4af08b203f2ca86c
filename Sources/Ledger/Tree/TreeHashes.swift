import EntitlementCore
import PostgresClient

/// The hashes of a tree that were read for one answer.
///
/// What an answer is made of is fetched first, all of it with one statement; hashing then asks the database nothing.
struct TreeHashes {
    /// One subtree of those whose roots are stored, or a leaf at step 0.
    private struct Node: Hashable {
        let step: Int
        let number: Int64
    }

    /// Neighbours of one step.
    private struct Span: Hashable {
        let step: Int
        var numbers: Range<Int64>
    }

    private var hashes: [Node: Digest] = [:]
    /// How many of them are leaves.
    private var leaves: Int64 = 0

    /// Reads what the hashes of complete subtrees are made of.
    ///
    /// Where a root is not stored yet, what lies below it is read, a step at a time.
    mutating func fetch(_ subtrees: [Subtree], on connection: isolated PostgresConnection) throws {
        var wanted = Set(
            subtrees.map { subtree in
                let (step, rest) = subtree.level.quotientAndRemainder(dividingBy: LogTree.stepLevels)
                return Span(step: step, numbers: subtree.number << rest..<(subtree.number + 1) << rest)
            })
        while !wanted.isEmpty {
            leaves += wanted.reduce(0) { $0 + ($1.step == 0 ? Int64($1.numbers.count) : 0) }
            guard leaves <= LogTree.computedLeaves else {
                throw LedgerError(
                    .unavailable, "the tree over the log is being built in the background; try again later")
            }
            try read(wanted, on: connection)
            wanted = try missing(of: wanted)
        }
    }

    /// The hash of a complete subtree that was fetched.
    func hash(of subtree: Subtree) throws -> Digest {
        let (step, rest) = subtree.level.quotientAndRemainder(dividingBy: LogTree.stepLevels)
        if rest == 0, let known = hashes[Node(step: step, number: subtree.number)] { return known }
        guard subtree.level > 0 else {
            throw LedgerError(.corrupt, "the tree over the log lacks a leaf; run `rightful verify`")
        }
        let halves = try [2 * subtree.number, 2 * subtree.number + 1].map {
            try hash(of: Subtree(level: subtree.level - 1, number: $0))
        }
        return TreeHash.ofNode(halves[0], halves[1])
    }

    private mutating func read(_ spans: Set<Span>, on connection: isolated PostgresConnection) throws {
        let spans = Array(spans)
        let rows = try connection.query(
            """
            SELECT span.step, found.number, found.hash
            FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS span (step, first, past)
            CROSS JOIN LATERAL (
                SELECT number, hash FROM tree_node
                WHERE ledger_id = $1 AND level = span.step AND number >= span.first AND number < span.past
                UNION ALL
                SELECT position - 1, hash FROM event
                WHERE span.step = 0 AND ledger_id = $1 AND position > span.first AND position <= span.past
            ) AS found
            """,
            [
                .int(ledgerID), .int2Array(spans.map { Int16($0.step) }), .intArray(spans.map(\.numbers.lowerBound)),
                .intArray(spans.map(\.numbers.upperBound)),
            ]
        ).rows
        for row in rows {
            let step = Int(try row.int(0))
            let hash = try row.digest(2)
            hashes[Node(step: step, number: try row.int(1))] = step == 0 ? TreeHash.ofLeaf(hash) : hash
        }
    }

    /// What has to be read for the roots that are not stored.
    private func missing(of spans: Set<Span>) throws -> Set<Span> {
        var below: Set<Span> = []
        for span in spans {
            var lacking: [Range<Int64>] = []
            for number in span.numbers where hashes[Node(step: span.step, number: number)] == nil {
                guard span.step > 0 else {
                    throw LedgerError(
                        .corrupt, "the log lacks the event at position \(number + 1); run `rightful verify`")
                }
                let children = number << LogTree.stepLevels..<(number + 1) << LogTree.stepLevels
                if let last = lacking.last, last.upperBound == children.lowerBound {
                    lacking[lacking.count - 1] = last.lowerBound..<children.upperBound
                } else {
                    lacking.append(children)
                }
            }
            below.formUnion(lacking.map { Span(step: span.step - 1, numbers: $0) })
        }
        return below
    }
}
