import EntitlementCore

/// What a customer has of one original transaction at an instant.
///
/// What was transferred to somebody else is theirs alone, as after RevenueCat's TRANSFER.
struct OriginalPurchases {
    /// One product of a subscription.
    struct Subscription {
        let latest: ChainStanding.Latest
        /// What was paid for with it, as the same.
        let others: [TransactionFact]
        let billingIssues: [Told]
        let unsubscriptions: [Told]
        let originalPurchaseDate: Timestamp
        /// The instant asked about.
        let instant: Timestamp
    }

    /// One one-time purchase that was not taken back.
    struct OneTime {
        let fact: TransactionFact
        let isOfWeb: Bool
        /// `nil` where it gives nothing because nobody says how long it runs.
        let access: Access?
    }

    let subscriptions: [Subscription]
    let oneTime: [OneTime]

    init(_ originalID: String, _ state: OriginalState, of facts: CustomerFacts, at instant: Timestamp) {
        func isOwned(_ fact: TransactionFact) -> Bool {
            facts.ownership.owner(of: fact, at: instant) == facts.customer
        }
        let purchases = state.purchases(facts.catalog)
        let first = purchases.map(\.purchaseDate).min()
        let chains = state.chains(facts.catalog)
        let standings = chains.map { chain in
            ChainStanding(chain, of: state, at: instant, facts.catalog.policy, isOwned: isOwned)
        }
        var subscriptions: [Subscription] = []
        var access: [Bought: Access] = [:]
        for standing in standings {
            for latest in standing.latest where !latest.period.fact.productID.isEmpty {
                if latest.period.isSubscription {
                    subscriptions.append(
                        Subscription(
                            latest: latest, others: chains.paid(with: latest.period),
                            billingIssues: standing.billingIssues(of: latest),
                            unsubscriptions: standing.unsubscriptions(of: latest),
                            originalPurchaseDate: first ?? latest.period.fact.purchaseDate,
                            instant: instant))
                } else {
                    access[Bought(latest.period.fact)] = latest.access
                }
            }
        }
        self.subscriptions = subscriptions
        oneTime = purchases.compactMap { fact in
            guard !fact.isOfSubscription, !fact.productID.isEmpty, fact.purchaseDate <= instant, isOwned(fact) else {
                return nil
            }
            let access = access[Bought(fact)]
            let isWithdrawn = fact.revocation.map { $0.date <= instant } ?? false
            return isWithdrawn && access?.isOpen != true
                ? nil : OneTime(fact: fact, isOfWeb: state.web != nil, access: access)
        }
    }

    /// What names a one-time purchase; one payment on the web may be for several products.
    private struct Bought: Hashable {
        let transactionID: String
        let productID: String

        init(_ fact: TransactionFact) { (transactionID, productID) = (fact.transactionID, fact.productID) }
    }
}

extension TransactionFact {
    /// As `Period.isSubscription`, also of what makes no period.
    var isOfSubscription: Bool {
        switch kind {
        case .known(.autoRenewable): true
        case .known(.nonConsumable), .known(.consumable), .known(.nonRenewing): false
        case .unknown, nil: expiresDate != nil
        }
    }
}
