import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension CustomerHandlers {
    /// `GET /v1/customers/{id}/export`: everything known about a customer, as the file that `rightful export` writes.
    func export(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let isOne = try call.value(of: .exportEnvironment) != nil || call.scope.environment != nil
        let environments = isOne ? [try call.environment()] : StoreEnvironment.allCases
        guard let export = try await context.reader.export(of: customer, environments: environments) else {
            let place = environments.map(\.rawValue).joined(separator: " or ")
            throw Problem(.notFound, "Nothing is known of this customer in \(place).")
        }
        var document = CustomerExportDocument(export, customer: customer, environments: environments)
        // Nobody without the log's key can change the file then.
        if let logKey { try await document.bind(with: CheckpointSigner(tree: context.reader.tree, key: logKey)) }
        return HTTPResponse(
            status: 200,
            headers: HTTPResponse.ledgerPosition(export.position) + [
                ("Content-Type", "application/json"), ("Cache-Control", "no-store"),
                ("Content-Disposition", "attachment; filename=\"customer-export.json\""),
            ], body: try WireJSON.encode(document) + [UInt8(ascii: "\n")])
    }
}
