import AppStorePayloads
import EntitlementCore

extension EntitlementStore {
    /// The purchases of ``EntitlementConfiguration/acknowledgedKinds`` that your app is yet to grant, now and from now on.
    ///
    /// Each is verified and on disk. It comes again at every launch and login until it is acknowledged, once more when it was
    /// refunded (``PurchaseRecord/revocationDate``), when more of it was (``PurchaseRecord/revocationPercentage``), and when the
    /// store has taken that refund back: what comes last of a transaction says how much of it is to be granted
    /// (``PurchaseRecord/revokedShare``). Your app may die between granting and acknowledging: grant by
    /// ``PurchaseRecord/transactionID``, so that what comes twice counts once.
    ///
    /// What was bought with the account token of somebody else than who is logged in comes when they are. While nobody is
    /// logged in, that holds for each token whose customer this device knows.
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
        // What nobody was told of yet comes to all at once, when it is on disk.
        for record in unacknowledged where wasTold(record) { continuation.yield(record) }
        let number = purchaseListeners.add(continuation)
        continuation.onTermination = { [weak self] _ in
            Task { await self?.removePurchaseListener(number) }
        }
        tellUnacknowledged()
    }

    private func wasTold(_ record: PurchaseRecord) -> Bool {
        toldPurchases[record.transactionID] == .some(ToldRevocation(record))
    }

    private func removePurchaseListener(_ number: Int) { purchaseListeners.remove(number) }

    /// Your app has granted a purchase, or taken it back after a refund, as it came from ``unacknowledgedPurchases``.
    ///
    /// From then on it does not come again, and is finished once the server holds it.
    ///
    /// - Returns: whether that is on disk. It is not where the disk fails, nor where the purchase was refunded meanwhile, more
    ///   of it was, or that refund taken back: then it comes once more.
    @discardableResult
    public func acknowledge(_ purchase: PurchaseRecord) async -> Bool {
        await ready()
        guard let transaction = ledger.book.transactions[purchase.transactionID],
            ToldRevocation(transaction) == ToldRevocation(purchase)
        else { return false }
        ledger.book.acknowledge(transaction)
        disk.note(.statements)
        let change = disk.changes
        // Another file that cannot be written keeps nothing of this from being known.
        _ = await persist()
        guard disk.isDurable(.statements, upTo: change) else { return false }
        // It may have come to read otherwise while it was written.
        if !isUnacknowledged(transaction.payload.transactionID) { gate.acknowledged(purchase.transactionID) }
        publish()
        return true
    }

    private func isUnacknowledged(_ transactionID: String) -> Bool {
        ledger.book.transactions[transactionID].map(isUnacknowledged) ?? false
    }

    func isUnacknowledged(_ transaction: DeviceTransaction) -> Bool {
        guard let kind = transaction.payload.kind, !ledger.book.isAcknowledged(transaction) else { return false }
        return configuration.acknowledgedKinds.contains(PurchaseKind(rawValue: kind.raw))
    }

    private var unacknowledged: [PurchaseRecord] {
        let waiting = gate.unacknowledged.sorted().compactMap { ledger.book.transactions[$0] }
        var own: Set<String> = []
        if waiting.contains(where: ledger.bearsAnotherToken) {
            own = Set(ledger.history(at: now, bound: bound).map(\.transactionID))
        }
        return waiting.filter {
            (!ledger.bearsAnotherToken($0) || own.contains($0.payload.transactionID)) && !ledger.isBoughtByAnother($0)
        }.map { PurchaseRecord($0, isSynced: ledger.hasAnswered($0)) }
    }

    /// Tells listeners of what is new.
    func tellUnacknowledged() {
        // Not before it is on disk: what is granted must not be forgotten.
        guard !disk.outdated.contains(.statements) else { return }
        for record in unacknowledged where !wasTold(record) {
            toldPurchases[record.transactionID] = .some(ToldRevocation(record))
            purchaseListeners.send(record)
        }
    }
}
