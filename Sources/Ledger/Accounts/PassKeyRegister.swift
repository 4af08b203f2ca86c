package import EntitlementCore
package import PostgresClient

/// Keeps in the log which keys sign passes, so that a key somebody slipped in, or took out, shows.
package struct PassKeyRegister: Sendable {
    private static let work = "looking up the keys of passes"

    private let pool: PostgresPool
    private let writer: LedgerWriter

    package init(pool: PostgresPool, writer: LedgerWriter) {
        self.pool = pool
        self.writer = writer
    }

    /// Records the keys in use where they differ from the log's; returns whether they did.
    ///
    /// Instances with different keys each record theirs when they start; see ``keep(_:since:)`` for later.
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

    /// Records the keys again where the log has lost what it said of them, as after a failover.
    ///
    /// As long as it has lost nothing they are not compared: instances with different keys would record theirs in turn.
    ///
    /// - Parameter seen: an end of the log at which they were recorded; `nil` where none is known.
    /// - Returns: whether they were recorded, and such an end for the next time.
    package func keep(_ keys: [PassKeyFact], since seen: EventMark?) async throws -> (isNew: Bool, seen: EventMark) {
        if let seen {
            let isHeld = try await pool.run(doing: Self.work) { try seen.isHeld(on: $0) }
            if isHeld { return (isNew: false, seen: seen) }
        }
        let isNew = try await record(keys)
        // Read afterwards: a log that holds this end holds the event as well.
        let end = try await pool.run(doing: Self.work) { try EventMark.end(on: $0) }
        return (isNew: isNew, seen: end)
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
            throw LedgerError(error, doing: Self.work)
        }
    }
}
