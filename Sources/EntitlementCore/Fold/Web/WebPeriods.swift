/// What only a period that was bought on the web has.
package struct WebPeriod: Hashable, Sendable {
    /// `si_…`; `nil` for a one-time payment, and where the line names no item.
    package let item: String?
    /// `in_…`; `nil` for a one-time payment.
    package let invoiceID: String?
    /// When the timeline begins to show it: at its own start, or when it was paid, where it was paid late.
    package let opening: Timestamp
    /// Why it was revoked.
    package let withdrawal: WebWithdrawal.Cause?
    /// Nothing was charged for it: a trial, or a discount of all.
    let isFree: Bool
    /// Whether statements about the subscription decide what follows it; so for subscriptions, not for one-time
    /// payments.
    package let isBridged: Bool
    /// The items that replaced this one, and were not paid for yet when the period was over.
    var heirs: Set<String> = []
    /// When the first of those is shown instead; `endless` where none is.
    var yieldsAt = Timestamp.endless
}

extension WebOriginal {
    /// All periods under a catalog: one chain of each subscription item's paid lines, and one of each product of a one-time
    /// payment.
    func chains(_ catalog: Catalog) -> [PeriodChain] {
        let withdrawals = withdrawals(catalog.policy)
        var items: [String?: [WebStated<WebPaidLine>]] = [:]
        let named = Set(lines.compactMap(\.value.line.item))
        for line in lines { items[item(of: line.value.line, named), default: []].append(line) }
        var drafts = items.mapValues { self.drafts(of: $0, withdrawals) }
        let heirs = WebHeirs(of: drafts, subscriptions)
        for (heir, predecessors) in heirs.predecessors {
            drafts[heir] = self.drafts(
                of: items[heir] ?? [], withdrawals, predecessors: predecessors.flatMap { drafts[$0] ?? [] })
        }
        let ofItems = inOrder(items.keys).map { item in
            let ofItem = drafts[item] ?? []
            let last = ofItem.last?.end ?? .earliest
            let openings = heirs.heirs(of: item).flatMap { drafts[$0] ?? [] }.map(\.opening).filter { last <= $0 }
            return PeriodChain(
                periods: ofItem.compactMap { draft in
                    period(
                        draft, of: item, catalog: catalog, heirs: heirs.heirs(of: item, after: draft.end),
                        yieldsAt: openings.min() ?? .endless)
                })
        }
        return (ofItems + oneTimeChains(catalog, withdrawals)).filter { !$0.periods.isEmpty }
    }

    /// The items of the subscription before those that were removed, because of readings that are alike the first is
    /// shown.
    private func inOrder(_ items: some Sequence<String?>) -> [String?] {
        let newest = subscriptions.last?.value
        func isHeld(_ item: String?) -> Bool { newest?.holds(item) ?? true }
        let sorted = items.sorted { ($0 ?? "") < ($1 ?? "") }
        return sorted.filter(isHeld) + sorted.filter { !isHeld($0) }
    }

    /// The item of a line; a line that names none belongs to the only item there is, or to the only one that runs at
    /// its start.
    private func item(of line: WebLine, _ named: Set<String>) -> String? {
        if let item = line.item { return item }
        if named.count < 2 { return named.first }
        let running = Set(
            lines.map(\.value.line).filter { $0.isTime && $0.start <= line.start && line.start < $0.end }
                .compactMap(\.item))
        return running.count == 1 ? running.first : nil
    }

    /// Everything that was paid for, in the terms of transactions, also what the catalog does not know.
    func paidTransactions() -> [TransactionFact] {
        chains(.empty).flatMap(\.periods).map(\.fact)
    }

    // MARK: - Subscriptions

    private func period(
        _ draft: WebDraft, of item: String?, catalog: Catalog, heirs: Set<String>, yieldsAt: Timestamp
    ) -> Period? {
        let line = draft.stated.value.line
        let withdrawal = draft.withdrawal
        var (end, positions) = (draft.heldUntil, draft.positions + (withdrawal?.positions ?? []))
        var ending = end < draft.end ? .revoked : draft.ending
        if let over = self.ending, let endedAt = over.value.endedAt, endedAt < end {
            guard draft.start < endedAt else { return nil }
            (end, ending) = (endedAt, .cancelled)
            positions.append(over.position)
        }
        let trial = trial(of: line)
        if let trial { positions.append(trial.position) }
        var fact = transaction(line.lineID, line.product, catalog: catalog, at: draft.start, draft.stated)
        fact.kind = .known(.autoRenewable)
        fact.expiresDate = line.end
        fact.offer = trial == nil ? nil : Offer(type: 1, discount: "FREE_TRIAL")
        fact.revocation = withdrawal?.revocation
        let web = WebPeriod(
            item: item, invoiceID: draft.stated.value.invoiceID, opening: draft.opening, withdrawal: withdrawal?.cause,
            isFree: draft.billed.allSatisfy { $0.amount == 0 } || draft.stated.value.amountPaid == 0, isBridged: true,
            heirs: heirs, yieldsAt: yieldsAt)
        return Period(
            terms: PurchaseTerms(
                Shared(fact), ids: draft.billed.count > 1 ? draft.billed.map(\.lineID).sorted() : [],
                expiry: line.end, revokedAt: withdrawal?.at, web: web),
            start: draft.start, end: end, ending: ending, positions: Set(positions).sorted())
    }

