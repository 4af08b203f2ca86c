/// The bodies that are being received or worked on, counted in bytes against the limit of their memory.
///
/// A body that stands still costs its client nothing, so whoever begins many could keep everybody else's out. Where there
/// is no room, bodies that are still being received make some: of the owner that has the most of them, the one begun first.
struct BodyMemory {
    private var used: [BodyGate.Memory: Int] = [:]
    private var receiving: [UInt64: Exchange] = [:]
    private let limits: [BodyGate.Memory: Int]

    init(_ configuration: HTTPServerConfiguration) {
        limits = [
            .shared: configuration.maxBufferedBodyBytes, .reserved: configuration.maxReservedBodyBytes,
        ]
    }

    /// Counts bytes that an exchange is about to hold, and gives up others where that takes it.
    ///
    /// - Returns: `false`, and counts nothing, when there is no room.
    mutating func reserve(_ count: Int, for exchange: Exchange) -> Bool {
        let memory = exchange.bodyMemory
        let limit = limits[memory] ?? 0
        while used[memory, default: 0] + count > limit {
            let others = receiving.values.filter { $0.bodyMemory == memory && $0.isReceivingBody }
            let byOwner = Dictionary(grouping: others, by: \.bodyOwner)
            let most = byOwner.values.max { Self.bytes(of: $0) < Self.bytes(of: $1) }
            guard let victim = most?.min(by: { $0.id < $1.id }), victim !== exchange else { return false }
            release(victim)
            victim.giveUpBody()
        }
        used[memory, default: 0] += count
        receiving[exchange.id] = exchange
        return true
    }

    /// No longer counts what an exchange holds.
    mutating func release(_ exchange: Exchange) {
        guard receiving.removeValue(forKey: exchange.id) != nil else { return }
        used[exchange.bodyMemory, default: 0] -= exchange.bodyCount
    }

    private static func bytes(of exchanges: [Exchange]) -> Int { exchanges.reduce(0) { $0 + $1.bodyCount } }
}
