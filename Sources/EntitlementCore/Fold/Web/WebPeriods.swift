/// What is so only of a period that was bought on the web.
package struct WebPeriod: Hashable, Sendable {
    /// `si_…`; `nil` for a one-time payment, and where the line names no item.
    package let item: String?
    /// `in_…`; `nil` for a one-time payment.
    package let invoiceID: String?
    /// When what it follows stopped to be read: its own start, or when it was paid, where it was paid late.
    package let opening: Timestamp
    /// Why it was revoked.
    package let withdrawal: WebWithdrawal.Cause?
    /// Whether the item goes on after it, as far as statements say; so it is of subscriptions.
    package let isBridged: Bool
}

extension WebOriginal {
    /// All periods under a catalog: one chain of each subscription item's paid lines, and one of each product of a one-time
    /// payment.
    func chains(_ catalog: Catalog) -> [PeriodChain] {
        let withdrawals = withdrawals(catalog.policy)
        var items: [String?: [WebStated<WebPaidLine>]] = [:]
        let named = Set(lines.compactMap(\.value.line.item))
        // A line that names no item is of the only one there is.
        let only = named.count == 1 ? named.first : nil
        for line in lines { items[line.value.line.item ?? only, default: []].append(line) }
        let ofItems = items.sorted { ($0.key ?? "") < ($1.key ?? "") }.map { item, lines in
            chain(of: lines, of: item, catalog: catalog, withdrawals)
        }
        return (ofItems + oneTimeChains(catalog, withdrawals)).filter { !$0.periods.isEmpty }
    }

    /// Everything that was paid for, in the terms of transactions, also what the catalog does not know.
    func paidTransactions() -> [TransactionFact] {
        chains(.empty).flatMap(\.periods).map(\.fact)
    }

    // MARK: - Subscriptions

    /// The paid lines of one item, in order: each delays or ends its neighbours.
    private func chain(
        of lines: [WebStated<WebPaidLine>], of item: String?, catalog: Catalog, _ withdrawals: WebWithdrawals
    ) -> PeriodChain {
        var chain: [WebDraft] = []
        for stated in lines.filter({ isPeriod($0.value.line, among: lines) }).sorted(by: WebDraft.isInOrder) {
            var draft = WebDraft(stated)
            if isReplacement(stated.value, among: lines) {
                for index in chain.indices where chain[index].end > draft.start {
                    chain[index].end = draft.start
                    chain[index].ending = .superseded
                    chain[index].positions.append(stated.position)
                }
                chain.removeAll { $0.end <= $0.start }
            } else if let last = chain.max(by: { $0.end < $1.end }) {
                if last.end > draft.start {
                    draft.start = last.end
                    draft.positions += last.positions
                }
                // What is paid late leaves the time before as it was.
                draft.opening = max(draft.start, stated.value.paidAt ?? draft.start)
            }
            guard draft.start < draft.end else { continue }
            chain.append(draft)
        }
        // What is paid later than what comes after it opens nothing before that: it was over, or the later one held already.
        let endedAt = ending?.value.endedAt ?? .endless
        var earliest = Timestamp.endless
        for index in chain.indices.reversed() where chain[index].start < endedAt {
            earliest = min(earliest, chain[index].opening)
            chain[index].opening = earliest
        }
        return PeriodChain(periods: chain.compactMap { period($0, of: item, catalog: catalog, withdrawals) })
    }

    /// Whether a line is a stretch of time that was paid for: not an empty one, and not what is credited.
    private func isPeriod(_ line: WebLine, among lines: [WebStated<WebPaidLine>]) -> Bool {
        guard line.start < line.end, line.amount >= 0 else { return false }
        guard line.isProration, line.amount == 0 else { return true }
        // Of something that costs nothing the credit is nothing, too: it is told by going on with what ran before.
        return !lines.contains { other in
            let other = other.value.line
            return !other.isProration && other.product == line.product && other.start < line.start
                && line.start < other.end
        }
    }

