package import EntitlementAPI
import EntitlementCore
package import Ledger

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
