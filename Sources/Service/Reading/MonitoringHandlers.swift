package import EntitlementAPI
import EntitlementCore
import HTTPServer
package import Ledger

/// Reads of what wants looking at, and of whether the stores are heard.
struct MonitoringHandlers: Sendable {
    let reader: LedgerReader
    /// The configured apps' streams.
    let streams: StreamsReading
    let now: @Sendable () -> Timestamp

    /// `GET /v1/streams`: whether the store is heard, and how far its history was read.
    func showStreams(_ call: Call) async throws -> HTTPResponse {
        try .document(try await streams.document(only: call.scope, at: now()))
    }

    /// `GET /v1/remarks`: what was seen and is not known, of every app and environment.
    func showRemarks(_ call: Call) async throws -> HTTPResponse {
        let (catalog, _, position) = try await reader.catalog()
        let seen = try await reader.seen(besides: catalog)
        return try .document(
            RemarksDocument(
                countedTo: seen.checkpoint, remarks: seen.remarks.map(RemarksDocument.Seen.init),
                unmappedProducts: seen.unmappedProducts.map(RemarksDocument.Seen.init),
                productsWithoutDuration: seen.productsWithoutDuration.map(RemarksDocument.Seen.init)),
            position: position)
    }

    /// `GET /v1/drift`: the differences between device, ledger and store, and what resolved each.
    func showDrift(_ call: Call) async throws -> HTTPResponse {
        let (after, limit) = try call.page()
        let query = DriftQuery(
            try call.environment(), driftClass: try call.word(.driftClass, DriftClass.self),
            isResolved: try call.flag(.resolved),
            after: after, limit: limit)
        let page = try await reader.driftRegister.page(query, only: call.scope)
        return try .document(DriftListDocument(page), position: page.readTo)
    }
}

extension RemarksDocument.Seen {
    package init(_ seen: SeenName) {
        self.init(
            name: seen.name, stripe: seen.stripe.map { RemarksDocument.Stripe(price: $0.price, product: $0.product) },
            events: seen.events, firstPosition: seen.firstPosition, lastPosition: seen.lastPosition)
    }
}
