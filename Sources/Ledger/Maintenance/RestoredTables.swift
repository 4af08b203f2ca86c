package import PostgresClient

/// Whether the head, from which everything is read and appended, is where the events end.
///
/// It is not where tables of several databases were restored together, or into one that `migrate` had made.
package enum RestoredTables {
    /// What to tell an operator whose log ends elsewhere than its head says; `nil` when all is well.
    package static func refusal(_ pool: PostgresPool) async throws -> String? {
        let row = try await pool.run(doing: "looking where the log ends") { connection in
            try connection.query(
                """
                SELECT head.position, (
                        SELECT position FROM event
                        WHERE event.ledger_id = $1 AND event.position > head.position ORDER BY position DESC LIMIT 1),
                    head.position = 0 OR EXISTS (
                        SELECT FROM event WHERE event.ledger_id = $1 AND event.position = head.position AND event.hash = head.hash)
                FROM ledger_head AS head WHERE head.ledger_id = $1
                """, [.int(ledgerID)]
            ).first
        }
        guard let row else { throw Statements.missingHead }
        let head = try row.int(0)
        let found: String
        if let last = try row.optionalInt(1) {
            found = "table event goes on up to \(last)"
        } else if try row.bool(2) {
            return nil
        } else {
            found = "table event does not hold that event"
        }
        return "by table ledger_head the log ends at position \(head), and \(found): the tables are not of "
            + "one backup; restore all of them from one, into an empty database, and run `rightful migrate` afterwards"
    }
}
