internal import Glibc
internal import PostgresClient

/// A use of the private PostgreSQL cluster in a data directory, which any number of processes may share.
///
/// The first to acquire it makes and starts it; the last to release it stops it. A user that is killed leaves it
/// running for the next; a server that is killed is started again by the next `acquire` or `ensureRunning`.
package actor EmbeddedCluster {
    package enum Durability: Sendable {
        /// Survives power loss.
        case durable
        /// For tests: starts fast, syncs nothing, and is removed when this process ends.
        case throwaway
    }

    package struct Options: Sendable {
        package var durability: Durability
        /// How long to wait for the server: long enough to replay `max_wal_size` of log after a crash, and to write all that
        /// this changes to a slow disk.
        package var startLimit: Duration
        /// How long a server that runs may leave whoever joins it without any answer; one that recovers says that it does.
        package var silenceLimit: Duration
        /// Directories to look in for `pg_config` and the server's programs, after the usual places; as in `PATH`.
        package var searchPath: String
        /// Whether whoever wants to join does not want to any more; asked as long as nothing has been started for them.
        package var isCalledOff: @Sendable () -> Bool

        package init(
            durability: Durability = .durable, startLimit: Duration = .seconds(600),
            silenceLimit: Duration = .seconds(60), searchPath: String = "/usr/local/bin:/usr/bin:/bin",
            isCalledOff: @escaping @Sendable () -> Bool = { false }
        ) {
            self.durability = durability
            self.startLimit = startLimit
            self.silenceLimit = silenceLimit
            self.searchPath = searchPath
            self.isCalledOff = isCalledOff
        }
    }

    /// How long a clean stop, which writes what changed since the last checkpoint, may take before it becomes an immediate one.
    package static let stopLimit = Duration.seconds(180)

    /// The role that owns the cluster and its database: a superuser.
    package static let owner = "rightful"
    /// A role that may log in and nothing else; migrations grant it what it needs.
    package static let server = "rightful_serve"
    package static let database = "rightful"

    /// For libpq, as the owner.
    package nonisolated let ownerConninfo: String
    /// For libpq, as the unprivileged role.
    package nonisolated let serveConninfo: String
    package nonisolated let dataDirectory: String
    /// The account of the operating system that PostgreSQL runs as.
    package nonisolated var serverAccount: String { server.name }

    private let layout: ClusterLayout
    private let server: ServiceAccount
    private let files: ClusterFiles
    private let options: Options
    private let log: @Sendable (String) -> Void
    private let executor = QueueExecutor(label: "embedded postgres")
    /// `nil` before there is one.
    private var cluster: Cluster?
    /// Whether this use counts: from `join` to `release`.
    private var isUser = false
    /// Whether the start lock is held by this user, whom the lock itself would not keep from taking it again.
    private var isStarting = false
    /// Whether the server stays up after the end of this use, because somebody else uses it.
    package private(set) var isLeftToOthers = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Whether a data directory holds a cluster, as far as can be told; one that may not be looked into is said to.
    package static func isMade(in dataDirectory: String) -> Bool {
        var status = stat()
        return stat("\(dataDirectory)/postgres", &status) == 0 || errno != ENOENT
    }

    /// Joins the cluster of a data directory; makes, starts or recovers it first where needed.
    ///
    /// Returns when it accepts connections and holds the database and both roles. Throws `EmbeddedPostgresError`, or
    /// `PostgresError` when the running server refuses what it is asked, or `CancellationError`, also where it is called off.
    package static func acquire(
        dataDirectory: String, options: Options = Options(), log: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws -> EmbeddedCluster {
        LibpqEnvironment.clear()
        let server = try ServiceAccount.ofServer()
        let layout = try ClusterLayout(dataDirectory: dataDirectory, server: server)
        let cluster = EmbeddedCluster(layout, server, try ClusterFiles(of: layout), options, log)
        try await cluster.join()
        return cluster
    }

    private init(
        _ layout: ClusterLayout, _ server: ServiceAccount, _ files: ClusterFiles, _ options: Options,
        _ log: @escaping @Sendable (String) -> Void
    ) {
        self.layout = layout
        self.server = server
        self.files = files
        self.options = options
        self.log = log
        ownerConninfo = layout.conninfo(user: Self.owner, database: Self.database)
        serveConninfo = layout.conninfo(user: Self.server, database: Self.database)
        dataDirectory = layout.dataDirectory
    }

    private func join() async throws {
        try await lockStart(canBeCalledOff: true)
        defer { unlockStart() }
        // Exclusive holders hold the start lock too.
        guard files.usersLock.tryLock(.shared) else { throw EmbeddedPostgresError.system("flock", layout.usersLock) }
        do {
            try await bringUp(silenceLimit: options.silenceLimit)
            try await prepareDatabase()
            isUser = true
        } catch {
            files.usersLock.unlock()
            throw error
        }
    }

    /// Starts the server again if it was killed; does nothing while it runs.
    ///
    /// One that runs and does not answer is not waited for: others, who want to know, need the lock.
    package func ensureRunning() async throws {
        guard isUser else { return }
        try await lockStart()
        defer { unlockStart() }
        try await bringUp(silenceLimit: .zero)
    }

    /// Ends a server that is and stays frozen, unless somebody else uses it: for a service that is to stop, so that whoever
    /// waits for an answer gets none at once.
    package func endIfFrozen() async throws {
        guard isUser, let cluster, cluster.isFrozen else { return }
        try await lockStart()
        defer { unlockStart() }
        guard files.usersLock.tryLock(.exclusive) else { return }
        // Those who would join hold the start lock, so nobody took it meanwhile.
        defer { _ = files.usersLock.tryLock(.shared) }
        guard try await !poll(for: Self.frozenLimit, { !cluster.isFrozen }) else { return }
        try await end(cluster)
    }

    /// Ends this use, and stops the server if nobody else uses it; releasing again does nothing.
    package func release() async throws {
        guard isUser, let cluster else { return }
        isUser = false
        defer { files.usersLock.unlock() }
        try await lockStart()
        defer { unlockStart() }
        guard files.usersLock.tryLock(.exclusive) else {
            isLeftToOthers = true
            return
        }
        try await stop(cluster)
    }

    /// Copies the cluster, and the files beside it, into a data directory that this makes, while everybody goes on using it.
    ///
    /// The copy holds whatever was committed before it ended. Cancelled, it leaves nothing.
    ///
    /// - Parameter progress: called as it goes on.
    package func backUp(
        to destination: String, _ progress: @Sendable (BackupProgress) -> Void = { _ in }
    ) async throws -> BackupOutcome {
        guard isUser, let cluster else {
            throw EmbeddedPostgresError(.backupFailed, "PostgreSQL in \(layout.cluster) is not used any more")
        }
        let installation = try PostgresInstallation.find(major: cluster.major(), searchPath: options.searchPath)
        return try await ClusterBackup(of: layout, to: destination, as: server)
            .run(installation, of: layout, from: ownerConninfo, progress, on: self)
    }

    // MARK: - Up and down, with the start lock held

    private func bringUp(silenceLimit: Duration) async throws {
        let cluster = try cluster ?? openOrMake()
        self.cluster = cluster
        try files.limitLog()
        var child: pid_t?
        /// Since when one that others started has neither let us in nor said that it will.
        var hopelessSince: ContinuousClock.Instant?
        let isUp = try await poll(for: options.startLimit) {
            if let child {
                guard ChildProcess.isRunning(child) else {
                    throw EmbeddedPostgresError(
                        .startFailed, "PostgreSQL did not start; \(layout.log) ends: \(files.logTail())")
                }
            } else if let directory = try cluster.lockForServer() {
                child = try start(cluster, directory)
            }
            let asked = ContinuousClock.now
            guard let failure = try await failureToConnect() else { return true }
            if options.isCalledOff() {
                // One that we started is not left alone: nobody would stop it.
                if let child, files.usersLock.tryLock(.exclusive) { try await stop(cluster, started: child) }
                throw CancellationError()
            }
            guard child == nil else { return false }
            let isSilent = .now - asked >= Self.silence
            // Whoever is starting, recovering or stopping says so at once, and is waited for; any other refusal lasts.
            if !isSilent, try await isRefusedForNow() {
                hopelessSince = nil
                return false
            }
            let since = hopelessSince ?? asked
            hopelessSince = since
            let limit = isSilent ? silenceLimit : max(silenceLimit, Self.refusalLimit)
            guard .now - since < limit else {
                throw isSilent || cluster.isFrozen ? doesNotAnswer(cluster) : letsNobodyIn(cluster, failure)
            }
            return false
        }
        guard isUp else {
            throw EmbeddedPostgresError(
                .timedOut,
                "PostgreSQL in \(layout.cluster) did not become ready within \(options.startLimit); it may still be "
                    + "recovering, see \(layout.log)")
        }
        if let child, options.durability == .throwaway { try layout.removeAfterThisProcess(child) }
    }

    private func letsNobodyIn(_ cluster: Cluster, _ failure: PostgresError) -> EmbeddedPostgresError {
        let process = cluster.postmaster().map { " (process \($0))" } ?? ""
        let socket = "\(layout.socketDirectory)/\(ClusterLayout.socketName)"
        let hint = fileStatus(socket) == nil && errno == ENOENT ? "; \(Self.elsewhere)" : ""
        return EmbeddedPostgresError(
            .timedOut,
            "PostgreSQL in \(layout.cluster)\(process) runs and lets nobody in (\(failure.message))\(hint); see "
                + layout.log)
    }

    /// What may be wrong where a server runs, and its socket is not to be seen.
    private static let elsewhere =
        "this process sees no such socket: a server that was started with a /tmp or /run of its own (PrivateTmp of a "
        + "systemd unit, another container) is reached from there alone"

    private func doesNotAnswer(_ cluster: Cluster) -> EmbeddedPostgresError {
        let process = cluster.postmaster().map { " (process \($0))" } ?? ""
        let state = cluster.isFrozen ? "is frozen: it was stopped by a signal, and SIGCONT lets it go on" : "runs"
        return EmbeddedPostgresError(
            .timedOut, "PostgreSQL in \(layout.cluster)\(process) does not answer; it \(state). See \(layout.log)")
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

    private func start(_ cluster: Cluster, _ directory: Descriptor) throws -> pid_t {
        let installation = try PostgresInstallation.find(major: cluster.major(), searchPath: options.searchPath)
        log("starting PostgreSQL \(installation.major) in \(layout.cluster)")
        // If the one before was our child, this collects it.
        if let former = cluster.postmaster() { _ = ChildProcess.isRunning(former) }
        return try layout.start(
            installation, cluster, locked: directory, log: files.log, durability: options.durability)
    }

    /// Asks for a fast shutdown, then for an immediate one, and ends what does not hear that either: both cost the next start
    /// a recovery, and lose nothing.
    ///
    /// - Parameter child: one that was started a moment ago, and may not have written its process id yet.
    private func stop(_ cluster: Cluster, started child: pid_t? = nil) async throws {
        let postmaster = cluster.postmaster() ?? child
        func ends(within limit: Duration) async throws -> Bool {
            try await poll(for: limit) { try cluster.lockForServer() != nil }
        }
        for (signal, limit) in [(SIGINT, Self.stopLimit), (SIGQUIT, .seconds(10))] {
            if let postmaster, try cluster.lockForServer() == nil { kill(postmaster, signal) }
            if try await ends(within: min(limit, Self.frozenLimit)) { return try await clearUp(after: postmaster) }
            // What is frozen hears no signal.
            if cluster.isFrozen { break }
            if try await ends(within: limit) { return try await clearUp(after: postmaster) }
        }
        try await end(cluster)
        try await clearUp(after: postmaster)
    }

    /// Ends the server's processes, whatever they do: what was committed is in its log, from which the next start recovers.
    private func end(_ cluster: Cluster) async throws {
        log(
            "PostgreSQL in \(layout.cluster) does not stop\(cluster.isFrozen ? ", it is frozen" : ""); ending its processes, "
                + "after which the next start recovers what was committed")
        let isEnded = try await poll(for: .seconds(10)) {
            if try cluster.lockForServer() != nil { return true }
            cluster.killProcesses()
            return false
        }
        guard isEnded else {
            throw EmbeddedPostgresError(.timedOut, "PostgreSQL in \(layout.cluster) does not end; see \(layout.log)")
        }
    }

    private func clearUp(after postmaster: pid_t?) async throws {
        // Who may not write to its parent leaves an empty directory to the next.
        rmdir(layout.socketDirectory)
        // If it was our child, it is collected too, a moment after it let go of its files.
        if let postmaster { _ = try await poll(for: .seconds(1)) { !ChildProcess.isRunning(postmaster) } }
    }

    /// How long one that is told to stop may stay frozen.
    private static let frozenLimit = Duration.seconds(3)
    /// How long a connection is waited for, and what of that is silence.
    private static let connectSeconds = 3
    private static let silence = Duration.milliseconds(2500)
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

    private func prepareDatabase() async throws {
        let connection = try await connect(to: "postgres")
        try await connection.run { connection in
            if try connection.query("SELECT FROM pg_roles WHERE rolname = $1", [.text(Self.server)]).isEmpty {
                try connection.execute(script: "CREATE ROLE \(Self.server) LOGIN")
            }
            if try connection.query("SELECT FROM pg_database WHERE datname = $1", [.text(Self.database)]).isEmpty {
                try connection.execute(script: "CREATE DATABASE \(Self.database) OWNER \(Self.owner)")
            }
        }
    }

    private func connect(to database: String) async throws(PostgresError) -> PostgresConnection {
        try await PostgresConnection.connect(
            layout.conninfo(user: Self.owner, database: database), options: Self.connecting)
    }

    private static let connecting = ConnectionOptions(
        connectTimeoutSeconds: connectSeconds, statementTimeoutMilliseconds: 120_000)

    private func lockStart(canBeCalledOff: Bool = false) async throws {
        let asked = ContinuousClock.now
        var isSaid = false
        let isLocked = try await poll(for: options.startLimit) {
            if canBeCalledOff, options.isCalledOff() { throw CancellationError() }
            if !isStarting, files.startLock.tryLock(.exclusive) {
                isStarting = true
                return true
            }
            if !isSaid, .now - asked >= Self.silence {
                isSaid = true
                log("waiting for another process, which starts or stops PostgreSQL in \(layout.cluster)")
            }
            return false
        }
        guard isLocked else {
            throw EmbeddedPostgresError(
                .timedOut,
                "another process has been starting or stopping PostgreSQL for \(options.startLimit); see "
                    + layout.log)
        }
    }

    private func unlockStart() {
        isStarting = false
        files.startLock.unlock()
    }

    /// Asks again, at growing intervals of 5 to 100 ms, until the answer is yes or time is up.
    private func poll(for limit: Duration, _ condition: () async throws -> Bool) async throws -> Bool {
        let clock = ContinuousClock()
        let end = clock.now + limit
        var interval = Duration.milliseconds(5)
        while try await !condition() {
            guard clock.now < end else { return false }
            try await clock.sleep(for: interval)
            interval = min(interval * 2, .milliseconds(100))
        }
        return true
    }
}
