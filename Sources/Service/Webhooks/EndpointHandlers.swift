import EntitlementAPI
import EntitlementCore
import HTTPServer
package import Ledger

/// Everything that handlers need about outgoing webhooks.
package struct Webhooks: Sendable {
    let endpoints: EndpointRegister
    let list: DeliveryList
    let projector: WebhookProjector
    /// Whether endpoints may be at private addresses, and by plain http.
    let allowsPrivate: Bool

    package init(
        endpoints: EndpointRegister, list: DeliveryList, projector: WebhookProjector, allowsPrivate: Bool
    ) {
        self.endpoints = endpoints
        self.list = list
        self.projector = projector
        self.allowsPrivate = allowsPrivate
    }
}

extension Application {
    /// `POST /v1/webhook_endpoints`.
    func createEndpoint(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let request = try call.command(EndpointRequest.self)
        let command = try commandKey(of: call)
        if let command, let kept = try await commandKeys.answer(to: command.key, command.requestHash, now: now()) {
            return try endpointAnswer(try WireJSON.decode(EndpointDocument.self, from: kept))
        }
        let order = try order(request, call.scope, allowsPrivate: webhooks.allowsPrivate)
        try await webhooks.endpoints.refresh()
        guard webhooks.endpoints.count < EndpointRegister.limit else {
            throw Problem(
                .unprocessable, "There are \(EndpointRegister.limit) endpoints, the most at a time; delete one first.")
        }
        let made = try await webhooks.endpoints.create(order)
        let document = try await document(of: made.id, call.scope, webhooks, secret: made.secret)
        if let command {
            try await commandKeys.keep(try WireJSON.encode(document), for: command.key, command.requestHash, now: now())
        }
        return try endpointAnswer(document, position: made.position)
    }

    /// `GET /v1/webhook_endpoints`.
    func listEndpoints(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let (after, limit) = try call.page()
        try await webhooks.endpoints.refresh()
        let own = webhooks.endpoints.endpoints.filter { $0.position > after && $0.isTold(to: call.scope) }
        let page = own.prefix(limit)
        let standings = try await webhooks.endpoints.standings(of: page.map(\.id))
        return try .document(
            ListDocument(
                items: page.map { self.document($0, standings[$0.id], webhooks) }, hasMore: own.count > page.count,
                nextAfter: page.last?.position ?? after))
    }

    /// `GET /v1/webhook_endpoints/{id}`.
    func showEndpoint(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        return try .document(try await document(of: try call.value(of: .endpoint) ?? "", call.scope, webhooks))
    }

