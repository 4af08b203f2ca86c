package import EntitlementCore
import PostgresClient

/// An event by its position and its hash, so that it is told apart from another at the same position: after the log has
/// lost its end, as when a backup is restored or a replica takes over that had not got everything.
package struct EventMark: Sendable, Hashable {
    /// 0 before any event.
    package let position: Int64
    package let hash: Digest

    package init(position: Int64, hash: Digest) {
        self.position = position
        self.hash = hash
    }

    /// Before any event.
    package static let none = EventMark(position: 0, hash: .zero)
}

extension EventMark {
    /// Reads it from two columns next to each other.
    init(_ row: PostgresRow, _ column: Int) throws {
        self.init(position: try row.int(column), hash: try row.digest(column + 1))
    }

    /// The last event there is now.
    static func end(on connection: isolated PostgresConnection) throws -> EventMark {
        guard let row = try connection.query(Statements.head.sql, Statements.head.parameters).first else {
            throw Statements.missingHead
        }
        return EventMark(position: try row.int(0), hash: try row.digest(2))
    }

    /// The event at a position; `nil` where there is none.
    static func at(_ position: Int64, on connection: isolated PostgresConnection) throws -> EventMark? {
        try connection.query(
            "SELECT position, hash FROM event WHERE ledger_id = $1 AND position = $2", [.int(ledgerID), .int(position)]
        ).first.map { try EventMark($0, 0) }
    }

    /// Whether the log holds this event: no log that lost it does, however long it is again.
    func isHeld(on connection: isolated PostgresConnection) throws -> Bool {
        guard self != .none else { return true }
        return try connection.query(
            "SELECT FROM event WHERE ledger_id = $1 AND position = $2 AND hash = $3",
            [.int(ledgerID), .int(position), .bytes(hash.bytes)]
        ).first != nil
    }
}
