package import EntitlementCore
import OpenSSLCrypto
package import PostgresClient

/// A command that was carried out under an idempotency key.
package struct CommandRecord: Sendable, Hashable {
    package let requestHash: Digest
    /// Of the event the command became; 0 for one that becomes none.
    package let position: Int64
    package let recordedAt: Timestamp

    /// How long a key is kept.
    static let lifetimeMilliseconds: Int64 = 24 * 3_600_000

    func counts(at now: Timestamp) -> Bool { recordedAt.adding(milliseconds: Self.lifetimeMilliseconds) > now }
}

/// The idempotency keys under which commands were carried out.
///
/// A command that becomes an event is remembered by the transaction that appends it (`Deduplication.command`). This is
/// for the others, and for whoever must know beforehand.
package struct CommandKeys: Sendable {
    /// Keys deleted by one statement, so that none holds its locks for long.
    private static let page = 5000
    /// Tries to remember a key that is deleted between being met and being read.
    private static let attempts = 3

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// The command carried out under a key in the last 24 hours; `nil` when there is none.
    ///
    /// - Throws: `AppendRefusal.idempotencyConflict` when it was another request, else `LedgerError`.
    package func find(key: String, requestHash: Digest, now: Timestamp) async throws -> CommandRecord? {
        let record = try await run { try Self.read(key, on: $0) }
        guard let record, record.counts(at: now) else { return nil }
        return try record.checked(against: requestHash)
    }

    /// Takes a key for a command that becomes no event, unless it was taken in the last 24 hours.
    ///
    /// Of many at once, on any number of instances, one takes it, and all get its record.
    ///
    /// - Parameter customer: whom the command is about; when they are forgotten, so is the key.
    /// - Throws: `AppendRefusal.idempotencyConflict` when it was taken for another request, else `LedgerError`.
    package func remember(
        key: String, requestHash: Digest, about customer: CustomerID?, now: Timestamp
    ) async throws -> CommandRecord {
        let record = try await run { try Self.take(key, requestHash, about: customer, now: now, on: $0) }
        return try record.checked(against: requestHash)
    }

    /// The record of a key, which is made unless it was taken in the last 24 hours; it may be of another request.
    static func take(
        _ key: String, _ requestHash: Digest, about customer: CustomerID?, now: Timestamp,
        on connection: isolated PostgresConnection
    ) throws -> CommandRecord {
        let expiry = now.adding(milliseconds: -CommandRecord.lifetimeMilliseconds)
        for _ in 0..<attempts {
            try connection.query(
                """
                INSERT INTO command_key (ledger_id, command_key, request_sha256, position, recorded_at, customer_sha256)
                VALUES ($1, $2, $3, 0, $4, $6)
                ON CONFLICT (ledger_id, command_key) DO UPDATE SET request_sha256 = excluded.request_sha256,
                    position = excluded.position, recorded_at = excluded.recorded_at, answer = NULL,
                    customer_sha256 = excluded.customer_sha256
                WHERE command_key.recorded_at <= $5
                """,
                [
                    .int4(Int32(ledgerID)), .text(key), .bytes(requestHash.bytes), .timestamp(now.milliseconds),
                    .timestamp(expiry.milliseconds), .bytes(customer.map(hash(of:))),
                ])
            if let record = try read(key, on: connection) { return record }
        }
        throw LedgerError(.unavailable, "an idempotency key was deleted while it was being taken; try again")
    }

    /// Finds the commands about a customer.
    static func hash(of customer: CustomerID) -> [UInt8] { SHA256.hash(Array(customer.value.utf8)) }

    /// Deletes the keys that no longer count; returns how many there were.
    @discardableResult
    package func deleteExpired(now: Timestamp) async throws -> Int {
        let expiry = now.adding(milliseconds: -CommandRecord.lifetimeMilliseconds)
        var deleted = 0
        while true {
            try Task.checkCancellation()
            // What somebody else is taking again, or deleting, is not waited for.
            let page = try await run { connection in
                try connection.query(
                    """
                    DELETE FROM command_key WHERE ledger_id = $1 AND command_key = ANY (ARRAY(
                        SELECT command_key FROM command_key WHERE ledger_id = $1 AND recorded_at <= $2
                        ORDER BY recorded_at LIMIT \(Self.page) FOR UPDATE SKIP LOCKED))
                    """, [.int(ledgerID), .timestamp(expiry.milliseconds)]
                ).affectedRows
            }
            deleted += page
            if page < Self.page { return deleted }
        }
    }

    private static func read(_ key: String, on connection: isolated PostgresConnection) throws -> CommandRecord? {
        try connection.query(
            """
            SELECT request_sha256, position, recorded_at FROM command_key
            WHERE ledger_id = $1 AND command_key = $2
            """, [.int(ledgerID), .text(key)]
        ).first.map { row in
            CommandRecord(
                requestHash: try row.digest(0), position: try row.int(1),
                recordedAt: try row.instant(2))
        }
    }

    func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "looking up idempotency keys", body)
    }
}

extension CommandRecord {
    fileprivate func checked(against hash: Digest) throws(AppendRefusal) -> CommandRecord {
        guard requestHash == hash else { throw .idempotencyConflict }
        return self
    }
}
