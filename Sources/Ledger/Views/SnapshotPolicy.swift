/// Which original transactions have a snapshot, and when it is written anew.
package struct SnapshotPolicy: Sendable, Hashable {
    /// Events beyond a snapshot, or in all where there is none, that readers fold without ado; at least 1.
    package var tail: Int64 = 16
    /// A longer life is written anew when the tail has grown to this part of it, so that writing costs each event about
    /// the same however long the life is.
    package var part: Int64 = 4

    package init() {}

    /// How many events after a snapshot make it due, for SQL; `events` is a column that holds the snapshot's events.
    func tailLimitSQL(after events: String) -> String { "greatest(\(tail), \(events) / \(part))" }
}
