import AppStorePayloads
import EntitlementCore

// A store sells nothing of which it has a purchase that is not finished, or that the Apple account owns: it hands that over
// once more, and calls it a success.
extension EntitlementStore {
    /// The longest that a purchase waits until the one before it is finished.
    private static let finishingPatience = Duration.seconds(3)

    /// Waits until earlier purchases of a product are finished that are about to be, so that the store sells it again.
    func finishWhatWasBought(_ productID: String) async {
        guard isFinishing(productID) else { return }
        _ = await bounded(Self.finishingPatience) { await self.waitForFinishing(productID) }
    }

    private func waitForFinishing(_ productID: String) async {
        while isFinishing(productID) { await withCheckedContinuation { finishWaiters.append($0) } }
    }

    /// Lets those look again who wait until something is finished.
    func resumeFinishWaiters() {
        let waiters = finishWaiters
        finishWaiters = []
        for waiter in waiters { waiter.resume() }
    }

    /// Whether a purchase of a product waits for nothing but the server's answer to a request that is under way, and for the
    /// store.
    private func isFinishing(_ productID: String) -> Bool {
        guard !isStopped else { return false }
        return gate.waiting.contains { id in
            guard let transaction = ledger.book.transactions[id], transaction.payload.productID == productID,
                !gate.unacknowledged.contains(id)
            else { return false }
            let key = ledger.poster(of: transaction).map { SyncQueue.Key(customerID: $0, transactionID: id) }
            return gate.isAboutToBeFinished(id) || key.map(queue.isUnderWay) ?? false
        }
    }

    /// How long after a purchase the store still signs it for the first time, and how far this device's clock may be ahead of
    /// the store's, in milliseconds.
    private static let recently: Int64 = 600_000

    /// Whether the store hands over something that was bought before it was asked to sell; asked before it is received.
    func wasBoughtBefore(_ transaction: DeviceTransaction, _ productID: String) -> Bool {
        let (id, bought) = (transaction.payload.transactionID, transaction.payload.purchaseDate)
        // Whatever this device's clock says: the store has signed it anew, long after it was bought.
        if let signed = transaction.payload.signedDate, bought.adding(milliseconds: Self.recently) < signed {
            return true
        }
        guard let purchase = purchases[productID] else {
            // A view of the store's own may tell of it after it came as an update.
            return ledger.book.transactions[id] != nil && bought < now.adding(milliseconds: -Self.recently)
        }
        if purchase.known.contains(id) { return true }
        // A list may have told of it while the sheet was shown.
        return ledger.book.transactions[id] != nil && !purchase.came.contains(id)
            && bought < purchase.beganAt.adding(milliseconds: -Self.recently)
    }

    /// Why something that was bought before is not what the customer wanted to buy; `nil`: it gives it to them, or is yet to
    /// be granted.
    func whyNotSold(_ transaction: DeviceTransaction, _ productID: String) -> PurchaseError? {
        let payload = transaction.payload
        let isGiven = entitlements.all.contains {
            $0.givesAccess && $0.originalTransactionID == payload.originalTransactionID
        }
        if isGiven, !payload.isSoldRepeatedly { return nil }
        guard isGiven || ledger.isOwn(transaction, at: now, bound: bound) else {
            return PurchaseError(
                .ownedByAnother, of: productID, detail: "the store handed over what another customer has bought")
        }
        if payload.isOwned(at: now) || payload.revocation == nil && isUnacknowledged(transaction) { return nil }
        return PurchaseError(.notSoldAgain, of: productID, detail: "the store handed over what was bought before")
    }
}

extension TransactionPayload {
    /// Whether each purchase of it is one more, rather than the same.
    fileprivate var isSoldRepeatedly: Bool { [.known(.consumable), .known(.nonRenewing)].contains(kind) }

    /// Whether it is one that an Apple account owns at an instant, whatever it gives.
    fileprivate func isOwned(at now: Timestamp) -> Bool {
        guard revocation == nil else { return false }
        return kind == .known(.nonConsumable) || kind == .known(.autoRenewable) && expiresDate.map { $0 > now } ?? false
    }
}
