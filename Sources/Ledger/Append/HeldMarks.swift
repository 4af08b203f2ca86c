import EntitlementCore
import PostgresClient

extension Set<EventMark> {
    /// Two parameters of a statement: the positions, and in the same order the hashes.
    ///
    /// The beginning of the log, before any event, is left out: no log can lose it.
    var columns: [PostgresValue] {
        let marks = filter { $0.position > 0 }.sorted { $0.position < $1.position }
        return [.intArray(marks.map(\.position)), .bytesArray(marks.map(\.hash.bytes))]
    }

    /// Whether the log holds all of them, in the SQL of a statement whose `$1` is the ledger.
    ///
    /// OFFSET 0 has each of them looked for by its position, however little the log held when the session made its plan.
    ///
    /// - Parameter first: the number of the first of `columns` among the statement's parameters.
    static func areHeld(_ first: Int) -> String {
        """
        NOT EXISTS (
            SELECT FROM unnest($\(first)::bigint[], $\(first + 1)::bytea[]) AS mark (position, hash)
            WHERE NOT EXISTS (
                SELECT FROM event
                WHERE event.ledger_id = $1 AND event.position = mark.position AND event.hash = mark.hash OFFSET 0))
        """
    }
}
