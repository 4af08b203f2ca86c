import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension CatalogHandlers {
    /// `POST /v1/catalog/actions/try`: what a catalog would change; nothing is recorded.
    func tryOut(_ call: Call) async throws -> HTTPResponse {
        let proposed = try Self.catalog(in: call)
        let at = try call.instant(.at) ?? context.now()
        let trial = try await context.reader.tryCatalog(
            proposed.catalog, at: at, knownAt: try call.knownAt(), after: try call.wholeNumber(.after) ?? 0,
            until: .now + context.limits.catalogTrial)
        return try .document(CatalogTrialDocument(trial, proposed, at: at), position: trial.position)
    }
}

extension CatalogTrialDocument {
    init(_ trial: CatalogTrial, _ proposed: CatalogDocument, at: Timestamp) {
        let difference = CatalogDifference(from: trial.present, to: proposed.catalog)
        self.init(
            at: at, knownAt: trial.position, catalogPosition: trial.catalogPosition, nextAfter: trial.reached,
            customers: StoreEnvironment.allCases.map {
                Population(environment: $0, count: trial.customers[$0] ?? 0)
            },
            effects: trial.counts.sorted { $0.key < $1.key }.map { group, count in
                Effect(
                    environment: group.environment, entitlement: group.entitlementID, effect: group.kind,
                    customers: count,
                    examples: (trial.examples[group] ?? []).map { Example(customerID: $0.customerID, $0.effect) })
            }, difference: Difference(difference),
            remarks: proposed.remarks + difference.oneTimeProductsRenamed.map { "renamed_one_time_product:\($0)" })
    }
}
