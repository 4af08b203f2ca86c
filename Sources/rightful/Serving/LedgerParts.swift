import EmbeddedPostgres
import EntitlementCore
import Ledger
import OpenSSLCrypto
import PostgresClient
import Service

/// What a service needs of the ledger: where it reads and writes, who may, and what counts it.
struct LedgerParts: Sendable {
    let session: DatabaseSession
    /// Whether it is known that nobody has served this ledger before.
    let isNew: Bool
    let tree: LogTree
    /// The ledger's own id.
    let ownID: String?
    /// What signs checkpoints; `nil` where there is none.
    let logKey: LogKey?
    let metrics = Metrics(version: Version.number, foldVersion: OriginalState.foldVersion)
    let writer: LedgerWriter
    let reader: LedgerReader
    let keys: APIKeyStore
    let tokens: CustomerTokens
    let commandKeys: CommandKeys
    let passKeys: PassKeyRegister
    private let witness = LogWitness()
    /// Rings after each batch that was appended.
    let appended = Doorbell()
    let logger: Logger
    /// Connections of its own, so that readers cannot keep appends waiting; one is for ending sessions that stall.
    private let writing: PostgresPool
    /// Connections of their own for what commands note beside the log, so that those cannot keep readers waiting: each of
    /// them waits for as long as commits do, which may be for a standby that is gone.
    private let noting: PostgresPool
    private let appending: AppendingConnection
    /// What starts an embedded PostgreSQL again.
    private let keeper: EmbeddedKeeper?

    var clock: LedgerClock { session.clock }

    init(
        _ configuration: Configuration, logKey: Ed25519PrivateKey?, _ session: DatabaseSession,
        appending: AppendingConnection, _ logger: Logger
    ) async throws {
        (self.session, self.appending, self.logger) = (session, appending, logger)
        let clock = session.clock
        let writing = appending.pool
        self.writing = writing
        noting = session.pool(connections: 4, kept: 0)
        keeper = session.cluster.map { EmbeddedKeeper($0, logger) }
        try await clock.compare(through: session.pool)
        let tokenKeys = configuration.tokenKeys(pool: session.pool)
        // Whoever serves makes these keys before it signs anything, so nobody did who has none in the database.
        isNew = configuration.tokenKeyPath == nil ? try await tokenKeys.read().isEmpty : false
        tokens = Self.tokens(tokenKeys, logger)
        try await tokens.prepare(now: clock.now())
        tree = LogTree(pool: session.pool)
        let ownID = try await tree.end().ownID
        self.ownID = ownID
        self.logKey = logKey.map { LogKey(name: LogKeyFile.name(configuration, ownID: ownID), privateKey: $0) }
        writer = LedgerWriter(pool: writing, clock: clock) { [metrics, witness, appended] batch in
            metrics.record(batch)
            witness.note(batch)
            appended.ring()
        }
        reader = LedgerReader(pool: session.pool, clock: clock)
        keys = APIKeyStore(pool: session.pool, writer: writer)
        commandKeys = CommandKeys(pool: noting)
        passKeys = PassKeyRegister(pool: session.pool, writer: writer)
        try await reportProjectionsBeyondLog()
    }

    /// Says which projections were made from another log, before they begin anew or go on from the end of this one.
    private func reportProjectionsBeyondLog() async throws {
        let status = try await reader.status()
        for projection in status.projectionsBeyondLog {
            logger.log(
                .error,
                "a projection is beyond the end of the log, as after tables of several backups were restored: it begins anew, "
                    + "or, as webhooks do, goes on from the end",
                [
                    ("projection", .string(projection.name)), ("checkpoint", .integer(projection.checkpoint)),
                    ("position", .integer(status.position)),
                ])
        }
    }

    private static func tokens(_ keys: any TokenKeyStore, _ logger: Logger) -> CustomerTokens {
        let unread = Throttle(.seconds(60), beginsOpen: true)
        return CustomerTokens(keys: keys) { reason in
            guard unread.passes() else { return }
            logger.log(
                .error, "the keys of customer tokens cannot be read again: those read last go on counting",
                [("reason", .string(reason))])
        }
    }

