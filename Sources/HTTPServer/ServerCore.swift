import Synchronization

/// What the callbacks, the accepting thread and the sweeper of one running server share.
final class ServerCore: Sendable {
    /// More than any route reads, and few enough to fit the memory of a connection.
    let maxQueryItems = 100

    let configuration: HTTPServerConfiguration
    let bodyLimit: @Sendable (_ method: String, _ path: String) -> Int
    let handler: @Sendable (HTTPRequest) async -> HTTPResponse
    private let refuse: @Sendable (HTTPRefusal, HTTPRequestHead) -> HTTPResponse

    let gate: ConnectionGate
    let lingering = LingeringSockets()
    private let draining = Atomic(false)
    private let bodyBytes = Atomic(0)
    private let state = Mutex(State())

    private struct State {
        var connections: [ObjectIdentifier: ClientConnection] = [:]
        var exchanges = 0
        var handling: [ObjectIdentifier: Exchange] = [:]
        var isClosing = false
        var idleWaiter: CheckedContinuation<Void, Never>?
    }

    init(
        configuration: HTTPServerConfiguration,
        refuse: @escaping @Sendable (HTTPRefusal, HTTPRequestHead) -> HTTPResponse,
        bodyLimit: @escaping @Sendable (_ method: String, _ path: String) -> Int,
        handler: @escaping @Sendable (HTTPRequest) async -> HTTPResponse
    ) {
        self.configuration = configuration
        self.refuse = refuse
        self.bodyLimit = bodyLimit
        self.handler = handler
        self.gate = ConnectionGate(limit: configuration.maxConnections)
    }

    // MARK: - Refusals

    var overloaded: HTTPRefusal { .overloaded(retryAfterSeconds: configuration.retryAfterSeconds) }
    var shuttingDown: HTTPRefusal { .shuttingDown(retryAfterSeconds: configuration.retryAfterSeconds) }

    /// The layer above's answer; a client that should try again is told when, whatever that layer forgot.
    func response(to refusal: HTTPRefusal, _ head: HTTPRequestHead) -> HTTPResponse {
        var response = refuse(refusal, head)
        if let seconds = refusal.retryAfterSeconds, response.header("Retry-After") == nil {
            response.headers.append(("Retry-After", String(seconds)))
        }
        return response
    }

    /// Holds a head to the limits of the configuration.
    func examine(_ head: HTTPRequestHead, headerBytes: Int) throws(HTTPRefusal) {
        guard head.target.utf8.count <= configuration.maxTargetBytes else {
            throw .targetTooLong(limit: configuration.maxTargetBytes)
        }
        guard headerBytes <= configuration.maxHeaderBytes else {
            throw .headersTooLarge(limit: configuration.maxHeaderBytes)
        }
    }

    /// Counts body bytes about to be held.
    ///
    /// - Returns: `false`, and counts nothing, when they are too many over all requests.
    func reserveBody(_ count: Int) -> Bool {
        let total = bodyBytes.add(count, ordering: .relaxed).newValue
        guard total > configuration.maxBufferedBodyBytes else { return true }
        bodyBytes.subtract(count, ordering: .relaxed)
        return false
    }

    // MARK: - Connections

    func connectionOpened(_ client: ClientConnection) {
        state.withLock { $0.connections[ObjectIdentifier(client)] = client }
    }

    func connectionClosed(_ client: ClientConnection) {
        if let duplicate = client.close() { lingering.adopt(duplicate) }
        state.withLock { _ = $0.connections.removeValue(forKey: ObjectIdentifier(client)) }
        gate.leave()
    }

    func sweepConnections() {
        let connections = state.withLock { Array($0.connections.values) }
        let now = ContinuousClock.now
        for client in connections { client.sweep(at: now) }
    }

    // MARK: - Exchanges

    func exchangeBegan() {
        state.withLock { $0.exchanges += 1 }
    }

    func exchangeEnded(_ exchange: Exchange, bodyBytes count: Int) {
        bodyBytes.subtract(count, ordering: .relaxed)
        let waiter: CheckedContinuation<Void, Never>? = state.withLock { state in
            state.handling[ObjectIdentifier(exchange)] = nil
            state.exchanges -= 1
            guard state.exchanges == 0 else { return nil }
            defer { state.idleWaiter = nil }
            return state.idleWaiter
        }
        waiter?.resume()
    }

    /// Counts a handler about to start.
    ///
    /// To be called under the exchange's lock, which orders it before `abandonHandlers` abandons that exchange.
    /// - Returns: why it may not start, if it may not.
    func admit(_ exchange: Exchange) -> HTTPRefusal? {
        state.withLock { state in
            guard !state.isClosing else { return shuttingDown }
            guard state.handling.count < configuration.maxHandlersInFlight else { return overloaded }
            state.handling[ObjectIdentifier(exchange)] = exchange
            return nil
        }
    }

    func handlerEnded(_ exchange: Exchange) {
        state.withLock { _ = $0.handling.removeValue(forKey: ObjectIdentifier(exchange)) }
    }

    // MARK: - Stopping

    /// Whether connections are to be closed after the response they are waiting for.
    var isDraining: Bool { draining.load(ordering: .relaxed) }

    func beginDraining() { draining.store(true, ordering: .relaxed) }

    /// Returns when no exchange is under way, or after `limit`.
    func waitUntilIdle(atMost limit: Duration) async {
        let timeout = Task {
            try await Task.sleep(for: limit)
            stopWaiting()
        }
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard state.exchanges > 0, limit > .zero else { return true }
                state.idleWaiter = continuation
                return false
            }
            if isIdle { continuation.resume() }
        }
        timeout.cancel()
    }

    private func stopWaiting() {
        state.withLock { state in
            defer { state.idleWaiter = nil }
            return state.idleWaiter
        }?.resume()
    }

    /// Lets no handler start any more, and answers for those still at work.
    ///
    /// - Returns: how many were at work.
    func abandonHandlers() -> Int {
        let abandoned = state.withLock { state in
            state.isClosing = true
            return Array(state.handling.values)
        }
        for exchange in abandoned { exchange.abandon() }
        return abandoned.count
    }
}
