// What one original transaction contributes to charts: a function of what is known of it, free of catalog and ownership.

extension OriginalState {
    /// What it contributes.
    ///
    /// It is read as under the default policy and without a catalog: charts tell what stores sold and what became of that, not
    /// what somebody makes of it. What a family member shares was sold to somebody else, and contributes nothing.
    package func chartContribution() -> ChartContribution {
        var contribution = ChartContribution()
        let names = ChartNames(self)
        var chains: [ChartChain] = []
        for chain in self.chains(.empty) {
            guard let first = chain.periods.first, first.isSubscription, !first.isFamilyShared else { continue }
            chains.append(
                ChartChain(number: chains.count, periods: chain.periods, articles: names.articles(of: chain)))
        }
        let trials = ChartTrials(of: chains)
        trials.add(to: &contribution)
        var pieces: [ChartPiece] = []
        for chain in chains {
            let segments = segments(of: PeriodChain(periods: chain.periods), policy: Catalog.empty.policy)
            addRenewals(of: chain, trials, to: &contribution)
            addRetries(segments, of: chain, to: &contribution)
            for segment in segments {
                guard let figure = segment.state.figure else { continue }
                pieces.append(
                    ChartPiece(
                        start: segment.start, end: segment.end, figure: figure, chain: chain.number,
                        periodIndex: segment.periodIndex, article: chain.articles[segment.periodIndex],
                        isTrial: trials.holds(segment.periodIndex, of: chain.number)))
            }
        }
        let shown = ChartPiece.shown(pieces)
        for piece in shown {
            contribution.hold(ChartSeries(piece.figure, piece.article), from: piece.start, until: piece.end)
        }
        addSubscribers(of: shown, chains, isTakenOver: trials.isTakenOver, to: &contribution)
        if let web {
            addWebRefunds(web, to: &contribution)
            web.addRevenue(to: &contribution)
        } else {
            let sales = ChartSale.sales(winningTransactions())
            addRefunds(of: sales, to: &contribution)
            addRevenue(of: sales, to: &contribution)
        }
        return contribution
    }

    // MARK: - Renewals

    /// A period that runs out is due to be renewed, unless it was known at its end that it would not be.
    ///
    /// A free trial is not: what becomes of it is told by its conversion.
    private func addRenewals(of chain: ChartChain, _ trials: ChartTrials, to contribution: inout ChartContribution) {
        for (index, period) in chain.periods.enumerated() where period.ending == .ranOut && period.end != .endless {
            if trials.holds(index, of: chain.number) { continue }
            let article = chain.articles[index]
            let isDue = willRenew(period) ?? true
            contribution.note(isDue ? .renewalDue : .renewalCancelled, article, at: period.end)
            guard let renewedAt = renewal(of: index, in: chain) else { continue }
            contribution.note(.renewalMade, article, at: renewedAt)
            if isDue { contribution.note(.renewalMadeOfDue, article, at: period.end) }
        }
    }

    private func willRenew(_ period: Period) -> Bool? {
        guard let web else { return willRenew(at: period.end) }
        return web.willRenew(period.web, at: period.end)
    }

    /// When a period was renewed; `nil` where it was not.
    private func renewal(of index: Int, in chain: ChartChain) -> Timestamp? {
        let period = chain.periods[index]
        if index + 1 < chain.periods.count {
            let next = chain.periods[index + 1]
            return next.renews(period) ? next.opening : nil
        }
        // Another item of the subscription may have taken over.
        guard let yieldsAt = period.web?.yieldsAt, yieldsAt != .endless else { return nil }
        return yieldsAt
    }

    // MARK: - Billing retry

    /// Grace and billing retry after one period, which end with the period's renewal or without.
    private func addRetries(_ segments: [Segment], of chain: ChartChain, to contribution: inout ChartContribution) {
        /// The period whose charge failed, while that is neither recovered nor lost.
        var failed: Int?
        for segment in segments {
            switch segment.state {
            case .inGracePeriod, .inBillingRetry:
                if failed == nil {
                    contribution.note(.retryEntered, chain.articles[segment.periodIndex], at: segment.start)
                }
                failed = segment.periodIndex
            case .active, .expired, .revoked:
                guard let index = failed else { continue }
                let isSamePeriod = segment.periodIndex == index
                // The subscription goes on by Stripe's word, and what is due was not paid yet.
                if isSamePeriod, segment.state == .active { continue }
                let isRecovered =
                    isSamePeriod
                    ? segment.state == .expired && renewal(of: index, in: chain) == segment.start
                    : segment.state == .active
                        && chain.periods[segment.periodIndex].renews(chain.periods[index])
                contribution.note(
                    isRecovered ? .retryRecovered : .retryLost, chain.articles[index], at: segment.start)
                failed = nil
            }
        }
    }

