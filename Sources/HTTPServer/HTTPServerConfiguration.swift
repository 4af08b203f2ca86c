/// Where the server listens, and every limit it holds to.
///
/// The limit on a body is not here: it depends on the route, so `HTTPServer` asks for it request by request.
package struct HTTPServerConfiguration: Sendable {
    /// A numeric address or a name of this host; `::` also takes IPv4, `0.0.0.0` does not take IPv6.
    package var host = "127.0.0.1"
    /// 0 lets the system choose; `HTTPServer.boundPort` then says which.
    package var port: UInt16 = 8080
    /// Where to listen in place of `host` and `port`.
    package var boundAddress: BoundAddress?
    /// Request line and header fields together, in bytes.
    package var maxHeaderBytes = 16 << 10
    /// The request target (path and query, as sent), in bytes.
    package var maxTargetBytes = 8 << 10
    /// Open connections; for further ones, some that wait for their clients are closed.
    ///
    /// Where none waits, they stay in the system's backlog.
    package var maxConnections = 1024
    /// Open connections from one address, trusted peers aside; 0 for no limit.
    ///
    /// For further ones, some of the same address that wait for their clients are closed; where none waits, the further
    /// ones are.
    package var maxConnectionsPerAddress = 512
    /// Requests being handled; further ones are refused as `overloaded`.
    package var maxHandlersInFlight = 1024
    /// Further ones for requests whose body is in the reserved memory.
    package var maxReservedHandlers = 256
    /// Request bodies held in memory, in bytes over all requests; beyond it requests are refused as `overloaded`.
    package var maxBufferedBodyBytes = 256 << 20
    /// The same for requests whose gate names the reserved memory, which no others use.
    package var maxReservedBodyBytes = 64 << 20
    /// From the first byte a client may send to the last of its request, however steadily they trickle in.
    ///
    /// Between two requests of one connection `idleTimeout` comes on top, since the server cannot see when the wait
    /// ended and the next request began.
    package var requestDeadline = Duration.seconds(30)
    /// How long a handler may take; one that takes longer is cancelled, and its request refused as `tooSlow`.
    package var handlerDeadline = Duration.seconds(10)
    /// From the first byte of a response to the moment the system has taken the last.
    package var responseDeadline = Duration.seconds(120)
    /// How long a connection may be silent; rounded up to whole seconds.
    package var idleTimeout = Duration.seconds(60)
    /// What a refused client is told to wait, in seconds.
    package var retryAfterSeconds = 1

    /// The defaults, on the given address.
    package init(host: String = "127.0.0.1", port: UInt16 = 8080) {
        self.host = host
        self.port = port
    }

    /// The most connections beyond `maxConnections` that were told to end and are not closed yet, and the most closed ones
    /// whose clients still read a refusal.
    var overshoot: Int { max(4, min(64, maxConnections / 16)) }

    /// The most descriptors that connections take.
    package var mostDescriptors: Int { maxConnections + 2 * overshoot }

    /// Has fewer connections where there are not descriptors enough, one address its share of them as before.
    package mutating func fit(into descriptors: Int) {
        let (all, one) = (maxConnections, maxConnectionsPerAddress)
        while maxConnections > 1, mostDescriptors > descriptors { maxConnections -= 1 }
        if one > 0 { maxConnectionsPerAddress = max(1, one * maxConnections / all) }
    }

    /// Refuses values that would make a server which cannot answer.
    func validate() throws(HTTPServerError) {
        let positive: [(String, Int)] = [
            ("maxTargetBytes", maxTargetBytes), ("maxConnections", maxConnections),
            ("maxHandlersInFlight", maxHandlersInFlight), ("maxBufferedBodyBytes", maxBufferedBodyBytes),
            ("maxReservedBodyBytes", maxReservedBodyBytes),
            ("retryAfterSeconds", retryAfterSeconds), ("maxReservedHandlers", maxReservedHandlers),
        ]
        for (name, value) in positive where value < 1 {
            throw HTTPServerError(.invalidConfiguration, "\(name) is \(value); it must be at least 1")
        }
        guard maxConnectionsPerAddress >= 0 else {
            throw HTTPServerError(.invalidConfiguration, "maxConnectionsPerAddress must be 0 (no limit) or more")
        }
        guard maxHeaderBytes >= 1024, maxHeaderBytes <= 1 << 20 else {
            throw HTTPServerError(
                .invalidConfiguration, "maxHeaderBytes is \(maxHeaderBytes); it must be from 1024 to 1048576")
        }
        guard maxConnections <= 1 << 20 else {
            throw HTTPServerError(.invalidConfiguration, "at most 1048576 connections can be served")
        }
        for (name, value) in [
            ("requestDeadline", requestDeadline), ("handlerDeadline", handlerDeadline),
            ("responseDeadline", responseDeadline), ("idleTimeout", idleTimeout),
        ] where value <= .zero || value > .seconds(86_400) {
            throw HTTPServerError(.invalidConfiguration, "\(name) is \(value); it must be from above 0 to one day")
        }
    }
}
