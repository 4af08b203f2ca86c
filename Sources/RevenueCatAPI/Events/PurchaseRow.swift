import EntitlementCore

// Several items of one subscription may be one product. The document shows one entry for them, and a receiver has one row:
// its key is the original transaction and the product.

/// What a receiver has one row of.
struct PurchaseRow: Hashable {
    let source: String
    let productID: String

    init(_ key: PurchaseKey, _ productID: String) { (source, self.productID) = (key.source, productID) }
}

/// Which item's purchase each row shows, and what the others tell beside it.
struct PurchaseRows {
    private var shown: [PurchaseRow: (key: PurchaseKey, transactionID: String)] = [:]

    /// - Parameters:
    ///   - old: of what is nobody's any more, or another product's by now.
    ///   - new: where a row is in both, these count.
    init(_ old: [PurchaseKey: PurchaseStanding], _ new: [PurchaseKey: PurchaseStanding]) {
        for (key, standing) in old where standing.kind == .subscription && standing.isShown {
            shown[PurchaseRow(key, standing.view.productID)] = (key, standing.view.transactionID)
        }
        for (key, standing) in new where standing.kind == .subscription && standing.isShown {
            let row = PurchaseRow(key, standing.view.productID)
            // What became another product ends by that what it was, and not what had ended before.
            let former = shown[row].flatMap { new[$0.key] }
            if !standing.isOpen, let former, former.view.productID != row.productID { continue }
            shown[row] = (key, standing.view.transactionID)
        }
    }

    /// What a purchase tells of all that became of it.
    ///
    /// One that its row does not show tells of its money, unless it was paid with what the row shows; and behind another payment,
    /// or one that came back, by which a receiver lets in, how the row stands.
    func told(_ events: [PurchaseEvent], of key: PurchaseKey) -> [PurchaseEvent] {
        events.compactMap { event in
            let view = event.view
            guard let shown = shown[PurchaseRow(key, view.productID)], shown.key != key else { return event }
            if view.transactionID == shown.transactionID { return nil }
            let letsIn = events.contains { $0.letsIn && $0.view.productID == view.productID }
            guard event.isOfMoney || letsIn else { return nil }
            return event.type == .initialPurchase ? event.renewed(as: view) : event
        }
    }
}

extension [PurchaseKey: PurchaseStanding] {
    /// Lets the items of each row stand as the one that gives it furthest; of two alike the one that was bought later, then the
    /// first.
    ///
    /// - Parameter items: a subscription's, in the order of its chains.
    mutating func joinRows(of items: [PurchaseKey]) {
        var rows: [PurchaseRow: [PurchaseKey]] = [:]
        for key in items {
            guard let standing = self[key] else { continue }
            rows[PurchaseRow(key, standing.view.productID), default: []].append(key)
        }
        for keys in rows.values where keys.count > 1 {
            let best = keys.dropFirst().reduce(keys[0]) { best, key in
                guard let left = self[best], let right = self[key] else { return best }
                return right.isFurther(than: left) ? key : best
            }
            // While another item stays, what one of them changes to takes no product's place.
            let stays = keys.contains { self[$0]?.isStaying ?? false }
            if stays { self[best]?.stay() }
            guard let shown = self[best] else { continue }
            for key in keys where key != best { self[key]?.stand(as: shown) }
        }
    }
}

extension [PeriodChain] {
    /// What the payment of a period is told as paid for, too: of each other item of its product what the invoice paid for last.
    func paid(with period: Period) -> [TransactionFact] {
        guard let invoice = period.web?.invoiceID else { return [] }
        let others = filter { $0.periods.first?.web?.item != period.web?.item }
        return others.compactMap { chain in
            chain.periods.last { $0.web?.invoiceID == invoice && $0.fact.productID == period.fact.productID }?.fact
        }
    }
}

extension PurchaseStanding {
    /// Whether it gives access, or gave it, for longer; of two alike the one that was bought later.
    fileprivate func isFurther(than other: PurchaseStanding) -> Bool {
        if isOpen != other.isOpen { return isOpen }
        return (view.end, view.purchasedAt) > (other.view.end, other.view.purchasedAt)
    }

    /// Whether it gives access and is to change to no other product.
    fileprivate var isStaying: Bool { isOpen && (nextProductID ?? view.productID) == view.productID }
}

extension PurchaseEvent {
    /// Whether it tells that a payment was made, or came back.
    fileprivate var letsIn: Bool { type.begins || type == .refundReversed }

    /// Whether it is about a payment, or what went back of one.
    fileprivate var isOfMoney: Bool { letsIn || detail == .cancellation(.customerSupport) }
}
