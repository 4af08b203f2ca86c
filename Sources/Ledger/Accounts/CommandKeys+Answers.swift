package import EntitlementCore
import PostgresClient

extension CommandKeys {
    /// The answer kept under a key in the last 24 hours, so that a repetition of a command that becomes no event gets
    /// the same answer; `nil` where there is none yet.
    ///
    /// - Throws: `AppendRefusal.idempotencyConflict` when the key was taken for another request, else `LedgerError`.
    package func answer(to key: String, _ requestHash: Digest, now: Timestamp) async throws -> [UInt8]? {
        guard try await find(key: key, requestHash: requestHash, now: now) != nil else { return nil }
        return try await run { try Self.kept(under: key, on: $0) }
    }

    /// Keeps what the answer to a command is made of; of two at once the first one's counts, for the other as well.
    ///
    /// - Parameters:
    ///   - answer: without anybody's identity, which could not be erased here.
    ///   - customer: see ``remember(key:requestHash:about:now:)``.
    /// - Returns: what is kept now, and so to be answered.
    package func keep(
        _ answer: [UInt8], for key: String, _ requestHash: Digest, about customer: CustomerID?, now: Timestamp
    ) async throws -> [UInt8] {
        _ = try await remember(key: key, requestHash: requestHash, about: customer, now: now)
        return try await run { connection in
            try connection.query(
                """
                UPDATE command_key SET answer = $3
                WHERE ledger_id = $1 AND command_key = $2 AND answer IS NULL
                """, [.int(ledgerID), .text(key), .bytes(answer)])
            return try Self.kept(under: key, on: connection) ?? answer
        }
    }

    private static func kept(under key: String, on connection: isolated PostgresConnection) throws -> [UInt8]? {
        try connection.query(
            "SELECT answer FROM command_key WHERE ledger_id = $1 AND command_key = $2 AND answer IS NOT NULL",
            [.int(ledgerID), .text(key)]
        ).first.map { try $0.bytes(0) }
    }

    /// Keeps something in the place of what was read before, for another day; of two at once the first one's counts.
    ///
    /// - Parameters:
    ///   - old: what ``answer(to:_:now:)`` told.
    ///   - new: without anybody's identity, which could not be erased here.
    ///   - customer: see ``remember(key:requestHash:about:now:)``.
    /// - Returns: what is kept now.
    package func replace(
        _ old: [UInt8]?, with new: [UInt8], for key: String, _ requestHash: Digest, about customer: CustomerID,
        now: Timestamp
    ) async throws -> [UInt8] {
        let expiry = now.adding(milliseconds: -CommandRecord.lifetimeMilliseconds)
        return try await run { connection in
            try connection.query(
                """
                INSERT INTO command_key
                    (ledger_id, command_key, request_sha256, position, recorded_at, answer, customer_sha256)
                VALUES ($1, $2, $3, 0, $4, $5, $8)
                ON CONFLICT (ledger_id, command_key) DO UPDATE SET recorded_at = excluded.recorded_at, answer = excluded.answer
                WHERE command_key.recorded_at <= $6 OR command_key.answer IS NOT DISTINCT FROM $7
                """,
                [
                    .int4(Int32(ledgerID)), .text(key), .bytes(requestHash.bytes), .timestamp(now.milliseconds),
                    .bytes(new), .timestamp(expiry.milliseconds), .bytes(old), .bytes(Self.hash(of: customer)),
                ])
            return try Self.kept(under: key, on: connection) ?? new
        }
    }
}
