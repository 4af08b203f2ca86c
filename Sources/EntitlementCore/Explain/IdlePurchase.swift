/// Something bought that would give an entitlement, did somebody say how long it runs.
struct IdlePurchase: Hashable, Sendable {
    /// What nobody says.
    enum Lack: Hashable, Sendable {
        /// It runs for the catalog's duration, and there is none.
        case duration
        /// It runs until the store's end, and the store named none.
        case end
        /// Of its kind it is not known which of the two counts, and there is neither.
        case endAndDuration

        var loss: Alternative.Loss {
            switch self {
            case .duration, .endAndDuration: .noDuration
            case .end: .noEnd
            }
        }

        fileprivate var clause: String {
            switch self {
            case .duration: "the catalog has no duration for it"
            case .end: "the store named no end of it"
            case .endAndDuration: "the store named no end of it and the catalog has no duration for it"
            }
        }
    }

    let productID: String
    let boughtAt: Timestamp
    let originalTransactionID: String
    let source: EntitlementOrigin
    let position: Int64
    let lack: Lack

    /// What there is of it, in the middle of a sentence.
    var clause: String {
        "\(productID) was bought on \(boughtAt.inWords) and gives nothing, because \(lack.clause)"
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
    ///
    /// An end that the store left out of one purchase is no reason to expect that of the next.
    func untimedProducts(giving entitlementID: String, at instant: Timestamp) -> Set<String> {
        Set(
            untimedPurchases(giving: entitlementID, at: instant).map(\.purchase).filter { $0.lack != .end }
                .map(\.productID))
    }

    private func untimedPurchases(
        giving entitlementID: String, at instant: Timestamp
    ) -> [(purchase: IdlePurchase, owner: IdentityRef?, revokedAt: Timestamp?)] {
        func isMeant(_ productID: String) -> Bool {
            catalog.product(productID)?.entitlements.contains(entitlementID) ?? false
        }
        var found: [(purchase: IdlePurchase, owner: IdentityRef?, revokedAt: Timestamp?)] = []
        for (id, state) in originals {
            for stated in state.winningTransactions() {
                let fact = stated.fact
                guard fact.purchaseDate <= instant, isMeant(fact.productID), let lack = fact.lack(in: catalog)
                else { continue }
                let purchase = IdlePurchase(
                    productID: fact.productID, boughtAt: fact.purchaseDate, originalTransactionID: id,
                    source: .appStore, position: stated.position, lack: lack)
                found.append(
                    (purchase, ownership.owner(of: fact, at: instant), catalog.policy.revokedAt(by: fact.revocation)))
            }
            guard let web = state.web, let paid = web.firstPaid, let paidAt = paid.value.paidAt, paidAt <= instant
            else { continue }
            for productID in web.soldOnce(catalog) where catalog.isEndlessByMistake(productID) && isMeant(productID) {
                let purchase = IdlePurchase(
                    productID: productID, boughtAt: paidAt, originalTransactionID: id, source: .webCheckout,
                    position: paid.position, lack: .duration)
                let withdrawal = web.withdrawals(catalog.policy).first(ofPayment: id)
                found.append((purchase, ownership.owner(of: web, at: instant), withdrawal?.at))
            }
        }
        return found
    }
}

extension TransactionFact {
    /// What nobody says of how long it runs; `nil` where that is said.
    fileprivate func lack(in catalog: Catalog) -> IdlePurchase.Lack? {
        guard Period.expiry(of: self, catalog: catalog) == nil else { return nil }
        return switch kind {
        case .known(.autoRenewable): .end
        case .known(.consumable), .known(.nonRenewing), .known(.nonConsumable): .duration
        case .unknown, nil: .endAndDuration
        }
    }
}
