/// Every open connection, and which of them have to go when there are too many.
///
/// A connection that waits for its client costs the client nothing, so whoever opens very many could keep everybody else
/// out. Where a limit is reached, connections that wait make room: of the host that has the most of them, the one that
/// has waited longest. Requests that are being worked on are never given up.
struct ConnectionTable {
    private var connections: [ObjectIdentifier: ClientConnection] = [:]
    private var hosts: [PeerAddress: Int] = [:]
    /// Told to end, and not closed yet.
    private var leaving = 0
    private let limit: Int
    private let perHost: Int
    private let overshoot: Int

    init(_ configuration: HTTPServerConfiguration) {
        limit = configuration.maxConnections
        perHost = configuration.maxConnectionsPerAddress
        overshoot = configuration.overshoot
    }

    var isEmpty: Bool { connections.isEmpty }
    var all: some Collection<ClientConnection> { connections.values }

    mutating func insert(_ client: ClientConnection) {
        connections[ObjectIdentifier(client)] = client
        hosts[client.peer, default: 0] += 1
    }

    mutating func remove(_ client: ClientConnection) {
        guard connections.removeValue(forKey: ObjectIdentifier(client)) != nil else { return }
        if client.isLeaving {
            leaving -= 1
        } else {
            leave(client.peer)
        }
    }

    /// Whether another connection may be accepted, once those are ended that make room for it.
    mutating func makeRoom(at now: ContinuousClock.Instant) -> Bool {
        guard connections.count < limit + overshoot else { return false }
        guard connections.count - leaving >= limit else { return true }
        // Several at once, because they have to be looked for among all.
        return end(1 + limit / 64, at: now) { _ in true }
    }

    /// Whether a host may have another connection, once one of its own is ended that makes room for it.
    mutating func admits(_ peer: PeerAddress, isTrusted: Bool, at now: ContinuousClock.Instant) -> Bool {
        guard perHost > 0, !isTrusted, hosts[peer, default: 0] >= perHost else { return true }
        return end(1 + perHost / 64, at: now) { $0.peer == peer }
    }

    /// Ends up to so many of the connections that wait; `false` when none does.
    ///
    /// First those between two requests, then those in the middle of one, then those whose answers are not read; after
    /// all of these a trusted peer's, since it speaks for many clients.
    private mutating func end(
        _ count: Int, at now: ContinuousClock.Instant, where isCandidate: (ClientConnection) -> Bool
    ) -> Bool {
        let candidates = connections.values.filter { !$0.isLeaving && isCandidate($0) }
        for isTrusted in [false, true] {
            let waiting = Dictionary(grouping: candidates.filter { $0.isTrusted == isTrusted }) { $0.wait(at: now) }
            for wait in ClientConnection.Wait.allCases {
                let byHost = Dictionary(grouping: waiting[wait] ?? [], by: \.peer)
                guard let most = byHost.values.max(by: { $0.count < $1.count }) else { continue }
                for client in most.sorted(by: { $0.waitsSince < $1.waitsSince }).prefix(count) {
                    client.endNow()
                    client.isLeaving = true
                    leaving += 1
                    leave(client.peer)
                }
                return true
            }
        }
        return false
    }

    private mutating func leave(_ peer: PeerAddress) {
        guard let count = hosts[peer] else { return }
        hosts[peer] = count > 1 ? count - 1 : nil
    }
}
