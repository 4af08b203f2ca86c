import EntitlementAPI
import EntitlementCore
import HTTPServer
package import Ledger

/// Everything that handlers need about outgoing webhooks.
package struct Webhooks: Sendable {
    let endpoints: EndpointRegister
    let list: DeliveryList
    let projector: WebhookProjector
    /// The bundle ids of the configured apps.
    let apps: Set<String>
    /// Whether endpoints may be at private addresses, and by plain http.
    let allowsPrivate: Bool
    /// Whether anything is sent.
    let sends: Bool

    package init(
        endpoints: EndpointRegister, list: DeliveryList, projector: WebhookProjector, apps: Set<String>,
        allowsPrivate: Bool, sends: Bool = true
    ) {
        self.sends = sends
        self.endpoints = endpoints
        self.list = list
        self.projector = projector
        self.apps = apps
        self.allowsPrivate = allowsPrivate
    }
}

/// Makes, changes, shows and tries endpoints of webhooks.
struct EndpointHandlers: Sendable {
    let context: ServiceContext
    let commands: CommandRunner
    /// `nil`: nobody is told of anything.
    let webhooks: Webhooks?

    /// `POST /v1/webhook_endpoints`.
    func create(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let request = try call.command(EndpointRequest.self)
        let deduplication = try context.deduplication(of: call, about: nil)
        return try await commands.carryOut(call) {
            let order = try order(request, call.scope, allowsPrivate: webhooks.allowsPrivate)
            do {
                return .answer(try await webhooks.endpoints.create(order, deduplication))
            } catch let error as LedgerError where error.code == .tooMuch {
                throw Problem(.unprocessable, error.description)
            }
        } answer: { position in
            try await endpointAnswer(
                call, at: position, webhooks, unknown: request.unknownMembers, tellsSecret: true)
        }
    }

    /// `PATCH /v1/webhook_endpoints/{id}`.
    func change(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let request = try call.command(EndpointChangeRequest.self)
        let deduplication = try context.deduplication(of: call, about: nil)
        return try await commands.carryOut(call) {
            let endpoint = try await endpoint(call, webhooks)
            if let only = call.scope.environment, let asked = request.environment, asked != only {
                throw Problem(.forbidden, "This credential is for \(only.rawValue) alone.", param: "environment")
            }
            let amendment: EndpointAmendment
            do throws(EndpointChoices.Refusal) {
                amendment = try EndpointChoices.amendment(
                    request, of: endpoint, allowsPrivate: webhooks.allowsPrivate)
            } catch {
                throw Problem(.unprocessable, error.reason, param: error.member)
            }
            return .answer(try await webhooks.endpoints.change(endpoint, amendment, deduplication))
        } answer: { position in
            try await endpointAnswer(call, at: position, webhooks, unknown: request.unknownMembers)
        }
    }

    /// `GET /v1/webhook_endpoints`.
    func list(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let (after, limit) = try call.page()
        try await webhooks.endpoints.refresh()
        let own = webhooks.endpoints.endpoints.filter { $0.position > after && $0.isTold(to: call.scope) }
        let page = own.prefix(limit)
        let standings = try await webhooks.endpoints.standings(of: page.map(\.id))
        return try .document(
            ListDocument(
                items: page.map { EndpointDocument($0, standings[$0.id], in: webhooks.endpoints, at: context.now()) },
                hasMore: own.count > page.count,
                nextAfter: page.last?.position ?? after))
    }

    /// `GET /v1/webhook_endpoints/{id}`.
    func show(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        return try .document(try await document(of: try call.value(of: .endpoint) ?? "", call.scope, webhooks))
    }

