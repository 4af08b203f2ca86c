/// Something bought on the web that gives an entitlement as soon as it is paid, and was not paid by an instant.
struct UnpaidPurchase: Hashable, Sendable {
    enum Stage: Hashable, Sendable {
        /// The payment is on its way, as far as is known.
        case underWay
        /// The bank wants the customer to confirm it.
        case unconfirmed
        /// It failed, and may still be made.
        case failed
        /// It failed for good.
        case givenUp
        /// A trial runs, of which nothing but the subscription was heard.
        case trial
        /// A running subscription was changed to the product, and no invoice of it was paid yet.
        case notBilled
    }

    let stage: Stage
    let productID: String
    let originalTransactionID: String
    let begunAt: Timestamp
    /// When the stage was told.
    let toldAt: Timestamp
    /// When Stripe is to charge for it; `nil` where that is not known.
    let dueAt: Timestamp?
    /// The events that say so, ascending.
    let positions: [Int64]

    /// What there is of it, in the middle of a sentence.
    var clause: String {
        let purchase = "the payment for \(productID), which was bought on \(begunAt.inWords),"
        switch stage {
        case .underWay: return "\(purchase) has not arrived"
        case .unconfirmed: return "\(purchase) waits for the customer to confirm it"
        case .failed: return "\(purchase) failed on \(toldAt.inWords)"
        case .givenUp: return "\(purchase) failed, and was given up on \(toldAt.inWords)"
        case .trial:
            return
                "the free trial of \(productID), which began on \(begunAt.inWords), opens with an invoice of its own, and "
                + "that one has not been heard of"
        case .notBilled:
            return
                "\(productID) is part of the subscription \(originalTransactionID) since \(begunAt.inWords), and no "
                + "invoice for it was paid yet"
        }
    }

    /// Whether the product needs no other purchase to open.
    var isPayable: Bool { stage != .givenUp }

    /// What would open it; `nil` where this purchase will not.
    var outlook: Outlook? {
        let sentence: String
        switch stage {
        case .underWay: sentence = "When the payment for \(productID) arrives, it opens."
        case .unconfirmed:
            sentence =
                "When the customer confirms the payment for \(productID) and it succeeds, it opens."
        case .failed:
            sentence =
                "When the open invoice for \(productID) is paid after all, it opens; until Stripe gives it up the "
                + "customer can pay it."
        case .givenUp: return nil
        case .trial: sentence = "When the invoice of the free trial of \(productID) arrives, it opens."
        case .notBilled:
            let due = dueAt.map { ", which is due on \($0.inWords)," } ?? ""
            sentence = "When the next invoice for \(productID)\(due) is paid, it opens."
        }
        return Outlook(code: .payment, at: dueAt, sentence: sentence)
    }

    var loss: Alternative.Loss {
        switch stage {
        case .underWay, .unconfirmed: .unpaid
        case .failed, .givenUp: .paymentFailed
        case .trial, .notBilled: .notBilledYet
        }
    }
}

extension CustomerFacts {
    /// What this customer began to buy on the web that gives an entitlement and was not paid; what may still be paid, and
    /// the latest, first.
    ///
    /// - Parameter events: those that the facts were folded from: that a payment failed, or waits, only the type of an event
    ///   tells. It is a label, and decides about no access.
    func unpaidPurchases(
        giving entitlementID: String, at instant: Timestamp, told events: [HistoryEvent]
    ) -> [UnpaidPurchase] {
        let news = Dictionary(grouping: events.compactMap { WebNews($0, by: instant) }, by: \.originalTransactionID)
        var found: [UnpaidPurchase] = []
        for (id, state) in originals.sorted(by: { $0.key < $1.key }) {
            guard let web = state.web, ownership.currentOwner(of: web) == customer else { continue }
            let finder = UnpaidFinder(
                web: web, catalog: catalog, entitlementID: entitlementID, instant: instant, news: news[id] ?? [])
            if let purchase = web.subscriptions.isEmpty ? finder.payment() : finder.subscription() {
                found.append(purchase)
            }
        }
        return found.sorted { left, right in
            if left.isPayable != right.isPayable { return left.isPayable }
            if left.begunAt != right.begunAt { return left.begunAt > right.begunAt }
            return left.originalTransactionID < right.originalTransactionID
        }
    }
}

