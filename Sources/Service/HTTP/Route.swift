import HTTPServer
import Ledger

/// What a request may be, who may send it, and who answers it.
struct Route: Sendable {
    enum Access: Sendable, Hashable {
        /// Anybody.
        case open
        /// Whoever holds a secret key of this scope.
        case scope(APIScope)
        /// A publishable key, the customer's own token, or a secret key of scope `customers:write`.
        case device
        /// A publishable key, or a secret key of scope `customers:read`.
        case shop
    }

    /// How far the effects and the answer of a request reach.
    enum Reach: Sendable, Hashable {
        /// Within one environment of one app; a credential that is bound to these may use it, and is held to them.
        case bounds
        /// Every app of an environment, as a grant does.
        case everyApp
        /// Every app and environment, as the catalog does.
        case everything
    }

    let method: String
    /// Such as `/v1/customers/{id}/timeline`; what logs and metrics show in place of a path.
    let template: String
    let access: Access
    let reach: Reach
    /// What it takes and answers.
    let operation: APIOperation
    let answer: @Sendable (Application, Call) async throws -> HTTPResponse
    private let segments: [String]

    init(
        _ method: String, _ template: String, _ access: Access, _ operation: APIOperation, reach: Reach? = nil,
        _ answer: @escaping @Sendable (Application, Call) async throws -> HTTPResponse
    ) {
        self.method = method
        self.template = template
        self.access = access
        self.operation = operation
        self.reach = reach ?? access.reach
        self.answer = answer
        segments = template.dropFirst().split(separator: "/").map(String.init)
    }

    /// The values of the template's parameters, by name; `nil` when the path is another.
    func parameters(in path: [String]) -> [String: String]? {
        guard path.count == segments.count else { return nil }
        var parameters: [String: String] = [:]
        for (segment, value) in zip(segments, path) {
            if segment.hasPrefix("{") {
                parameters[String(segment.dropFirst().dropLast())] = value
            } else if segment != value {
                return nil
            }
        }
        return parameters
    }

    /// The route of a request.
    ///
    /// - Throws: `not_found`, or `method_not_allowed` where another method would do.
    static func find(_ request: HTTPRequest) throws(Problem) -> (route: Route, parameters: [String: String]) {
        var allowed: [String] = []
        // People type a slash behind the console's address.
        let path = request.pathSegments == ["console", ""] ? ["console"] : request.pathSegments
        for route in all {
            guard let parameters = route.parameters(in: path) else { continue }
            if route.method == request.method { return (route, parameters) }
            allowed.append(route.method)
            if route.method == "GET" { allowed.append("HEAD") }
        }
        guard !allowed.isEmpty else { throw Problem(.notFound, "There is nothing at this path.") }
        let list = allowed.joined(separator: ", ")
        throw Problem(.methodNotAllowed, "This path takes \(list).", headers: [("Allow", list)])
    }

