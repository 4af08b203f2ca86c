package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// How many ids are looked for at once, and how many events are read at once.
    private static let idPage = 1000
    private static let scanPage: Int64 = 50_000

    /// The original transactions that some transactions belong to; what is not known is left out.
    ///
    /// Most are found by their id. What was stated beside others in one event is found by its original transaction alone, so where
    /// ids are left the log is read once for all of them.
    package func originals(
        ofTransactions ids: some Collection<Substring> & Sendable, in environment: StoreEnvironment
    ) async throws -> [Substring: String] {
        var found: [Substring: String] = [:]
        var rest = ids[...]
        while !rest.isEmpty {
            let page = Array(rest.prefix(Self.idPage))
            rest = rest.dropFirst(page.count)
            for (id, original) in try await originals(ofIndexed: page.map(String.init), in: environment) {
                found[id[...]] = original
            }
        }
        let wanted = Set(ids).subtracting(found.keys)
        guard !wanted.isEmpty else { return found }
        let head = try await headPosition()
        var missing = wanted
        var position: Int64 = 0
        while position < head, !missing.isEmpty {
            try Task.checkCancellation()
            let end = min(head, position + Self.scanPage)
            for (id, original) in try await statedTogether(after: position, upTo: end, in: environment)
            where missing.remove(id[...]) != nil {
                found[id[...]] = original
            }
            position = end
        }
        return found
    }

    private func originals(
        ofIndexed ids: [String], in environment: StoreEnvironment
    ) async throws -> [(id: String, original: String)] {
        try await read { connection in
            let found = try connection.query(
                """
                SELECT key.id, known.original FROM unnest($2::text[]) AS key (id)
                \(Statements.search(
                    """
                    (SELECT original_transaction_id AS original FROM event
                    WHERE ledger_id = $1 AND transaction_id = key.id AND transaction_id <> original_transaction_id
                        AND environment = $3 LIMIT 1)
                    UNION ALL
                    (SELECT key.id FROM event
                    WHERE ledger_id = $1 AND environment = $3 AND original_transaction_id = key.id LIMIT 1)
                    """, as: "known"))
                """, [.int(ledgerID), .textArray(ids), .int2(environment.number)])
            return try found.rows.map { (try $0.text(0), try $0.text(1)) }
        }
    }

    /// The transactions that stand in one event with others.
    private func statedTogether(
        after: Int64, upTo end: Int64, in environment: StoreEnvironment
    ) async throws -> [(id: String, original: String)] {
        try await read { connection in
            let found = try connection.query(
                """
                SELECT facts FROM event
                WHERE ledger_id = $1 AND position > $2 AND position <= $3 AND environment = $4
                    AND source IN (\(EventSource.serverAPI.number), \(EventSource.device.number))
                    AND original_transaction_id IS NOT NULL AND transaction_id IS NULL
                """, [.int(ledgerID), .int(after), .int(end), .int2(environment.number)])
            return try found.rows.flatMap { row in
                try FactCodec.decode(row.bytes(0)).transactions.map { ($0.transactionID, $0.originalTransactionID) }
            }
        }
    }
}
