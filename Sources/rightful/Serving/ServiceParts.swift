import AppStoreServer
import EntitlementCore
import Ledger
import OpenSSLCrypto
import PostgresClient
import Service

/// The service, and what it does with stores and receivers behind its answers.
struct ServiceParts: Sendable {
    let application: Application
    private let store: StoreWork
    private let stripe: StripeWork
    private let webhooks: WebhookParts
    private let sweeper: StoreSweeper

    init(
        _ configuration: Configuration, _ anchors: TrustAnchors, _ files: ServingFiles, _ ledger: LedgerParts,
        _ descriptors: DescriptorShares
    ) async throws {
        let (session, writer, reader) = (ledger.session, ledger.writer, ledger.reader)
        let (metrics, logger, now) = (ledger.metrics, ledger.logger, ledger.clock.now)
        let jws = try JWSVerifier(trusting: anchors)
        try await jws.recognizeSigners(of: reader, now: now())
        let apps = configuration.apps.map(\.binding)
        let verifier = NotificationVerifier(jws: jws, apps: apps)
        let checks = files.storeAccess.map {
            $0.check(
                session, writer: writer, reader: reader,
                verifier: StoreAccess.statementVerifier(jws, configuration), now: now)
        }
        store = StoreWork(
            configuration, files.storeAccess, checks: checks, session, writer: writer, reader: reader,
            metrics: metrics, logger: logger)
        let paces = files.stripe.paces
        stripe = StripeWork(
            files.stripe, sharing: paces, session, writer: writer, reader: reader, metrics: metrics, logger: logger)
        let streams = store.streams.with(web: stripe.ingestion.environments, register: stripe.register)
        webhooks = WebhookParts(
            configuration, streams: streams, session, writer: writer, reader: reader,
            underWay: descriptors.webhooks, appended: ledger.appended, metrics: metrics, logger: logger)
        let missed = MissedDeliveries()
        sweeper = StoreSweeper(
            files.storeAccess.flatMap { access in
                let sweep = access.sweep(session, writer: writer, verifier: verifier, logger: logger, now: now)
                return access.app.environments.map { (sweep, $0) }
            }, missed: missed, logger: logger)
        var limits = Application.Limits()
        limits.rates = configuration.rateLimits
        limits.answerCacheBytes = configuration.answerMemoryMiB << 20
        application = Application(
            ServiceContext(
                reader: reader, limits: limits, metrics: metrics, logger: logger,
                sha256: { Digest(SHA256.hash($0)) ?? .zero }, now: now),
            ledger: LedgerAccess(
                writer: writer, keys: ledger.keys, tokens: ledger.tokens, commandKeys: ledger.commandKeys,
                ledgerID: ledger.ownID, logKey: ledger.logKey, schemaRefusal: { try await ledger.readinessRefusal() }),
            trust: StoreTrust(
                notifications: verifier, statements: StatementVerifier(jws: jws, apps: apps),
                devices: configuration.apps.deviceTrust),
            passes: PassIssuer(keys: files.passKeys.ring, ttl: configuration.passTTL),
            store: StoreConnections(
                checks: StoreChecks(checks, stripe: StripeCheck(stripe.ingestion)), streams: streams,
                deliveries: store.deliveries, missed: missed),
            stripe: StripeConnections(
                webhooks: files.stripe.webhooks, lookups: stripe.lookups,
                shops: files.stripe.shops(configuration, sharing: paces, now: now)),
            webhooks: webhooks.handled,
            console: configuration.hasConsole ? ConsoleSessions(pool: session.pool, keys: ledger.keys) : nil,
            forgetting: Self.forgetting(configuration, session), trustedProxies: configuration.trustedProxies)
    }

    /// What goes on behind the answers, each until its task is cancelled.
    func work(_ watch: WorkWatch) -> [BackgroundWork] {
        [
            sweeper.run,
            { await store.run(watch) },
            { await stripe.lookups.run(watch) },
            { await stripe.sweep.run(watch) },
            { await webhooks.work.run(watch) },
        ]
    }

    /// Erases who somebody is: as the owner, for as long as that takes.
    private static func forgetting(_ configuration: Configuration, _ session: DatabaseSession) -> Forgetting {
        let owner = ForgetCommand.ownerConninfo(configuration, session)
        return Forgetting(
            preview: { try await Forgetter(pool: session.pool, now: session.clock.now).preview($0) },
            forget: { customer, preview, keyed in
                let pool = PostgresPool(owner, limits: PostgresPool.Limits(connections: 1))
                do {
                    let outcome = try await Forgetter(pool: pool, now: session.clock.now).forget(
                        customer, known: preview, once: keyed)
                    await pool.close()
                    return outcome
                } catch {
                    await pool.close()
                    throw error
                }
            })
    }
}
