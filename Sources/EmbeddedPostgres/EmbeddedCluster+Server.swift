internal import Glibc
internal import PostgresClient

/// Up and down, with the start lock held.
extension EmbeddedCluster {
    /// Whether the server lets us in; where none runs, one is started first, and waited for.
    ///
    /// - Parameters:
    ///   - silenceLimit: how long one that others started may say nothing.
    ///   - hopelessSince: since when one that others started has neither let us in nor said that it will.
    func isUp(silenceLimit: Duration, _ hopelessSince: inout ContinuousClock.Instant?) async throws -> Bool {
        let cluster = try cluster ?? openOrMake()
        self.cluster = cluster
        try files.limitLog()
        if let child = try startWhereNoneRuns(cluster) {
            try await waitForStart(of: child, cluster)
            return true
        }
        let asked = ContinuousClock.now
        guard let failure = try await failureToConnect() else { return true }
        if options.isCalledOff() { throw CancellationError() }
        let isSilent = .now - asked >= Self.silence
        // Whoever is starting, recovering or stopping says so at once, and is waited for; any other refusal lasts.
        if !isSilent, try await isRefusedForNow() {
            hopelessSince = nil
            return false
        }
        let since = hopelessSince ?? asked
        hopelessSince = since
        let limit = isSilent ? silenceLimit : max(silenceLimit, Self.refusalLimit)
        guard .now - since >= limit else { return false }
        if isUser, !hasSocket, try postmaster(of: cluster) != nil {
            log("the socket of PostgreSQL in \(layout.cluster) is gone, and nobody can connect; it is started again")
            try await stop(cluster)
            hopelessSince = nil
            return false
        }
        let isFrozen = (try? cluster.isFrozen()) ?? false
        throw isSilent || isFrozen ? doesNotAnswer(cluster, isFrozen) : letsNobodyIn(cluster, failure)
    }

    private func letsNobodyIn(_ cluster: Cluster, _ failure: PostgresError) -> EmbeddedPostgresError {
        let hint = hasSocket ? "" : "; \(Self.elsewhere)"
        return EmbeddedPostgresError(
            .timedOut,
            "PostgreSQL in \(layout.cluster)\(process(of: cluster)) runs and lets nobody in (\(failure.message))\(hint); "
                + "see \(layout.log)")
    }

    /// What may be wrong where a server runs, and its socket is not to be seen.
    private static let elsewhere =
        "this process sees no such socket: a server that was started with a /tmp or /run of its own (PrivateTmp of a "
        + "systemd unit, another container) is reached from there alone"

    private func doesNotAnswer(_ cluster: Cluster, _ isFrozen: Bool) -> EmbeddedPostgresError {
        let state = isFrozen ? "is frozen: it was stopped by a signal, and SIGCONT lets it go on" : "runs"
        return EmbeddedPostgresError(
            .timedOut,
            "PostgreSQL in \(layout.cluster)\(process(of: cluster)) does not answer; it \(state). See \(layout.log)")
    }

    var isNotReady: EmbeddedPostgresError {
        EmbeddedPostgresError(
            .timedOut,
            "PostgreSQL in \(layout.cluster) did not become ready within \(options.startLimit); it may still be "
                + "recovering, see \(layout.log)")
    }

    /// For messages.
    private func process(of cluster: Cluster) -> String {
        (try? postmaster(of: cluster)).flatMap { $0 }.map { " (process \($0))" } ?? ""
    }

    /// The server's first process: our own child, or else the one that it says itself.
    private func postmaster(of cluster: Cluster) throws -> pid_t? {
        if let started {
            if ChildProcess.isRunning(started) { return started }
            self.started = nil
        }
        return try cluster.postmaster()
    }

    private func openOrMake() throws -> Cluster {
        if let cluster = try Cluster(of: layout, server: server) { return cluster }
        let installation = try PostgresInstallation.find(major: nil, searchPath: options.searchPath)
        log("making a PostgreSQL \(installation.major) cluster in \(layout.cluster)")
        try layout.make(with: installation, as: server, durability: options.durability)
        guard let cluster = try Cluster(of: layout, server: server) else {
            throw EmbeddedPostgresError(.directory, "\(layout.cluster) was removed as soon as it was made")
        }
        return cluster
    }

    /// Starts a server where none runs; returns its first process.
    private func startWhereNoneRuns(_ cluster: Cluster) throws -> pid_t? {
        guard let directory = try cluster.lockForServer() else { return nil }
        let installation = try PostgresInstallation.find(major: cluster.major(), searchPath: options.searchPath)
        log("starting PostgreSQL \(installation.major) in \(layout.cluster)")
        // If the one before was our child, this collects it; nobody else can say how it ended.
        if let started, let status = try? ChildProcess.end(of: started), status != 0 {
            let end = status > 128 ? "was ended by the signal \(status - 128)" : "ended with status \(status)"
            log("PostgreSQL's first process, \(started), \(end)")
        }
        let child = try layout.start(
            installation, cluster, locked: directory, log: files.log, durability: options.durability)
        started = child
        return child
    }