    /// The statement whose trial covers a line that cost nothing; `nil` where the line is not a trial's.
    private func trial(of line: WebLine) -> WebStated<WebSubscription>? {
        guard line.amount == 0 else { return nil }
        return subscriptions.first { stated in
            stated.value.trialEnd.map { line.end <= $0 && (stated.value.trialStart ?? .earliest) <= line.start }
                ?? false
        }
    }

    // MARK: - One-time payments

    private func oneTimeChains(_ catalog: Catalog, _ withdrawals: WebWithdrawals) -> [PeriodChain] {
        guard let paid = firstPaid, let start = paid.value.paidAt else { return [] }
        let withdrawal = withdrawals.first(ofPayment: originalTransactionID)
        return bought(catalog).compactMap { bought in
            var fact = transaction(originalTransactionID, bought.product, catalog: catalog, at: start, paid)
            if let productID = bought.productID { fact.productID = productID }
            guard !catalog.isEndlessByMistake(fact.productID) else { return nil }
            let duration = catalog.product(fact.productID)?.duration
            let expiry = duration.map { start.adding($0) } ?? .endless
            fact.kind = .known(duration == nil ? .nonConsumable : .nonRenewing)
            fact.revocation = withdrawal?.revocation
            let revokedAt = withdrawal?.at ?? .endless
            let isRevoked = revokedAt < expiry
            let web = WebPeriod(
                item: nil, invoiceID: nil, opening: start, withdrawal: withdrawal?.cause,
                isFree: payments.compactMap(\.value.amount).max() == 0, isBridged: false)
            return PeriodChain(periods: [
                Period(
                    terms: PurchaseTerms(Shared(fact), expiry: expiry, revokedAt: withdrawal?.at, web: web),
                    start: start,
                    end: isRevoked ? max(revokedAt, start) : expiry, ending: isRevoked ? .revoked : .ranOut,
                    positions: Set([paid.position, bought.position] + (withdrawal?.positions ?? [])).sorted())
            ])
        }
    }

    /// The first event that says it was paid; where none does, the reading with the latest date, because a session and
    /// an intent are made before they are paid.
    var firstPaid: WebStated<WebPayment>? {
        let paid = payments.filter { $0.value.paidAt != nil }
        let byEvent = paid.filter(\.value.isPaidByEvent)
        func isEarlier(_ left: WebStated<WebPayment>, _ right: WebStated<WebPayment>) -> Bool {
            (left.value.paidAt ?? .endless) < (right.value.paidAt ?? .endless)
        }
        return byEvent.isEmpty ? paid.max(by: isEarlier) : byEvent.min(by: isEarlier)
    }

    /// What was bought: the product in our metadata, else what was looked up.
    private func bought(
        _ catalog: Catalog
    ) -> [(product: WebProduct, productID: String?, position: Int64)] {
        let nameless = WebProduct(price: nil, product: nil)
        if let named = payments.first(where: { $0.value.catalogProductID != nil }) {
            return [(nameless, named.value.catalogProductID, named.position)]
        }
        var seen: Set<WebProduct> = []
        return payments.flatMap { stated in
            stated.value.products.filter { seen.insert($0).inserted }.map { ($0, nil, stated.position) }
        }
    }

    /// The products of ours that a one-time payment was for.
    func soldOnce(_ catalog: Catalog) -> [String] {
        bought(catalog).compactMap { $0.productID ?? catalog.productID(of: $0.product) }
    }

    /// The result of all statements about a one-time payment.
    struct WhatWasPaid: Hashable {
        let at: Timestamp?
        let productIDs: [String]
        let products: [WebProduct]
        let amount: Int64?
    }

    var whatWasPaid: WhatWasPaid {
        let bought = bought(.empty)
        return WhatWasPaid(
            at: firstPaid?.value.paidAt, productIDs: bought.compactMap(\.productID), products: bought.map(\.product),
            amount: payments.compactMap(\.value.amount).max())
    }

    // MARK: - In the terms of a transaction

    private func transaction<Value>(
        _ id: String, _ sold: WebProduct, catalog: Catalog, at start: Timestamp, _ stated: WebStated<Value>
    ) -> TransactionFact {
        TransactionFact(
            payloadHash: stated.hash, signedDate: stated.statedAt, transactionID: id,
            originalTransactionID: originalTransactionID,
            productID: catalog.productID(of: sold) ?? sold.product ?? sold.price ?? "", bundleID: "", kind: nil,
            purchaseDate: start, ownership: .known(.purchased), accountToken: statedOwner)
    }
}

extension Catalog {
    /// Whether a product that was paid for once would run without end though it is sold as a subscription.
    ///
    /// One payment does not say how long the product is meant to last, and hardly for ever; so it gives nothing until
    /// the catalog states a duration.
    package func isEndlessByMistake(_ productID: String) -> Bool {
        guard let product = product(productID), product.duration == nil else { return false }
        return product.stripe?.mode == .subscription
    }
}
