import EmbeddedPostgres
import Foundation
import Ledger
import PostgresClient
import Service

/// A database whose schema fits, open as the role that serves.
struct DatabaseSession: Sendable {
    let pool: PostgresPool
    /// How `pool` connects.
    let conninfo: String
    private let options: ConnectionOptions
    /// The embedded PostgreSQL, where that is the database.
    let cluster: EmbeddedCluster?
    /// The clock that all instances share.
    let clock: LedgerClock
    /// What this process calls itself where one process at a time does something: no other has that name.
    let holder = "\(ProcessInfo.processInfo.hostName)/\(UUID())"

    /// Opens the configured database.
    ///
    /// An embedded one is started where nobody has. A schema that is not current is refused, unless
    /// `refusesSchema` is false, or the database is empty and it `makes` one there.
    static func open(
        _ configuration: Configuration, _ context: CommandContext, connections: Int = 2, refusesSchema: Bool = true,
        makes: Bool, log: @escaping @Sendable (String) -> Void
    ) async throws -> DatabaseSession {
        try await open(
            configuration, context, connections: connections, refusesSchema: refusesSchema, makes: makes,
            as: ConnectionOptions().applicationName, silenceLimit: silenceLimit, log: log, ready: { _ in }
        ).session
    }

    /// Opens the configured database, and prepares something on the way.
    ///
    /// - Parameters:
    ///   - migrates: whether an embedded database is brought to this program's schema. A command that looks at one that an
    ///     older program serves leaves it as it is.
    ///   - makes: whether it is where there is nothing in it yet.
    ///   - applicationName: what the database is told of who connects.
    ///   - silenceLimit: how long an embedded PostgreSQL that runs may say nothing.
    ///   - ready: called once nothing more has to be done with the rights of whoever started the program: with an
    ///     embedded PostgreSQL that runs, but before anything connects to another one, so that it is asked by the same
    ///     user from the first time on.
    static func open<Prepared>(
        _ configuration: Configuration, _ context: CommandContext, connections: Int, refusesSchema: Bool = true,
        migrates: Bool = false, makes: Bool = false, as applicationName: String, silenceLimit: Duration = .seconds(60),
        log: @escaping @Sendable (String) -> Void,
        ready: (EmbeddedCluster?) async throws -> Prepared
    ) async throws -> (session: DatabaseSession, prepared: Prepared) {
        let limits = PostgresPool.Limits(connections: connections)
        let options = ConnectionOptions(applicationName: applicationName, lastWait: LastWait())
        switch configuration.database {
        case .embedded:
            let cluster = try await acquire(configuration, context, silenceLimit: silenceLimit, log: log)
            do {
                try Task.checkCancellation()
                if try await needsMigration(
                    cluster, refusesSchema: refusesSchema, migrates: migrates, makes: makes)
                {
                    for name in try await migrateEmbedded(cluster) { log("applied schema migration \(name)") }
                }
                let prepared = try await ready(cluster)
                return (
                    DatabaseSession(cluster.serveConninfo, options, limits, cluster: cluster, context), prepared
                )
            } catch {
                try? await uninterrupted { try await cluster.release() }
                throw error
            }
        case .external(let url, _):
            let prepared = try await ready(nil)
            let session = DatabaseSession(url.reveal(), options, limits, cluster: nil, context)
            if refusesSchema, let refusal = try await session.schemaRefusal() {
                throw CommandFailure(description: refusal)
            }
            return (session, prepared)
        }
    }

    /// Opens the database for as long as `body` needs it.
    ///
    /// - Parameter needsLedger: whether a data directory without a ledger is refused, rather than that an empty one is made
    ///   there: a directory that was moved, or not mounted, must not look like a ledger that verifies.
    static func with<Value: Sendable>(
        _ arguments: ParsedArguments, _ context: CommandContext, connections: Int = 2, refusesSchema: Bool = true,
        needsLedger: Bool = true, _ body: @Sendable (DatabaseSession) async throws -> Value
    ) async throws -> Value {
        let configuration = try context.configuration(arguments)
        if needsLedger, case .embedded = configuration.database,
            !EmbeddedCluster.isMade(in: configuration.dataDirectory)
        {
            throw CommandFailure(
                description:
                    "there is no ledger in \(configuration.dataDirectory) (data_dir); `rightful serve` makes one")
        }
        let session = try await open(
            configuration, context, connections: connections, refusesSchema: refusesSchema, makes: !needsLedger
        ) { context.progress($0) }
        do {
            try await session.clock.compare(through: session.pool)
            let skew = session.clock.skewMilliseconds
            if skew != 0 {
                context.progress(
                    "this machine's clock is \(Double(abs(skew)) / 1000) s \(skew > 0 ? "ahead of" : "behind") the database's, "
                        + "whose time is taken")
            }
            let value = try await body(session)
            do {
                try await session.close()
            } catch {
                // What was asked for is done: its answer is not withheld because PostgreSQL was not put away.
                context.complain("\(error)")
            }
            return value
        } catch {
            try? await session.close()
            throw error
        }
    }

    private init(
        _ conninfo: String, _ options: ConnectionOptions, _ limits: PostgresPool.Limits, cluster: EmbeddedCluster?,
        _ context: CommandContext
    ) {
        self.conninfo = conninfo
        self.options = options
        self.cluster = cluster
        clock = LedgerClock(context.now)
        pool = PostgresPool(conninfo, options: options, limits: limits)
    }

