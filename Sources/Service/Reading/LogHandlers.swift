import AppStoreServer
package import EntitlementAPI
import EntitlementCore
import HTTPServer
package import Ledger

/// Reads of the log itself, and what proves it.
struct LogHandlers: Sendable {
    let reader: LedgerReader
    /// The ledger's own id.
    let ledgerID: String?
    /// What signs checkpoints; without it none are given.
    let key: LogKey?

    /// `GET /v1/events`.
    func events(_ call: Call) async throws -> HTTPResponse {
        let (after, limit) = try call.page()
        let head = try await reader.status().position
        let page = try await reader.events(after: after, limit: limit, only: call.scope)
        return try Self.page(page, head: head, to: call.scope)
    }

    /// `GET /v1/customers/{id}/events`.
    func customerEvents(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let environment = try call.environment()
        let (after, limit) = try call.page()
        let head = try await reader.status().position
        let page = try await reader.events(
            of: customer, environment: environment, after: after, limit: limit, app: call.scope.app)
        return try Self.page(page, head: head, to: call.scope)
    }

    /// `GET /v1/events/{position}`.
    func event(_ call: Call) async throws -> HTTPResponse {
        let position = try call.position()
        let head = try await reader.status().position
        guard let (event, evidence) = try await reader.event(at: position, only: call.scope) else {
            throw Problem(.notFound, "The log has no event at position \(position).", param: "position")
        }
        var document = EventDocument(event, to: call.scope)
        document.evidence = Nullable(
            wrappedValue: evidence.map { Self.evidence($0, of: event) })
        return try .document(document, position: max(head, position))
    }

    /// `GET /v1/ledger`.
    func ledger(_ call: Call) async throws -> HTTPResponse {
        let status = try await reader.status()
        return try .document(
            LedgerDocument(
                position: status.position, hash: status.hash.hex, ledgerID: ledgerID,
                projections: status.projections.map {
                    LedgerDocument.Projection(name: $0.name, checkpoint: $0.checkpoint, version: $0.version)
                }), position: status.position)
    }

    /// The page may hold events that came after `head` was read.
    private static func page(_ page: EventPage, head: Int64, to scope: LogScope) throws -> HTTPResponse {
        try .document(
            ListDocument(
                items: page.events.map { EventDocument($0, to: scope) }, hasMore: page.hasMore,
                nextAfter: page.nextAfter),
            position: max(head, page.events.last?.record.position ?? 0))
    }

    private static func evidence(_ bytes: [UInt8]) -> EventDocument.Evidence {
        let payload = (try? UnverifiedJWS(bytes).payload).flatMap { WireValue(payload: $0) }
        return EventDocument.Evidence(signedPayload: String(decoding: bytes, as: UTF8.self), payload: payload)
    }

    private static func evidence(_ bytes: [UInt8], of event: ShownEvent) -> EventDocument.Evidence {
        switch event.record.source {
        case .stripeNotification: webhook(bytes)
        case .stripeAPI:
            EventDocument.Evidence(
                signedPayload: String(decoding: bytes, as: UTF8.self),
                payload: WireValue(payload: bytes))
        case .notification, .serverAPI, .device, .api, .operatorCommand: evidence(bytes)
        }
    }

    private static func webhook(_ bytes: [UInt8]) -> EventDocument.Evidence {
        let webhook = SignedWebhook(evidence: bytes)
        return EventDocument.Evidence(
            signedPayload: String(decoding: webhook.body, as: UTF8.self), signature: webhook.signature,
            payload: WireValue(payload: webhook.body))
    }
}

extension EventDocument {
    /// An event as the API and the command line show it.
    ///
    /// - Parameter scope: whoever is not to hear of the whole log is told no number that the ledger gave somebody: it tells
    ///   whether, and how early, they were known anywhere.
    package init(_ event: ShownEvent, to scope: LogScope = .whole) {
        let record = event.record
        self.init(
            position: record.position, id: record.eventID, type: record.type, source: record.source.rawValue,
            recordedAt: record.recordedAt, fact: scope.isWhole ? event.fact : event.fact.withLocalNumbers(),
            previousHash: record.previousHash.hex,
            hash: record.hash.hex)
        environment = record.environment
        customerID = event.customerID
        originalTransactionID = record.originalTransactionID
        transactionID = record.transactionID
        productID = record.productID
        occurredAt = record.occurredAt
        evidenceSHA256 = record.evidenceHash?.hex
    }
}
