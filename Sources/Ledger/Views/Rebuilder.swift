package import PostgresClient

/// Fills a new generation of views beside the live one, proves that what is stored is what was folded, and makes it live.
///
/// Serving and appending go on: every step is a page of its own in a short transaction, and only the last one takes the
/// head's lock, for a moment. Whenever it is killed, the next one goes on where it stopped.
package struct Rebuilder: Sendable {
    /// What bounds a rebuild.
    package struct Limits: Sendable {
        /// Events read at a time, and so held in memory, by each connection that folds.
        package var pageEvents = 10_000
        /// Events counted at a time by the log's index.
        package var walkEvents: Int64 = 100_000
        /// Steps that are read and folded while the one before them is written; each takes a connection.
        package var stepsAhead = 2
        /// Which original transactions get a snapshot.
        package var policy = SnapshotPolicy()
        /// View rows read back or deleted at a time.
        package var pageRows: Int64 = 2000
        /// How long it may be silent before another may take over.
        package var lease = Rebuilder.Limits.leaseOfOthers
        /// How much of its time it works; the rest is left to those who serve.
        package var share = 1.0
        /// The same for the look whether there is a reason to rebuild: nobody waits for it, and mostly it finds none.
        package var surveyShare = 1.0
        /// Tries of one page while the database is away.
        package var attempts = 5

        package init() {}

        /// What rebuilds in other processes are thought to keep to.
        static let leaseOfOthers = Duration.seconds(10)
    }

    let pool: PostgresPool
    let limits: Limits
    let lease: RebuildLease
    let clock = ContinuousClock()

    package init(pool: PostgresPool, limits: Limits = Limits()) {
        self.pool = pool
        self.limits = limits
        lease = RebuildLease(holder: String(UInt64.random(in: 0...UInt64.max), radix: 36), duration: limits.lease)
    }

    /// Rebuilds the views, from the beginning or from where an unfinished rebuild stopped.
    ///
    /// Throws `RebuildUnderWay` while another one works, `LedgerError` when the database is away for long or a row of
    /// the log or of the new table is not what it must be, and `CancellationError`; what was done by then is kept.
    package func run(
        progress: @escaping @Sendable (RebuildProgress) -> Void = { _ in }
    ) async throws -> RebuildReport {
        let start = clock.now
        guard let (begun, isResumed) = try await begin(only: nil) else {
            throw LedgerError(.unavailable, "the rebuild could not begin; try again")
        }
        return try await releasing {
            var state = begun
            if state.phase == .emptying {
                try await empty(&state, progress)
                state.enter(.folding)
            }
            if state.phase == .folding {
                try await fold(&state, progress)
                state.phase = .proving
            }
            let folded = state
            try await prove(&state, progress)
            let position = try await swap(&state)
            try await clear(&state, progress)
            return RebuildReport(
                isResumed: isResumed, events: folded.events, originals: folded.originals, position: position,
                duration: start.duration(to: clock.now))
        }
    }

    /// Deletes the old views that a rebuild which was killed after its swap has left behind.
    package func clearLeftovers() async throws {
        guard let (begun, _) = try await begin(only: .clearing) else { return }
        try await releasing {
            var state = begun
            try await clear(&state) { _ in }
        }
    }

    // MARK: - The lease

    /// Takes the lease, or waits to see whether its holder is alive; `nil` when there is nothing to take up.
    private func begin(only phase: RebuildPhase?) async throws -> (RebuildState, isResumed: Bool)? {
        var first: RebuildState?
        while true {
            let attempt = try await retrying { try lease.take(only: phase, on: $0) }
            switch attempt {
            case .taken(let state, let isResumed): return (state, isResumed)
            case .nothing: return nil
            case .held(let state):
                // A sign of life later than the first look; a dead holder's lease runs out instead.
                if let first, first.heartbeat != state.heartbeat { throw RebuildUnderWay(state: state) }
                first = first ?? state
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }

    private func releasing<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        do {
            let value = try await body()
            await release()
            return value
        } catch {
            await release()
            throw error
        }
    }

    /// So that the next one need not wait; in a task of its own, because a cancelled one gets no connection.
    private func release() async {
        let pool = pool
        let lease = lease
        _ = await Task { try? await pool.withConnection { try lease.release(on: $0) } }.value
    }

    // MARK: - Pages

    /// Runs one page in a transaction that holds the lease, saves what the page made of `state`, and then rests for
    /// the share of time that is not the rebuild's.
    ///
    /// - Parameter begun: when the work for this page began, where that was before the call.
    @discardableResult
    func page<Value: Sendable>(
        _ state: inout RebuildState, since begun: ContinuousClock.Instant? = nil,
        _ body: @escaping @Sendable (isolated PostgresConnection, inout RebuildState) throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let start = begun ?? clock.now
        let lease = lease
        let (value, after) = try await retrying { [state] connection in
            try connection.transaction { connection in
                try lease.hold(on: connection)
                var state = state
                let value = try body(connection, &state)
                try state.save(on: connection)
                return (value, state)
            }
        }
        state = after
        if limits.share < 1 {
            // Not for so long that the lease runs out.
            try await Task.sleep(for: min(.seconds(1), rest(from: start, share: limits.share)))
        }
        return value
    }

    /// How long to rest after what was done since `start`, to work for that share of the time.
    func rest(from start: ContinuousClock.Instant, share: Double) -> Duration {
        start.duration(to: clock.now) * (1 / max(share, 0.01) - 1)
    }

    /// Tries again what failed for a reason that passes; a page whose commit was not answered does no harm twice.
    func retrying<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await pool.withConnection(body)
            } catch let error as PostgresError where error.isPassing && attempt < limits.attempts {
                try await Task.sleep(for: .milliseconds(100 << attempt))
                attempt += 1
            } catch let error as CancellationError {
                throw error
            } catch let error as StrayRows {
                throw error
            } catch {
                throw LedgerError(error, doing: "rebuilding the views")
            }
        }
    }
}
