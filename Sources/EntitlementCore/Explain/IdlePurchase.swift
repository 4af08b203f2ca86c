/// Something bought that would give an entitlement, had the catalog a duration for it.
struct IdlePurchase: Hashable, Sendable {
    let productID: String
    let boughtAt: Timestamp
    let originalTransactionID: String
    let source: EntitlementOrigin
    let position: Int64

    /// What there is of it, in the middle of a sentence.
    var clause: String {
        "\(productID) was bought on \(boughtAt.inWords) and gives nothing, because the catalog has no duration for it"
    }
}

extension CustomerFacts {
    /// What this customer bought by an instant that is mapped to an entitlement and has nothing to tell how long it runs; the
    /// latest last.
    func idlePurchases(giving entitlementID: String, at instant: Timestamp) -> [IdlePurchase] {
        func isMeant(_ productID: String) -> Bool {
            guard let product = catalog.product(productID), product.duration == nil else { return false }
            return product.entitlements.contains(entitlementID)
        }
        var found: [IdlePurchase] = []
        // Several statements may be about one purchase.
        var seen: Set<String> = []
        for (id, state) in originals {
            for stated in state.transactions where stated.fact.purchaseDate <= instant && isMeant(stated.fact.productID)
            {
                let isTimed = [.known(.consumable), .known(.nonRenewing)].contains(stated.fact.kind)
                guard isTimed, ownership.owner(of: stated.fact) == customer,
                    seen.insert(stated.fact.transactionID).inserted
                else { continue }
                found.append(
                    IdlePurchase(
                        productID: stated.fact.productID, boughtAt: stated.fact.purchaseDate, originalTransactionID: id,
                        source: .appStore, position: stated.position))
            }
            guard let web = state.web, ownership.currentOwner(of: web) == customer, let paid = web.firstPaid,
                let paidAt = paid.value.paidAt, paidAt <= instant
            else { continue }
            for productID in web.soldOnce(catalog) where catalog.isEndlessByMistake(productID) && isMeant(productID) {
                found.append(
                    IdlePurchase(
                        productID: productID, boughtAt: paidAt, originalTransactionID: id, source: .webCheckout,
                        position: paid.position))
            }
        }
        return found.sorted { ($0.boughtAt, $0.position) < ($1.boughtAt, $1.position) }
    }
}
