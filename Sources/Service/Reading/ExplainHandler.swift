package import EntitlementAPI
package import EntitlementCore
import HTTPServer
package import Ledger

extension Application {
    /// `GET /v1/customers/{id}/explain`.
    func explain(_ call: Call) async throws -> HTTPResponse {
        let question = ExplainQuestion(
            customer: try call.customerID(), environment: try call.environment(),
            entitlementID: try call.entitlementID(), at: try call.instant("at") ?? now())
        let answer = try await question.answer(from: reader, knownAt: try call.knownAt())
        return try .document(answer.document, position: answer.document.knownAt)
    }
}

/// What `explain` is asked, over HTTP and on the command line.
package struct ExplainQuestion: Sendable {
    package let customer: CustomerID
    package let environment: StoreEnvironment
    /// `nil`: all that the customer holds or held.
    package let entitlementID: String?
    package let at: Timestamp

    package init(customer: CustomerID, environment: StoreEnvironment, entitlementID: String?, at: Timestamp) {
        self.customer = customer
        self.environment = environment
        self.entitlementID = entitlementID
        self.at = at
    }

    package struct Answer: Sendable {
        package let document: ExplanationDocument
        package let explanations: [Explanation]
        package let policy: AccessPolicy
    }

    package func answer(from reader: LedgerReader, knownAt: KnownAt) async throws -> Answer {
        let history = try await reader.history(of: customer, environment: environment, knownAt: knownAt)
        var others: [StoreEnvironment: CustomerHistory] = [:]
        if !history.knowsCustomer {
            for other in StoreEnvironment.allCases where other != environment {
                others[other] = try await reader.history(
                    of: customer, environment: other, knownAt: .position(history.position))
            }
        }
        return answer(from: history) { others[$0]?.knowsCustomer ?? false }
    }

    /// The same from a history at hand; `isKnown` says whether another environment knows the customer.
    package func answer(from history: CustomerHistory, isKnown: (StoreEnvironment) -> Bool) -> Answer {
        let explainer = Explainer(history, at: at)
        let explanations = entitlementID.map { [explainer.explanation(of: $0)] } ?? explainer.explanations()
        let alsoIn =
            history.knowsCustomer ? [] : StoreEnvironment.allCases.filter { $0 != environment && isKnown($0) }
        return Answer(
            document: ExplanationDocument(
                customerID: customer.value, explainer: explainer, explanations: explanations, alsoIn: alsoIn),
            explanations: explanations, policy: explainer.facts.catalog.policy)
    }
}

extension Call {
    /// The entitlement asked about; `nil` for all.
    fileprivate func entitlementID() throws(Problem) -> String? {
        guard let id = request.queryValue("entitlement") else { return nil }
        guard !id.isEmpty, id.utf8.count <= CatalogDocument.entitlementIDLimit else {
            throw Problem(
                .malformedRequest, "entitlement has 1 to \(CatalogDocument.entitlementIDLimit) bytes.",
                param: "entitlement")
        }
        return id
    }
}
