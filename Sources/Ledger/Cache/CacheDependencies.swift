import EntitlementCore

/// What answers depend on: an identity or original transaction of one environment, or that somebody is not known.
///
/// A key holds only a hash of a text; two texts with one hash cost a needless read, never a stale answer.
struct DependencyKey: Hashable {
    private let value: UInt64

    /// Identities have even numbers, texts odd ones.
    private init(_ identity: IdentityRef, _ environment: StoreEnvironment) {
        value = UInt64(bitPattern: identity.number) << 2 | (environment == .sandbox ? 2 : 0)
    }

    private init(original: String, _ environment: StoreEnvironment) {
        self.init(text: original, of: environment)
    }

    init(unknown: String) { self.init(text: unknown, of: nil) }

    private init(text: String, of environment: StoreEnvironment?) {
        var hasher = Hasher()
        hasher.combine(environment)
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        value = UInt64(bitPattern: Int64(hasher.finalize())) | 1
    }

    static func all(of dependencies: CustomerDependencies, _ environment: StoreEnvironment) -> [DependencyKey] {
        dependencies.identities.map { DependencyKey($0, environment) }
            + dependencies.originals.map { DependencyKey(original: $0, environment) }
            + dependencies.inEveryEnvironment.flatMap { identity in
                StoreEnvironment.allCases.filter { $0 != environment }.map { DependencyKey(identity, $0) }
            } + dependencies.unknown.map { DependencyKey(unknown: $0) }
    }
}

/// Which slots of a cache depend on what; nearly always it is one.
struct DependencyIndex {
    private enum Slots {
        case one(Int32)
        case several(Set<Int32>)
    }

    private var table: [DependencyKey: Slots] = [:]

    func slots(under key: DependencyKey) -> [Int32] {
        switch table[key] {
        case nil: []
        case .one(let slot): [slot]
        case .several(let slots): Array(slots)
        }
    }

    mutating func insert(_ slot: Int32, under key: DependencyKey) {
        switch table[key] {
        case nil: table[key] = .one(slot)
        case .one(let other): if other != slot { table[key] = .several([other, slot]) }
        case .several(var slots):
            table[key] = nil
            slots.insert(slot)
            table[key] = .several(slots)
        }
    }

    mutating func remove(_ slot: Int32, under key: DependencyKey) {
        switch table[key] {
        case nil: break
        case .one(let other): if other == slot { table[key] = nil }
        case .several(var slots):
            table[key] = nil
            slots.remove(slot)
            table[key] = slots.count == 1 ? slots.first.map { .one($0) } : .several(slots)
        }
    }
}

/// The latest changes, so that an answer which was loaded meanwhile is not kept if a change concerns it.
struct RecentChanges {
    /// The most changes remembered; beyond it, whatever is being loaded at that moment is not kept.
    private static let limit = 65_536

    private var positions: [DependencyKey: Int64] = [:]
    private var everybody: [StoreEnvironment: Int64] = [:]
    /// Nothing is known of changes up to here.
    private var floor: Int64 = 0

    mutating func note(_ key: DependencyKey, at position: Int64) {
        if positions.count >= Self.limit { forget(upTo: position) }
        positions[key] = max(positions[key] ?? 0, position)
    }

    mutating func noteEverybody(in environment: StoreEnvironment?, at position: Int64) {
        for environment in environment.map({ [$0] }) ?? StoreEnvironment.allCases { everybody[environment] = position }
    }

    mutating func forget(upTo position: Int64) {
        positions = [:]
        everybody = [:]
        floor = position
    }

    func hasChange(of keys: [DependencyKey], _ environment: StoreEnvironment, after position: Int64) -> Bool {
        position < floor || everybody[environment, default: 0] > position
            || keys.contains { positions[$0, default: 0] > position }
    }
}

/// The hashes of the log's last events.
struct RecentChain {
    /// How many are kept at least.
    private static let length = 16_384

    private var first: Int64
    private var hashes: [Digest]

    /// Nothing is known of any log.
    init() { (first, hashes) = (0, []) }

    /// A log of which only the end is known.
    init(_ end: LogMark) { (first, hashes) = (end.position, [end.hash]) }

    /// What came after the end.
    mutating func append(_ news: [Digest]) {
        hashes += news
        guard hashes.count > 2 * Self.length else { return }
        let excess = hashes.count - Self.length
        hashes.removeFirst(excess)
        first += Int64(excess)
    }

    /// Whether the log is known to hold an event.
    func holds(_ event: EventMark) -> Bool {
        let index = Int(event.position - first)
        return hashes.indices.contains(index) && hashes[index] == event.hash
    }
}
