import EntitlementCore
import PostgresClient

/// The row in table `projection` of one projector: its checkpoint, and the lock of the process that is at work.
struct ProjectionRow: Sendable {
    let name: String
    /// Changes whenever the same log would give something else; what another version derived counts for nothing.
    let version: Int64

    /// Up to where everything is derived, and where the log ends.
    struct Standing: Sendable {
        let checkpoint: Int64
        let head: Int64
        /// Whether there was no row before.
        var isNew = false
    }

    /// Whether nothing is left to do: a look without a lock, so that an idle service writes nothing.
    func isCurrent(on connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            """
            SELECT 1 FROM projection JOIN ledger_head AS head USING (ledger_id)
            WHERE ledger_id = $1 AND name = $2 AND version = $3 AND checkpoint = head.position
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
    /// A checkpoint beyond the end of the log was derived from another log, such as where tables of several backups were
    /// restored together; it counts for as little as one of another version.
    ///
    /// - Parameters:
    ///   - waits: whether it waits for another process that holds the lock.
    ///   - isLost: asked where the row is missing: whether it is known that there was one. Then this one goes on from the end of the
    ///     log, and else it begins at the beginning.
    ///   - clear: deletes what does not count, and then this one begins anew; `nil`: it goes on where the other version was,
    ///     or from the end of the log.
    /// - Returns: `nil` where another process holds the lock.
    func lock(
        on connection: isolated PostgresConnection, waits: Bool = false,
        isLost: (isolated PostgresConnection) throws -> Bool = { _ in false },
        clear: ((isolated PostgresConnection) throws -> Void)?
    ) throws -> Standing? {
        let isNew =
            try connection.query(
                """
                INSERT INTO projection (ledger_id, name, version, checkpoint) VALUES ($1, $2, $3, 0)
                ON CONFLICT (ledger_id, name) DO NOTHING RETURNING 1
                """, [.int4(Int32(ledgerID)), .text(name), .int4(Int32(version))]
            ).first != nil
        guard let (row, head) = try locked(waits: waits, on: connection) else { return nil }
        let checkpoint = try row.int(1)
        if isNew, try isLost(connection) {
            try note(head, on: connection)
            return Standing(checkpoint: head, head: head, isNew: true)
        }
        if try row.int(0) == version, checkpoint <= head {
            return Standing(checkpoint: checkpoint, head: head, isNew: isNew)
        }
        try clear?(connection)
        let start = clear == nil ? min(checkpoint, head) : 0
        try note(start, on: connection)
        return Standing(checkpoint: start, head: head)
    }

    /// Locks the row as it is.
    ///
    /// - Returns: `nil` where another process holds the lock, and where the row is missing or another version's.
    func lockOwn(on connection: isolated PostgresConnection) throws -> Standing? {
        guard let (row, head) = try locked(waits: false, on: connection), try row.int(0) == version else { return nil }
        return Standing(checkpoint: try row.int(1), head: head)
    }

    /// Version and checkpoint under the lock, and the end of the log; `nil` where another process holds the lock or the row is
    /// missing.
    ///
    /// The end is read by a statement of its own after the lock is held: in one that waited for the lock it could be older than
    /// the checkpoint.
    private func locked(
        waits: Bool, on connection: isolated PostgresConnection
    ) throws -> (row: PostgresRow, head: Int64)? {
        let results = try connection.pipeline([
            PostgresStatement(
                """
                SELECT version, checkpoint FROM projection WHERE ledger_id = $1 AND name = $2
                FOR UPDATE \(waits ? "" : "SKIP LOCKED")
                """, [.int(ledgerID), .text(name)]),
            Statements.head,
        ])
        guard let row = results[0].first else { return nil }
        guard let head = results[1].first else { throw Statements.missingHead }
        return (row, try head.int(0))
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