    // MARK: - Churn and retention

    /// From the first period on that is no trial somebody is subscribed while it reads active, in grace or in billing retry,
    /// and between a period and its late renewal.
    private func addSubscribers(
        of shown: [ChartPiece], _ chains: [ChartChain], isTakenOver: Bool, to contribution: inout ChartContribution
    ) {
        guard let first = shown.firstIndex(where: { $0.figure == .active && !$0.isTrial }) else { return }
        let cohort = shown[first]
        let month = cohort.start.monthName
        contribution.note(isTakenOver ? .takenOver : .begun, cohort.article, at: cohort.start)
        if !isTakenOver {
            contribution.add(
                1, to: ChartSeries(.cohortBegun, cohort.article, detail: month),
                day: cohort.start.daysSinceEpoch)
        }
        for index in shown.indices[first...] {
            let piece = shown[index]
            let next = index + 1 < shown.endIndex ? shown[index + 1] : nil
            let isBridged = next.map { isRenewal($0.start, of: piece, in: chains[piece.chain]) } ?? false
            let end = isBridged ? next?.start ?? piece.end : piece.end
            contribution.hold(ChartSeries(.subscribed, piece.article), from: piece.start, until: end)
            if !isTakenOver {
                contribution.hold(
                    ChartSeries(.retained, cohort.article, detail: month), from: piece.start, until: end)
            }
            if end != .endless, next?.start != end {
                contribution.note(.churned, piece.article, at: end)
                if let next { contribution.note(.resumed, next.article, at: next.start) }
            }
        }
    }

    /// Whether a period was renewed at an instant, so soon after its end that its subscription went on meanwhile.
    ///
    /// What was taken back is over with that, whatever is bought afterwards.
    private func isRenewal(_ instant: Timestamp, of piece: ChartPiece, in chain: ChartChain) -> Bool {
        let period = chain.periods[piece.periodIndex]
        guard period.ending != .revoked, instant <= period.end.adding(milliseconds: Period.recoveryLimit) else {
            return false
        }
        return renewal(of: piece.periodIndex, in: chain) == instant
    }

    // MARK: - Refunds

    /// Each transaction that was refunded.
    private func addRefunds(of sales: [ChartSale], to contribution: inout ChartContribution) {
        for sale in sales {
            guard let revocation = sale.stated.fact.revocation, revocation.kind != .known(.familyRevoke) else {
                continue
            }
            contribution.note(revocation.isPart ? .refundedInPart : .refunded, sale.article, at: revocation.date)
        }
    }

    /// Each invoice or payment of the web that was refunded, and each that is disputed: one may be both.
    private func addWebRefunds(_ web: WebOriginal, to contribution: inout ChartContribution) {
        let invoices = web.chargedInvoices
        func article(_ subject: WebPaymentGroups.Subject) -> ChartArticle {
            web.invoice(of: [subject], among: invoices)?.article ?? web.boughtOnce
        }
        for (subject, at, isPart) in web.subjectsRefunded {
            contribution.note(isPart ? .refundedInPart : .refunded, article(subject), at: at)
        }
        for (subject, at) in web.subjectsDisputed {
            contribution.note(.disputed, article(subject), at: at)
        }
    }
}

extension EntitlementState {
    /// The figure of chart `active` that counts it; `nil` for what is over.
    fileprivate var figure: ChartFigure? {
        switch self {
        case .active: .active
        case .inGracePeriod: .inGracePeriod
        case .inBillingRetry: .inBillingRetry
        case .expired, .revoked: nil
        }
    }
}

extension Period {
    fileprivate var isFamilyShared: Bool { fact.ownership == .known(.familyShared) }

