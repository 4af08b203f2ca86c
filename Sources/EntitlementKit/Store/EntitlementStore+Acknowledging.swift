import AppStorePayloads
import EntitlementCore

extension EntitlementStore {
    /// The purchases of ``EntitlementConfiguration/acknowledgedKinds`` that your app is yet to grant, now and from now on.
    ///
    /// Each is verified and on disk. It comes again at every launch until it is acknowledged, and once more when it was
    /// refunded (``PurchaseRecord/revocationDate``). Your app may die between granting and acknowledging: grant by
    /// ``PurchaseRecord/transactionID``, so that what comes twice counts once.
    public nonisolated var unacknowledgedPurchases: AsyncStream<PurchaseRecord> {
        // What does not fit in comes with the next stream.
        let (stream, continuation) = AsyncStream.makeStream(
            of: PurchaseRecord.self, bufferingPolicy: .bufferingOldest(1000))
        Task { await listen(continuation) }
        return stream
    }

    private func listen(_ continuation: AsyncStream<PurchaseRecord>.Continuation) {
        start()
        guard !isStopped else { return continuation.finish() }
        let number = purchaseListeners.add(continuation)
        continuation.onTermination = { [weak self] _ in
            Task { await self?.removePurchaseListener(number) }
        }
        for record in unacknowledged.sorted(by: { $0.transactionID < $1.transactionID }) { continuation.yield(record) }
    }

    private func removePurchaseListener(_ number: Int) { purchaseListeners.remove(number) }

    /// Your app has granted a purchase, or taken it back after a refund; returns whether that is on disk.
    ///
    /// From then on it does not come again, and is finished once the server holds it.
    @discardableResult
    public func acknowledge(_ transactionID: String) async -> Bool {
        await ready()
        guard let transaction = ledger.book.transactions[transactionID] else { return false }
        ledger.book.acknowledge(transaction)
        disk.note(.statements)
        guard await persist() else { return false }
        gate.acknowledged(transactionID)
        publish()
        return true
    }

    func isUnacknowledged(_ transaction: DeviceTransaction) -> Bool {
        guard let kind = transaction.payload.kind, !ledger.book.isAcknowledged(transaction) else { return false }
        return configuration.acknowledgedKinds.contains(PurchaseKind(rawValue: kind.raw))
    }

    private var unacknowledged: [PurchaseRecord] {
        gate.unacknowledged.compactMap { id in
            ledger.book.transactions[id].map {
                PurchaseRecord($0, isSynced: ledger.hasAnswered($0))
            }
        }
    }

    /// Tells listeners of what is new.
    func tellUnacknowledged() {
        // Not before it is on disk: what is granted must not be forgotten.
        guard !disk.outdated.contains(.statements) else { return }
        for record in unacknowledged.sorted(by: { $0.transactionID < $1.transactionID }) {
            let key = record.transactionID + (record.revocationDate == nil ? "" : "/revoked")
            if toldPurchases.insert(key).inserted { purchaseListeners.send(record) }
        }
    }
}
