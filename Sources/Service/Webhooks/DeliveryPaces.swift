import Ledger

/// How many deliveries an endpoint may have under way: more with each that it takes quickly, fewer with each that it does not.
///
/// So those that are slow, or hang, hold few of the places that all share, and the others find one.
struct DeliveryPaces: Sendable {
    /// What an endpoint may have of which nothing is known: little, since after a start that is true of those that hang, too.
    static let first = 2
    /// What counts as quick.
    static let quick = Duration.seconds(1)
    /// The most endpoints of which something is remembered; beyond it all begin anew.
    private static let remembered = 20_000

    private var windows: [String: Int] = [:]

    /// How many an endpoint may have under way.
    func window(of endpoint: String) -> Int { windows[endpoint] ?? Self.first }

    /// Learns from an attempt.
    mutating func note(_ endpoint: String, isTaken: Bool, after duration: Duration) {
        let window = window(of: endpoint)
        let next = isTaken && duration < Self.quick ? min(DeliveryDesk.endpointLimit, 2 * window) : max(1, window / 2)
        if windows.count >= Self.remembered { windows.removeAll() }
        windows[endpoint] = next == Self.first ? nil : next
    }

    /// Those that may have no more.
    ///
    /// Those that are slow get no more than half of all places together, however many they are.
    ///
    /// - Parameters:
    ///   - underWay: of each endpoint.
    ///   - limit: all places.
    func full(beside underWay: [String: Int], limit: Int) -> [String] {
        let full = underWay.filter { $0.value >= window(of: $0.key) }.map(\.key)
        let slow = underWay.reduce(0) { window(of: $1.key) == 1 ? $0 + $1.value : $0 }
        guard slow >= max(1, limit / 2) else { return full }
        return full + windows.filter { $0.value == 1 && underWay[$0.key] == nil }.map(\.key)
    }
}