    /// `DELETE /v1/webhook_endpoints/{id}`.
    func delete(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let deduplication = try context.deduplication(of: call, about: nil)
        return try await commands.carryOut(call) {
            let endpoint = try await endpoint(call, webhooks)
            return .answer(try await webhooks.endpoints.change(endpoint.id, .removed, deduplication))
        } answer: { position in
            try await webhooks.endpoints.refresh()
            let id = try await endpointFact(at: position).endpointID
            return try .document(EndpointRemovalDocument(id: id, position: position), position: position)
        }
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/rotate_secret`.
    func rotateSecret(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let request = try call.command(SecretRotationRequest.self)
        let deduplication = try context.deduplication(of: call, about: nil)
        return try await commands.carryOut(call) {
            let endpoint = try await endpoint(call, webhooks)
            return .answer(
                try await webhooks.endpoints.rotateSecret(
                    of: endpoint.id, keepOldSeconds: request.keepOldSeconds, deduplication))
        } answer: { position in
            try await endpointAnswer(call, at: position, webhooks, tellsSecret: true)
        }
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/pause`.
    func pause(_ call: Call) async throws -> HTTPResponse {
        try await change(call, to: .paused(.ordered)) { $0.pause == nil }
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/resume`.
    func resume(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        return try await change(call, to: .resumed) { try await webhooks.endpoints.isHeldUp($0) }
    }

    private func change(
        _ call: Call, to change: EndpointFact.Change, where isNews: (Endpoint) async throws -> Bool
    ) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let deduplication = try context.deduplication(of: call, about: nil)
        return try await commands.carryOut(call) {
            let endpoint = try await endpoint(call, webhooks)
            if try await isNews(endpoint) {
                return .answer(try await webhooks.endpoints.change(endpoint.id, change, deduplication))
            }
            // Under a key even what is so already becomes an event, since the event is what remembers the key.
            guard deduplication != .unique else { return .answer(endpoint.lastPosition) }
            return .answer(
                try await webhooks.endpoints.change(endpoint.id, .changed(EndpointChanges()), deduplication))
        } answer: { position in
            try await endpointAnswer(call, at: position, webhooks)
        }
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/test`: sends something to try it with, at once.
    func test(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        return try await commands.carryOutOnce(call) {
            HTTPResponse.json($0)
        } body: { command in
            let endpoint = try await endpoint(call, webhooks)
            guard webhooks.sends else {
                throw Problem(
                    .unprocessable, "Nothing is sent: webhooks.enabled is false in this service's configuration.")
            }
            guard endpoint.pause == nil else {
                throw Problem(.unprocessable, "The endpoint is paused, so that nothing is sent to it; resume it first.")
            }
            _ = try await webhooks.projector.catchUp(
                to: endpoint.position, within: context.limits.positionWait, now: context.now)
            let body = try WireJSON.encode(EndpointTestDocument(endpoint: endpoint.id))
            let answer = try await webhooks.list.test(endpoint.id, body: body, at: context.now(), once: command) {
                try WireJSON.encode(DeliveryDocument($0, isPaused: false))
            }
            guard let answer else { throw Problem.unavailable("The endpoint is not followed yet; send it again.") }
            return .json(answer)
        }
    }

    /// `POST /v1/webhook_endpoints/{id}/actions/redeliver`.
    func redeliver(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let request = try call.command(RedeliveryRequest.self)
        let id = try call.value(of: .endpoint) ?? ""
        func answer(_ done: Redelivered) throws -> HTTPResponse {
            try .document(RedeliveryDocument(endpoint: id, deliveries: done.count, nextAfter: done.next))
        }
        return try await commands.carryOutOnce(call) {
            try Redelivered(kept: $0).map(answer)
        } body: { command in
            let endpoint = try await endpoint(call, webhooks)
            let redelivery: Redelivery
            switch request.choice {
            case .positions(let positions): redelivery = .positions(positions)
            case .failed: redelivery = .failed
            case .span(let since, let until): redelivery = .span(since: since, until: until)
            case .message(let id):
                guard let stored = WebhookMessage.stored(id), try await webhooks.list.holds(stored, to: endpoint.id)
                else {
                    throw Problem(
                        .notFound, "The endpoint was sent no such message, or it is not kept any more.",
                        param: "webhook_id")
                }
                redelivery = .message(stored)
            }
            return try answer(
                try await webhooks.list.redeliver(
                    redelivery, to: endpoint.id, after: request.after ?? 0, once: command))
        }
    }

    /// `GET /v1/webhook_endpoints/{id}/deliveries`.
    func deliveries(_ call: Call) async throws -> HTTPResponse {
        let webhooks = try ownWebhooks()
        let endpoint = try await endpoint(call, webhooks)
        let (after, limit) = try call.page()
        let state = try call.word(.deliveryState, DeliveryState.self)
        let found = try await webhooks.list.deliveries(
            of: endpoint.id, after: after, limit: limit + 1, state: state)
        let page = found.prefix(limit)
        return try .document(
            ListDocument(
                items: page.map { DeliveryDocument($0, isPaused: endpoint.pause != nil) }, hasMore: found.count > limit,
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
        of id: String, _ scope: LogScope, _ webhooks: Webhooks
    ) async throws -> EndpointDocument {
        let endpoint = try await endpoint(id, scope, webhooks)
        let standing = try await webhooks.endpoints.standings(of: [id])[id]
        return EndpointDocument(endpoint, standing, in: webhooks.endpoints, at: context.now())
    }

    private func endpointFact(at position: Int64) async throws -> EndpointFact {
        guard case .access(.endpoint(let fact)) = try await context.reader.recordedEvent(at: position).fact else {
            throw LedgerError(.corrupt, "the event at position \(position) is about no endpoint")
        }
        return fact
    }

    /// An endpoint as a command's answer shows it: under a key as it was shown the first time.
    ///
    /// Its address and its secret are read from where they live, so that they are kept nowhere else for whoever sends the same
    /// again.
    ///
    /// - Parameter tellsSecret: the one that the event at the position gave it.
    private func endpointAnswer(
        _ call: Call, at position: Int64, _ webhooks: Webhooks, unknown: [String] = [], tellsSecret: Bool = false
    ) async throws -> HTTPResponse {
        let fact = try await endpointFact(at: position)
        let kept = try await commands.kept(for: call) {
            let endpoint = try await endpoint(fact.endpointID, call.scope, webhooks)
            let standing = try await webhooks.endpoints.standings(of: [endpoint.id])[endpoint.id]
            let remarks = EndpointChoices.remarks(
                unknown, bundleID: tellsSecret ? endpoint.terms.bundleID : nil, apps: webhooks.apps)
            return try WireJSON.encode(
                ShownEndpoint(
                    document: EndpointDocument(endpoint, standing, remarks: remarks),
                    addressHash: endpoint.terms.urlHash.bytes))
        }
        let shown = try WireJSON.decode(ShownEndpoint.self, from: kept)
        try await webhooks.endpoints.refresh()
        var secret: String?
        if tellsSecret {
            secret = fact.secretHash.flatMap { webhooks.endpoints.secret(of: fact.endpointID, hash: $0) }
            guard secret != nil else {
                throw Problem(.notFound, "The endpoint's secret is not kept any more; rotate it.")
            }
        }
        let address = Digest(shown.addressHash).flatMap { webhooks.endpoints.address(of: fact.endpointID, hash: $0) }
        // Whoever has the secret can pretend to be this service.
        return try .document(
            shown.document.telling(url: address, secret: secret), position: position,
            headers: [("Cache-Control", "no-store")])
    }

    /// What is asked for, held to what the key may hear of.
    private func order(
        _ request: EndpointRequest, _ scope: LogScope, allowsPrivate: Bool
    ) throws(Problem) -> EndpointOrder {
        if let only = scope.environment, let asked = request.environment, asked != only {
            throw Problem(.forbidden, "This credential is for \(only.rawValue) alone.", param: "environment")
        }
        if let only = scope.app, let asked = request.app, asked != only.bundleID {
            throw Problem(.forbidden, "This credential is for \(only.bundleID) alone.", param: "app")
        }
        do throws(EndpointChoices.Refusal) {
            return try EndpointChoices.order(
                request, environment: request.environment ?? scope.environment,
                bundleID: request.app ?? scope.app?.bundleID, allowsPrivate: allowsPrivate)
        } catch {
            throw Problem(.unprocessable, error.reason, param: error.member)
        }
    }
}

/// An endpoint as it was shown the first time, but for what nothing but table `webhook_secret` may hold.
private struct ShownEndpoint: Codable {
    let document: EndpointDocument
    let addressHash: [UInt8]
}

extension Endpoint {
    /// Whether a credential may see the endpoint: only where the endpoint is sent nothing that the credential may not
    /// see.
    fileprivate func isTold(to scope: LogScope) -> Bool {
        if let only = scope.environment, terms.environment != only { return false }
        if let only = scope.app, terms.bundleID != only.bundleID { return false }
        return true
    }
}

extension EndpointFact {
    /// Of the secret that it gives to the endpoint.
    fileprivate var secretHash: Digest? {
        switch change {
        case .made(let terms): terms.secretHash
        case .secretRotated(let hash, _): hash
        case .changed, .paused, .resumed, .removed: nil
        }
    }
}
