import EntitlementCore
import PostgresClient

/// Folds the whole log, one original transaction after the other in the order of their keys, in pages of a bounded
/// number of events.
///
/// A page is one read of an index; between pages nothing is held open. One original's events may span pages: what is
/// folded of it so far is carried along.
struct KeyOrderFold: Sendable {
    /// What one page brought to an end.
    struct Page: Sendable {
        let environment: StoreEnvironment
        /// The last original that was done before this page; `nil` at the beginning of an environment.
        let after: String?
        /// The originals that are complete now, in order.
        var complete: [(key: OriginalKey, state: OriginalState)] = []
        /// The events of `complete`.
        var completeEvents: Int64 = 0
        /// How many events were read.
        let read: Int
        /// Nothing is left of this environment.
        var endsEnvironment = false
    }

    private struct Partial: Sendable {
        let key: OriginalKey
        var state = OriginalState()
        var events: Int64 = 0
        var position: Int64 = 0
    }

    /// The order in which environments come; every one of them, so that nothing is left out.
    static let environments = StoreEnvironment.allCases.sorted { $0.rawValue < $1.rawValue }

    private var pending: ArraySlice<StoreEnvironment>
    private var after: String?
    private var partial: Partial?

    /// Begins after an original that is done; `nil` begins at the beginning.
    init(after done: OriginalKey? = nil) {
        pending = Self.environments[...]
        guard let done else { return }
        pending = pending.drop { $0 != done.environment }
        after = done.originalTransactionID
    }

    /// Reads and folds up to `limit` events, none of them beyond `position`; `nil` when all is done.
    mutating func nextPage(
        upTo position: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Page? {
        guard let environment = pending.first else { return nil }
        let from: (original: String, position: Int64) =
            partial.map { ($0.key.originalTransactionID, $0.position) } ?? after.map { ($0, .max) } ?? ("", 0)
        let rows = try connection.query(
            """
            SELECT original_transaction_id, position, source, facts FROM event
            WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id IS NOT NULL
                AND (original_transaction_id, position) > ($3, $4) AND position <= $5
            ORDER BY original_transaction_id, position LIMIT $6
            """,
            [
                .int(ledgerID), .text(environment.rawValue), .text(from.original), .int(from.position),
                .int(position), .int(Int64(limit)),
            ]
        ).rows
        var page = Page(environment: environment, after: after, read: rows.count)
        for row in rows {
            let key = OriginalKey(environment: environment, originalTransactionID: try row.text(0))
            if partial?.key != key {
                complete(&page)
                partial = Partial(key: key)
            }
            try join(row)
        }
        if rows.count < limit {
            complete(&page)
            page.endsEnvironment = true
            pending = pending.dropFirst()
            after = nil
        }
        return page
    }

    private mutating func join(_ row: PostgresRow) throws {
        guard var joined = partial else { return }
        // Out of the property while it changes, or every event would copy the whole state.
        partial = nil
        joined.position = try row.int(1)
        do {
            joined.state.join(
                try FactCodec.decode(row.bytes(3)), originalTransactionID: joined.key.originalTransactionID,
                source: try EventSource(stored: row.text(2)).statementSource, position: joined.position)
        } catch {
            throw LedgerError(.corrupt, "event \(joined.position) cannot be folded: \(error)")
        }
        joined.events += 1
        partial = joined
    }

    private mutating func complete(_ page: inout Page) {
        guard let done = partial else { return }
        page.complete.append((done.key, done.state))
        page.completeEvents += done.events
        after = done.key.originalTransactionID
        partial = nil
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