    /// `DELETE /v1/webhook_endpoints/{id}`.
    func deleteEndpoint(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let endpoint = try await endpoint(call, webhooks)
        let position = try await webhooks.endpoints.change(endpoint.id, .removed)
        try await webhooks.endpoints.refresh()
        return try .document(EndpointRemovalDocument(id: endpoint.id, position: position), position: position)
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/rotate_secret`.
    func rotateEndpointSecret(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let command = try commandKey(of: call)
        if let command, let kept = try await commandKeys.answer(to: command.key, command.requestHash, now: now()) {
            return try endpointAnswer(try WireJSON.decode(EndpointDocument.self, from: kept))
        }
        let endpoint = try await endpoint(call, webhooks)
        let rotated = try await webhooks.endpoints.rotateSecret(of: endpoint.id)
        let document = try await document(of: endpoint.id, call.scope, webhooks, secret: rotated.secret)
        if let command {
            try await commandKeys.keep(try WireJSON.encode(document), for: command.key, command.requestHash, now: now())
        }
        return try endpointAnswer(document, position: rotated.position)
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/pause`.
    func pauseEndpoint(_ call: Call) async throws -> HTTPResponse {
        try await change(call, to: .paused(.ordered)) { $0.pause == nil }
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/resume`.
    func resumeEndpoint(_ call: Call) async throws -> HTTPResponse {
        try await change(call, to: .resumed) { $0.pause != nil }
    }

    private func change(
        _ call: Call, to change: EndpointFact.Change, where isNews: (Endpoint) -> Bool
    ) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let endpoint = try await endpoint(call, webhooks)
        if isNews(endpoint) { try await webhooks.endpoints.change(endpoint.id, change) }
        return try .document(try await document(of: endpoint.id, call.scope, webhooks))
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/test`: sends something to try it with, at once.
    func testEndpoint(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let endpoint = try await endpoint(call, webhooks)
        let instant = now()
        _ = try await webhooks.projector.catchUp(to: endpoint.position, within: limits.positionWait, now: now)
        let body = try WireJSON.encode(EndpointTestDocument(endpoint: endpoint.id))
        guard let number = try await webhooks.list.test(endpoint.id, body: body, at: instant),
            let made = try await webhooks.list.deliveries(of: endpoint.id, after: number - 1, limit: 1).first
        else { throw Problem.unavailable("The endpoint is not followed yet; send it again.") }
        return try .document(DeliveryDocument(made))
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/redeliver`.
    func redeliver(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let request = try call.command(RedeliveryRequest.self)
        let endpoint = try await endpoint(call, webhooks)
        let redelivery: Redelivery =
            switch request.choice {
            case .positions(let positions): .positions(positions)
            case .failed: .failed
            }
        do {
            let count = try await webhooks.list.redeliver(redelivery, to: endpoint.id)
            return try .document(RedeliveryDocument(endpoint: endpoint.id, deliveries: count))
        } catch let error as LedgerError where error.code == .tooMuch {
            throw Problem(.unprocessable, error.description, param: "from")
        }
    }

    /// `GET /v1/webhook_endpoints/{id}/deliveries`.
    func endpointDeliveries(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let endpoint = try await endpoint(call, webhooks)
        let (after, limit) = try call.page()
        let state = try call.word(.deliveryState, ListedDelivery.State.self)
        let found = try await webhooks.list.deliveries(
            of: endpoint.id, after: after, limit: limit + 1, state: state)
        let page = found.prefix(limit)
        return try .document(
            ListDocument(
                items: page.map { DeliveryDocument($0) }, hasMore: found.count > limit,
                nextAfter: page.last?.number ?? after))
    }

    // MARK: - What they share

    private func ownWebhooks() throws(Problem) -> Webhooks {
        guard let webhooks else { throw Problem(.notFound, "There is nothing at this path.") }
        return webhooks
    }

    private func endpoint(_ call: Call, _ webhooks: Webhooks) async throws -> Endpoint {
        try await endpoint(try call.value(of: .endpoint) ?? "", call.scope, webhooks)
    }

    private func endpoint(_ id: String, _ scope: LogScope, _ webhooks: Webhooks) async throws -> Endpoint {
        try await webhooks.endpoints.refresh()
        guard let endpoint = webhooks.endpoints.endpoint(id), endpoint.isTold(to: scope)
        else { throw Problem(.notFound, "There is no such endpoint of webhooks.", param: "id") }
        return endpoint
    }

    private func document(
        of id: String, _ scope: LogScope, _ webhooks: Webhooks, secret: String? = nil
    ) async throws -> EndpointDocument {
        let endpoint = try await endpoint(id, scope, webhooks)
        let standing = try await webhooks.endpoints.standings(of: [id])[id]
        return document(endpoint, standing, webhooks, secret: secret)
    }

    private func document(
        _ endpoint: Endpoint, _ standing: EndpointStanding?, _ webhooks: Webhooks, secret: String? = nil
    ) -> EndpointDocument {
        EndpointDocument(
            endpoint, url: webhooks.endpoints.target(endpoint.id, now: now())?.url,
            failingSince: standing?.failingSince, waiting: standing?.waiting ?? 0, failed: standing?.failed ?? 0,
            secret: secret)
    }

    /// Whoever has the secret can pretend to be this service.
    private func endpointAnswer(_ document: EndpointDocument, position: Int64? = nil) throws -> HTTPResponse {
        try .document(
            document, position: position ?? document.position, headers: [("Cache-Control", "no-store")])
    }

    /// What is asked for, held to what the key may hear of.
    private func order(
        _ request: EndpointRequest, _ scope: LogScope, allowsPrivate: Bool
    ) throws(Problem) -> EndpointOrder {
        let url: EndpointURL
        do throws(EndpointURL.Refusal) {
            url = try EndpointURL(request.url, allowsPrivate: allowsPrivate)
        } catch {
            throw Problem(.unprocessable, error.reason, param: "url")
        }
        let format: EndpointFormat
        let (types, app, authorization): (Set<MessageType>, String?, String?)
        do throws(EndpointChoices.Refusal) {
            format = try EndpointChoices.format(request.format)
            types = try EndpointChoices.types(request.types ?? [], in: format)
            app = try EndpointChoices.app(request.app)
            authorization = try EndpointChoices.authorization(request.authorizationHeader, in: format)
        } catch {
            throw Problem(.unprocessable, error.reason, param: error.member)
        }
        if let only = scope.environment, let asked = request.environment, asked != only {
            throw Problem(.forbidden, "This credential is for \(only.rawValue) alone.", param: "environment")
        }
        if let only = scope.app, let asked = request.app, asked != only.bundleID {
            throw Problem(.forbidden, "This credential is for \(only.bundleID) alone.", param: "app")
        }
        return EndpointOrder(
            to: url, types: types, environment: request.environment ?? scope.environment,
            bundleID: app ?? scope.app?.bundleID, format: format, description: request.description,
            authorization: authorization)
    }
}

extension Endpoint {
    /// Whether somebody may know of it who is held to a part of the log: it tells no more than they may hear.
    fileprivate func isTold(to scope: LogScope) -> Bool {
        if let only = scope.environment, terms.environment != only { return false }
        if let only = scope.app, terms.bundleID != only.bundleID { return false }
        return true
    }
}

extension DeliveryDocument {
    fileprivate init(_ delivery: ListedDelivery) {
        self.init(
            id: delivery.id.map { WebhookMessage.id($0) }, number: delivery.number, state: delivery.state.rawValue,
            type: delivery.type?.rawValue, position: delivery.position, at: delivery.at,
            environment: delivery.environment, customerID: delivery.customerID, sequence: delivery.sequence,
            attempts: Attempts(
                count: delivery.attempts, firstAt: delivery.firstAt, lastAt: delivery.lastAt, nextAt: delivery.dueAt,
                status: delivery.status, failure: delivery.failure))
    }
}
