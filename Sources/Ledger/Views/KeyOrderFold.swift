import EntitlementCore
import PostgresClient

/// Walks the log one original transaction after the other in the order of their keys, in pages of a bounded number of
/// events, and folds those that are long enough for a snapshot.
///
/// A page is one read of an index; between pages nothing is held open. One original's events may span pages: what was
/// read of it so far is carried along.
struct KeyOrderFold: Sendable {
    /// What one page brought to an end.
    struct Page: Sendable {
        /// The snapshots of the originals that are complete now, in order.
        var snapshots: [Snapshot] = []
        /// The last original that is complete.
        var last: OriginalKey?
        var originals: Int64 = 0
        /// How many events were read.
        let read: Int
    }

    /// The events of the original that the walk is at.
    fileprivate struct Partial: Sendable {
        let key: OriginalKey
        var state = OriginalState()
        var events: Int64 = 0
        var position: Int64 = 0
        /// Not folded yet: most originals stay below the length at which they must be.
        var waiting: [(position: Int64, source: Int64, facts: [UInt8])] = []
    }

    /// The order in which environments come; every one of them, so that nothing is left out.
    static let environments = StoreEnvironment.allCases.sorted { $0.number < $1.number }

    private let policy: SnapshotPolicy
    private var pending: ArraySlice<StoreEnvironment>
    private var after: String?
    private var partial: Partial?

    /// Begins after an original that is done; `nil` begins at the beginning.
    init(after done: OriginalKey? = nil, policy: SnapshotPolicy) {
        self.policy = policy
        pending = Self.environments[...]
        guard let done else { return }
        pending = pending.drop { $0 != done.environment }
        after = done.originalTransactionID
    }

    /// Reads up to `limit` events, none of them beyond `position`; `nil` when all is done.
    mutating func nextPage(
        upTo position: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Page? {
        guard let environment = pending.first else { return nil }
        let from: (original: String, position: Int64) =
            partial.map { ($0.key.originalTransactionID, $0.position) } ?? after.map { ($0, .max) } ?? ("", 0)
        let result = try connection.query(
            """
            SELECT original_transaction_id, position, source, facts FROM event
            WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id IS NOT NULL
                AND (original_transaction_id, position) > ($3, $4) AND position <= $5
            ORDER BY original_transaction_id, position LIMIT $6
            """,
            [
                .int(ledgerID), .int2(environment.number), .text(from.original), .int(from.position), .int(position),
                .int(Int64(limit)),
            ])
        var page = Page(read: result.rowCount)
        for row in result.rows {
            let original = try row.text(0)
            if partial?.key.originalTransactionID != original {
                try complete(&page)
                partial = Partial(key: OriginalKey(environment: environment, originalTransactionID: original))
            }
            try add(position: row.int(1), source: row.int(2), facts: row.bytes(3))
        }
        if result.rowCount < limit {
            try complete(&page)
            pending = pending.dropFirst()
            after = nil
        }
        return page
    }

    private mutating func add(position: Int64, source: Int64, facts: [UInt8]) throws {
        // Out of the property while it changes, or every event would copy the whole state.
        guard var grown = partial else { return }
        partial = nil
        grown.position = position
        grown.events += 1
        grown.waiting.append((position, source, facts))
        if grown.events >= policy.tail { try grown.fold() }
        partial = grown
    }

    private mutating func complete(_ page: inout Page) throws {
        guard let done = partial else { return }
        if done.events >= policy.tail {
            page.snapshots.append(Snapshot(key: done.key, state: done.state, events: done.events))
        }
        page.last = done.key
        page.originals += 1
        after = done.key.originalTransactionID
        partial = nil
    }
}

extension KeyOrderFold.Partial {
    fileprivate mutating func fold() throws {
        for event in waiting {
            do {
                state.join(
                    try FactCodec.decode(event.facts), originalTransactionID: key.originalTransactionID,
                    source: try EventSource(stored: event.source).statementSource, position: event.position)
            } catch {
                throw LedgerError(.corrupt, "event \(event.position) cannot be folded: \(error)")
            }
        }
        waiting.removeAll()
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
                SET LOCAL jit = off
                """)
    }
}
