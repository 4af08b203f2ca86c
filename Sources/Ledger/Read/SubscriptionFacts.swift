package import EntitlementCore

/// One original transaction, with the customers who own its periods, or did.
package struct SubscriptionFacts: Sendable {
    package let key: OriginalKey
    package let state: OriginalState
    package let catalog: Catalog
    package let ownership: OwnershipMap
    package let customerIDs: [IdentityRef: String]
    /// The end of the log when this was read.
    package let end: EventMark

    /// Everybody whom its statements name, or whose it is or was, with whoever these are linked to.
    package var people: Set<IdentityRef> {
        let named =
            state.transactions.flatMap { [$0.fact.accountToken, $0.fact.appTransaction].compactMap(\.self) }
            + [state.web?.statedOwner].compactMap(\.self)
        return ownership.holders(of: key.originalTransactionID).union(named.flatMap(ownership.path(of:)))
    }

    /// The same of one purchase, the latest where none is named: whom a statement about it names, or whose it was since.
    ///
    /// Whose the earlier ones of its original transaction were does not count.
    package func people(ofPurchase transactionID: String? = nil) -> Set<IdentityRef> {
        let purchases = state.winningStatements()
        let purchase =
            transactionID.map { id in purchases.first { $0.transactionIDs.contains(id) } }
            ?? purchases.max { $0.fact.isBought(before: $1.fact) }
        guard let purchase, state.web == nil else { return people }
        let named = state.transactions.filter { purchase.transactionIDs.contains($0.fact.transactionID) }
            .flatMap { [$0.fact.accountToken, $0.fact.appTransaction].compactMap(\.self) }
        let transfers = ownership.transfers(of: key.originalTransactionID)
        let owners =
            transfers.lastIndex { $0.at <= purchase.fact.purchaseDate }.map { first in
                Set(transfers[first...].compactMap(\.customer).flatMap(ownership.path(of:)))
            } ?? ownership.holders(of: key.originalTransactionID)
        return owners.union(named.flatMap(ownership.path(of:)))
    }
}
