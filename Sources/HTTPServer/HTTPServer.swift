import Synchronization

/// An HTTP/1.1 server over libmicrohttpd.
///
/// Sockets are read and written by one event loop on a thread of its own. There a request is first offered to the
/// immediate handler, if there is one. What that declines is handed over whole, to an asynchronous handler that runs on
/// Swift's own threads while the connection sleeps. Everything a client can send is limited; see
/// `HTTPServerConfiguration`.
///
/// A handler is not told that its client has gone away; its response is then thrown away.
package final class HTTPServer: Sendable {
    private enum Lifecycle {
        case idle
        case running(RunningServer)
        case stopping(Task<Void, Never>, port: UInt16)
    }

    private let core: ServerCore
    private let lifecycle = Mutex(Lifecycle.idle)

    /// Creates a server that does nothing yet.
    ///
    /// - Parameters:
    ///   - refuse: renders what the server answers by itself. Called on the event loop's thread, so it must not block.
    ///   - bodyLimit: the largest body for a method and a percent-encoded path, in bytes. It must not block either.
    ///   - gate: says of a request with a body, from its head, whether the body may come. It must not block either.
    ///   - trusts: whether a peer, by its numeric address, stands for many clients, so that no limit of one address holds.
    ///   - immediate: makes what is offered each request without a body before `handler`; called when the server starts,
    ///     before the event loop's thread does.
    ///   - handler: answers every other request. It is cancelled when the server stops and the grace is over; what
    ///     it returns after that is thrown away.
    package init(
        configuration: HTTPServerConfiguration,
        refuse: @escaping @Sendable (HTTPRefusal, HTTPRequestHead) -> HTTPResponse = { refusal, _ in
            refusal.plainResponse
        },
        bodyLimit: @escaping @Sendable (_ method: String, _ path: String) -> Int = { _, _ in 1 << 20 },
        gate: @escaping @Sendable (HTTPRequestHead) -> BodyGate = { _ in .open(.shared, owner: 0) },
        trusts: @escaping @Sendable (_ address: String) -> Bool = { _ in false },
        immediate: (@Sendable (LoopWaker) -> any ImmediateHandler)? = nil,
        handler: @escaping @Sendable (HTTPRequest) async -> HTTPResponse
    ) {
        core = ServerCore(
            configuration: configuration, bodyLimit: bodyLimit, gate: gate, trusts: trusts, handler: handler,
            makeImmediateHandler: immediate, refuse: refuse)
    }

    deinit {
        // Nobody stopped it, and its threads would go on for ever.
        if case .running(let running) = lifecycle.withLock({ $0 }) { Task { await running.stop(grace: .zero) } }
    }

    /// The port it listens on, or listened on; `nil` before `start`.
    package var boundPort: UInt16? {
        switch lifecycle.withLock({ $0 }) {
        case .idle: nil
        case .running(let running): running.port
        case .stopping(_, let port): port
        }
    }

    /// Starts to listen and to serve, once, and returns without waiting for anything.
    package func start() throws(HTTPServerError) {
        try lifecycle.withLock { lifecycle throws(HTTPServerError) in
            guard case .idle = lifecycle else {
                throw HTTPServerError(.alreadyStarted, "This server was started before. Create another one.")
            }
            lifecycle = .running(try RunningServer(core))
        }
    }

    /// Stops accepting, lets requests under way finish, then closes everything.
    ///
    /// When the grace is over the remaining handlers are cancelled and their clients answered with
    /// `HTTPRefusal.shuttingDown`. After it returns no socket is open and nothing is called any more. To call it
    /// again, or at the same time, waits for the same end.
    package func stop(graceSeconds: Double = 10) async {
        let task: Task<Void, Never>? = lifecycle.withLock { lifecycle in
            switch lifecycle {
            case .idle: return nil
            case .stopping(let task, _): return task
            case .running(let running):
                let task = Task { await running.stop(grace: .seconds(max(0, graceSeconds))) }
                lifecycle = .stopping(task, port: running.port)
                return task
            }
        }
        await task?.value
    }
}
