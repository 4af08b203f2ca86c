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
            try await $0.receiveNotification($1)
        },
        Route("POST", "/v1/notifications/stripe", .open, .receiveStripeEvent) { try await $0.receiveStripeEvent($1) },
        Route("GET", "/v1/customers/{id}/entitlements", .scope(.customersRead), .readEntitlements) {
            try await $0.entitlements($1)
        },
        Route("GET", "/v1/customers/{id}/timeline", .scope(.customersRead), .readTimeline) {
            try await $0.timeline($1)
        },
        Route("GET", "/v1/customers/{id}/explain", .scope(.customersRead), .explain) { try await $0.explain($1) },
        Route("GET", "/v1/customers/{id}/events", .scope(.eventsRead), .listCustomerEvents) {
            try await $0.customerEvents($1)
        },
        Route("POST", "/v1/customers/{id}/reconcile", .device, .reconcile) { try await $0.reconcile($1) },
        Route("POST", "/v1/customers/{id}/checkout", .device, .openCheckout) { try await $0.openCheckout($1) },
        Route("POST", "/v1/customers/{id}/portal", .device, .openPortal) { try await $0.openPortal($1) },
        Route("POST", "/v1/customers/{id}/tokens", .scope(.customersWrite), .makeToken) {
            try await $0.makeCustomerToken($1)
        },
        Route("POST", "/v1/customers/{id}/actions/link", .scope(.customersWrite), .link, reach: .everyApp) {
            try await $0.link($1)
        },
        Route("POST", "/v1/customers/{id}/actions/transfer", .scope(.customersWrite), .transfer) {
            try await $0.transfer($1)
        },
        Route("POST", "/v1/customers/{id}/actions/grant", .scope(.customersWrite), .grant, reach: .everyApp) {
            try await $0.grant($1)
        },
        Route(
            "POST", "/v1/customers/{id}/actions/revoke_grant", .scope(.customersWrite), .revokeGrant, reach: .everyApp
        ) { try await $0.revokeGrant($1) },
        Route("POST", "/v1/customers/{id}/actions/preview", .scope(.customersWrite), .preview, reach: .everyApp) {
            try await $0.preview($1)
        },
        Route("POST", "/v1/customers/{id}/actions/forget", .scope(.admin), .forgetCustomer, reach: .everything) {
            try await $0.forgetCustomer($1)
        },
        Route("GET", "/v1/customers/{id}/export", .scope(.eventsRead), .exportCustomer, reach: .everything) {
            try await $0.exportCustomer($1)
        },
        Route("GET", "/v1/customers", .scope(.customersRead), .findCustomers) { try await $0.customers($1) },
        Route("GET", "/v1/products", .shop, .listProducts) { try await $0.products($1) },
        Route("GET", "/v1/subscriptions/{original_transaction_id}", .scope(.customersRead), .readSubscription) {
            try await $0.subscription($1)
        },
        Route(
            "POST", "/v1/subscriptions/{original_transaction_id}/actions/check", .scope(.customersWrite),
            .checkSubscription
        ) { try await $0.checkSubscription($1) },
        Route(
            "POST", "/v1/subscriptions/{original_transaction_id}/actions/extend", .scope(.customersWrite),
            .extendSubscription
        ) { try await $0.extendSubscription($1) },
        Route("POST", "/v1/offer_signatures", .scope(.customersWrite), .signOffer) { try await $0.signOffer($1) },
        Route("GET", "/v1/streams", .scope(.eventsRead), .listStreams) { try await $0.showStreams($1) },
        Route("GET", "/v1/drift", .scope(.eventsRead), .listDrift) { try await $0.showDrift($1) },
        Route("GET", "/v1/charts", .scope(.eventsRead), .listCharts) { try await $0.charts($1) },
        Route("GET", "/v1/remarks", .scope(.eventsRead), .listRemarks, reach: .everything) {
            try await $0.showRemarks($1)
        },
        Route("GET", "/v1/charts/{name}", .scope(.eventsRead), .readChart) { try await $0.chart($1) },
        Route("GET", "/v1/events", .scope(.eventsRead), .listEvents) { try await $0.events($1) },
        Route("GET", "/v1/events/{position}", .scope(.eventsRead), .readEvent) { try await $0.event($1) },
        Route("GET", "/v1/events/{position}/proof", .scope(.eventsRead), .proveEvent) {
            try await $0.inclusionProof($1)
        },
        Route("GET", "/v1/ledger", .scope(.eventsRead), .readLedger) { try await $0.ledger($1) },
        Route("GET", "/v1/ledger/checkpoint", .scope(.eventsRead), .readCheckpoint) { try await $0.checkpoint($1) },
        Route("GET", "/v1/ledger/consistency", .scope(.eventsRead), .proveConsistency) {
            try await $0.consistencyProof($1)
        },
        Route("GET", "/v1/catalog", .scope(.customersRead), .readCatalog) { try await $0.catalog($1) },
        Route("PUT", "/v1/catalog", .scope(.catalogWrite), .replaceCatalog) { try await $0.putCatalog($1) },
        Route("POST", "/v1/catalog/actions/try", .scope(.catalogWrite), .tryCatalog) { try await $0.tryCatalog($1) },
        Route("GET", "/revenuecat/v1/subscribers/{app_user_id}", .scope(.customersRead), .readRevenueCatSubscriber) {
            try await $0.revenueCatSubscriber($1)
        },
        Route("POST", "/v1/webhook_endpoints", .scope(.admin), .createEndpoint) { try await $0.createEndpoint($1) },
        Route("GET", "/v1/webhook_endpoints", .scope(.admin), .listEndpoints) { try await $0.listEndpoints($1) },
        Route("GET", "/v1/webhook_endpoints/{id}", .scope(.admin), .readEndpoint) { try await $0.showEndpoint($1) },
        Route("PATCH", "/v1/webhook_endpoints/{id}", .scope(.admin), .changeEndpoint) {
            try await $0.changeEndpoint($1)
        },
        Route("DELETE", "/v1/webhook_endpoints/{id}", .scope(.admin), .deleteEndpoint) {
            try await $0.deleteEndpoint($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/rotate_secret", .scope(.admin), .rotateEndpointSecret) {
            try await $0.rotateEndpointSecret($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/pause", .scope(.admin), .pauseEndpoint) {
            try await $0.pauseEndpoint($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/resume", .scope(.admin), .resumeEndpoint) {
            try await $0.resumeEndpoint($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/test", .scope(.admin), .testEndpoint) {
            try await $0.testEndpoint($1)
        },
        Route("POST", "/v1/webhook_endpoints/{id}/actions/redeliver", .scope(.admin), .redeliver) {
            try await $0.redeliver($1)
        },
        Route("GET", "/v1/webhook_endpoints/{id}/deliveries", .scope(.admin), .listDeliveries) {
            try await $0.endpointDeliveries($1)
        },
        Route("GET", "/console", .open, .readConsole) { try await $0.consolePage($1) },
        Route("GET", "/console/assets/{version}/{file}", .open, .readConsoleFile) { try await $0.consoleAsset($1) },
        Route("POST", "/console/session", .open, .signIn) { try await $0.signIn($1) },
        Route("GET", "/console/session", .open, .readSession) { try await $0.showSession($1) },
        Route("DELETE", "/console/session", .open, .signOut) { try await $0.signOut($1) },
        Route("GET", "/metrics", .scope(.metrics), .readMetrics, reach: .everyApp) { try await $0.showMetrics($1) },
        Route("GET", "/.well-known/rightful-keys", .open, .readPassKeys) { try await $0.publishPassKeys($1) },
        Route("GET", "/.well-known/rightful-log-key", .open, .readLogKey) { try await $0.publishLogKey($1) },
        Route("GET", "/v1/openapi.json", .open, .readDescription) { try await $0.publishDescription($1) },
        Route("GET", "/healthz", .open, .readHealth) { try await $0.health($1) },
        Route("GET", "/readyz", .open, .readReadiness) { try await $0.readiness($1) },
    ]
}

extension Route.Access {
    /// How far what it takes reaches, unless a route says otherwise.
    var reach: Route.Reach { self == .scope(.catalogWrite) ? .everything : .bounds }
}
