import AppStoreServer
import Dispatch
import EntitlementAPI
import EntitlementCore
package import HTTPServer
package import Ledger
import StripePayloads

/// The service: everything between an HTTP request and its answer.
///
/// It holds no state of its own that matters, so any number may run beside each other, and its handlers can be called
/// without a socket.
package struct Application: Sendable {
    /// What bounds the service's work.
    package struct Limits: Sendable {
        /// How long a read waits for `min_position`.
        package var positionWait = Duration.seconds(5)
        /// How long a readiness probe waits for the database; one that hangs is as good as away.
        package var readinessWait = Duration.seconds(3)
        /// How long the metrics wait for the database, once for the key and once for the head of the log: what the process
        /// counts by itself is told all the same.
        package var metricsWait = Duration.milliseconds(800)
        /// How long the answer to a readiness probe holds for others that come after it.
        package var readinessLifetime = Duration.milliseconds(500)
        /// How long a long history may take to be explained.
        package var explanationTime = Duration.seconds(8)
        /// How long a catalog is tried at a time; less than the server's deadline for a handler.
        package var catalogTrial = Duration.seconds(6)
        /// How long everything that names somebody who is to be forgotten is looked for; less than the server's deadline
        /// for a handler.
        package var forgettingSearch = Duration.seconds(6)
        /// How long the store may take to answer a check; less than the server's deadline for a handler.
        package var storePatience = Duration.seconds(8)
        /// How long a list of products waits for prices that were never read.
        package var pricePatience = Duration.seconds(3)
        /// How long a key stays recognised without asking the database: the longest a revocation takes to bite.
        package var keyLifetime = Duration.seconds(5)
        /// What the answers kept in memory for reads and launches may take, in bytes.
        package var answerCacheBytes = 256 << 20
        /// How many requests whoever sends them may send.
        package var rates = RateLimits()
        /// The largest body of a notification, in bytes: no larger than the largest JWS that is looked at, so that what
        /// is too large is always told so.
        package var notificationBytes = UnverifiedJWS.maximumLength
        /// The largest body of a webhook of Stripe's, in bytes.
        package var webhookBytes = StripeEvent.byteLimit
        /// The largest catalog, in bytes of JSON.
        package var catalogBytes = 4 << 20
        /// The largest body of a reconciliation, in bytes: some 600 signed transactions.
        package var reconcileBytes = 4 << 20
        /// The largest body of a checkout or portal, in bytes: an app transaction, and some more.
        package var checkoutBytes = 64 << 10
        /// The largest body of any other request, in bytes: of a command, or of what reads none.
        package var otherBytes = 16 << 10

        package init() {}
    }

    let writer: LedgerWriter
    let reader: LedgerReader
    let verifier: NotificationVerifier
    let statements: StatementVerifier
    let limits: Limits
    let metrics: Metrics
    let logger: Logger
    let sha256: @Sendable ([UInt8]) -> Digest
    let now: @Sendable () -> Timestamp
    let deviceTrust: DeviceTrustTable
    let passKeys: PassKeyRing
    let passTTL: Duration
    let logKey: LogKey?
    /// The ledger's own id.
    let ledgerID: String?
    let authenticator: Authenticator
    let tokens: CustomerTokens
    let commandKeys: CommandKeys
    let rateLimiter: RateLimiter
    let trustedProxies: [NetworkRange]
    let positions: PositionWatcher
    let catalogWatch: CatalogWatch
    let readiness: Readiness
    let longWork: LongWork
    let storeChecks: StoreChecks
    let streams: StreamsReading
    let streamDeliveries: StreamDeliveries
    let missedDeliveries: MissedDeliveries
    let stripe: StripeWebhooks
    let stripeLookups: StripeLookups?
    let shops: StripeShops
    /// `nil`: nobody is told of anything.
    let webhooks: Webhooks?
    /// `nil`: there is no console.
    let console: ConsoleSessions?
    /// `nil`: nobody is forgotten by it.
    let forgetting: Forgetting?
    /// Where reconciliations that can be answered again are left for the event loop.
    let launches = Mailbox<RememberedLaunch>(limit: 1024)
    let verificationQueue = DispatchQueue(label: "verify", attributes: .concurrent)

    /// Composes the service.
    ///
    /// - Parameters:
    ///   - webhooks: the endpoints that are told of changes; `nil`: there are none here.
    ///   - console: the sessions of the console; `nil`: there is none here.
    ///   - forgetting: what erases who somebody is; `nil`: nothing here does.
    ///   - trustedProxies: the peers whose word about the client's address is taken.
    package init(
        _ context: ServiceContext, ledger: LedgerAccess, trust: StoreTrust, passes: PassIssuer = PassIssuer(),
        store: StoreConnections = StoreConnections(), stripe: StripeConnections = StripeConnections(),
        webhooks: Webhooks? = nil, console: ConsoleSessions? = nil, forgetting: Forgetting? = nil,
        trustedProxies: [NetworkRange] = []
    ) {
        let (reader, limits) = (context.reader, context.limits)
        writer = ledger.writer
        self.reader = reader
        verifier = trust.notifications
        statements = trust.statements
        self.limits = limits
        metrics = context.metrics
        logger = context.logger
        sha256 = context.sha256
        now = context.now
        deviceTrust = trust.devices
        passKeys = passes.keys
        passTTL = passes.ttl
        logKey = ledger.logKey
        ledgerID = ledger.ledgerID
        tokens = ledger.tokens
        commandKeys = ledger.commandKeys
        self.trustedProxies = trustedProxies
        storeChecks = store.checks
        streams = store.streams ?? StreamsReading([], register: reader.streamRegister)
        streamDeliveries = store.deliveries
        missedDeliveries = store.missed
        self.stripe = stripe.webhooks
        stripeLookups = stripe.lookups
        self.webhooks = webhooks
        self.console = console
        self.forgetting = forgetting
        shops = StripeShops(stripe.shops, logger: context.logger, now: context.now)
        rateLimiter = RateLimiter(limits.rates)
        authenticator = Authenticator(
            keys: ledger.keys, tokens: ledger.tokens, sessions: console, lifetime: limits.keyLifetime,
            outageWait: limits.metricsWait, sha256: context.sha256, now: context.now)
        catalogWatch = CatalogWatch(reader: reader, lifetime: limits.keyLifetime)
        positions = PositionWatcher { try await reader.headPosition() }
        longWork = LongWork(limit: limits.explanationTime, mostWaiting: 32)
        readiness = Readiness(lifetime: limits.readinessLifetime) {
            try await within(limits.readinessWait) {
                if let refusal = try await ledger.schemaRefusal() { return (refusal, 0) }
                return (nil, try await reader.status().position)
            }
        }
    }

    /// Answers a request: route, admit, work, answer.
    package func handle(_ request: HTTPRequest) async -> HTTPResponse {
        var exchange = ExchangeRecord(request.head)
        do {
            let (route, parameters) = try Route.find(request)
            exchange.route = route.template
            let credential = try await admit(
                request, for: route, customer: parameters["id"].flatMap { CustomerID($0) })
            exchange.keyID = credential?.key?.id
            let limit = route.operation.body?.limit(limits) ?? limits.otherBytes
            guard request.body.count <= limit else { throw Problem(HTTPRefusal.bodyTooLarge(limit: limit)) }
            if route.operation.body?.isOurs == true { try request.examineText() }
            let call = Call(
                request: request, parameters: parameters, credential: credential, operation: route.operation)
            try call.refuseRepeatedParameters()
            return finish(exchange, try await route.answer(self, call), claiming: request.head.claim)
        } catch {
            return finish(exchange, Problem(error), claiming: request.head.claim)
        }
    }

    /// Answers for what the server turns away before any handler sees it.
    package func refuse(_ refusal: HTTPRefusal, _ head: HTTPRequestHead) -> HTTPResponse {
        var exchange = ExchangeRecord(head)
        var problem = Problem(refusal)
        if refusal.isInHandlersPlace {
            // What the handler would have said of the exchange is lost.
            exchange.route = (try? Route.find(HTTPRequest(head: head)))?.route.template ?? exchange.route
            problem.cause = refusal.explanation
        }
        return finish(exchange, problem)
    }

    /// A server for this service, not yet started.
    package func makeServer(_ configuration: HTTPServerConfiguration) -> HTTPServer {
        HTTPServer(
            configuration: configuration, refuse: refuse, bodyLimit: BodyLimits(Route.all, limits).limit, gate: gate,
            trusts: trusts, immediate: { ImmediateResponder(self, waker: $0) }, handler: handle)
    }
}
