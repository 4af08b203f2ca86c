import EntitlementCore
import PostgresClient
import Synchronization

/// Catalogs by the events that wrote them, each of which never changes: it is decoded once for as long as there is room for it.
final class CatalogCache: Sendable {
    private struct Entries {
        private(set) var catalogs: [EventMark: (catalog: Catalog, weight: Int)] = [:]
        private var weight = 0

        /// Which ones go where there is no room is left to the order of their hashes: whoever goes through more than there is
        /// room for, again and again, finds some of them at hand, and of the oldest or the latest none.
        mutating func add(_ catalog: Catalog, _ mark: EventMark, weight new: Int, limit: Int) {
            weight += new - (catalogs.updateValue((catalog, new), forKey: mark)?.weight ?? 0)
            while weight > limit, let gone = catalogs.keys.first(where: { $0 != mark }) {
                weight -= catalogs.removeValue(forKey: gone)?.weight ?? 0
            }
        }
    }

    private let entries = Mutex(Entries())
    /// How many canonical bytes the catalogs have together, unless one alone has more; decoded they take some ten times as many.
    private let limit: Int

    init(limit: Int = 8 << 20) { self.limit = limit }

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
        mark == .none ? .empty : entries.withLock { $0.catalogs[mark]?.catalog }
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
        entries.withLock { $0.add(catalog, mark, weight: bytes.count, limit: limit) }
        return catalog
    }
}
