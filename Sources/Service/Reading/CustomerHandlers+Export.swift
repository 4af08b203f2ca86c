import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// Makes exports: one at a time, for each holds all that is known of a customer, and on a thread of its own, for that takes long.
struct ExportWork: Sendable {
    let work: LongWork
    let turns: Turns

    /// - Parameters:
    ///   - limit: how long it may take to make a document of what was read, and to write it.
    ///   - mostWaiting: how many may wait for their turn; further ones are refused.
    init(limit: Duration, mostWaiting: Int) {
        work = LongWork(limit: limit, mostWaiting: 1)
        turns = Turns(mostWaiting: mostWaiting, refusal: "Too many exports are being made; try again later.")
    }
}

extension CustomerHandlers {
    /// `GET /v1/customers/{id}/export`: what the log ties to a customer, as the file that `rightful export` writes.
    func export(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let isOne = try call.value(of: .exportEnvironment) != nil || call.scope.environment != nil
        let environments = isOne ? [try call.environment()] : StoreEnvironment.allCases
        return try await exports.turns.run { try await export(of: customer, environments) }
    }

    private func export(of customer: CustomerID, _ environments: [StoreEnvironment]) async throws -> HTTPResponse {
        guard let export = try await context.reader.export(of: customer, environments: environments) else {
            let place = environments.map(\.rawValue).joined(separator: " or ")
            throw Problem(.notFound, "Nothing is known of this customer in \(place).")
        }
        var document = try await exports.work.run { wish in
            try CustomerExportDocument(export, customer: customer, environments: environments, check: wish.check)
        }
        // Nobody without the log's key can change the file then.
        if let logKey { try await document.bind(with: CheckpointSigner(tree: context.reader.tree, key: logKey)) }
        let body = try await exports.work.run { [document] wish in try document.encoded(check: wish.check) }
        return HTTPResponse(
            status: 200,
            headers: HTTPResponse.ledgerPosition(export.position) + [
                ("Content-Type", "application/json"), ("Cache-Control", "no-store"),
                ("Content-Disposition", "attachment; filename=\"customer-export.json\""),
            ], body: body)
    }
}
