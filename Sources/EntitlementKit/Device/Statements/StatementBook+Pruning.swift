import AppStorePayloads
import EntitlementCore

extension StatementBook {
    /// Lets go of what is needed least, where there is more than a limit; returns whether anything went.
    ///
    /// Only what is over and known elsewhere can go: consumables first, then periods that have ended, each the oldest first.
    /// The last period of a subscription, what was bought for good, and what a consumable still gives by the catalog's
    /// duration never go.
    ///
    /// - Parameters:
    ///   - limit: how many transactions are kept without letting go of any.
    ///   - isNeeded: whether the server is yet to hold a transaction, or the store to be told that it is finished.
    mutating func prune(
        limit: Int = transactionLimit, catalog: Catalog, isNeeded: (DeviceTransaction) -> Bool, at now: Timestamp
    ) -> Bool {
        let excess = transactions.count - limit
        guard excess > 0 else { return false }
        var last: [String: Timestamp] = [:]
        for transaction in transactions.values {
            let original = transaction.payload.originalTransactionID
            last[original] = max(last[original] ?? .earliest, transaction.payload.purchaseDate)
        }
        let ranked = transactions.values.compactMap { transaction -> (rank: Int, transaction: DeviceTransaction)? in
            guard let rank = transaction.rank(lastPurchase: last, catalog, at: now), !isNeeded(transaction) else {
                return nil
            }
            return (rank, transaction)
        }
        let order = ranked.sorted { left, right in
            let (own, theirs) = (left.transaction.payload, right.transaction.payload)
            return (left.rank, own.purchaseDate, own.transactionID) < (
                right.rank, theirs.purchaseDate, theirs.transactionID
            )
        }
        for (_, transaction) in order.prefix(excess) { letGo(of: transaction) }
        return !order.isEmpty
    }
}

extension DeviceTransaction {
    /// How early it is let go of; `nil`: never.
    fileprivate func rank(lastPurchase: [String: Timestamp], _ catalog: Catalog, at now: Timestamp) -> Int? {
        if payload.kind == .known(.consumable) {
            let duration = catalog.product(payload.productID)?.duration
            return duration.map { payload.purchaseDate.adding($0) <= now } ?? true ? 0 : nil
        }
        guard let end = payload.expiresDate, end <= now,
            payload.purchaseDate < lastPurchase[payload.originalTransactionID] ?? .earliest
        else { return nil }
        return 1
    }
}
