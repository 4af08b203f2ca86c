import EntitlementCore

extension CustomerFacts {
    /// By entitlement, every original that gives it, or is to give it once its charge succeeds, and renews; by source and id.
    func renewing(at now: Timestamp) -> [String: [RenewingPurchase]] {
        let candidates = originals.filter { $0.value.willRenew(at: now) == true }
        // One alone is shown, or renews beside what was bought once.
        guard !candidates.isEmpty, originals.count > 1 || !grants.isEmpty else { return [:] }
        var found: [String: [RenewingPurchase]] = [:]
        for (id, state) in candidates.sorted(by: { $0.key < $1.key }) {
            var alone = self
            (alone.originals, alone.grants) = ([id: state], [])
            for answer in alone.answers(at: now) where answer.willRenew == true {
                found[answer.entitlementID, default: []].append(
                    RenewingPurchase(
                        source: state.web == nil ? .appStore : .webCheckout, productID: answer.reading.productID,
                        originalTransactionID: id, until: answer.until?.date))
            }
        }
        return found
    }
}
