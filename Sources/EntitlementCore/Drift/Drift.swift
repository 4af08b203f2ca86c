/// What a device believes of one product.
package struct DeviceClaim: Hashable, Sendable {
    package var productID: String
    /// The app whose device it is, which knows nothing of what others sell under the same id; `nil`: all apps together.
    package var app: AppScope?
    package var state: EntitlementState
    /// Until when it believes to have access; `nil`: without end, or not said.
    package var until: Timestamp?

    package init(productID: String, of app: AppScope? = nil, state: EntitlementState, until: Timestamp?) {
        self.productID = productID
        self.app = app
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
    /// - Parameter claims: of one device, so all of one app.
    /// - Returns: the differences, and until when they stay these.
    package func drift(
        from claims: [DeviceClaim], at instant: Timestamp
    ) -> (drift: [Drift], until: Timestamp) {
        guard let first = claims.first else { return ([], .endless) }
        let facts = ofProducts(Set(claims.map(\.productID)), of: first.app)
        let folded = FoldedCustomer(facts)
        let (read, until) = folded.answersHolding(at: instant)
        let answers = Dictionary(read.map { ($0.entitlementID, $0) }, uniquingKeysWith: { first, _ in first })
        let drift: [Drift] = claims.compactMap { claim in
            let answer = answers[claim.productID]
            let explanation: String
            if claim.agrees(with: answer) { return nil }
            if let answer, answer.state == claim.state {
                let until = claim.until.map { "\($0)" } ?? "an unknown instant"
                let end = answer.until.map { "on \($0)" } ?? "never"
                explanation = "The device expects access to end on \(until); by the facts it ends \(end)."
            } else if let answer {
                // Not the answer's own `since`, which is that of access, whatever states it went through.
                let began = folded.timelines.first { $0.entitlementID == claim.productID }?.stateBegan(by: instant)
                explanation =
                    "The device reads \(claim.state.inWords); by the facts it is \(answer.state.inWords) since "
                    + "\(began ?? answer.reading.start) (\(answer.reading.reason.rawValue))."
            } else {
                explanation =
                    "The device reads \(claim.state.inWords); nothing that is known to be this customer's is of this "
                    + "product."
            }
            return Drift(
                claim: claim, actual: answer?.state, actualUntil: answer?.until, explanation: explanation)
        }
        return (drift, until)
    }

    /// Whether a device that says this of a product says what the facts say at an instant.
    package func agrees(with claim: DeviceClaim, at instant: Timestamp) -> Bool {
        claim.agrees(with: answer(to: claim, at: instant))
    }

    /// Whether the claim says what the facts say at any instant up to `last`.
    package func everAgreed(with claim: DeviceClaim, by last: Timestamp) -> Bool {
        let facts = ofProducts([claim.productID], of: claim.app)
        guard let timeline = facts.timelines().first(where: { $0.entitlementID == claim.productID }) else {
            return claim.agrees(with: nil)
        }
        return (timeline.readings.map(\.start).filter { $0 <= last } + [last]).contains { instant in
            claim.agrees(with: facts.answer(from: timeline, at: instant))
        }
    }

    /// How a claim's product reads at an instant, by itself; `nil` where nothing of it is known by then.
    package func answer(to claim: DeviceClaim, at instant: Timestamp) -> EntitlementAnswer? {
        let facts = ofProducts([claim.productID], of: claim.app)
        return facts.timelines().first { $0.entitlementID == claim.productID }
            .flatMap { facts.answer(from: $0, at: instant) }
    }

    /// The same facts without grants and other apps' purchases, under a catalog in which each of these products is an
    /// entitlement.
    private func ofProducts(_ products: Set<String>, of app: AppScope?) -> CustomerFacts {
        var facts = self
        if let app {
            facts.originals = originals.filter { $0.value.transactions.contains { app.isOfApp($0.fact) } }
        }
        facts.catalog = Catalog(
            products: products.sorted().map {
                CatalogProduct(productID: $0, entitlements: [$0], duration: catalog.product($0)?.duration)
            }, policy: catalog.policy)
        facts.grants = []
        return facts
    }
}

extension DeviceClaim {
    /// Whether it says what an answer says: the state, and where that gives access and an end is named, the end.
    ///
    /// A claim of `expired` agrees where nothing is known of the product: neither gives access.
    fileprivate func agrees(with answer: EntitlementAnswer?) -> Bool {
        guard let answer else { return state == .expired }
        guard answer.state == state else { return false }
        guard answer.givesAccess, let until else { return true }
        return until == answer.until
    }
}