    private func waitForStart(of child: pid_t, _ cluster: Cluster) async throws {
        let isReady = try await poll(for: options.startLimit) {
            guard ChildProcess.isRunning(child) else {
                throw EmbeddedPostgresError(
                    .startFailed, "PostgreSQL did not start; \(layout.log) ends: \(files.logTail())")
            }
            guard try await failureToConnect() != nil else { return true }
            guard options.isCalledOff() else { return false }
            // One that we started is not left alone: nobody would stop it.
            if files.usersLock.tryLock(.exclusive) { try await stop(cluster) }
            throw CancellationError()
        }
        guard isReady else { throw isNotReady }
        if options.durability == .throwaway { try layout.removeAfterThisProcess(child) }
    }

    /// Asks for a fast shutdown, then for an immediate one, and ends what does not hear that either: both cost the next start
    /// a recovery, and lose nothing.
    func stop(_ cluster: Cluster) async throws {
        let postmaster = try postmaster(of: cluster)
        func ends(within limit: Duration) async throws -> Bool {
            try await poll(for: limit) { try cluster.lockForServer() != nil }
        }
        if let postmaster {
            for (signal, limit) in [(SIGINT, Self.stopLimit), (SIGQUIT, .seconds(10))] {
                if try cluster.lockForServer() == nil { try ServerProcess.signal(signal, to: postmaster) }
                if try await ends(within: min(limit, Self.frozenLimit)) { return try await clearUp(after: postmaster) }
                // What is frozen hears no signal.
                if try cluster.isFrozen() { break }
                if try await ends(within: limit) { return try await clearUp(after: postmaster) }
            }
            try await end(cluster)
        } else if try await !ends(within: Self.frozenLimit) {
            // What a postmaster that is gone left behind has had the time to end by itself.
            try await end(cluster)
        }
        try await clearUp(after: postmaster)
    }

    /// Ends the server's processes, whatever they do: what was committed is in its log, from which the next start recovers.
    func end(_ cluster: Cluster) async throws {
        let state = try cluster.isFrozen() ? ", it is frozen" : ""
        log(
            "PostgreSQL in \(layout.cluster) does not stop\(state); ending its processes, after which the next start "
                + "recovers what was committed")
        let isEnded = try await poll(for: .seconds(10)) {
            if try cluster.lockForServer() != nil { return true }
            // The postmaster first, which would start others.
            if let postmaster = try postmaster(of: cluster) { try ServerProcess.signal(SIGKILL, to: postmaster) }
            for process in try cluster.processes() { try ServerProcess.signal(SIGKILL, to: process.id) }
            return false
        }
        guard isEnded else {
            let hint = try cluster.processes().isEmpty ? ", and none of its processes is to be seen from here" : ""
            throw EmbeddedPostgresError(
                .timedOut, "PostgreSQL in \(layout.cluster) does not end\(hint); see \(layout.log)")
        }
    }

    private func clearUp(after postmaster: pid_t?) async throws {
        // Who may not write to its parent leaves an empty directory to the next.
        rmdir(layout.socketDirectory)
        // If it was our child, it is collected too, a moment after it let go of its files.
        if let postmaster { _ = try await poll(for: .seconds(1)) { !ChildProcess.isRunning(postmaster) } }
        started = nil
    }

    /// How long one that is told to stop may stay frozen.
    static let frozenLimit = Duration.seconds(3)
    /// How long a connection is waited for, and what of that is silence.
    private static let connectSeconds = 3
    static let silence = Duration.milliseconds(2500)
    /// How long one that runs may refuse connections for another reason, at the least: what is left of a server that was
    /// killed does, until its last process has ended.
    private static let refusalLimit = Duration.seconds(5)

    /// Why the server lets nobody in; `nil` where it does.
    private func failureToConnect() async throws -> PostgresError? {
        do throws(PostgresError) {
            _ = try await connect(to: "postgres")
            return nil
        } catch {
            guard error.kind == .connection else { throw error }
            return error
        }
    }

    /// Whether the server says that it starts, recovers or stops.
    private func isRefusedForNow() async throws -> Bool {
        try await PostgresConnection.isRefusedForNow(
            layout.conninfo(user: Self.owner, database: "postgres"), options: Self.connecting)
    }

    func connect(to database: String) async throws(PostgresError) -> PostgresConnection {
        try await PostgresConnection.connect(
            layout.conninfo(user: Self.owner, database: database), options: Self.connecting)
    }

    private static let connecting = ConnectionOptions(
        connectTimeoutSeconds: connectSeconds, statementTimeoutMilliseconds: 120_000)
}
