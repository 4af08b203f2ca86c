import EntitlementAPI
package import EntitlementCore
import HTTPServer
package import Ledger

/// Erases who somebody is, as the role that owns the tables: the one that serves may not.
package struct Forgetting: Sendable {
    let preview: @Sendable (CustomerID) async throws -> ForgettingPreview
    let forget: @Sendable (CustomerID, ForgettingPreview, KeyedForgetting?) async throws -> ForgettingOutcome?

    /// - Parameters:
    ///   - preview: looks for what would be erased; may log in as the role that serves.
    ///   - forget: erases; logs in as the owner, and only for that.
    package init(
        preview: @escaping @Sendable (CustomerID) async throws -> ForgettingPreview,
        forget:
            @escaping @Sendable (CustomerID, ForgettingPreview, KeyedForgetting?) async throws ->
            ForgettingOutcome?
    ) {
        self.preview = preview
        self.forget = forget
    }
}

/// Forgets customers.
struct ForgetHandler: Sendable {
    let context: ServiceContext
    let commands: CommandRunner
    /// `nil`: nobody is forgotten by this service.
    let forgetting: Forgetting?

    /// `POST /v1/customers/{id}/actions/forget`: erases who somebody is, for good.
    ///
    /// Under an idempotency key the answer is kept, which names nobody, and given again.
    func forget(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(ForgetRequest.self)
        guard call.scope.isWhole else {
            throw Problem(.forbidden, "Somebody is forgotten in every app and environment; this key is for one.")
        }
        guard let forgetting else {
            throw Problem(.unprocessable, "Nobody can be forgotten by this service. \(Self.byCommand)")
        }
        guard request.isDryRun || request.confirm.flatMap({ CustomerID($0) }) == customer else {
            throw Problem(
                .unprocessable, "confirm is the customer's id again: what is forgotten does not come back.",
                param: "confirm")
        }
        return try await commands.carryOutOnce(call) { kept in
            try Self.answer(try WireJSON.decode(ForgettingDocument.self, from: kept))
        } body: { command in
            let found = try await within(context.limits.forgettingSearch) { try await forgetting.preview(customer) }
            guard let preview = found else {
                throw Problem(.unprocessable, "The log is too long to be searched within a request. \(Self.byCommand)")
            }
            if request.isDryRun, preview.isEmpty { throw Problem.nobodyToForget }
            let (charges, position) = try await charges(of: customer)
            guard !request.isDryRun else {
                return try .document(ForgettingDocument(of: preview, charges: charges), position: position)
            }
            return try await erase(customer, preview, charges, forgetting, command, by: call)
        }
    }

    private func erase(
        _ customer: CustomerID, _ preview: ForgettingPreview, _ charges: [ForgettingDocument.Charge],
        _ forgetting: Forgetting, _ command: KeyedCommand?, by call: Call
    ) async throws -> HTTPResponse {
        do {
            let keyed = command.map { command in
                KeyedForgetting(command) { try WireJSON.encode(ForgettingDocument(of: $0, charges: charges)) }
            }
            guard let outcome = try await forgetting.forget(customer, preview, keyed) else {
                throw Problem.nobodyToForget
            }
            context.logger.log(
                .info, "a customer was forgotten",
                [
                    ("key", .string(call.key?.id ?? "")),
                    ("position", .integer(outcome.positions.first ?? 0)),
                ])
            if let first = outcome.unreadableEvidence.first {
                context.logger.log(
                    .error, "evidence does not read, so nobody can say whether it names a customer who was forgotten",
                    [
                        ("pieces", .integer(Int64(outcome.unreadableEvidence.count))), ("position", .integer(first)),
                    ])
            }
            return try Self.answer(ForgettingDocument(of: outcome, charges: charges))
        } catch let error as LedgerError where error.code == .invalid {
            throw Problem(
                .unprocessable, "This service's role may not erase identities and evidence. \(Self.byCommand)")
        }
    }

    private static func answer(_ document: ForgettingDocument) throws -> HTTPResponse {
        try .document(document, position: document.positions.last)
    }

    private static let byCommand = "An operator forgets somebody with `rightful forget`."

    /// What goes on to be charged, and up to where the log was read for it.
    private func charges(
        of customer: CustomerID
    ) async throws -> (charges: [ForgettingDocument.Charge], position: Int64) {
        var (charges, position): ([ForgettingDocument.Charge], Int64) = ([], .max)
        for environment in StoreEnvironment.allCases {
            let (facts, read) = try await context.reader.customerFacts(customer, environment: environment)
            position = min(position, read)
            charges += facts.runningCharges(at: context.now()).map {
                ForgettingDocument.Charge(
                    originalTransactionID: $0.originalTransactionID, environment: environment,
                    productID: $0.productID, by: $0.isOfWeb ? "stripe" : "app_store")
            }
        }
        return (charges, position)
    }
}

extension ForgettingDocument {
    /// What would be erased.
    fileprivate init(of preview: ForgettingPreview, charges: [Charge]) {
        self.init(
            dryRun: true, identities: preview.scope.identities.count, ids: preview.members.map { Member($0) },
            evidence: preview.scope.evidencePositions.count,
            sharedAppTransactions: preview.scope.sharedAppTransactions.count,
            keptAliases: preview.scope.keptCustomers, sharedMailAddresses: preview.scope.sharedMailAddresses,
            unreadableEvidence: preview.unreadableEvidence.count, charges: charges, positions: [])
    }

    /// What was erased.
    fileprivate init(of outcome: ForgettingOutcome, charges: [Charge]) {
        self.init(
            dryRun: false, identities: outcome.identities, evidence: outcome.evidence,
            sharedAppTransactions: outcome.sharedAppTransactions, keptAliases: outcome.keptAliases,
            sharedMailAddresses: outcome.sharedMailAddresses, unreadableEvidence: outcome.unreadableEvidence.count,
            charges: charges, positions: outcome.positions)
    }
}

extension ForgettingDocument.Member {
    fileprivate init(_ member: ForgettingMember) {
        self.init(
            id: member.id, erased: member.isErased,
            leadsTo: member.leads.map {
                ForgettingDocument.Lead(environment: $0.environment, customerID: $0.customerID)
            })
    }
}

extension Problem {
    fileprivate static var nobodyToForget: Problem {
        Problem(
            .notFound,
            "The ledger knows no customer of that id (a forgotten one neither), so there is nothing to erase but the "
                + "Idempotency-Keys of commands about it.")
    }
}