/// What the type of an event says of a payment.
private struct WebNews {
    enum Kind {
        case completed
        case failed
        case unconfirmed
    }

    let originalTransactionID: String
    let kind: Kind
    let at: Timestamp
    let position: Int64

    /// - Parameter instant: what was stated later says nothing yet.
    init?(_ event: HistoryEvent, by instant: Timestamp) {
        guard case .web(let fact) = event.fact, let original = fact.originalTransactionID, fact.statedAt <= instant
        else { return nil }
        switch fact.type {
        case "checkout.session.completed": kind = .completed
        case "checkout.session.async_payment_failed", "invoice.payment_failed": kind = .failed
        case "invoice.payment_action_required": kind = .unconfirmed
        default: return nil
        }
        originalTransactionID = original
        at = fact.statedAt
        position = event.position
    }
}

private struct UnpaidFinder {
    let web: WebOriginal
    let catalog: Catalog
    let entitlementID: String
    let instant: Timestamp
    let news: [WebNews]

    /// A subscription that was never paid, or not for what it is for now.
    func subscription() -> UnpaidPurchase? {
        let told = web.subscriptions.filter { $0.statedAt <= instant && $0.value.status.isKnown }
        guard let newest = told.last, case .known(let status) = newest.value.status,
            let item = newest.value.items.first(where: { gives($0.product) }),
            let productID = catalog.productID(of: item.product),
            !web.chains(catalog).flatMap(\.periods).contains(where: { $0.fact.productID == productID })
        else { return nil }
        let begun = told.first { $0.value.items.contains { gives($0.product) } } ?? newest
        let isFirst = web.lines.isEmpty
        let last = news.filter { $0.kind != .completed }.max {
            ($0.at, $0.position) < ($1.at, $1.position)
        }
        func purchase(_ stage: UnpaidPurchase.Stage, _ news: WebNews? = nil) -> UnpaidPurchase {
            let due = stage == .notBilled ? item.periodEnd.flatMap { $0 > instant ? $0 : nil } : nil
            return self.purchase(
                stage, productID, begunAt: begun.statedAt, toldAt: news?.at ?? newest.statedAt, dueAt: due,
                [begun.position, newest.position, news?.position])
        }
        if newest.value.endedAt != nil || status == .canceled || status == .incompleteExpired {
            return isFirst ? purchase(.givenUp) : nil
        }
        switch status {
        case .incomplete:
            guard let last else { return purchase(.underWay) }
            return purchase(last.kind == .failed ? .failed : .unconfirmed, last)
        case .trialing: return purchase(isFirst ? .trial : .notBilled)
        case .active, .pastDue, .unpaid: return purchase(isFirst ? .underWay : .notBilled)
        case .canceled, .incompleteExpired, .paused:
            return nil
        }
    }

    /// A session that was completed, and whose payment has not come.
    func payment() -> UnpaidPurchase? {
        guard !web.payments.contains(where: { $0.value.paidAt != nil }), let first = web.payments.first,
            let productID = web.soldOnce(catalog).first(where: {
                gives($0) && !catalog.isEndlessByMistake($0)
            }),
            let last = news.filter({ $0.kind != .unconfirmed }).max(by: {
                ($0.at, $0.position) < ($1.at, $1.position)
            })
        else { return nil }
        let begun = news.first { $0.kind == .completed } ?? last
        return purchase(
            last.kind == .failed ? .givenUp : .underWay, productID, begunAt: begun.at, toldAt: last.at,
            dueAt: nil,
            [first.position, begun.position, last.position])
    }

    private func purchase(
        _ stage: UnpaidPurchase.Stage, _ productID: String, begunAt: Timestamp, toldAt: Timestamp,
        dueAt: Timestamp?,
        _ positions: [Int64?]
    ) -> UnpaidPurchase {
        UnpaidPurchase(
            stage: stage, productID: productID, originalTransactionID: web.originalTransactionID,
            begunAt: begunAt,
            toldAt: toldAt, dueAt: dueAt,
            positions: Set((positions + [web.owners.first?.position]).compactMap(\.self)).sorted())
    }

    private func gives(_ sold: WebProduct) -> Bool { catalog.productID(of: sold).map(gives) ?? false }

    private func gives(_ productID: String) -> Bool {
        catalog.product(productID)?.entitlements.contains(entitlementID) ?? false
    }
}
