import Ledger

/// How many deliveries an endpoint may have under way: twice as many after one that it took, half as many after
/// another.
///
/// Slow endpoints together may use half of all places, so that the others find one. Slow is not wrong: a receiver that
/// works before it answers is sent as many at once as there are places for it, or it would fall behind.
struct DeliveryPaces: Sendable {
    private struct Pace {
        var window: Int
        var isSlow: Bool
    }

    /// The window of an endpoint of which nothing is known: small, because after a start that includes endpoints that
    /// hang.
    static let first = 2
    /// From which duration on an attempt was slow.
    static let slow = Duration.seconds(1)
    /// The most endpoints of which something is remembered; beyond it all begin anew.
    private static let remembered = 20_000

    /// All places.
    private let limit: Int
    private var paces: [String: Pace] = [:]
    private var slowCount = 0

    /// - Parameter limit: the most that may be under way of all endpoints.
    init(limit: Int) { self.limit = limit }

    /// How many an endpoint may have under way.
    func window(of endpoint: String) -> Int {
        guard let pace = paces[endpoint] else { return Self.first }
        return pace.isSlow ? min(pace.window, max(1, limit / 2 / slowCount)) : pace.window
    }

    /// Learns from an attempt; nothing from a message of which nothing was sent.
    mutating func note(_ endpoint: String, _ result: DeliveryOutcome.Result, after duration: Duration) {
        let isTaken: Bool
        switch result {
        case .delivered: isTaken = true
        case .failed, .givenUp: isTaken = false
        case .dropped: return
        }
        if paces.count >= Self.remembered { (paces, slowCount) = ([:], 0) }
        let former = paces[endpoint] ?? Pace(window: Self.first, isSlow: false)
        let window = isTaken ? min(DeliveryRegister.endpointLimit, 2 * former.window) : max(1, former.window / 2)
        let pace = Pace(window: window, isSlow: duration >= Self.slow)
        slowCount += (pace.isSlow ? 1 : 0) - (former.isSlow ? 1 : 0)
        paces[endpoint] = pace
    }

    /// Those that may have no more.
    ///
    /// - Parameter underWay: of each endpoint.
    func full(beside underWay: [String: Int]) -> [String] {
        let full = underWay.filter { $0.value >= window(of: $0.key) }.map(\.key)
        let slow = underWay.reduce(0) { paces[$1.key]?.isSlow == true ? $0 + $1.value : $0 }
        guard slow >= max(1, limit / 2) else { return full }
        return Array(Set(full).union(paces.lazy.filter(\.value.isSlow).map(\.key)))
    }
}
