import EntitlementCore

extension CustomerFacts {
    /// By entitlement, every original that gives it, or is to give it once its charge succeeds, and that the customer is
    /// charged for again; by source and id.
    ///
    /// - Parameter prolonged: what goes on beyond its end, which has run out by the facts alone.
    func renewing(at now: Timestamp, _ prolonged: [PeriodExtension]) -> [String: [RenewingPurchase]] {
        let candidates = originals.filter { $0.value.isCharged(at: now) }
        // One alone is shown, or renews beside what was bought once.
        guard !candidates.isEmpty, originals.count > 1 || !grants.isEmpty else { return [:] }
        var found: [String: [RenewingPurchase]] = [:]
        for (id, state) in candidates.sorted(by: { $0.key < $1.key }) {
            var alone = self
            (alone.originals, alone.grants) = ([id: state], [])
            let beyond = prolonged.filter { $0.originalTransactionID == id }.flatMap { period in
                period.answers(at: now).map { (answer: $0, until: Optional(period.ends)) }
            }
            // What a family shares somebody else of it pays for.
            for (answer, until) in beyond + alone.answers(at: now).map({ (answer: $0, until: $0.until) })
            where answer.reading.ownership != .familyShared && alone.isCharged(answer.reading, at: now)
                && found[answer.entitlementID]?.last?.originalTransactionID != id
            {
                found[answer.entitlementID, default: []].append(
                    RenewingPurchase(
                        source: state.web == nil ? .appStore : .webCheckout, productID: answer.reading.productID,
                        originalTransactionID: id, until: until?.date))
            }
        }
        return found
    }
}

extension OriginalState {
    fileprivate func isCharged(at now: Timestamp) -> Bool {
        web.map { $0.charging(at: now)?.isCharged ?? false } ?? (willRenew(at: now) == true)
    }
}
