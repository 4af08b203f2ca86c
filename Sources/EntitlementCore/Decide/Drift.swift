/// What a device believes of one product.
package struct DeviceClaim: Hashable, Sendable {
    package var productID: String
    package var state: EntitlementState
    /// Until when it believes to have access; `nil`: without end, or not said.
    package var until: Timestamp?

    package init(productID: String, state: EntitlementState, until: Timestamp?) {
        self.productID = productID
        self.state = state
        self.until = until
    }
}

/// A difference between what a device believes and what the ledger knows.
package struct Drift: Hashable, Sendable {
    package let claim: DeviceClaim
    /// `nil` where the ledger knows of nothing.
    package let actual: EntitlementState?
    package let actualUntil: Timestamp?
    /// For people; it names no identity.
    package let explanation: String
}

extension CustomerFacts {
    /// Holds a device's claims against the facts: each product is read like an entitlement of its own.
    ///
    /// States are compared, and where both give access and the device names an end, the ends.
    ///
    /// - Returns: the differences, and until when they stay these.
    package func drift(
        from claims: [DeviceClaim], at instant: Timestamp
    ) -> (drift: [Drift], until: Timestamp) {
        guard !claims.isEmpty else { return ([], .endless) }
        var facts = self
        let claimed = Set(claims.map(\.productID))
        facts.catalog = Catalog(
            products: claimed.sorted().map {
                CatalogProduct(productID: $0, entitlements: [$0], duration: catalog.product($0)?.duration)
            }, policy: catalog.policy)
        facts.grants = []
        let (read, until) = facts.answersHolding(at: instant)
        let answers = Dictionary(read.map { ($0.entitlementID, $0) }, uniquingKeysWith: { first, _ in first })
        let drift: [Drift] = claims.compactMap { claim in
            let answer = answers[claim.productID]
            let explanation: String
            if let answer, answer.state == claim.state {
                guard answer.givesAccess, let until = claim.until, until != answer.until else { return nil }
                let end = answer.until.map { "on \($0)" } ?? "never"
                explanation = "The device expects access to end on \(until); by the facts it ends \(end)."
            } else if let answer {
                explanation =
                    "The device reads \(claim.state.rawValue); by the facts it is \(answer.state.rawValue) since "
                    + "\(answer.since) (\(answer.reading.reason.rawValue))."
            } else if claim.state == .expired {
                // Nothing known and nothing left of it give the same access.
                return nil
            } else {
                explanation =
                    "The device reads \(claim.state.rawValue); nothing that is known to be this customer's is of this "
                    + "product."
            }
            return Drift(
                claim: claim, actual: answer?.state, actualUntil: answer?.until, explanation: explanation)
        }
        return (drift, until)
    }
}
