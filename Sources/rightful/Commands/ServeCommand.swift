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
        let apis = configuration.apps.count { $0.appStoreAPI != nil } + configuration.stripe.count
        let descriptors = try DescriptorShares(of: Descriptors.raise(), accounts: apis)
        let storeAccess = try StoreAccess.all(configuration, connections: descriptors.calls)
        let passKeys = try PassKeyFiles(configured: configuration)
        let stripe = try StripeFiles(configuration, connections: descriptors.calls)
        let account = context.isRoot ? try ServiceAccount.own() : nil
        try await context.logging { logger in
            do {
                // Not before the log is set up, whose thread is then seen to have become another user too.
                let address = try BoundAddress(host: configuration.listen.host, port: configuration.listen.port)
                let (session, files) = try await DatabaseSession.open(
                    configuration, context, connections: Self.connections, refusesSchema: false, migrates: true,
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
                try await serve(configuration, anchors, files, address, session, descriptors, logger)
            } catch is CancellationError {
                // Told to stop before it began to serve: done as well.
                logger.log(.info, "stopped before serving")
            }
        }
    }

    private func serve(
        _ configuration: Configuration, _ anchors: TrustAnchors, _ files: ServingFiles, _ bound: BoundAddress,
        _ session: DatabaseSession, _ descriptors: DescriptorShares, _ logger: Logger
    ) async throws {
        do {
            let appending = AppendingConnection(session.pool(connections: 2), logger)
            // Before anything is asked: a server that has no room for now is waited for.
            try await appending.open(beside: session.pool)
            if let refusal = try await session.schemaRefusal() { throw CommandFailure(description: refusal) }
            // Where privileges are lost it serves, not ready, until they are granted again.
            if try await ServingPrivileges.ofRequests.missing(session.pool).isEmpty,
                let refusal = try await RestoredTables.refusal(session.pool)
            {
                throw CommandFailure(description: refusal)
            }
            try await Self.warn(of: session, logger)
            let ledger = try await LedgerParts(
                configuration, logKey: files.logKey, session, appending: appending, logger)
            if files.hasMadeLogKey, ledger.isNew {
                logger.log(.info, "the log's key was made: nobody has served this ledger before")
            } else if files.hasMadeLogKey, try await ledger.tree.end().size > 0 {
                logger.log(
                    .warning,
                    "the log's key was missing and another was made: earlier checkpoints are checked with what was "
                        + "published of theirs (`rightful verify --since FILE --log-key KEY`), and each service on this database "
                        + "needs the same key (log_key_path)")
            }
            let passKeyWarning = await ledger.record(files.passKeys)
            let catalogWarning = try await ledger.reader.catalog().catalog.products.isEmpty ? Self.emptyCatalog : nil
            // That it cannot be told, such as while a privilege is missing, is no reason not to serve.
            let missingApps = (try? await session.appsMissing(in: configuration)) ?? []
            let service = try await ServiceParts(configuration, anchors, files, ledger, descriptors)
            let watch = WorkWatch(
                failures: WorkFailures(pool: session.pool), host: ProcessInfo.processInfo.hostName, logger: logger)
            // Before anybody is served: from then on a signal to stop waits for no answer of the database.
            await watch.begin()
            var listening = HTTPServerConfiguration()
            listening.boundAddress = bound
            descriptors.fit(&listening)
            let server = service.application.makeServer(listening)
            try server.start()
            // Not before: whoever cannot serve says why in one line, and nothing else.
            report(
                configuration,
                warnings: files.warnings
                    + [passKeyWarning, catalogWarning, descriptors.notice].compactMap(\.self)
                    + missingApps.map(Configuration.notice), to: logger)
            logger.log(.info, "serving as the user \(ServiceAccount.name(of: geteuid()))")
            let address = ListenAddress(
                host: configuration.listen.host, port: server.boundPort ?? configuration.listen.port)
            logger.log(.info, "listening", [("url", .string("http://\(address)"))])
            let checkpoints = ledger.checkpoints(in: files.checkpoints, watch)
            var work = ledger.work(watch, signing: files.passKeys) + service.work(watch)
            if let checkpoints { work.append(checkpoints.run) }
            await keepServing(server, ledger, work)
            try await uninterrupted { await ledger.end(checkpoints) }
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

    /// Whoever serves another data directory than the one in which the catalog was made learns of it here.
    private static let emptyCatalog =
        "the catalog names no products, so nothing that is bought gives anybody access; apply one with `rightful catalog apply`"

    /// Says what may go wrong with the database although it answers.
    private static func warn(of session: DatabaseSession, _ logger: Logger) async throws {
        if let weakness = try await ServingRole.weakness(session.pool) {
            logger.log(
                .warning, "the serving role could change the log; serve as another role than the owner",
                [("reason", .string(weakness))])
        }
        if let reading = try await session.readingOnly() { logger.log(.warning, reading.notice) }
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
    }

    /// Until the current task is cancelled; nobody is served any more then.
    private func keepServing(_ server: HTTPServer, _ ledger: LedgerParts, _ work: [BackgroundWork]) async {
        await withTaskGroup(of: Void.self) { group in
            for part in work { group.addTask { await part() } }
            group.addTask {
                await Interruption.wait()
                ledger.logger.log(.info, "stopping")
                ledger.beginEnding()
                // Not only once what runs in the background has come back, which may wait for the database.
                async let closed: Void = server.stop()
                // What waits for a frozen server would wait for half a minute, one after the other.
                try? await uninterrupted { try await ledger.session.cluster?.endIfFrozen() }
                await closed
            }
        }
    }

    /// Fewer than the embedded server's `max_connections`, so that short commands find room beside several services.
    private static let connections = 12

    private func report(_ configuration: Configuration, warnings: [String], to logger: Logger) {
        for line in configuration.report {
            logger.log(
                .info, "configuration",
                [("key", .string(line.key)), ("value", .string(line.value)), ("source", .string(line.source))])
        }
        for notice in configuration.notices + warnings { logger.log(.warning, notice) }
    }
}
