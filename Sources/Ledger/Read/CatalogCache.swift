import EntitlementCore
import PostgresClient
import Synchronization

/// Catalogs by the events that wrote them: each is decoded once, and never changes.
final class CatalogCache: Sendable {
    private let entries = Mutex<[EventMark: Catalog]>([:])
    private static let limit = 16

    /// The catalog that answers at a position.
    func catalog(at position: Int64, on connection: isolated PostgresConnection) throws -> Catalog {
        try entry(at: position, on: connection).catalog
    }

    /// The catalog that answers at a position, and where it was written.
    func entry(
        at position: Int64, on connection: isolated PostgresConnection
    ) throws -> (writtenAt: Int64, catalog: Catalog) {
        let row = try connection.query(
            """
            SELECT position, hash FROM event WHERE ledger_id = $1 AND type = 'catalog_applied' AND position <= $2
            ORDER BY position DESC LIMIT 1
            """, [.int(ledgerID), .int(position)]
        ).first
        let mark = try row.map { try EventMark($0, 0) } ?? .none
        return (mark.position, try catalog(mark, on: connection))
    }

    /// A catalog that is at hand; before any an empty one.
    func known(_ mark: EventMark) -> Catalog? {
        mark == .none ? .empty : entries.withLock { $0[mark] }
    }

    /// A catalog; before any an empty one.
    func catalog(_ mark: EventMark, on connection: isolated PostgresConnection) throws -> Catalog {
        if let known = known(mark) { return known }
        let row = try connection.query(
            "SELECT facts FROM event WHERE ledger_id = $1 AND position = $2 AND hash = $3",
            [.int(ledgerID), .int(mark.position), .bytes(mark.hash.bytes)]
        ).first
        guard let bytes = try row?.bytes(0), case .catalog(let catalog) = try FactCodec.decode(bytes) else {
            throw LedgerError(.corrupt, "event \(mark.position) is called a catalog and holds none")
        }
        entries.withLock { entries in
            if entries.count >= Self.limit { entries.removeAll() }
            entries[mark] = catalog
        }
        return catalog
    }
}
