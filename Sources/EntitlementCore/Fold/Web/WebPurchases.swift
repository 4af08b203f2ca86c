// What was bought on the web, as a customer's history tells it.

extension OriginalState {
    /// Everything that was paid for, as transactions with the catalog's product ids; `reason` says whether it was a
    /// renewal, and `isUpgraded` whether another purchase took its place.
    ///
    /// A product that the catalog does not know has Stripe's id.
    package func purchases(_ catalog: Catalog) -> [TransactionFact] {
        guard let web else { return winningStatements().map(\.fact) }
        let named = web.purchases(catalog)
        // Purchases that have no period under the catalog were made all the same.
        let known = Set(named.map(\.transactionID))
        return named + web.purchases(.empty).filter { !known.contains($0.transactionID) }
    }
}

extension WebOriginal {
    fileprivate func purchases(_ catalog: Catalog) -> [TransactionFact] {
        let chains = chains(catalog)
        let periods = chains.flatMap(\.periods)
        return chains.flatMap { chain in
            chain.periods.enumerated().map { index, period in
                var fact = period.fact
                let continues =
                    index > 0
                    ? chain.periods[index - 1].ending != .superseded
                        // Another item of the subscription may take over at a renewal.
                    : periods.contains { $0.start < period.start && $0.fact.productID == fact.productID }
                fact.reason = .known(period.web?.isBridged == true && continues ? .renewal : .purchase)
                fact.isUpgraded = period.ending == .superseded
                return fact
            }
        }
    }
}
