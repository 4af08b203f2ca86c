package import EntitlementAPI
package import EntitlementCore
package import Ledger

/// What `explain` is asked, over HTTP and on the command line.
package struct ExplainQuestion: Sendable {
    package let customer: CustomerID
    package let environment: StoreEnvironment
    /// `nil`: all that the customer holds or held.
    package let entitlementID: String?
    package var at: Timestamp

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
        let (history, others) = try await histories(from: reader, knownAt: knownAt)
        return answer(from: history) { others.contains($0) }
    }

    /// What the customer's answer is folded from, and the other environments that know the customer where this one does
    /// not.
    func histories(
        from reader: LedgerReader, knownAt: KnownAt, only scope: LogScope = .whole
    ) async throws -> (history: CustomerHistory, others: Set<StoreEnvironment>) {
        let history = try await reader.history(
            of: customer, environment: environment, knownAt: knownAt, app: scope.app)
        var others: Set<StoreEnvironment> = []
        if scope.environment == nil, !history.knowsCustomer {
            for other in StoreEnvironment.allCases where other != environment {
                let known = try await reader.history(
                    of: customer, environment: other, knownAt: .position(history.position), app: scope.app)
                if known.knowsCustomer { others.insert(other) }
            }
        }
        return (history, others)
    }

    /// The same from a history at hand, however long that takes; `isKnown` says whether another environment knows the
    /// customer.
    package func answer(from history: CustomerHistory, isKnown: (StoreEnvironment) -> Bool) -> Answer {
        answer(from: history, isKnown: isKnown, check: {})
    }

    /// The same from a history at hand; `isKnown` says whether another environment knows the customer.
    ///
    /// - Parameter check: called before each step that takes long; what it throws ends the work.
    package func answer(
        from history: CustomerHistory, isKnown: (StoreEnvironment) -> Bool, check: () throws -> Void
    ) rethrows -> Answer {
        let explainer = Explainer(history, at: at)
        let explanations =
            try entitlementID.map { [try explainer.explanation(of: $0, check: check)] }
            ?? explainer.explanations(check: check)
        let alsoIn =
            history.knowsCustomer ? [] : StoreEnvironment.allCases.filter { $0 != environment && isKnown($0) }
        return Answer(
            document: ExplanationDocument(
                customerID: customer.value, explainer: explainer, explanations: explanations, alsoIn: alsoIn),
            explanations: explanations, policy: explainer.facts.catalog.policy)
    }
}
