import AppStoreServer
import EmbeddedPostgres
import EntitlementCore
import Foundation
import Glibc
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import Service

/// `rightful serve`.
struct ServeCommand: Command {
    static let usage = CommandUsage(
        "serve", "Serve the HTTP API until SIGINT or SIGTERM.",
        options: [
            CommandUsage.Option("--listen", "HOST:PORT", "where to listen; default 127.0.0.1:8080, port 0 for any")
        ],
        details: """
            Without a database URL it starts a PostgreSQL of its own in the data directory and migrates it. With one it
            refuses a schema that is not current; `rightful migrate` brings it there.

            Started as root, it serves as the user `rightful`: it binds its address, starts PostgreSQL and reads its keys,
            and then gives up root's rights for good.

            The first signal stops it in order: requests under way are answered, everything is put away. The second
            stops it at once.
            """)

    static let prints = false

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let anchors = try TrustedMaterial.anchors(configuration)
        let storeAccess = try StoreAccess.all(configuration)
        let passKeys = try PassKeyFiles(configured: configuration)
        let stripe = try StripeFiles(configuration)
        let account = context.isRoot ? try ServiceAccount.own() : nil
        try await context.logging { logger in
            do {
                // Not before the log is set up, whose thread is then seen to have become another user too.
                let address = try BoundAddress(host: configuration.listen.host, port: configuration.listen.port)
                let (session, files) = try await DatabaseSession.open(
                    configuration, context, connections: Self.connections, migrates: true,
                    as: ServingUser.applicationName(account?.user ?? geteuid()), log: { logger.log(.info, $0) }
                ) { cluster in
                    var files = try await ServingFiles(
                        configuration, trusting: anchors, passKeys: passKeys, storeAccess: storeAccess, stripe: stripe,
                        cluster: cluster, for: account, now: context.now())
                    if let account {
                        try Privileges.giveUp(for: account)
                        try files.check(configuration, as: account)
                    }
                    return files
                }
                try await serve(configuration, anchors, files, address, session, context, logger)
            } catch is CancellationError {
                // Told to stop before it began to serve: done as well.
                logger.log(.info, "stopped before serving")
            }
        }
    }

    private func serve(
        _ configuration: Configuration, _ anchors: TrustAnchors, _ files: ServingFiles, _ bound: BoundAddress,
        _ session: DatabaseSession, _ context: CommandContext, _ logger: Logger
    ) async throws {
        do {
            if let weakness = try await ServingRole.weakness(session.pool) {
                logger.log(
                    .warning, "the serving role could change the log; serve as another role than the owner",
                    [("reason", .string(weakness))])
            }
            let transport = try await session.pool.withConnection { $0.transport }
            if transport.isExposed, case .network(let address) = transport.path {
                logger.log(
                    .warning, "the connection to the database is not encrypted: \(StatusDocument.cure)",
                    [("address", .string(address))])
            }
            for reason in try await ServerDurability.gaps(session.pool) {
                logger.log(
                    .warning, "a crash of the database may lose what was acknowledged", [("reason", .string(reason))])
            }
            let clock = session.clock
            try await clock.compare(through: session.pool)
            let unread = Throttle(.seconds(60), beginsOpen: true)
            let tokens = CustomerTokens(keys: configuration.tokenKeys(pool: session.pool)) { reason in
                guard unread.passes() else { return }
                logger.log(
                    .error, "the keys of customer tokens cannot be read again: those read last go on counting",
                    [("reason", .string(reason))])
            }
            try await tokens.prepare(now: clock.now())
            let tree = LogTree(pool: session.pool)
            let ledgerID = try await tree.end().ownID
            let logKey = files.logKey.map {
                LogKey(name: LogKeyFile.name(configuration, ownID: ledgerID), privateKey: $0)
            }
            if files.hasMadeLogKey, try await tree.end().size > 0 {
                logger.log(
                    .warning,
                    "the log's key was missing and another was made: earlier checkpoints are checked with what was "
                        + "published of theirs (`rightful verify --since FILE --log-key KEY`), and each service on this database "
                        + "needs the same key (log_key_path)")
            }
            let metrics = Metrics(version: Version.number, foldVersion: OriginalState.foldVersion)
            // Connections of its own, so that readers cannot keep appends waiting; one is for ending sessions that stall.
            let writing = session.pool(connections: 2)
            let appended = Doorbell()
            let writer = LedgerWriter(pool: writing, clock: clock) { batch in
                metrics.record(batch)
                appended.ring()
            }
            let commandKeys = CommandKeys(pool: session.pool)
            var limits = Application.Limits()
            limits.rates = configuration.rateLimits
            limits.answerCacheBytes = configuration.answerMemoryMiB << 20
            let jws = try JWSVerifier(trusting: anchors)
            let reader = LedgerReader(pool: session.pool, now: clock.now)
            try await jws.recognizeSigners(of: reader, now: clock.now())
            let apps = configuration.apps.map(\.binding)
            let passKeyRegister = PassKeyRegister(pool: session.pool, writer: writer)
            let passKeyWarning = await Self.record(files.passKeys, passKeyRegister, logger)
            let verifier = NotificationVerifier(jws: jws, apps: apps)
            let storeChecks = files.storeAccess.map {
                $0.check(
                    session, writer: writer, reader: reader,
                    verifier: StoreAccess.statementVerifier(jws, configuration), now: clock.now)
            }
            let storeWork = StoreWork(
                configuration, files.storeAccess, checks: storeChecks, session, writer: writer, reader: reader,
                metrics: metrics, logger: logger)
            let stripePaces = files.stripe.paces
            let stripe = StripeWork(
                files.stripe, sharing: stripePaces, session, writer: writer, reader: reader, metrics: metrics,
                logger: logger)
            let streams = storeWork.streams.with(web: stripe.ingestion.environments, register: stripe.register)
            let webhooks = WebhookParts(
                configuration, streams: streams, session, writer: writer, reader: reader, appended: appended,
                metrics: metrics, logger: logger)
            let missed = MissedDeliveries()
            let keys = APIKeyStore(pool: session.pool, writer: writer)
            let application = Application(
                writer: writer, reader: reader, keys: keys, tokens: tokens,
                commandKeys: commandKeys, verifier: verifier, statements: StatementVerifier(jws: jws, apps: apps),
                schemaRefusal: { try await session.schemaRefusal() },
                sha256: { Digest(SHA256.hash($0)) ?? .zero }, metrics: metrics, logger: logger, limits: limits,
                deviceTrust: configuration.apps.deviceTrust, passKeys: files.passKeys.ring,
                passTTL: configuration.passTTL, ledgerID: ledgerID, logKey: logKey,
                trustedProxies: configuration.trustedProxies,
                storeChecks: StoreChecks(storeChecks, stripe: StripeCheck(stripe.ingestion)),
                streams: streams, streamDeliveries: storeWork.deliveries, missedDeliveries: missed,
                stripe: files.stripe.webhooks,
                stripeLookups: stripe.lookups,
                shops: files.stripe.shops(configuration, sharing: stripePaces, now: clock.now),
                webhooks: webhooks.handled,
                console: configuration.hasConsole ? ConsoleSessions(pool: session.pool, keys: keys) : nil,
                forgetting: Self.forgetting(configuration, session),
                now: clock.now)
            let watch = WorkWatch(
                failures: WorkFailures(pool: session.pool), host: ProcessInfo.processInfo.hostName, logger: logger)
            // Before anybody is served: from then on a signal to stop waits for no answer of the database.
            await watch.begin()
            var listening = HTTPServerConfiguration()
            listening.boundAddress = bound
            let server = application.makeServer(listening)
            try server.start()
            // Not before: whoever cannot serve says why in one line, and nothing else.
            report(
                configuration, warnings: files.warnings + [passKeyWarning].compactMap(\.self), to: logger)
            logger.log(.info, "serving as the user \(ServiceAccount.name(of: geteuid()))")
            let address = ListenAddress(
                host: configuration.listen.host, port: server.boundPort ?? configuration.listen.port)
            logger.log(.info, "listening", [("url", .string("http://\(address)"))])
            let checkpoints: CheckpointWriter? =
                if let logKey, let directory = files.checkpoints {
                    CheckpointWriter(
                        signer: CheckpointSigner(tree: tree, key: logKey), directory: directory, watch: watch)
                } else {
                    nil
                }
            await keepServing(
                session, server, writer,
                CommandKeySweep(keys: commandKeys, watch: watch, logger: logger, now: clock.now),
                checkpoints, watch,
                PassKeyWatch(files.passKeys.ring.facts, register: passKeyRegister, watch: watch, logger: logger),
                ClockWatch(clock, metrics: metrics, logger: logger) { try await clock.compare(through: session.pool) },
                StoreSweeper(
                    files.storeAccess.flatMap { access in
                        let sweep = access.sweep(
                            session, writer: writer, verifier: verifier, logger: logger, now: clock.now)
                        return access.app.environments.map { (sweep, $0) }
                    }, missed: missed, logger: logger), storeWork, stripe, webhooks.work, logger)
            try await uninterrupted {
                await writer.drain()
                await checkpoints?.write()
                await writing.close()
            }
        } catch {
            try? await session.close()
            throw error
        }
        try await session.close()
        if await session.cluster?.isLeftToOthers == true {
            logger.log(.info, "PostgreSQL stays up: another process uses it, and the last one stops it")
        }
        logger.log(.info, "stopped")
    }

    /// Erases who somebody is: as the owner, for as long as that takes.
    private static func forgetting(_ configuration: Configuration, _ session: DatabaseSession) -> Forgetting {
        let owner = ForgetCommand.ownerConninfo(configuration, session)
        return Forgetting(
            preview: { try await Forgetter(pool: session.pool, now: session.clock.now).preview($0) },
            forget: { customer, preview in
                let pool = PostgresPool(owner, limits: PostgresPool.Limits(connections: 1))
                do {
                    let outcome = try await Forgetter(pool: pool, now: session.clock.now).forget(
                        customer, known: preview)
                    await pool.close()
                    return outcome
                } catch {
                    await pool.close()
                    throw error
                }
            })
    }

    /// Records which keys sign passes; returns what is wrong where that fails, which is no reason not to serve.
    private static func record(_ keys: PassKeyFiles, _ register: PassKeyRegister, _ logger: Logger) async -> String? {
        do {
            if try await register.record(keys.ring.facts) {
                logger.log(.info, "the log records other keys of passes from here on")
            }
            return nil
        } catch {
            return "the log cannot record which keys sign passes: \(error)"
        }
    }

    /// Until the current task is cancelled; nobody is served any more then.
    private func keepServing(
        _ session: DatabaseSession, _ server: HTTPServer, _ writer: LedgerWriter, _ sweep: CommandKeySweep,
        _ checkpoints: CheckpointWriter?, _ watch: WorkWatch, _ passKeys: PassKeyWatch, _ clocks: ClockWatch,
        _ sweeper: StoreSweeper, _ storeWork: StoreWork, _ stripe: StripeWork, _ webhooks: WebhookWork, _ logger: Logger
    ) async {
        await withTaskGroup(of: Void.self) { group in
            if let cluster = session.cluster {
                group.addTask { await EmbeddedKeeper(cluster: cluster, logger: logger).run() }
            }
            group.addTask { [limits = Self.rebuildLimits] in
                await BackgroundProjections(
                    rebuilder: Rebuilder(pool: session.pool, limits: limits),
                    views: ViewProjector(pool: session.pool), seen: SeenProjector(pool: session.pool),
                    tree: TreeProjector(pool: session.pool), charts: ChartProjector(pool: session.pool), watch: watch,
                    logger: logger
                ).run()
            }
            group.addTask { await sweep.run() }
            group.addTask { await passKeys.run() }
            group.addTask { await clocks.run() }
            group.addTask { await sweeper.run() }
            group.addTask { await storeWork.run(watch) }
            group.addTask { await stripe.lookups.run(watch) }
            group.addTask { await stripe.sweep.run(watch) }
            group.addTask { await webhooks.run(watch) }
            if let checkpoints { group.addTask { await checkpoints.run() } }
            group.addTask {
                await Interruption.wait()
                logger.log(.info, "stopping")
                session.beginEnding()
                writer.beginEnding()
                // Not only once what runs in the background has come back, which may wait for the database.
                async let closed: Void = server.stop()
                // What waits for a frozen server would wait for half a minute, one after the other.
                try? await uninterrupted { try await session.cluster?.endIfFrozen() }
                await closed
            }
        }
    }

    /// Fewer than the embedded server's `max_connections`, so that short commands find room beside several services.
    private static let connections = 16

    /// Half of the time and one step after the other, so that those who ask are served first.
    private static var rebuildLimits: Rebuilder.Limits {
        var limits = Rebuilder.Limits()
        limits.share = 0.5
        limits.surveyShare = 0.05
        limits.stepsAhead = 1
        return limits
    }

    private func report(_ configuration: Configuration, warnings: [String], to logger: Logger) {
        for line in configuration.report {
            logger.log(
                .info, "configuration",
                [("key", .string(line.key)), ("value", .string(line.value)), ("source", .string(line.source))])
        }
        for notice in configuration.notices + warnings { logger.log(.warning, notice) }
    }
}
