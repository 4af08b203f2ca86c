package import EntitlementCore
import PostgresClient

extension CommandKeys {
    /// What was kept under a key in the last 24 hours, so that a command that becomes no event by itself is answered the same
    /// again; `nil` where there is nothing yet.
    ///
    /// - Throws: `AppendRefusal.idempotencyConflict` when the key was taken for another request, else `LedgerError`.
    package func answer(to key: String, _ requestHash: Digest, now: Timestamp) async throws -> [UInt8]? {
        guard try await find(key: key, requestHash: requestHash, now: now) != nil else { return nil }
        return try await run { connection in
            try connection.query(
                "SELECT answer FROM command_key WHERE ledger_id = $1 AND command_key = $2 AND answer IS NOT NULL",
                [.int(ledgerID), .text(key)]
            ).first.map { try $0.bytes(0) }
        }
    }

    /// Keeps what the answer to a command is made of; of two at once the first one's counts.
    ///
    /// - Parameter answer: without anybody's identity, which could not be erased here.
    package func keep(_ answer: [UInt8], for key: String, _ requestHash: Digest, now: Timestamp) async throws {
        _ = try await remember(key: key, requestHash: requestHash, now: now)
        try await run { connection in
            _ = try connection.query(
                """
                UPDATE command_key SET answer = $3
                WHERE ledger_id = $1 AND command_key = $2 AND answer IS NULL
                """, [.int(ledgerID), .text(key), .bytes(answer)])
        }
    }
}
