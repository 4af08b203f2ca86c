import EntitlementCore
package import HTTPServer
package import Ledger

/// The service: everything between an HTTP request and its answer.
///
/// It is put together here of handlers, each of which holds what it needs and nothing else, and of what stands before them:
/// who is admitted, which route is taken, and what is written down. It holds no state of its own that matters, so any number
/// may run beside each other, and its handlers can be called without a socket.
package struct Application: Sendable {
    let context: ServiceContext
    let admission: Admission
    let notifications: NotificationHandler
    let stripe: StripeHandler
    let reconcile: ReconcileHandler
    let checkout: CheckoutHandlers
    let customers: CustomerHandlers
    let commands: CommandHandlers
    let forget: ForgetHandler
    let storeRequests: StoreRequestHandlers
    let log: LogHandlers
    let charts: ChartHandlers
    let monitoring: MonitoringHandlers
    let catalog: CatalogHandlers
    let endpoints: EndpointHandlers
    let console: ConsoleHandlers
    let operations: OperationHandlers

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
        let (reader, limits, writer) = (context.reader, context.limits, ledger.writer)
        let admission = Admission(
            rateLimiter: RateLimiter(limits.rates),
            authenticator: Authenticator(
                keys: ledger.keys, tokens: ledger.tokens, sessions: console, lifetime: limits.keyLifetime,
                outageWait: limits.metricsWait, sha256: context.sha256, now: context.now),
            trustedProxies: trustedProxies, metrics: context.metrics)
        let streams = store.streams ?? StreamsReading([], register: reader.streamRegister)
        let catalogWatch = CatalogWatch(reader: reader, lifetime: limits.keyLifetime)
        let postings = PostingVerifier(trust: trust, admission: admission, now: context.now)
        let commands = CommandRunner(context: context, writer: writer, keys: ledger.commandKeys)
        let positions = PositionWatcher { try await reader.headPosition() }

        self.context = context
        self.admission = admission
        notifications = NotificationHandler(
            context: context, writer: writer, verifier: trust.notifications, admission: admission,
            deliveries: store.deliveries, missed: store.missed, catalogWatch: catalogWatch)
        self.stripe = StripeHandler(
            context: context, writer: writer, webhooks: stripe.webhooks, lookups: stripe.lookups, admission: admission,
            streams: streams, catalogWatch: catalogWatch)
        reconcile = ReconcileHandler(
            context: context, writer: writer, postings: postings, admission: admission, tokens: ledger.tokens,
            passes: passes, ledgerID: ledger.ledgerID)
        checkout = CheckoutHandlers(
            context: context, shops: StripeShops(stripe.shops, logger: context.logger, now: context.now),
            postings: postings, admission: admission, commandKeys: ledger.commandKeys)
        customers = CustomerHandlers(
            context: context, positions: positions, longWork: LongWork(limit: limits.explanationTime, mostWaiting: 32),
            exports: ExportWork(limit: limits.explanationTime, mostWaiting: 8), checks: store.checks,
            logKey: ledger.logKey)
        self.commands = CommandHandlers(context: context, commands: commands, tokens: ledger.tokens)
        forget = ForgetHandler(context: context, commands: commands, forgetting: forgetting)
        storeRequests = StoreRequestHandlers(
            context: context, writer: writer, commandKeys: ledger.commandKeys, statements: trust.statements,
            checks: store.checks)
        log = LogHandlers(reader: reader, ledgerID: ledger.ledgerID, key: ledger.logKey)
        charts = ChartHandlers(context: context, positions: positions)
        monitoring = MonitoringHandlers(reader: reader, streams: streams, now: context.now)
        catalog = CatalogHandlers(context: context, writer: writer)
        endpoints = EndpointHandlers(context: context, commands: commands, webhooks: webhooks)
        self.console = ConsoleHandlers(sessions: console, admission: admission, now: context.now)
        operations = OperationHandlers(
            context: context, passKeys: passes.keys,
            readiness: Readiness(lifetime: limits.readinessLifetime) {
                try await within(limits.readinessWait) {
                    if let refusal = try await ledger.schemaRefusal() { return (refusal, 0) }
                    return (nil, try await reader.status().position)
                }
            })
    }

    /// Answers a request: route, admit, work, answer.
    package func handle(_ request: HTTPRequest) async -> HTTPResponse {
        var exchange = ExchangeRecord(request.head)
        do {
            let (route, parameters) = try Route.find(request)
            exchange.route = route.template
            let credential = try await admission.admit(
                request, for: route, customer: parameters["id"].flatMap { CustomerID($0) })
            exchange.keyID = credential?.key?.id
            let limit = route.operation.body?.limit(context.limits) ?? context.limits.otherBytes
            guard request.body.count <= limit else { throw Problem(HTTPRefusal.bodyTooLarge(limit: limit)) }
            let call = Call(
                request: request, parameters: parameters, credential: credential, operation: route.operation)
            try call.refuseRepeatedParameters()
            exchange.isCommand = route.operation.takes(.idempotencyKey)
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
            if let route = try? Route.find(HTTPRequest(head: head)).route {
                exchange.route = route.template
                exchange.isCommand = route.operation.takes(.idempotencyKey)
            }
            problem.cause = refusal.explanation
        }
        return finish(exchange, problem)
    }

    /// A server for this service, not yet started.
    package func makeServer(_ configuration: HTTPServerConfiguration) -> HTTPServer {
        HTTPServer(
            configuration: configuration, refuse: refuse, bodyLimit: BodyLimits(Route.all, context.limits).limit,
            gate: gate, trusts: admission.trusts,
            immediate: {
                ImmediateResponder(
                    context, admission, writer: reconcile.writer, tokens: reconcile.tokens, passes: reconcile.passes,
                    repeated: reconcile.launches, waker: $0)
            }, handler: handle)
    }

    /// Names, counts, measures and logs an exchange.
    ///
    /// - Parameter claim: what is to be claimed before: where the server has answered already in the caller's place, nothing is
    ///   written down, and the response is lost. `nil`: nobody else answers.
    func finish(
        _ exchange: ExchangeRecord, _ response: HTTPResponse, _ problem: Problem? = nil,
        claiming claim: AnswerClaim? = nil
    ) -> HTTPResponse {
        if let claim, !claim.take() { return response }
        var response = response
        response.headers.append(("X-Request-Id", exchange.id))
        // A session's cookie, unlike `Authorization`, forbids no cache by itself to keep what was answered to it.
        if response.header("Cache-Control") == nil { response.headers.append(("Cache-Control", "no-store")) }
        let duration = exchange.receivedAt.duration(to: .now)
        context.metrics.count(.requests, [exchange.route, String(response.status)])
        context.metrics.observe(.requestDuration, [exchange.route], duration / .seconds(1))

        var fields: [(name: String, value: LogValue)] = [
            ("request_id", .string(exchange.id)), ("method", .string(exchange.method)),
            ("route", .string(exchange.route)), ("status", .integer(Int64(response.status))),
            ("duration_ms", .number((duration / .microseconds(1)).rounded() / 1000)),
        ]
        if let keyID = exchange.keyID ?? problem?.keyID { fields.append(("key_id", .string(keyID))) }
        if let problem {
            fields.append(("code", .string(problem.code.rawValue)))
            if let cause = problem.cause { fields.append(("cause", .string(cause))) }
        }
        context.logger.log(Self.level(of: response.status, route: exchange.route), "request", fields)
        return response
    }

    /// The same for an exchange that came to nothing.
    func finish(
        _ exchange: ExchangeRecord, _ problem: Problem, claiming claim: AnswerClaim? = nil
    ) -> HTTPResponse {
        let problem = exchange.isCommand ? problem.ofCommand : problem
        return finish(
            exchange, exchange.refusal.response(to: problem, requestID: exchange.id), problem, claiming: claim)
    }

    private static func level(of status: Int, route: String) -> LogLevel {
        if status >= 500 { return .error }
        if status >= 400 { return .warning }
        // Probes ask every few seconds, and only a change of their answer is news.
        return ["/healthz", "/readyz"].contains(route) ? .debug : .info
    }
}
