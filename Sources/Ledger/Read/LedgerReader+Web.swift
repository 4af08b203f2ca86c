package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The originals of which Stripe's events say that they are called so, or that a part of them is.
    ///
    /// - Returns: two at most: of several nothing follows.
    package func webOriginals(naming names: Set<String>, environment: StoreEnvironment) async throws -> Set<String> {
        guard !names.isEmpty else { return [] }
        return try await read { connection in
            let found = try connection.query(
                """
                SELECT original FROM (
                    SELECT event.original_transaction_id FROM unnest($3::text[]) AS wanted (name)
                    \(Statements.search(
                        """
                        SELECT position FROM event_name
                        WHERE ledger_id = $1 AND identity = \(EventName.nobody.number) AND environment = $2
                            AND kind = \(NameKind.part.rawValue) AND original_transaction_id = wanted.name
                        """, as: "part"))
                    \(Statements.search(
                        """
                        SELECT original_transaction_id FROM event
                        WHERE event.ledger_id = $1 AND event.position = part.position AND event.source = ANY ($4)
                        """, as: "event"))
                    UNION
                    SELECT wanted.name FROM unnest($3::text[]) AS wanted (name)
                    CROSS JOIN LATERAL (
                        SELECT FROM event WHERE ledger_id = $1 AND environment = $2
                            AND original_transaction_id = wanted.name AND source = ANY ($4) LIMIT 1) AS known
                ) AS found (original)
                WHERE original IS NOT NULL LIMIT 2
                """,
                [
                    .int(ledgerID), .int2(environment.number), .textArray(names.sorted()),
                    .int2Array(EventSource.allCases.filter(\.isStripe).map(\.number)),
                ])
            return Set(try found.rows.map { try $0.text(0) })
        }
    }
}
