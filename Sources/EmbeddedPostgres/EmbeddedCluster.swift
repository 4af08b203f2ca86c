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

    let layout: ClusterLayout
    let server: ServiceAccount
    let files: ClusterFiles
    let options: Options
    let log: @Sendable (String) -> Void
    private let executor = QueueExecutor(label: "embedded postgres")
    /// `nil` before there is one.
    var cluster: Cluster?
    /// The postmaster that this started last, until its end was collected.
    var started: pid_t?
    /// Whether this use counts: from `join` to `release`.
    private(set) var isUser = false
    /// Up to where `newDeaths` has read the server's log.
    private var readLog: Int
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
        readLog = files.log.size
    }

    private func join() async throws {
        var hopelessSince: ContinuousClock.Instant?
        try await retryWithStartLock(canBeCalledOff: true) {
            // Exclusive holders hold the start lock too.
            guard files.usersLock.tryLock(.shared) else {
                throw EmbeddedPostgresError.system("flock", layout.usersLock)
            }
            do {
                if try await isUp(silenceLimit: options.silenceLimit, &hopelessSince) {
                    try await prepareDatabase()
                    isUser = true
                }
            } catch {
                files.usersLock.unlock()
                throw error
            }
            if !isUser { files.usersLock.unlock() }
            return isUser
        }
    }

    /// Starts the server again if it was killed, or if its socket is gone; does nothing while it runs.
    ///
    /// One that runs and does not answer is not waited for: others, who want to know, need the lock.
    package func ensureRunning() async throws {
        var hopelessSince: ContinuousClock.Instant?
        try await retryWithStartLock {
            guard isUser else { return true }
            return try await isUp(silenceLimit: .zero, &hopelessSince)
        }
    }

    /// Lines of the server's log since this was asked last, or since it was joined, about processes of its own that were killed or
    /// failed.
    ///
    /// It starts all of them anew by itself. This keeps its log from growing without end, too.
    package func newDeaths() -> [String] {
        let size = files.log.size
        // It was emptied, which is done where it is long.
        if size < readLog { readLog = 0 }
        guard size > readLog else { return [] }
        let start = max(readLog, size - 65_536)
        readLog = size
        let text = String(decoding: files.log.bytes(at: start, count: size - start), as: UTF8.self)
        if !isStarting, files.startLock.tryLock(.exclusive) {
            try? files.limitLog()
            files.startLock.unlock()
        }
        return ClusterFiles.deaths(in: text)
    }

    /// Where the server's log is.
    package nonisolated var logPath: String { layout.log }

    /// Whether whoever comes now finds the server's socket; connections that were made before last without it.
    package nonisolated var hasSocket: Bool { fileStatus(layout.socket) != nil || errno != ENOENT }

    /// Ends a server that is and stays frozen, unless somebody else uses it: for a service that is to stop, so that whoever
    /// waits for an answer gets none at once.
    package func endIfFrozen() async throws {
        guard isUser, let cluster, try cluster.isFrozen() else { return }
        try await lockStart()
        defer { unlockStart() }
        guard files.usersLock.tryLock(.exclusive) else { return }
        // Those who would join hold the start lock, so nobody took it meanwhile.
        defer { _ = files.usersLock.tryLock(.shared) }
        guard try await !poll(for: Self.frozenLimit, { try !cluster.isFrozen() }) else { return }
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

    // MARK: - The database

    private func prepareDatabase() async throws {
        let connection = try await connect(to: "postgres")
        try await connection.run { connection in
            if try connection.query("SELECT FROM pg_roles WHERE rolname = $1", [.text(Self.server)]).isEmpty {
                try connection.execute(script: "CREATE ROLE \(Self.server) LOGIN")
            }
            // It may not keep what it is refused out of the server's log by itself.
            if try connection.query(
                "SELECT FROM pg_roles WHERE rolname = $1 AND 'log_min_messages=log' = ANY (rolconfig)",
                [.text(Self.server)]
            ).isEmpty {
                try connection.execute(script: "ALTER ROLE \(Self.server) SET log_min_messages = log")
            }
            if try connection.query("SELECT FROM pg_database WHERE datname = $1", [.text(Self.database)]).isEmpty {
                try connection.execute(script: "CREATE DATABASE \(Self.database) OWNER \(Self.owner)")
            }
        }
    }

    // MARK: - Locks

    /// Has `isDone` asked, with the start lock held, until it says yes.
    ///
    /// In between others get the lock: whoever waits for a server that lets nobody in must not keep its user from stopping it.
    private func retryWithStartLock(canBeCalledOff: Bool = false, _ isDone: () async throws -> Bool) async throws {
        // Longer than those pause who want the lock meanwhile.
        let isInTime = try await poll(for: options.startLimit, longestPause: .milliseconds(250)) {
            try await lockStart(canBeCalledOff: canBeCalledOff)
            defer { unlockStart() }
            return try await isDone()
        }
        guard isInTime else { throw isNotReady }
    }

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

    /// Asks again, at growing intervals from 5 ms on, until the answer is yes or time is up.
    func poll(
        for limit: Duration, longestPause: Duration = .milliseconds(100), _ condition: () async throws -> Bool
    ) async throws -> Bool {
        let clock = ContinuousClock()
        let end = clock.now + limit
        var interval = Duration.milliseconds(5)
        while try await !condition() {
            guard clock.now < end else { return false }
            try await clock.sleep(for: interval)
            interval = min(interval * 2, longestPause)
        }
        return true
    }
}
