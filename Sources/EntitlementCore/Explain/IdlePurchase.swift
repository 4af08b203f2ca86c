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
    /// What this customer has at an instant that is mapped to an entitlement and has nothing to tell how long it runs; the
    /// latest last.
    ///
    /// What was taken back by then gives nothing for that reason, and is left out.
    func idlePurchases(giving entitlementID: String, at instant: Timestamp) -> [IdlePurchase] {
        untimedPurchases(giving: entitlementID, at: instant).filter { bought in
            bought.owner == customer && bought.revokedAt.map { instant < $0 } ?? true
        }.map(\.purchase).sorted { ($0.boughtAt, $0.position) < ($1.boughtAt, $1.position) }
    }

    /// The products that are mapped to an entitlement and give nothing when they are bought, as some purchase that is known
    /// tells, whosever it is.
    func untimedProducts(giving entitlementID: String, at instant: Timestamp) -> Set<String> {
        Set(untimedPurchases(giving: entitlementID, at: instant).map(\.purchase.productID))
    }

    private func untimedPurchases(
        giving entitlementID: String, at instant: Timestamp
    ) -> [(purchase: IdlePurchase, owner: IdentityRef?, revokedAt: Timestamp?)] {
        func isMeant(_ productID: String) -> Bool {
            guard let product = catalog.product(productID), product.duration == nil else { return false }
            return product.entitlements.contains(entitlementID)
        }
        var found: [(purchase: IdlePurchase, owner: IdentityRef?, revokedAt: Timestamp?)] = []
        for (id, state) in originals {
            for stated in state.winningTransactions() {
                let fact = stated.fact
                guard fact.purchaseDate <= instant, isMeant(fact.productID),
                    [.known(.consumable), .known(.nonRenewing)].contains(fact.kind)
                else { continue }
                let purchase = IdlePurchase(
                    productID: fact.productID, boughtAt: fact.purchaseDate, originalTransactionID: id,
                    source: .appStore, position: stated.position)
                found.append(
                    (purchase, ownership.owner(of: fact, at: instant), catalog.policy.revokedAt(by: fact.revocation)))
            }
            guard let web = state.web, let paid = web.firstPaid, let paidAt = paid.value.paidAt, paidAt <= instant
            else { continue }
            for productID in web.soldOnce(catalog) where catalog.isEndlessByMistake(productID) && isMeant(productID) {
                let purchase = IdlePurchase(
                    productID: productID, boughtAt: paidAt, originalTransactionID: id, source: .webCheckout,
                    position: paid.position)
                let withdrawal = web.withdrawals(catalog.policy).first(ofPayment: id)
                found.append((purchase, ownership.owner(of: web, at: instant), withdrawal?.at))
            }
        }
        return found
    }
}
