import EntitlementCore

extension CustomerFacts {
    /// By entitlement, every original that gives it, or is to give it once its charge succeeds, and that the customer is
    /// charged for again; by source and id.
    func renewing(at now: Timestamp) -> [String: [RenewingPurchase]] {
        let candidates = originals.filter { $0.value.isCharged(at: now) }
        // One alone is shown, or renews beside what was bought once.
        guard !candidates.isEmpty, originals.count > 1 || !grants.isEmpty else { return [:] }
        var found: [String: [RenewingPurchase]] = [:]
        for (id, state) in candidates.sorted(by: { $0.key < $1.key }) {
            var alone = self
            (alone.originals, alone.grants) = ([id: state], [])
            // What a family shares somebody else of it pays for.
            for answer in alone.answers(at: now)
            where answer.reading.ownership != .familyShared && alone.isCharged(answer.reading, at: now) {
                found[answer.entitlementID, default: []].append(
                    RenewingPurchase(
                        source: state.web == nil ? .appStore : .webCheckout, productID: answer.reading.productID,
                        originalTransactionID: id, until: answer.until?.date))
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