    /// Further connections of the same role, apart from those of `pool`; whoever asks for them closes them.
    ///
    /// - Parameter kept: how many are not closed, however long they lie idle.
    func pool(connections: Int, kept: Int = 1) -> PostgresPool {
        let limits = PostgresPool.Limits(connections: connections, kept: kept)
        return PostgresPool(conninfo, options: options, limits: limits, lender: pool)
    }

    /// Says that the program stops: from now on a database that says nothing is waited for once, and not by everybody who wants
    /// something of it, one after the other.
    func beginEnding() {
        if let limit = options.silence { options.lastWait?.begin(limit) }
    }

    /// Why this program cannot use the database's schema, for people; `nil` when it can.
    func schemaRefusal() async throws -> String? {
        do {
            return try await schemaStanding().refusal
        } catch let error as LedgerError where error.code == .schema {
            return error.description
        }
    }

    /// Why the server takes no writes; `nil` where it does.
    func readingOnly() async throws -> ReadingOnly? {
        let known = try await pool.withConnection { try Self.writing($0) }
        guard !known.isStandby else { return .standby }
        guard known.isReadOnly else { return nil }
        // A session keeps what it began with, so one that begins now says whether that was taken back. Only then do others make
        // room: while the database only reads, they are what it is read by.
        let fresh = try await PostgresConnection.connect(conninfo, options: options)
        guard try await fresh.run({ try !Self.writing($0).isReadOnly }) else { return .setting }
        await pool.renew()
        return nil
    }

    /// Whether the server is a standby, and whether a session began as `read only`.
    private static func writing(
        _ connection: isolated PostgresConnection
    ) throws -> (isStandby: Bool, isReadOnly: Bool) {
        let row = try connection.query(
            "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean"
        ).row(0)
        return (try row.bool(0), try row.bool(1))
    }

    /// Why no service is ready with this database; `nil` when it may be.
    ///
    /// A standby is behind the server that writes, by as much as it likes: what another service acknowledged would be missing
    /// from answers. Where that server itself was told to only read, everything is there, and with every instance at once.
    func readinessRefusal() async throws -> String? {
        if let refusal = try await schemaRefusal() { return refusal }
        if let reading = try await readingOnly(), reading == .standby { return reading.notice }
        let missing = try await ServingPrivileges.ofRequests.missing(pool)
        if !missing.isEmpty { return ServingPrivileges.refusal(lacking: missing) }
        return try await RestoredTables.refusal(pool)
    }

    func schemaStanding() async throws -> Migrator.Standing { try await Migrator().standing(through: pool) }

    /// Lets go of the database; the embedded one stops unless somebody else uses it.
    func close() async throws {
        await pool.close()
        guard let cluster else { return }
        try await uninterrupted { try await cluster.release() }
    }

    /// Joins the embedded PostgreSQL.
    ///
    /// Not interrupted half-way: a server that was just started would be left running with nobody to stop it. Where another
    /// process is waited for, or a server that others started, a cancellation is heard.
    static func acquire(
        _ configuration: Configuration, _ context: CommandContext, silenceLimit: Duration = silenceLimit,
        log: @escaping @Sendable (String) -> Void
    ) async throws -> EmbeddedCluster {
        var options = EmbeddedCluster.Options(silenceLimit: silenceLimit)
        if let path = context.environment["PATH"] { options.searchPath += ":" + path }
        let cancellation = HeardCancellation()
        options.isCalledOff = { cancellation.isHeard }
        let chosen = options
        return try await withTaskCancellationHandler {
            try await uninterrupted {
                try await EmbeddedCluster.acquire(
                    dataDirectory: configuration.dataDirectory, options: chosen, log: log)
            }
        } onCancel: {
            cancellation.hear()
        }
    }

    /// How long a command waits for a PostgreSQL that runs and says nothing: somebody sits before it.
    static let silenceLimit = Duration.seconds(5)

    /// Whether an embedded database is to be migrated.
    ///
    /// - Throws: `CommandFailure` where its schema is not this program's and it is to be left as it is; of what nothing can be
    ///   read, even where other schemas are not refused.
    private static func needsMigration(
        _ cluster: EmbeddedCluster, refusesSchema: Bool, migrates: Bool, makes: Bool
    ) async throws -> Bool {
        if migrates { return true }
        // As its owner sees it, who may read what no program of today wrote.
        let connection = try await PostgresConnection.connect(cluster.ownerConninfo, options: ConnectionOptions())
        let standing = try await connection.run { try Migrator().standing(on: $0) }
        // One that was made a moment ago, or that its maker left, holds nothing yet.
        if makes, standing == .empty { return true }
        if let refusal = standing.refusal, refusesSchema || standing == .unreleased {
            throw CommandFailure(description: refusal)
        }
        return false
    }

    /// Brings the embedded database to this program's schema; returns what was applied.
    ///
    /// - Parameter leavesCurrent: whether nothing is done to one that is there already.
    static func migrateEmbedded(_ cluster: EmbeddedCluster, leavesCurrent: Bool = true) async throws -> [String] {
        let connection = try await PostgresConnection.connect(cluster.ownerConninfo, options: .migrating)
        return try await connection.run { connection in
            // What is current is left alone, so that short commands take no locks.
            if leavesCurrent, try Migrator().standing(on: connection) == .current { return [] }
            return try Migrator().migrate(servingRole: EmbeddedCluster.server, on: connection)
        }
    }
}

extension ConnectionOptions {
    /// For migrations, which may take as long as they need and wait for one another.
    static let migrating = ConnectionOptions(
        applicationName: "rightful migrate", statementTimeoutMilliseconds: 0, lockTimeoutMilliseconds: 60_000)
}