    static let all: [Route] = [
        Route("POST", "/v1/notifications/appstore", .open, .receiveAppStoreNotification) {
            try await $0.notifications.receive($1)
        },
        Route("POST", "/v1/notifications/stripe", .open, .receiveStripeEvent) { try await $0.stripe.receive($1) },
        Route("GET", "/v1/customers/{id}/entitlements", .scope(.customersRead), .readEntitlements) {
            try await $0.customers.entitlements($1)
        },
        Route("GET", "/v1/customers/{id}/timeline", .scope(.customersRead), .readTimeline) {
            try await $0.customers.timeline($1)
        },
        Route("GET", "/v1/customers/{id}/explain", .scope(.customersRead), .explain) {
            try await $0.customers.explain($1)
        },
        Route("GET", "/v1/customers/{id}/events", .scope(.eventsRead), .listCustomerEvents) {
            try await $0.log.customerEvents($1)
        },
        Route("POST", "/v1/customers/{id}/reconcile", .device, .reconcile) { try await $0.reconcile.reconcile($1) },
        Route("POST", "/v1/customers/{id}/checkout", .device, .openCheckout) { try await $0.checkout.openCheckout($1) },
        Route("POST", "/v1/customers/{id}/portal", .device, .openPortal) { try await $0.checkout.openPortal($1) },
        Route("POST", "/v1/customers/{id}/tokens", .scope(.customersWrite), .makeToken) {
            try await $0.commands.makeToken($1)
        },
        Route("POST", "/v1/customers/{id}/actions/link", .scope(.customersWrite), .link, reach: .everyApp) {
            try await $0.commands.link($1)
        },
        Route("POST", "/v1/customers/{id}/actions/transfer", .scope(.customersWrite), .transfer) {
            try await $0.commands.transfer($1)
        },
        Route("POST", "/v1/customers/{id}/actions/grant", .scope(.customersWrite), .grant, reach: .everyApp) {
            try await $0.commands.grant($1)
        },
        Route(
            "POST", "/v1/customers/{id}/actions/revoke_grant", .scope(.customersWrite), .revokeGrant, reach: .everyApp
        ) { try await $0.commands.revokeGrant($1) },
        Route("POST", "/v1/customers/{id}/actions/preview", .scope(.customersWrite), .preview, reach: .everyApp) {
            try await $0.commands.preview($1)
        },
        Route("POST", "/v1/customers/{id}/actions/forget", .scope(.admin), .forgetCustomer, reach: .everything) {
            try await $0.forget.forget($1)
        },
        Route("GET", "/v1/customers/{id}/export", .scope(.eventsRead), .exportCustomer, reach: .everything) {
            try await $0.customers.export($1)
        },
        Route("GET", "/v1/customers", .scope(.customersRead), .findCustomers) { try await $0.customers.find($1) },
        Route("GET", "/v1/products", .shop, .listProducts) { try await $0.checkout.products($1) },
        Route("GET", "/v1/subscriptions/{original_transaction_id}", .scope(.customersRead), .readSubscription) {
            try await $0.customers.subscription($1)
        },
        Route(
            "POST", "/v1/subscriptions/{original_transaction_id}/actions/check", .scope(.customersWrite),
            .checkSubscription
        ) { try await $0.storeRequests.check($1) },
        Route(
            "POST", "/v1/subscriptions/{original_transaction_id}/actions/extend", .scope(.customersWrite),
            .extendSubscription
        ) { try await $0.storeRequests.extend($1) },
        Route("POST", "/v1/offer_signatures", .scope(.customersWrite), .signOffer) {
            try await $0.storeRequests.signOffer($1)
        },
        Route("GET", "/v1/streams", .scope(.eventsRead), .listStreams) { try await $0.monitoring.showStreams($1) },
        Route("GET", "/v1/drift", .scope(.eventsRead), .listDrift) { try await $0.monitoring.showDrift($1) },
        Route("GET", "/v1/charts", .scope(.eventsRead), .listCharts) { try await $0.charts.list($1) },
        Route("GET", "/v1/remarks", .scope(.eventsRead), .listRemarks, reach: .everything) {
            try await $0.monitoring.showRemarks($1)
        },
        Route("GET", "/v1/charts/{name}", .scope(.eventsRead), .readChart) { try await $0.charts.read($1) },
        Route("GET", "/v1/events", .scope(.eventsRead), .listEvents) { try await $0.log.events($1) },
        Route("GET", "/v1/events/{position}", .scope(.eventsRead), .readEvent) { try await $0.log.event($1) },
        Route("GET", "/v1/events/{position}/proof", .scope(.eventsRead), .proveEvent) {
            try await $0.log.inclusionProof($1)
        },
        Route("GET", "/v1/ledger", .scope(.eventsRead), .readLedger) { try await $0.log.ledger($1) },
        Route("GET", "/v1/ledger/checkpoint", .scope(.eventsRead), .readCheckpoint) { try await $0.log.checkpoint($1) },
        Route("GET", "/v1/ledger/consistency", .scope(.eventsRead), .proveConsistency) {
            try await $0.log.consistencyProof($1)
        },
        Route("GET", "/v1/catalog", .scope(.customersRead), .readCatalog) { try await $0.catalog.read($1) },
        Route("PUT", "/v1/catalog", .scope(.catalogWrite), .replaceCatalog) { try await $0.catalog.replace($1) },
        Route("POST", "/v1/catalog/actions/try", .scope(.catalogWrite), .tryCatalog) {
            try await $0.catalog.tryOut($1)
        },
        Route("GET", "/revenuecat/v1/subscribers/{app_user_id}", .scope(.customersRead), .readRevenueCatSubscriber) {
            try await $0.customers.revenueCatSubscriber($1)
        },
        Route("POST", "/v1/webhook_endpoints", .scope(.admin), .createEndpoint) { try await $0.endpoints.create($1) },
        Route("GET", "/v1/webhook_endpoints", .scope(.admin), .listEndpoints) { try await $0.endpoints.list($1) },
        Route("GET", "/v1/webhook_endpoints/{id}", .scope(.admin), .readEndpoint) { try await $0.endpoints.show($1) },
        Route("PATCH", "/v1/webhook_endpoints/{id}", .scope(.admin), .changeEndpoint) {
            try await $0.endpoints.change($1)
        },
        Route("DELETE", "/v1/webhook_endpoints/{id}", .scope(.admin), .deleteEndpoint) {
            try await $0.endpoints.delete($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/rotate_secret", .scope(.admin), .rotateEndpointSecret) {
            try await $0.endpoints.rotateSecret($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/pause", .scope(.admin), .pauseEndpoint) {
            try await $0.endpoints.pause($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/resume", .scope(.admin), .resumeEndpoint) {
            try await $0.endpoints.resume($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/test", .scope(.admin), .testEndpoint) {
            try await $0.endpoints.test($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/redeliver", .scope(.admin), .redeliver) {
            try await $0.endpoints.redeliver($1)
        },
        Route("GET", "/v1/webhook_endpoints/{id}/deliveries", .scope(.admin), .listDeliveries) {
            try await $0.endpoints.deliveries($1)
        },
        Route("GET", "/console", .open, .readConsole) { try await $0.console.page($1) },
        Route("GET", "/console/assets/{version}/{file}", .open, .readConsoleFile) { try await $0.console.asset($1) },
        Route("POST", "/console/session", .open, .signIn) { try await $0.console.signIn($1) },
        Route("GET", "/console/session", .open, .readSession) { try await $0.console.showSession($1) },
        Route("DELETE", "/console/session", .open, .signOut) { try await $0.console.signOut($1) },
        Route("GET", "/metrics", .scope(.metrics), .readMetrics, reach: .everyApp) {
            try await $0.operations.showMetrics($1)
        },
        Route("GET", "/.well-known/rightful-keys", .open, .readPassKeys) {
            try await $0.operations.publishPassKeys($1)
        },
        Route("GET", "/.well-known/rightful-log-key", .open, .readLogKey) { try await $0.log.publishKey($1) },
        Route("GET", "/v1/openapi.json", .open, .readDescription) { try await $0.operations.publishDescription($1) },
        Route("GET", "/healthz", .open, .readHealth) { try await $0.operations.health($1) },
        Route("GET", "/readyz", .open, .readReadiness) { try await $0.operations.ready($1) },
    ]
}

extension Route.Access {
    /// How far what it takes reaches, unless a route says otherwise.
    var reach: Route.Reach { self == .scope(.catalogWrite) ? .everything : .bounds }
}
