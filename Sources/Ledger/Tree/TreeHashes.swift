import EntitlementCore
import OpenSSLCrypto
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
    private struct Span {
        let step: Int
        var numbers: Range<Int64>
    }

    private var hashes: [Node: Digest] = [:]
    /// How many leaves were hashed because nobody had stored the roots over them.
    private var computed: Int64 = 0

    /// Reads what the hashes of complete subtrees are made of.
    ///
    /// Where a root is not stored yet, what lies below it is read, a step at a time.
    mutating func fetch(_ subtrees: [Subtree], on connection: isolated PostgresConnection) throws {
        var wanted = Self.joined(
            subtrees.map { subtree in
                let (step, rest) = subtree.level.quotientAndRemainder(dividingBy: LogTree.stepLevels)
                return Span(step: step, numbers: subtree.number << rest..<(subtree.number + 1) << rest)
            })
        while !wanted.isEmpty {
            for (node, hash) in try Self.read(wanted, on: connection) { hashes[node] = hash }
            wanted = try supplyMissing(of: wanted, on: connection)
        }
    }

    /// The hash of a complete subtree that was fetched.
    func hash(of subtree: Subtree) throws -> Digest {
        let (step, rest) = subtree.level.quotientAndRemainder(dividingBy: LogTree.stepLevels)
        if rest == 0, let known = hashes[Node(step: step, number: subtree.number)] { return known }
        guard subtree.level > 0 else { throw Self.lacksLeaf(subtree.number) }
        let halves = try [2 * subtree.number, 2 * subtree.number + 1].map {
            try hash(of: Subtree(level: subtree.level - 1, number: $0))
        }
        return TreeHash.ofNode(halves[0], halves[1])
    }

    /// Hashes the leaves below roots that are missing on the lowest step that is stored.
    ///
    /// - Returns: what has to be read for the missing roots above it.
    private mutating func supplyMissing(
        of spans: [Span], on connection: isolated PostgresConnection
    ) throws -> [Span] {
        var below: [Span] = []
        for span in spans {
            for number in span.numbers where hashes[Node(step: span.step, number: number)] == nil {
                guard span.step > 0 else { throw Self.lacksLeaf(number) }
                let children = number << LogTree.stepLevels..<(number + 1) << LogTree.stepLevels
                below.append(Span(step: span.step - 1, numbers: children))
            }
        }
        let lacking = Self.joined(below)
        for span in lacking where span.step == 0 { try compute(over: span.numbers, on: connection) }
        return lacking.filter { $0.step > 0 }
    }

    /// The same with neighbours in one, so that a long stretch is read as such.
    private static func joined(_ spans: [Span]) -> [Span] {
        var joined: [Span] = []
        for span in spans.sorted(by: { ($0.step, $0.numbers.lowerBound) < ($1.step, $1.numbers.lowerBound) }) {
            if let last = joined.last, last.step == span.step, last.numbers.upperBound >= span.numbers.lowerBound {
                let end = max(last.numbers.upperBound, span.numbers.upperBound)
                joined[joined.count - 1].numbers = last.numbers.lowerBound..<end
            } else {
                joined.append(span)
            }
        }
        return joined
    }

    /// Hashes the roots of step 1 over some leaves; of these only a page is held at a time.
    private mutating func compute(over leaves: Range<Int64>, on connection: isolated PostgresConnection) throws {
        for start in stride(from: leaves.lowerBound, to: leaves.upperBound, by: Int(LogTree.leavesPerRead)) {
            let page = start..<min(start + LogTree.leavesPerRead, leaves.upperBound)
            computed += Int64(page.count)
            guard computed <= LogTree.computedLeaves else {
                throw LedgerError(
                    .notReady, "the tree over the log is being built in the background; try again in a minute")
            }
            let roots = TreeHash.roots(
                over: try Self.stored(page, step: 0, on: connection), levels: LogTree.stepLevels, areEvents: true)
            let first = page.lowerBound >> LogTree.stepLevels
            for (index, start) in stride(from: 0, to: roots.count, by: SHA256.length).enumerated() {
                hashes[Node(step: 1, number: first + Int64(index))] = Digest(
                    Array(roots[start..<start + SHA256.length]))
            }
        }
    }

    /// What complete subtrees are made of, one hash after the other: those of events at step 0, else stored roots.
    static func stored(
        _ numbers: Range<Int64>, step: Int, on connection: isolated PostgresConnection
    ) throws -> [UInt8] {
        let source =
            step == 0
            ? "SELECT hash FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $3 ORDER BY position"
            : """
            SELECT hash FROM tree_node
            WHERE ledger_id = $1 AND level = \(step) AND number >= $2 AND number < $3 ORDER BY number
            """
        let hashes = try connection.query(
            "SELECT string_agg(hash, ''::bytea) FROM (\(source)) AS child",
            [.int(ledgerID), .int(numbers.lowerBound), .int(numbers.upperBound)]
        ).first?.optionalBytes(0)
        guard let hashes, hashes.count == numbers.count * SHA256.length else {
            let shift = step * LogTree.stepLevels
            throw LedgerError(
                .corrupt,
                "the log lacks events, or the tree over it roots, between positions \((numbers.lowerBound << shift) + 1) "
                    + "and \(numbers.upperBound << shift); run `rightful verify`")
        }
        return hashes
    }

    /// What is stored of some spans; leaves are hashed from the log.
    private static func read(
        _ spans: [Span], on connection: isolated PostgresConnection
    ) throws -> [Node: Digest] {
        let rows = try connection.query(
            """
            SELECT span.step, found.number, found.hash
            FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS span (step, first, past)
            CROSS JOIN LATERAL (
                SELECT number, hash FROM tree_node
                WHERE ledger_id = $1 AND level = span.step AND number >= span.first AND number < span.past
                    AND (SELECT version = $5 FROM projection WHERE ledger_id = $1 AND name = $6)
                UNION ALL
                SELECT position - 1, hash FROM event
                WHERE span.step = 0 AND ledger_id = $1 AND position > span.first AND position <= span.past
            ) AS found
            """,
            [
                .int(ledgerID), .int2Array(spans.map { Int16($0.step) }), .intArray(spans.map(\.numbers.lowerBound)),
                .intArray(spans.map(\.numbers.upperBound)), .int4(Int32(TreeProjector.row.version)),
                .text(TreeProjector.row.name),
            ]
        ).rows
        var known: [Node: Digest] = [:]
        known.reserveCapacity(rows.count)
        for row in rows {
            let step = Int(try row.int(0))
            let hash = try row.digest(2)
            known[Node(step: step, number: try row.int(1))] = step == 0 ? TreeHash.ofLeaf(hash) : hash
        }
        return known
    }

    private static func lacksLeaf(_ leaf: Int64) -> LedgerError {
        LedgerError(.corrupt, "the log lacks the event at position \(leaf + 1); run `rightful verify`")
    }
}
