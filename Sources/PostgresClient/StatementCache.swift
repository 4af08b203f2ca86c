/// Which statements one session has prepared, by text and parameter types; the least recently used is let go first.
struct StatementCache {
    struct Key: Hashable {
        let sql: String
        let types: [UInt32]

        /// The statement's name in whatever session: FNV-1a, 64 bits, of its text and types.
        ///
        /// A pooler in transaction mode that does not know of prepared statements gives a session to one client after the
        /// other. What is executed there by name is the statement that was meant, or none: among a thousand statements two
        /// would have one name with a probability of 3 in 100 million million.
        var name: String {
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325
            func add(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
            for type in types {
                for shift in [24, 16, 8, 0] as [UInt32] { add(UInt8(truncatingIfNeeded: type >> shift)) }
            }
            for byte in sql.utf8 { add(byte) }
            return "r" + String(hash, radix: 36)
        }
    }

    private struct Entry {
        let name: String
        var lastUse: UInt64
    }

    let limit: Int
    private var entries: [Key: Entry] = [:]
    private(set) var hasOrphans = false
    private var uses: UInt64 = 0
    /// How often everything was forgotten while the server still held it.
    private var orphanings = 0

    init(limit: Int) { self.limit = max(1, limit) }

    var count: Int { entries.count }

    mutating func name(of key: Key) -> String? {
        uses += 1
        entries[key]?.lastUse = uses
        return entries[key]?.name
    }

    /// A name under which this session has prepared nothing.
    func newName(of key: Key) -> String { orphanings == 0 ? key.name : "\(key.name)_\(orphanings)" }

    mutating func insert(_ key: Key, name: String) {
        uses += 1
        entries[key] = Entry(name: name, lastUse: uses)
    }

    /// Chooses what must go so that `count` new statements fit, sparing those in `kept`.
    func victims(toInsert count: Int, sparing kept: Set<Key>) -> [(key: Key, name: String)] {
        let excess = entries.count + count - limit
        guard excess > 0 else { return [] }
        return entries.filter { !kept.contains($0.key) }
            .sorted { $0.value.lastUse < $1.value.lastUse }
            .prefix(excess)
            .map { ($0.key, $0.value.name) }
    }

    mutating func remove(_ key: Key) { entries[key] = nil }

    /// Forgets everything, as after `DEALLOCATE ALL`.
    mutating func removeAll() {
        entries.removeAll()
        hasOrphans = false
        orphanings = 0
    }

    /// Forgets everything while the server still holds it.
    ///
    /// Other names are used from here on, so this does no harm until there is a chance to deallocate.
    mutating func orphanAll() {
        hasOrphans = true
        orphanings += 1
        entries.removeAll()
    }
}
