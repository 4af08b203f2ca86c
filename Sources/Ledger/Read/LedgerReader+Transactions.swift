package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// How many ids are looked for at once.
    private static let idPage = 1000

    /// The original transaction of a transaction that the ledger knows; `nil` where it knows none by that id.
    package func original(of transactionID: String, in environment: StoreEnvironment) async throws -> String? {
        try await originals(ofTransactions: [transactionID[...]], in: environment)[transactionID[...]]
    }

    /// The original transactions that some transactions belong to; what is not known is left out.
    package func originals(
        ofTransactions ids: some Collection<Substring> & Sendable, in environment: StoreEnvironment
    ) async throws -> [Substring: String] {
        var found: [Substring: String] = [:]
        var rest = ids[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let page = rest.prefix(Self.idPage).map(String.init)
            rest = rest.dropFirst(page.count)
            for (id, original) in try await originals(ofPage: page, in: environment) { found[id[...]] = original }
        }
        return found
    }

    private func originals(
        ofPage ids: [String], in environment: StoreEnvironment
    ) async throws -> [(id: String, original: String)] {
        try await read { connection in
            // A purchase is its own original, and has no entry in the index of transactions; what was stated beside others in one
            // event has one of its own.
            let found = try connection.query(
                """
                SELECT key.id, known.original FROM unnest($2::text[]) AS key (id)
                \(Statements.search(
                    """
                    SELECT original FROM (
                        (SELECT original_transaction_id AS original FROM event
                        WHERE ledger_id = $1 AND transaction_id = key.id AND transaction_id <> original_transaction_id
                            AND environment = $3 LIMIT 1)
                        UNION ALL
                        (SELECT event.original_transaction_id FROM event_name AS part
                        \(Statements.search(
                            """
                            SELECT original_transaction_id FROM event
                            WHERE event.ledger_id = $1 AND event.position = part.position
                            """, as: "event"))
                        WHERE part.ledger_id = $1 AND part.identity = \(EventName.nobody.number)
                            AND part.environment = $3 AND part.kind = \(NameKind.part.rawValue)
                            AND part.original_transaction_id = key.id LIMIT 1)
                        UNION ALL
                        (SELECT original_transaction_id FROM event
                        WHERE ledger_id = $1 AND environment = $3 AND original_transaction_id = key.id
                        ORDER BY position LIMIT 1)
                    ) AS way LIMIT 1
                    """, as: "known"))
                """, [.int(ledgerID), .textArray(ids), .int2(environment.number)])
            return try found.rows.map { (try $0.text(0), try $0.text(1)) }
        }
    }
}
