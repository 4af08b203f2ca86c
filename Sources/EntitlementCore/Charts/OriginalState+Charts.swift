// What one original transaction contributes to charts: a function of what is known of it, free of catalog and ownership.

extension OriginalState {
    /// What it contributes.
    ///
    /// It is read as under the default policy and without a catalog: charts tell what stores sold and what became of that, not
    /// what somebody makes of it. What a family member shares was sold to somebody else, and contributes nothing.
    package func chartContribution() -> ChartContribution {
        var contribution = ChartContribution()
        let names = ChartNames(self)
        var pieces: [ChartPiece] = []
        for (number, chain) in chains(.empty).enumerated() {
            guard let first = chain.periods.first, first.isSubscription, !first.isFamilyShared else { continue }
            let segments = segments(of: chain, policy: Catalog.empty.policy)
            let articles = names.articles(of: chain)
            addTrials(of: chain, articles, to: &contribution)
            addRenewals(of: chain, articles, to: &contribution)
            addRetries(segments, articles, to: &contribution)
            for segment in segments {
                guard let figure = segment.state.figure else { continue }
                let period = chain.periods[segment.periodIndex]
                pieces.append(
                    ChartPiece(
                        start: segment.start, end: segment.end, figure: figure, chain: number,
                        article: articles[segment.periodIndex], isTrial: period.isTrial))
            }
        }
        let shown = ChartPiece.shown(pieces)
        for piece in shown {
            contribution.hold(ChartSeries(piece.figure, piece.article), from: piece.start, until: piece.end)
        }
        addSubscribers(of: shown, to: &contribution)
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

    // MARK: - Trials

    /// A free trial begins, before anything was paid for; it is converted where what follows it within sixty days was paid for.
    ///
    /// What is free for somebody who has paid before, as a gift or to win them back, is no trial.
    private func addTrials(
        of chain: PeriodChain, _ articles: [ChartArticle], to contribution: inout ChartContribution
    ) {
        var begun: Int?
        for (index, period) in chain.periods.enumerated() {
            let before = index > 0 ? chain.periods[index - 1] : nil
            guard !period.isTrial else {
                // One that goes on in another period is one trial.
                if before?.isTrial == true, let before, period.opening <= before.end { continue }
                begun = index
                contribution.note(.trialStarted, articles[index], at: period.opening)
                continue
            }
            guard !period.isFree else { continue }
            guard let trial = begun, let before,
                period.opening <= before.end.adding(milliseconds: Self.recoveryLimit)
            else { return }
            contribution.note(.trialConverted, articles[trial], at: period.opening)
            contribution.note(.trialConvertedOfStarted, articles[trial], at: chain.periods[trial].opening)
            return
        }
    }

    /// How long after the end of what was paid for a store still collects.
    private static let recoveryLimit = 60 * Timestamp.millisecondsPerDay

    // MARK: - Renewals

    /// A period that runs out is due to be renewed, unless it was known at its end that it would not be.
    private func addRenewals(
        of chain: PeriodChain, _ articles: [ChartArticle], to contribution: inout ChartContribution
    ) {
        for (index, period) in chain.periods.enumerated() where period.ending == .ranOut && period.end != .endless {
            let article = articles[index]
            let isDue = willRenew(period) ?? true
            contribution.note(isDue ? .renewalDue : .renewalCancelled, article, at: period.end)
            guard let renewedAt = renewal(of: period, by: chain.periods.dropFirst(index + 1).first) else { continue }
            contribution.note(.renewalMade, article, at: renewedAt)
            if isDue { contribution.note(.renewalMadeOfDue, article, at: period.end) }
        }
    }

    private func willRenew(_ period: Period) -> Bool? {
        guard let web else { return willRenew(at: period.end) }
        return web.willRenew(period.web, at: period.end)
    }

    /// When a period was renewed; `nil` where it was not.
    private func renewal(of period: Period, by next: Period?) -> Timestamp? {
        if let next { return next.renews(period) ? next.opening : nil }
        // Another item of the subscription may have taken over.
        guard let yieldsAt = period.web?.yieldsAt, yieldsAt != .endless else { return nil }
        return yieldsAt
    }

    // MARK: - Billing retry

    /// Grace and billing retry after one period, which end with a payment or without.
    private func addRetries(
        _ segments: [Segment], _ articles: [ChartArticle], to contribution: inout ChartContribution
    ) {
        var isOpen = false
        for (index, segment) in segments.enumerated() {
            switch segment.state {
            case .inGracePeriod, .inBillingRetry:
                if !isOpen { contribution.note(.retryEntered, articles[segment.periodIndex], at: segment.start) }
                isOpen = true
            case .active, .expired, .revoked:
                if isOpen {
                    let before = articles[segments[index - 1].periodIndex]
                    let figure: ChartFigure = segment.state == .active ? .retryRecovered : .retryLost
                    contribution.note(figure, before, at: segment.start)
                }
                isOpen = false
            }
        }
    }

    // MARK: - Churn and retention

    /// From the first period on that is no trial somebody is subscribed while it reads active, in grace or in billing retry.
    private func addSubscribers(of shown: [ChartPiece], to contribution: inout ChartContribution) {
        guard let first = shown.firstIndex(where: { $0.figure == .active && !$0.isTrial }) else { return }
        let cohort = shown[first]
        let month = cohort.start.monthName
        contribution.note(.begun, cohort.article, at: cohort.start)
        contribution.add(
            1, to: ChartSeries(.cohortBegun, cohort.article, detail: month),
            day: cohort.start.daysSinceEpoch)
        for index in shown.indices[first...] {
            let piece = shown[index]
            let next = index + 1 < shown.endIndex ? shown[index + 1] : nil
            contribution.hold(
                ChartSeries(.subscribed, piece.article), from: piece.start, until: piece.end)
            contribution.hold(
                ChartSeries(.retained, cohort.article, detail: month), from: piece.start,
                until: piece.end)
            if piece.end != .endless, next?.start != piece.end {
                contribution.note(.churned, piece.article, at: piece.end)
                if let next { contribution.note(.resumed, next.article, at: next.start) }
            }
        }
    }

    // MARK: - Refunds

    /// Each transaction that was refunded.
    private func addRefunds(of sales: [ChartSale], to contribution: inout ChartContribution) {
        for sale in sales {
            guard let revocation = sale.stated.fact.revocation, revocation.kind != .known(.familyRevoke) else {
                continue
            }
            let isPart = revocation.kind == .known(.refundProrated)
            contribution.note(isPart ? .refundedInPart : .refunded, sale.article, at: revocation.date)
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

    fileprivate var isTrial: Bool { fact.offer?.discount == "FREE_TRIAL" }

    /// Whether nothing was charged for it, as far as that is known.
    fileprivate var isFree: Bool { web?.isFree ?? (fact.price?.thousandths == 0) }

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
    /// The place of the chain among those of the original.
    let chain: Int
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
