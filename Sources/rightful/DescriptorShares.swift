import HTTPServer
import OutgoingHTTP

/// How a service shares out the descriptors that it may have, so that it never runs out of them.
///
/// libdispatch ends the process when it cannot open a file of `/proc` that it looks at each second, and a connection that the
/// server has no descriptor for waits until somebody else's ends.
struct DescriptorShares: Sendable {
    /// Those of the service itself: at most 22 connections to the database; the listener, the event loops, timers and signals;
    /// the embedded PostgreSQL's locks and log; and files that are open for a moment.
    private static let own = 64
    /// What wakes each of its sessions for the stores' APIs, and finds the addresses.
    private static let ofSession = 4
    /// For a service that serves some clients at once.
    private static let fewestForClients = 48

    /// The limit that is shared out.
    let limit: Int
    /// The most connections of each session for a store's API.
    let calls: Int
    /// The most deliveries of webhooks under way.
    let webhooks: Int
    private let sessions: Int
    private let clients: Int

    /// - Parameters:
    ///   - limit: how many descriptors there may be.
    ///   - accounts: apps and accounts that speak to a store's API, each by two sessions.
    /// - Throws: `CommandFailure` where they are too few for a service.
    init(of limit: Int, accounts: Int) throws(CommandFailure) {
        self.init(limit, accounts)
        guard clients < Self.fewestForClients else { return }
        var fewest = limit
        while DescriptorShares(fewest, accounts).clients < Self.fewestForClients { fewest += 1 }
        throw CommandFailure(
            description:
                "a process may have \(limit) open files here, and this service needs \(fewest): raise \(Self.places)")
    }

    private init(_ limit: Int, _ accounts: Int) {
        self.limit = limit
        sessions = 2 * accounts
        let free = limit - Self.own - sessions * Self.ofSession
        calls = min(OutgoingSession.usualConnections, max(2, free / (16 * max(1, sessions))))
        webhooks = min(1024, max(8, free / 8))
        // A delivery that looks for its receiver's address takes as many.
        clients = free - sessions * calls - 2 * webhooks
    }

    /// The most connections of clients, and of one address.
    var connections: (all: Int, ofAddress: Int) {
        var listening = HTTPServerConfiguration()
        fit(&listening)
        return (listening.maxConnections, listening.maxConnectionsPerAddress)
    }

    /// Has a listener serve as many connections as there are descriptors for.
    func fit(_ listening: inout HTTPServerConfiguration) { listening.fit(into: clients) }

    /// What is worth a word at start; `nil` where everybody is served who would be with more.
    var notice: String? {
        let wished = HTTPServerConfiguration()
        guard connections.all < wished.maxConnections else { return nil }
        var enough = self
        while enough.clients < wished.mostDescriptors { enough = DescriptorShares(enough.limit + 1, sessions / 2) }
        return "a process may have \(limit) open files here, so \(connections.all) connections are served at once, "
            + "\(connections.ofAddress) of one address: for \(wished.maxConnections) raise \(Self.places) to \(enough.limit)"
    }

    private static let places = "the hard limit (`ulimit -Hn`, LimitNOFILE of a unit, `--ulimit nofile` of a container)"
}
