import AppStoreServer
import EntitlementCore
import Ledger
import Service

/// What a service does so that the ledger heals by itself, beside reading the store's history: it notices silence, asks
/// about what is overdue, answers what the store asks about refund requests, and tells differences apart.
struct StoreWork: Sendable {
    /// The configured apps' streams.
    let streams: StreamsReading
    /// Hears of every delivery.
    let deliveries = StreamDeliveries()
    private let watched: [StreamWatch.Watched]
    private let register: StreamRegister
    private let repairer: StoreRepairer
    private let consentedApps: [ConsumptionAnswerer.ConsentedApp]
    private let answersConsumption: Bool
    private let consumption: ConsumptionRegister
    private let reader: LedgerReader
    private let writer: LedgerWriter
    private let projector: WatchProjector
    private let driftProjector: DriftProjector
    private let driftRegister: DriftRegister
    private let driftChecks: DriftChecks
    private let metrics: Metrics
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    init(
        _ configuration: Configuration, _ accesses: [StoreAccess], checks: [StoreCheck], _ session: DatabaseSession,
        writer: LedgerWriter, reader: LedgerReader, metrics: Metrics, logger: Logger
    ) {
        let clock = session.clock
        register = StreamRegister(pool: session.pool)
        consumption = ConsumptionRegister(pool: session.pool, holder: session.holder)
        projector = WatchProjector(pool: session.pool)
        driftProjector = DriftProjector(pool: session.pool)
        let clients = Dictionary(checks.map { ($0.app, $0.client) }) { first, _ in first }
        watched = configuration.streams.map { ($0, clients[$0.app]) }
        streams = StreamsReading(watched.map { ($0.stream, $0.client != nil) }, register: register)
        let environments = Dictionary(accesses.map { ($0.app.bundleID, $0.app.environments) }) { first, _ in first }
        repairer = StoreRepairer(
            checks.flatMap { check in (environments[check.app] ?? []).map { (check, $0) } },
            register: CheckRegister(pool: session.pool, holder: session.holder), reader: reader, metrics: metrics,
            logger: logger, now: clock.now)
        consentedApps = accesses.flatMap { access -> [ConsumptionAnswerer.ConsentedApp] in
            guard let policy = access.app.consumption, let client = clients[access.app.bundleID] else { return [] }
            return access.app.environments.sorted { $0.rawValue < $1.rawValue }.map {
                ConsumptionAnswerer.ConsentedApp(client: client, environment: $0, policy: policy)
            }
        }
        answersConsumption = configuration.sendsWebhooks
        self.reader = reader
        self.writer = writer
        driftRegister = reader.driftRegister
        driftChecks = DriftChecks(
            checks.flatMap { check in (environments[check.app] ?? []).map { (check, $0) } }, register: driftRegister,
            reader: reader, metrics: metrics, logger: logger, now: clock.now)
        self.metrics = metrics
        self.logger = logger
        now = clock.now
    }

    /// Works until the current task is cancelled.
    func run(_ watch: WorkWatch) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await StreamWatch(
                    watched, projector: projector, register: register, deliveries: deliveries, metrics: metrics,
                    logger: logger,
                    watch: watch, now: now
                ).run()
            }
            group.addTask { await repairer.run() }
            // Else it is not even noted since when questions are answered: whoever serves next goes on from where it was.
            if answersConsumption {
                group.addTask {
                    await ConsumptionAnswerer(
                        consentedApps, register: consumption, reader: reader, metrics: metrics, logger: logger,
                        watch: watch,
                        now: now
                    ) { try await writer.append($0) }.run()
                }
            }
            group.addTask {
                await DriftWatch(
                    projector: driftProjector, register: driftRegister, metrics: metrics, watch: watch
                ).run()
            }
            group.addTask { await driftChecks.run() }
        }
    }
}

extension Configuration {
    /// The stream of each app and environment, in their order.
    var streams: [StoreStream] {
        let all = apps.flatMap { app in
            app.environments.map { StoreStream(app: app.bundleID, environment: $0) }
        }
        return Set(all).sorted { ($0.app, $0.environment.rawValue) < ($1.app, $1.environment.rawValue) }
    }
}
