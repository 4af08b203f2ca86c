/// A bounded number of connections, lent in the order of asking.
///
/// Connections are made when first needed. One found dead before use is replaced unnoticed; after a failed attempt to
/// connect, no other is made until a short backoff (50 ms, doubling to 1 s) has passed. A server may have no room for
/// another connection and go on serving those it has: so while some are in use, callers wait for one of these. And as its
/// room is shared with other programs, what has lain idle for a while is closed.
package actor PostgresPool {
    package struct Limits: Sendable {
        /// Most connections open at a time.
        package var connections: Int
        /// Most callers waiting for one; the next is refused.
        package var waiters: Int
        /// How long a caller waits for one.
        package var wait: Duration
        /// How long one may lie idle before it is closed.
        package var idle: Duration
        /// How many are not closed, however long they lie idle.
        package var kept: Int

        package init(
            connections: Int = 8, waiters: Int = 1024, wait: Duration = .seconds(5), idle: Duration = .seconds(30),
            kept: Int = 1
        ) {
            self.connections = max(1, connections)
            self.waiters = waiters
            self.wait = wait
            self.idle = idle
            self.kept = kept
        }
    }

    private enum Want {
        /// To take a connection or make one.
        case permit
        /// A connection that somebody else gives back; the waiter has its permit.
        case connection
    }

    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Idle {
        let connection: PostgresConnection
        let since: ContinuousClock.Instant
    }

    /// For how long a pool that gave up a connection makes no other beside those in use, so as not to take the place again.
    private static let restraint = Duration.seconds(1)

    private let conninfo: String
    private let options: ConnectionOptions
    private let limits: Limits
    private let lender: PostgresPool?
    private let clock = ContinuousClock()

    /// Lent or being made; whoever holds a permit may take an idle connection or make one.
    private var permits: Int
    /// The last is lent first, so that those at the front lie idle for as long as fewer are enough.
    private var idle: [Idle] = []
    /// Connections in use.
    private var lent = 0
    private var beingMade = 0
    /// The next connection that is given back is closed, because another pool needs its place.
    private var owesOne = false
    private var restrainedUntil: ContinuousClock.Instant?
    /// Waits until the first idle connection has lain there for too long.
    private var closing: Task<Void, Never>?
    /// In the order of asking.
    private var waiters: [Want: [Waiter]] = [:]
    private var nextWaiter: UInt64 = 0
    private var isClosed = false
    /// How often all sessions were to be made anew.
    private var generation = 0
    private var failures = 0
    private var lastFailure: (error: PostgresError, retryAt: ContinuousClock.Instant)?
    /// Since when there has been no connection and none could be made, and why; `nil` where nobody has tried.
    package private(set) var lack: (since: ContinuousClock.Instant, error: PostgresError)?

    /// - Parameter lender: a pool of the same program on the same server that closes a connection where the server has no
    ///   room for the first of this one.
    package init(
        _ conninfo: String, options: ConnectionOptions = ConnectionOptions(), limits: Limits = Limits(),
        lender: PostgresPool? = nil
    ) {
        self.conninfo = conninfo
        self.options = options
        self.limits = limits
        self.lender = lender
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
        let deadline = clock.now + limits.wait
        while true {
            let connection: PostgresConnection
            let begun = generation
            do throws(PostgresError) {
                connection = try await takeConnection()
            } catch {
                // One may have been given back while this caller tried to make one.
                if !idle.isEmpty { continue }
                guard lent + beingMade > 0, clock.now < deadline else {
                    wakeNext(.connection)
                    throw error
                }
                try await wait(for: .connection, until: deadline, else: error)
                continue
            }
            lent += 1
            let use = await connection.use(body)
            lent -= 1
            switch use {
            case .stale: wakeNext(.connection)
            case .finished(let result, let reusable):
                if reusable, !isClosed, begun == generation { giveBack(connection) }
                wakeNext(.connection)
                return try result.get()
            }
        }
    }

    private func giveBack(_ connection: PostgresConnection) {
        if owesOne, idle.count + lent > 0 {
            restrainedUntil = clock.now + Self.restraint
        } else {
            idle.append(Idle(connection: connection, since: clock.now))
            closeWhatLiesIdle()
        }
        owesOne = false
    }

    /// Closes a connection, at once or when one is given back, so that the server has room for another pool's.
    ///
    /// - Returns: whether it does; one stays.
    private func giveUpConnection() -> Bool {
        guard idle.count + lent > 1 else { return false }
        restrainedUntil = clock.now + Self.restraint
        if idle.isEmpty { owesOne = true } else { idle.removeFirst() }
        return true
    }

    /// Closes what has lain idle for too long, and sees to it that this is looked at again.
    private func closeWhatLiesIdle() {
        guard closing == nil else { return }
        let limit = clock.now - limits.idle
        while idle.count + lent > limits.kept, let first = idle.first, first.since <= limit { idle.removeFirst() }
        guard idle.count + lent > limits.kept, let first = idle.first else { return }
        // The connection itself must not be kept by what waits.
        let end = first.since + limits.idle
        closing = Task { [weak self, clock] in
            try? await clock.sleep(until: end)
            await self?.lookAgain()
        }
    }

    private func lookAgain() {
        closing = nil
        if !isClosed { closeWhatLiesIdle() }
    }

    /// Has a connection open for whoever needs one next: where the last one was lost, another is made.
    package func keepReady() async throws {
        guard lent + beingMade == 0 else { return }
        try await withConnection { _ in }
    }

    /// Why no connection can be made beside those of the pool, one of which answers; `nil` where one can.
    ///
    /// - Throws: what `withConnection` does, where none answers either.
    package func refusalOfAnother() async throws -> PostgresError? {
        do throws(PostgresError) {
            _ = try await PostgresConnection.connect(conninfo, options: options)
            return nil
        } catch {
            try await withConnection { try $0.execute(script: "SELECT 1") }
            return error
        }
    }

    /// Has whoever comes next use sessions that begin from now on, as a session keeps what it began with, such as
    /// `default_transaction_read_only`: what lies idle is closed, and what is in use when it is given back.
    package func renew() {
        generation += 1
        idle.removeAll()
    }

    /// Refuses all who wait or come later, and closes idle connections; those in use close when they are given back.
    package func close() {
        isClosed = true
        closing?.cancel()
        idle.removeAll()
        let refused = waiters.values.joined()
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

    private func takeConnection() async throws(PostgresError) -> PostgresConnection {
        if let last = idle.popLast() { return last.connection }
        if lent > 0, let restrainedUntil, clock.now < restrainedUntil { throw Self.restrained }
        if let lastFailure, clock.now < lastFailure.retryAt { throw lastFailure.error }
        beingMade += 1
        do throws(PostgresError) {
            let connection = try await connect()
            beingMade -= 1
            failures = 0
            (lastFailure, lack) = (nil, nil)
            return connection
        } catch {
            beingMade -= 1
            failures += 1
            let backoff = Duration.milliseconds(min(1000, 25 << min(failures, 6)))
            lastFailure = (error, clock.now + backoff)
            if lent == 0, idle.isEmpty { lack = (lack?.since ?? clock.now, error) }
            throw error
        }
    }

    private static let restrained = PostgresError(
        kind: .unavailable, message: "a connection was given up for another purpose, and the others stay in use")

    private func connect() async throws(PostgresError) -> PostgresConnection {
        do throws(PostgresError) {
            return try await PostgresConnection.connect(conninfo, options: options)
        } catch {
            // libpq does not say why: that there are too many connections, or anything else.
            guard lent == 0, let lender, await lender.giveUpConnection() else { throw error }
            return try await takePlace()
        }
    }

    /// Connects once another connection has been closed.
    ///
    /// The server ends a session a moment after it was closed, or given back to be closed; and others want the place as well.
    private func takePlace() async throws(PostgresError) -> PostgresConnection {
        let end = clock.now + .milliseconds(600)
        var pause = Duration.milliseconds(5)
        while true {
            try? await clock.sleep(for: pause)
            do throws(PostgresError) {
                return try await PostgresConnection.connect(conninfo, options: options)
            } catch {
                guard clock.now < end, !Task.isCancelled else { throw error }
            }
            pause = min(pause * 2, .milliseconds(100))
        }
    }

    // MARK: - Permits

    private func acquirePermit() async throws {
        if isClosed { throw Self.closed }
        if permits > 0 {
            permits -= 1
            return
        }
        guard waiters[.permit, default: []].count < limits.waiters else {
            throw PostgresError(
                kind: .unavailable, message: "\(limits.waiters) callers already wait for a database connection")
        }
        try await wait(
            for: .permit, until: clock.now + limits.wait,
            else: PostgresError(
                kind: .unavailable,
                message: "none of \(limits.connections) database connections came free within \(limits.wait)"))
    }

    /// Waits until `wakeNext` says that what is wanted is there; throws `refusal` once it is too late.
    private func wait(
        for want: Want, until deadline: ContinuousClock.Instant, else refusal: PostgresError
    ) async throws {
        nextWaiter += 1
        let id = nextWaiter
        let timer = Task {
            try await clock.sleep(until: deadline)
            refuse(id, waitingFor: want, refusal)
        }
        defer { timer.cancel() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if Task.isCancelled {
                    continuation.resume(throwing: CancellationError())
                } else {
                    waiters[want, default: []].append(Waiter(id: id, continuation: continuation))
                }
            }
        } onCancel: {
            Task { await refuse(id, waitingFor: want, CancellationError()) }
        }
    }

    /// Hands the permit to the first in the queue, if any.
    private func releasePermit() {
        if !wakeNext(.permit) { permits += 1 }
    }

    /// Wakes the first who waits for this; returns whether anybody did.
    @discardableResult
    private func wakeNext(_ want: Want) -> Bool {
        guard waiters[want]?.isEmpty == false else { return false }
        waiters[want]?.removeFirst().continuation.resume()
        return true
    }

    private func refuse(_ id: UInt64, waitingFor want: Want, _ error: any Error) {
        guard let index = waiters[want]?.firstIndex(where: { $0.id == id }) else { return }
        waiters[want]?.remove(at: index).continuation.resume(throwing: error)
    }
}
