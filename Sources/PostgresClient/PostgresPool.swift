/// A bounded number of connections, lent in the order of asking.
///
/// Connections are made when first needed. One found dead before use is replaced unnoticed; after a failed attempt to
/// connect, further attempts fail at once until a short backoff (50 ms, doubling to 1 s) has passed.
package actor PostgresPool {
    package struct Limits: Sendable {
        /// Most connections open at a time.
        package var connections: Int
        /// Most callers waiting for one; the next is refused.
        package var waiters: Int
        /// How long a caller waits for one.
        package var wait: Duration

        package init(connections: Int = 8, waiters: Int = 1024, wait: Duration = .seconds(5)) {
            self.connections = max(1, connections)
            self.waiters = waiters
            self.wait = wait
        }
    }

    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private let conninfo: String
    private let options: ConnectionOptions
    private let limits: Limits
    private let clock = ContinuousClock()

    /// Lent or being made; whoever holds a permit may take an idle connection or make one.
    private var permits: Int
    private var idle: [PostgresConnection] = []
    private var waiters: [Waiter] = []
    private var nextWaiter: UInt64 = 0
    private var isClosed = false
    private var failures = 0
    private var lastFailure: (error: PostgresError, retryAt: ContinuousClock.Instant)?

    package init(_ conninfo: String, options: ConnectionOptions = ConnectionOptions(), limits: Limits = Limits()) {
        self.conninfo = conninfo
        self.options = options
        self.limits = limits
        permits = limits.connections
    }

    /// Runs `body` with a connection of its own for that long.
    ///
    /// Throws what `body` throws; `PostgresError` of kind `unavailable` when none was free in time, the queue is full
    /// or the pool is closed; kind `connection` when none could be made; `CancellationError` when cancelled while
    /// waiting. A body that has begun runs to its end: server-side timeouts bound it.
    package func withConnection<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await acquirePermit()
        defer { releasePermit() }
        try Task.checkCancellation()
        while true {
            let connection = try await takeConnection()
            switch await connection.use(body) {
            case .stale: continue
            case .finished(let result, let reusable):
                if reusable, !isClosed { idle.append(connection) }
                return try result.get()
            }
        }
    }

    /// Refuses all who wait or come later, and closes idle connections; those in use close when they are given back.
    package func close() {
        isClosed = true
        idle.removeAll()
        let refused = waiters
        waiters.removeAll()
        for waiter in refused { waiter.continuation.resume(throwing: Self.closed) }
    }

    /// Opens a session beside the pool's own connections, to the same database with the same options.
    ///
    /// - Throws: kind `connection` when none could be made, else what preparing a statement threw.
    package nonisolated func openNonblockingSession(
        preparing statements: [PostgresStatement]
    ) async throws(PostgresError) -> NonblockingSession {
        try await NonblockingSession.open(conninfo, options: options, preparing: statements)
    }

    private static let closed = PostgresError(kind: .unavailable, message: "the connection pool is closed")

    // MARK: - Connections

    private func takeConnection() async throws -> PostgresConnection {
        if let connection = idle.popLast() { return connection }
        if let lastFailure, clock.now < lastFailure.retryAt { throw lastFailure.error }
        do throws(PostgresError) {
            let connection = try await PostgresConnection.connect(conninfo, options: options)
            failures = 0
            lastFailure = nil
            return connection
        } catch {
            failures += 1
            let backoff = Duration.milliseconds(min(1000, 25 << min(failures, 6)))
            lastFailure = (error, clock.now + backoff)
            throw error
        }
    }

    // MARK: - Permits

    private func acquirePermit() async throws {
        if isClosed { throw Self.closed }
        if permits > 0 {
            permits -= 1
            return
        }
        guard waiters.count < limits.waiters else {
            throw PostgresError(
                kind: .unavailable, message: "\(limits.waiters) callers already wait for a database connection")
        }
        nextWaiter += 1
        let id = nextWaiter
        let timer = Task {
            try await clock.sleep(for: limits.wait)
            refuse(
                id,
                PostgresError(
                    kind: .unavailable,
                    message: "none of \(limits.connections) database connections came free within \(limits.wait)"))
        }
        defer { timer.cancel() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if Task.isCancelled {
                    continuation.resume(throwing: CancellationError())
                } else {
                    waiters.append(Waiter(id: id, continuation: continuation))
                }
            }
        } onCancel: {
            Task { await refuse(id, CancellationError()) }
        }
    }

    /// Hands the permit to the first in the queue, if any.
    private func releasePermit() {
        if waiters.isEmpty {
            permits += 1
        } else {
            waiters.removeFirst().continuation.resume()
        }
    }

    private func refuse(_ id: UInt64, _ error: any Error) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(throwing: error)
    }
}
