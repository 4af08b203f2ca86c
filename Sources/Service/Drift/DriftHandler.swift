package import EntitlementAPI
import EntitlementCore
import HTTPServer
package import Ledger

extension Application {
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

extension DriftListDocument {
    /// Differences as the API and the command line show them.
    package init(_ page: FoundDriftPage) {
        self.init(
            items: page.items.map { Item($0) }, hasMore: page.hasMore, nextAfter: page.nextAfter,
            unexplained: page.unexplained, notCompared: page.notCompared, readTo: page.readTo)
    }
}

extension DriftListDocument.Item {
    init(_ drift: FoundDrift) {
        self.init(
            position: drift.position, environment: drift.environment, between: drift.comparison, cause: drift.cause,
            customerID: drift.customerID, productID: drift.productID,
            originalTransactionID: drift.originalTransactionID, app: drift.app, foundAt: drift.foundAt,
            report: drift.report,
            resolved: drift.resolution.map { Resolution(at: $0.at, position: $0.position, by: $0.by) })
    }
}
