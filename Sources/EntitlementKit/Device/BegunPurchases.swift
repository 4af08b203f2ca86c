import AppStorePayloads
import EntitlementCore

// A purchase may come long after its sheet is gone: a bank's app interrupts it, a parent approves it, or the process ends. Where it
// bears nothing of whoever was logged in, only this device knows whose it is.
extension DeviceLedger {
    /// How far this device's clock may be ahead of the store's, in milliseconds.
    private static let tolerance: Int64 = 600_000

    /// Remembers that somebody begins to buy something here, where it will not say so itself.
    mutating func noteBegun(_ productID: String, by buyer: CustomerID, at now: Timestamp) {
        begun.removeAll { ($0.customerID, $0.productID) == (buyer, productID) }
        begun.append(PendingPurchase(customerID: buyer, productID: productID, beganAt: now))
        begun.removeFirst(max(0, begun.count - Self.issuedLimit))
    }

    /// Takes a purchase that has come for what the customer has begun; returns whether it is.
    ///
    /// Where somebody else has begun the same here, or is logged in by now, nobody knows.
    mutating func noteCame(_ transaction: DeviceTransaction) -> Bool {
        let payload = transaction.payload
        let begins = payload.reason == .known(.purchase) || payload.transactionID == payload.originalTransactionID
        guard begins, payload.reason != .known(.renewal), payload.ownership != .known(.familyShared),
            !bought.contains(where: { $0.originalTransactionID == payload.originalTransactionID })
        else { return false }
        let buyers = begun.filter { purchase in
            let earliest = purchase.beganAt.adding(milliseconds: -Self.tolerance)
            let last = purchase.beganAt.adding(milliseconds: PendingPurchase.patience)
            return purchase.productID == payload.productID && (earliest...last).contains(payload.purchaseDate)
        }.map(\.customerID)
        return Set(buyers) == [identified] && noteBought(transaction, by: identified)
    }

    /// Remembers that whoever was logged in has bought something here, where it does not say so itself; returns whether
    /// that is new.
    mutating func noteBought(_ transaction: DeviceTransaction, by buyer: CustomerID?) -> Bool {
        guard let buyer, transaction.payload.appAccountToken == nil else { return false }
        begun.removeAll { ($0.customerID, $0.productID) == (buyer, transaction.payload.productID) }
        let row = PurchaseWhileLoggedIn(
            customerID: buyer, originalTransactionID: transaction.payload.originalTransactionID)
        guard !bought.contains(row) else { return false }
        bought.append(row)
        if bought.count > Self.issuedLimit {
            // What is used up, such as coins, gives nothing that could be lost.
            let usedUp = bought.dropLast().firstIndex { purchase in
                book.transactions(of: purchase.originalTransactionID).allSatisfy {
                    $0.payload.kind == .known(.consumable)
                }
            }
            bought.remove(at: usedUp ?? 0)
        }
        return true
    }
}
