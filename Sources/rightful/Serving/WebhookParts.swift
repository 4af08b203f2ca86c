import AppStoreServer
import Ledger
import OutgoingHTTP
import Service

/// What a service needs for outgoing webhooks.
struct WebhookParts: Sendable {
    let handled: Webhooks
    let work: WebhookWork

    /// - Parameter underWay: the most deliveries under way at once.
    init(
        _ configuration: Configuration, streams: StreamsReading, _ session: DatabaseSession, writer: LedgerWriter,
        reader: LedgerReader, underWay: Int,
        appended: Doorbell, metrics: Metrics, logger: Logger
    ) {
        let pool = session.pool
        let now = session.clock.now
        let endpoints = EndpointRegister(pool: pool, writer: writer)
        let list = DeliveryList(pool: pool)
        let projector = WebhookProjector(
            pool: pool, teller: WebhookWork.teller,
            reportLoss: { position in
                logger.log(
                    .error,
                    "table projection has lost how far webhooks were told: they go on from the end of the log, and what came since "
                        + "the loss is told to nobody", [("position", .integer(position))])
            }, showDrift: WebhookWork.showDrift, show: WebhookWork.show)
        let (allowsPrivate, attempt) = (configuration.allowsPrivateWebhooks, configuration.webhookAttempt)
        handled = Webhooks(
            endpoints: endpoints, list: list, projector: projector,
            apps: Set(configuration.apps.map(\.binding.bundleID)), allowsPrivate: allowsPrivate,
            sends: configuration.sendsWebhooks)
        work = WebhookWork(
            projector: projector, notices: StreamNotices(pool: pool), streams: streams,
            dispatcher: WebhookDispatcher(
                register: DeliveryRegister(pool: pool, patience: attempt * WebhookDispatcher.patience), list: list,
                endpoints: endpoints, reader: reader,
                transport: WebhookDispatcher.transport(
                    allowsPrivate: allowsPrivate, attempt: attempt, connections: underWay),
                allowsPrivate: allowsPrivate, underWayLimit: underWay,
                metrics: metrics, logger: logger, now: now), endpoints: endpoints,
            appended: appended, sends: configuration.sendsWebhooks, metrics: metrics, logger: logger, now: now)
    }
}