    /// Whether a line takes the place of what ran before: a proration, or what is sold on an invoice that credits the rest of
    /// that.
    private func isReplacement(_ paid: WebPaidLine, among lines: [WebStated<WebPaidLine>]) -> Bool {
        paid.line.isProration
            || lines.contains { other in
                let credit = other.value.line
                return credit.amount < 0 && credit.isProration && other.value.invoiceID == paid.invoiceID
                    && credit.start <= paid.line.start && paid.line.start < credit.end
            }
    }

    private func period(
        _ draft: WebDraft, of item: String?, catalog: Catalog, _ withdrawals: WebWithdrawals
    ) -> Period? {
        let line = draft.stated.value.line
        var (end, ending, positions) = (draft.end, draft.ending, draft.positions)
        let withdrawal = withdrawals.first(ofInvoice: draft.stated.value.invoiceID)
        if let withdrawal {
            positions += withdrawal.positions
            if withdrawal.at < end {
                end = max(withdrawal.at, draft.start)
                ending = .revoked
            }
        }
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
        return Period(
            fact: fact, start: draft.start, end: end, expiry: line.end, ending: ending, revokedAt: withdrawal?.at,
            positions: Set(positions).sorted(),
            web: WebPeriod(
                item: item, invoiceID: draft.stated.value.invoiceID, opening: draft.opening,
                withdrawal: withdrawal?.cause, isBridged: true))
    }

    /// The statement by which a line that cost nothing is a trial's.
    private func trial(of line: WebLine) -> WebStated<WebSubscription>? {
        guard line.amount == 0, !line.isProration else { return nil }
        return subscriptions.first { stated in
            stated.value.trialEnd.map { line.end <= $0 && (stated.value.trialStart ?? .earliest) <= line.start }
                ?? false
        }
    }

    // MARK: - One-time payments

    private func oneTimeChains(_ catalog: Catalog, _ withdrawals: WebWithdrawals) -> [PeriodChain] {
        guard let paid = firstPaid, let start = paid.value.paidAt else { return [] }
        let withdrawal = withdrawals.first(ofPayment: originalTransactionID)
        return bought(catalog).map { bought in
            var fact = transaction(originalTransactionID, bought.product, catalog: catalog, at: start, paid)
            if let productID = bought.productID { fact.productID = productID }
            let duration = catalog.product(fact.productID)?.duration
            let expiry = duration.map { start.adding($0) } ?? .endless
            fact.kind = .known(duration == nil ? .nonConsumable : .nonRenewing)
            fact.revocation = withdrawal?.revocation
            let revokedAt = withdrawal?.at ?? .endless
            let isRevoked = revokedAt < expiry
            return PeriodChain(periods: [
                Period(
                    fact: fact, start: start, end: isRevoked ? max(revokedAt, start) : expiry, expiry: expiry,
                    ending: isRevoked ? .revoked : .ranOut, revokedAt: withdrawal?.at,
                    positions: Set([paid.position, bought.position] + (withdrawal?.positions ?? [])).sorted(),
                    web: WebPeriod(
                        item: nil, invoiceID: nil, opening: start, withdrawal: withdrawal?.cause, isBridged: false))
            ])
        }
    }

    /// The first event that said it was paid; where none did, the latest date that was read: a session and an intent are made
    /// before they are paid.
    private var firstPaid: WebStated<WebPayment>? {
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

/// A paid line while its neighbours are weighed.
private struct WebDraft {
    let stated: WebStated<WebPaidLine>
    var start: Timestamp
    var end: Timestamp
    var opening: Timestamp
    var ending = Period.End.ranOut
    var positions: [Int64]

    init(_ stated: WebStated<WebPaidLine>) {
        self.stated = stated
        start = stated.value.line.start
        end = stated.value.line.end
        opening = start
        positions = [stated.position]
    }

    /// By their starts; at one instant what is replaced comes before what replaces it, the one that ends first before the
    /// other.
    static func isInOrder(_ left: WebStated<WebPaidLine>, _ right: WebStated<WebPaidLine>) -> Bool {
        let (left, right) = (left.value.line, right.value.line)
        if left.start != right.start { return left.start < right.start }
        if left.isProration != right.isProration { return right.isProration }
        if left.end != right.end { return left.end < right.end }
        return left.lineID < right.lineID
    }
}