    /// Records which keys sign passes; returns what is wrong where that fails, which is no reason not to serve.
    func record(_ files: PassKeyFiles) async -> String? {
        do {
            if try await passKeys.record(files.ring.facts) {
                logger.log(.info, "the log records other keys of passes from here on")
            }
            return nil
        } catch {
            return "the log cannot record which keys sign passes: \(error)"
        }
    }

    /// What signs checkpoints into a directory; `nil` where nothing does.
    func checkpoints(in directory: CheckpointDirectory?, _ watch: WorkWatch) -> CheckpointWriter? {
        guard let logKey, let directory else { return nil }
        return CheckpointWriter(
            signer: CheckpointSigner(tree: tree, key: logKey), directory: directory, watch: watch)
    }

    /// Half of the time and one step after the other, so that those who ask are served first.
    private static var rebuildLimits: Rebuilder.Limits {
        var limits = Rebuilder.Limits()
        limits.share = 0.5
        limits.surveyShare = 0.05
        limits.stepsAhead = 1
        return limits
    }

    /// What goes on behind the answers, each until its task is cancelled.
    func work(_ watch: WorkWatch, signing passKeys: PassKeyFiles) -> [BackgroundWork] {
        let pool = session.pool
        var work: [BackgroundWork] = [
            appending.run, { await lookForObstacle(watch) },
            BackgroundProjections(
                rebuilder: Rebuilder(pool: pool, limits: Self.rebuildLimits), views: ViewProjector(pool: pool),
                seen: SeenProjector(pool: pool), tree: TreeProjector(pool: pool), charts: ChartProjector(pool: pool),
                watch: watch, logger: logger
            ).run,
            CommandKeySweep(keys: commandKeys, watch: watch, logger: logger, now: clock.now).run,
            PassKeyWatch(passKeys.ring.facts, register: self.passKeys, watch: watch, logger: logger).run,
            ClockWatch(clock, metrics: metrics, logger: logger) { [reader] in
                try await reader.status().recordedAt
            } compare: { [clock] in
                try await clock.compare(through: pool)
            }.run,
            LogWatch(metrics: metrics, logger: logger) { [witness] in try await witness.look(through: pool) }.run,
        ]
        if let keeper {
            work.append(keeper.run)
        } else {
            work.append { await FurtherConnections(pool: pool).run(watch) }
        }
        if Orphans.areOurs { work.append(OrphanCollector.run) }
        return work
    }

    /// Says what keeps everything from being recorded, as long as something does.
    private func lookForObstacle(_ watch: WorkWatch) async {
        while !Task.isCancelled {
            await watch.watch(.appends) {
                let obstacle = try await writer.lookForObstacle()
                metrics.noteAppends(areFailing: obstacle != nil)
                if let obstacle { throw obstacle }
            }
            try? await Task.sleep(for: .milliseconds(500))
        }
    }

    /// Why this service is not ready; `nil` when it may be.
    func readinessRefusal() async throws -> String? {
        if let refusal = keeper?.refusal() { return refusal }
        if let refusal = try await session.readinessRefusal() { return refusal }
        if let refusal = await appending.refusal() { return refusal }
        // A database that refuses what is to be recorded keeps nobody from reading.
        guard case .held? = writer.obstacle else { return nil }
        // Who it is does not concern everybody who may ask.
        return "Somebody's transaction holds the log, so nothing can be recorded; "
            + "the service's log and `rightful status` say whose."
    }

    /// Takes no more work than what it has begun.
    func beginEnding() {
        session.beginEnding()
        writer.beginEnding()
    }

    /// Puts away what was begun, and writes a last checkpoint.
    func end(_ checkpoints: CheckpointWriter?) async {
        await writer.drain()
        await checkpoints?.write()
        await writing.close()
        await noting.close()
    }
}

/// Something that goes on until its task is cancelled.
typealias BackgroundWork = @Sendable () async -> Void