    /// Whether another period was sold as the same product in the same app.
    fileprivate func isSoldAlike(_ other: Period) -> Bool { fact.isSoldAlike(other.fact) }

    /// Whether it goes on with an earlier one without having been bought anew.
    fileprivate func renews(_ earlier: Period) -> Bool { web != nil || !isPurchase(after: earlier) }
}

extension Timestamp {
    /// The month it lies in, such as `2026-03`.
    fileprivate var monthName: String { CivilDate(daysSinceEpoch: daysSinceEpoch).monthName }
}

/// What the periods of one original are called.
private struct ChartNames {
    /// Of lines of invoices, by their ids.
    private let lines: [String: WebProduct]
    private let web: WebOriginal?

    init(_ state: OriginalState) {
        web = state.web
        lines = Dictionary(
            (state.web?.lines ?? []).map { ($0.value.line.lineID, $0.value.line.product) }, uniquingKeysWith: { $1 })
    }

    /// What each period of a chain was sold as.
    func articles(of chain: PeriodChain) -> [ChartArticle] {
        var articles: [ChartArticle] = []
        articles.reserveCapacity(chain.periods.count)
        for (index, period) in chain.periods.enumerated() {
            // Nearly all periods of the App Store's are of the product of the one before.
            if let last = articles.last, web == nil, chain.periods[index - 1].isSoldAlike(period) {
                articles.append(last)
            } else {
                articles.append(ChartArticle(product(of: period), app: period.fact.bundleID))
            }
        }
        return articles
    }

    private func product(of period: Period) -> ChartProduct {
        guard let web, let sold = period.web else { return ChartProduct(appStore: period.fact.productID) }
        if sold.invoiceID != nil { return ChartProduct(web: nil, lines[period.fact.transactionID]) }
        if let named = web.payments.lazy.compactMap(\.value.catalogProductID).first {
            return ChartProduct(web: named, nil)
        }
        let bought = web.payments.lazy.flatMap(\.value.products).first {
            ($0.product ?? $0.price) == period.fact.productID
        }
        return ChartProduct(web: nil, bought)
    }
}

extension TransactionFact {
    fileprivate func isSoldAlike(_ other: TransactionFact) -> Bool {
        productID == other.productID && bundleID == other.bundleID
    }
}

/// A purchase of the App Store's, as the statement that counts about it tells.
struct ChartSale {
    let stated: StatedTransaction
    let article: ChartArticle

    /// What was sold to the customers themselves; what family members share was sold to somebody else.
    static func sales(_ transactions: [StatedTransaction]) -> [ChartSale] {
        var sales: [ChartSale] = []
        sales.reserveCapacity(transactions.count)
        for stated in transactions where stated.fact.ownership != .known(.familyShared) {
            let before = sales.last.flatMap { $0.stated.fact.isSoldAlike(stated.fact) ? $0.article : nil }
            let article =
                before ?? ChartArticle(ChartProduct(appStore: stated.fact.productID), app: stated.fact.bundleID)
            sales.append(ChartSale(stated: stated, article: article))
        }
        return sales
    }
}

/// A stretch in which one chain of periods reads as something that a chart counts.
private struct ChartPiece {
    var start: Timestamp
    var end: Timestamp
    let figure: ChartFigure
    /// The place of the chain among the subscriptions of the original.
    let chain: Int
    let periodIndex: Int
    let article: ChartArticle
    let isTrial: Bool

    /// What is shown of several chains: at each instant one, so that an original counts once.
    ///
    /// It is that which reads best, and of those that read alike that of the first chain.
    static func shown(_ pieces: [ChartPiece]) -> [ChartPiece] {
        guard let first = pieces.first, pieces.contains(where: { $0.chain != first.chain }) else { return pieces }
        let boundaries = Set(pieces.flatMap { [$0.start, $0.end] }).sorted()
        return zip(boundaries, boundaries.dropFirst()).compactMap { start, end in
            let running = pieces.filter { $0.start <= start && start < $0.end }
            guard var piece = running.min(by: { ($0.figure.rawValue, $0.chain) < ($1.figure.rawValue, $1.chain) })
            else { return nil }
            piece.start = start
            piece.end = end
            return piece
        }
    }
}
