import EntitlementCore
import PostgresClient

/// Walks all original transactions of the log in the order of their keys, and finds those whose lives are long enough for
/// a snapshot.
///
/// It counts events by the log's index and reads nothing else, so what the short lives cost, which are most, is an index
/// entry an event.
struct LifeWalk: Sendable {
    /// A stretch of the walk whose long lives can be folded at a time.
    struct Step: Sendable {
        /// The long lives, in order; their events fit into memory at once, or there is one alone.
        let lives: ArraySlice<LifeSpan>
        /// Where the walk is after this step: the last original transaction that is done.
        let end: Milestone
    }

    /// A place on the walk.
    struct Milestone: Sendable {
        /// The last original transaction that is done.
        let key: OriginalKey
        /// Events and originals passed since the beginning of the walk, whether their lives are long or not.
        let events: Int64
        let originals: Int64
    }

    /// The order in which environments come; every one of them, so that nothing is left out.
    static let environments = StoreEnvironment.allCases.sorted { $0.number < $1.number }

    private let policy: SnapshotPolicy
    private let fold: LifeFold
    private let position: Int64
    /// Index entries read at a time.
    private let pageEvents: Int64
    private var pending: ArraySlice<StoreEnvironment>
    /// Where the next page begins: after this event of this original.
    private var after = (original: "", position: Int64(0))
    private var passed = (events: Int64(0), originals: Int64(0))

    /// - Parameters:
    ///   - done: where an earlier walk was; `nil` begins at the beginning.
    ///   - position: events beyond it are not looked at.
    ///   - fold: how many events a step may hold.
    ///   - pageEvents: how many events are counted at a time.
    init(after done: Milestone?, upTo position: Int64, policy: SnapshotPolicy, fold: LifeFold, pageEvents: Int64) {
        self.policy = policy
        self.fold = fold
        self.position = position
        self.pageEvents = max(1, pageEvents)
        pending = Self.environments[...]
        guard let done else { return }
        pending = pending.drop { $0 != done.key.environment }
        pass(done)
    }

    /// The next stretch of the index, as steps; `nil` when all is walked.
    func next(on connection: isolated PostgresConnection) throws -> (steps: [Step], rest: LifeWalk)? {
        var walk = self
        while let environment = walk.pending.first {
            let counts = try connection.query(
                """
                SELECT original, events, is_last, before, passed_events::bigint, passed_originals
                FROM (
                    SELECT original, count(*) AS events, lead(original) OVER walk IS NULL AS is_last,
                        lag(original) OVER walk AS before, sum(count(*)) OVER walk AS passed_events,
                        row_number() OVER walk AS passed_originals
                    FROM (
                        SELECT original_transaction_id AS original FROM event
                        WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id IS NOT NULL
                            AND (original_transaction_id, position) > ($3, $4) AND position <= $5
                        ORDER BY original_transaction_id, position LIMIT $6
                    ) AS entry
                    GROUP BY original WINDOW walk AS (ORDER BY original)
                ) AS life
                WHERE events >= $7 OR is_last ORDER BY original
                """,
                [
                    .int(ledgerID), .int2(environment.number), .text(walk.after.original),
                    .int(walk.after.position), .int(position), .int(pageEvents), .int(policy.tail),
                ]
            ).rows.map { try Count($0) }
            guard let last = counts.last else {
                walk.leaveEnvironment()
                continue
            }
            let end: Milestone
            var counted = counts[...]
            let isComplete = last.passedEvents < pageEvents
            if isComplete {
                end = walk.milestone(last, environment)
            } else if let before = last.before {
                // The page may have cut the last one; the next page begins with it.
                counted = counts.dropLast()
                end = Milestone(
                    key: OriginalKey(environment: environment, originalTransactionID: before),
                    events: walk.passed.events + last.passedEvents - last.events,
                    originals: walk.passed.originals + last.passedOriginals - 1)
            } else {
                let whole = try walk.count(last.original, environment, on: connection)
                counted = [whole]
                end = walk.milestone(whole, environment)
            }
            let steps = walk.steps(counted, environment, end: end)
            walk.pass(end)
            if isComplete { walk.leaveEnvironment() }
            return (steps, walk)
        }
        return nil
    }

    private mutating func pass(_ milestone: Milestone) {
        after = (milestone.key.originalTransactionID, .max)
        passed = (milestone.events, milestone.originals)
    }

    private mutating func leaveEnvironment() {
        pending = pending.dropFirst()
        after = ("", 0)
    }

    /// Counts one original that alone fills a page.
    private func count(
        _ original: String, _ environment: StoreEnvironment, on connection: isolated PostgresConnection
    ) throws -> Count {
        let events = try connection.query(
            """
            SELECT count(*) FROM event
            WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3 AND position <= $4
            """, [.int(ledgerID), .int2(environment.number), .text(original), .int(position)]
        ).first?.int(0)
        return Count(
            original: original, events: events ?? 0, before: nil, passedEvents: events ?? 0, passedOriginals: 1)
    }

    private func steps(_ counts: ArraySlice<Count>, _ environment: StoreEnvironment, end: Milestone) -> [Step] {
        let long = counts.filter { $0.events >= policy.tail }
        let spans = long.map {
            LifeSpan(environment: environment.number, original: $0.original, position: position, events: $0.events)
        }
        let parts = fold.parts(of: spans)
        // The last step also passes the short lives that follow.
        let steps = parts.dropLast().map { Step(lives: $0, end: milestone(long[$0.endIndex - 1], environment)) }
        return steps + [Step(lives: parts.last ?? [], end: end)]
    }

    private func milestone(_ count: Count, _ environment: StoreEnvironment) -> Milestone {
        Milestone(
            key: OriginalKey(environment: environment, originalTransactionID: count.original),
            events: passed.events + count.passedEvents, originals: passed.originals + count.passedOriginals)
    }
}

/// What one page of the index says of one original transaction.
private struct Count {
    let original: String
    let events: Int64
    /// The original before it on the page.
    let before: String?
    /// Events and originals of the page up to this one.
    let passedEvents: Int64
    let passedOriginals: Int64
}

extension Count {
    fileprivate init(_ row: PostgresRow) throws {
        original = try row.text(0)
        events = try row.int(1)
        before = try row.optionalText(3)
        passedEvents = try row.int(4)
        passedOriginals = try row.int(5)
    }
}

extension PostgresConnection {
    /// For the rest of the transaction, reads in the order of an index by that index.
    ///
    /// Each page of a walk wants the next few rows of millions; a plan that sorts or scans a table for them would be
    /// chosen on one wrong estimate, and would do so again for every page.
    func walkByIndex() throws {
        try execute(
            script: """
                SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
                SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off
                """)
    }
}
