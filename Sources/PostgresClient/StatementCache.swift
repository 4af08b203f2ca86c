/// Which statements one session has prepared, by text and parameter types; the least recently used is let go first.
struct StatementCache {
    struct Key: Hashable {
        let sql: String
        let types: [UInt32]
    }

    private struct Entry {
        let name: String
        var lastUse: UInt64
    }

    let limit: Int
    private var entries: [Key: Entry] = [:]
    private(set) var hasOrphans = false
    private var uses: UInt64 = 0
    private var named: UInt64 = 0

    init(limit: Int) { self.limit = max(1, limit) }

    var count: Int { entries.count }

    mutating func name(of key: Key) -> String? {
        uses += 1
        entries[key]?.lastUse = uses
        return entries[key]?.name
    }

    /// A name never used before in this session.
    mutating func newName() -> String {
        named += 1
        return "r\(named)"
    }

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
    }

    /// Forgets everything while the server still holds it.
    ///
    /// Names are never used twice, so this does no harm until there is a chance to deallocate.
    mutating func orphanAll() {
        hasOrphans = hasOrphans || !entries.isEmpty
        entries.removeAll()
    }
}
