import EntitlementCore
import PostgresClient

/// The row in table `projection` of one projector: its checkpoint, and the lock of the process that is at work.
struct ProjectionRow: Sendable {
    let name: String
    /// Changes whenever the same log would give something else; what another version derived counts for nothing.
    let version: Int64

    /// Whether nothing is left to do: a look without a lock, so that an idle service writes nothing.
    func isCurrent(on connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            """
            SELECT 1 FROM projection JOIN ledger_head AS head USING (ledger_id)
            WHERE ledger_id = $1 AND name = $2 AND version = $3 AND checkpoint >= head.position
            """, [.int(ledgerID), .text(name), .int4(Int32(version))]
        ).first != nil
    }

    /// The position up to which everything is derived; a look without a lock.
    func checkpoint(on connection: isolated PostgresConnection) throws -> Int64 {
        try connection.query(
            "SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = $2 AND version = $3",
            [.int(ledgerID), .text(name), .int4(Int32(version))]
        ).first?.int(0) ?? 0
    }

    /// Locks the row, which is made first where it is missing.
    ///
    /// - Parameters:
    ///   - waits: whether it waits for another process that holds the lock.
    ///   - clear: deletes what another version derived, and then this one begins anew; `nil`: it goes on where that one was.
    /// - Returns: the position up to which everything is derived; `nil` where another process holds the lock.
    func lock(
        on connection: isolated PostgresConnection, waits: Bool = false,
        clear: ((isolated PostgresConnection) throws -> Void)?
    ) throws -> Int64? {
        try connection.query(
            """
            INSERT INTO projection (ledger_id, name, version, checkpoint) VALUES ($1, $2, $3, 0)
            ON CONFLICT (ledger_id, name) DO NOTHING
            """, [.int4(Int32(ledgerID)), .text(name), .int4(Int32(version))])
        let row = try connection.query(
            """
            SELECT version, checkpoint FROM projection WHERE ledger_id = $1 AND name = $2
            FOR UPDATE \(waits ? "" : "SKIP LOCKED")
            """,
            [.int(ledgerID), .text(name)]
        ).first
        guard let row else { return nil }
        let checkpoint = try row.int(1)
        if try row.int(0) == version { return checkpoint }
        try clear?(connection)
        let start = clear == nil ? checkpoint : 0
        try note(start, on: connection)
        return start
    }

    /// Locks the row as it is.
    ///
    /// - Returns: the position up to which everything is derived; `nil` where another process holds the lock, and where the row
    ///   is missing or another version's.
    func lockOwn(on connection: isolated PostgresConnection) throws -> Int64? {
        try connection.query(
            """
            SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = $2 AND version = $3
            FOR UPDATE SKIP LOCKED
            """, [.int(ledgerID), .text(name), .int4(Int32(version))]
        ).first?.int(0)
    }

    /// Notes whether another process holds the lock, with no transaction open; one that is gone does not keep it.
    func note(isElsewhere: Bool, in skipped: SkippedRows, on connection: isolated PostgresConnection) throws {
        guard isElsewhere else { return skipped.noteTaken() }
        try skipped.noteSkipped(on: connection) { try checkpoint(on: $0) }
    }

    /// Notes the position up to which everything is derived.
    func note(_ checkpoint: Int64, on connection: isolated PostgresConnection) throws {
        try connection.query(
            "UPDATE projection SET version = $3, checkpoint = $4 WHERE ledger_id = $1 AND name = $2",
            [.int(ledgerID), .text(name), .int4(Int32(version)), .int(checkpoint)])
    }
}
