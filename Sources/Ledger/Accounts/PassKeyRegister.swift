package import EntitlementCore
package import PostgresClient

/// Keeps in the log which keys sign passes, so that a key somebody slipped in, or took out, shows.
package struct PassKeyRegister: Sendable {
    private let pool: PostgresPool
    private let writer: LedgerWriter

    package init(pool: PostgresPool, writer: LedgerWriter) {
        self.pool = pool
        self.writer = writer
    }

    /// Records the keys in use where they are others than the log says; returns whether they were.
    ///
    /// Instances with different keys each record theirs when they start.
    ///
    /// - Parameter keys: in the order of their ids.
    package func record(_ keys: [PassKeyFact]) async throws -> Bool {
        guard try await lastRecorded() != keys else { return false }
        _ = try await writer.append(
            EventDraft(
                environment: nil, source: .operatorCommand, occurredAt: nil, fact: .access(.passKeys(keys)),
                identities: [], deduplication: .unique))
        return true
    }

    private func lastRecorded() async throws -> [PassKeyFact] {
        do {
            return try await pool.withConnection { connection in
                let last = try connection.query(
                    """
                    SELECT facts FROM event WHERE ledger_id = $1 AND type = '\(AccessFact.passKeysType)'
                    ORDER BY position DESC LIMIT 1
                    """, [.int(ledgerID)]
                ).first
                guard let last, case .access(.passKeys(let keys)) = try FactCodec.decode(last.bytes(0)) else {
                    return []
                }
                return keys
            }
        } catch {
            throw LedgerError(error, doing: "looking up the keys of passes")
        }
    }
}
