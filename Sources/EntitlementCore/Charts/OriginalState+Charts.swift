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
            addTrials(of: chain, names, to: &contribution)
            addRenewals(of: chain, names, to: &contribution)
            addRetries(of: chain, segments, names, to: &contribution)
            for segment in segments {
                guard let figure = segment.state.figure else { continue }
                let period = chain.periods[segment.periodIndex]
                pieces.append(
                    ChartPiece(
                        start: segment.start, end: segment.end, figure: figure, chain: number,
                        product: names.product(of: period), app: period.fact.bundleID, isTrial: period.isTrial))
            }
        }
        let shown = ChartPiece.shown(pieces)
        for piece in shown {
            contribution.hold(
                ChartSeries(piece.figure, piece.product, app: piece.app), from: piece.start, until: piece.end)
        }
        addSubscribers(of: shown, to: &contribution)
        if let web {
            addWebRefunds(web, to: &contribution)
            web.addRevenue(to: &contribution)
        } else {
            let sales = winningFacts().filter { !$0.isFamilyShared }
            addRefunds(of: sales, to: &contribution)
            addRevenue(of: sales, to: &contribution)
        }
        return contribution
    }

    // MARK: - Trials

    /// A free trial begins, before anything was paid for; it is converted where what follows it within sixty days was paid for.
    ///
    /// What is free for somebody who has paid before, as a gift or to win them back, is no trial.
    private func addTrials(of chain: PeriodChain, _ names: ChartNames, to contribution: inout ChartContribution) {
        var begun: Period?
        for (index, period) in chain.periods.enumerated() {
            let before = index > 0 ? chain.periods[index - 1] : nil
            guard !period.isTrial else {
                // One that goes on in another period is one trial.
                if before?.isTrial == true, let before, period.opening <= before.end { continue }
                begun = period
                contribution.note(
                    .trialStarted, names.product(of: period), app: period.fact.bundleID, at: period.opening)
                continue
            }
            guard !period.isFree else { continue }
            guard let trial = begun, let before,
                period.opening <= before.end.adding(milliseconds: Self.recoveryLimit)
            else { return }
            let product = names.product(of: trial)
            contribution.note(.trialConverted, product, app: trial.fact.bundleID, at: period.opening)
            contribution.note(.trialConvertedOfStarted, product, app: trial.fact.bundleID, at: trial.opening)
            return
        }
    }

    /// How long after the end of what was paid for a store still collects.
    private static let recoveryLimit = 60 * Timestamp.millisecondsPerDay

    // MARK: - Renewals

    /// A period that runs out is due to be renewed, unless it was known at its end that it would not be.
    private func addRenewals(of chain: PeriodChain, _ names: ChartNames, to contribution: inout ChartContribution) {
        for (index, period) in chain.periods.enumerated() where period.ending == .ranOut && period.end != .endless {
            let (product, app) = (names.product(of: period), period.fact.bundleID)
            let isDue = willRenew(period) ?? true
            contribution.note(isDue ? .renewalDue : .renewalCancelled, product, app: app, at: period.end)
            guard let renewedAt = renewal(of: period, by: chain.periods.dropFirst(index + 1).first) else { continue }
            contribution.note(.renewalMade, product, app: app, at: renewedAt)
            if isDue { contribution.note(.renewalMadeOfDue, product, app: app, at: period.end) }
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
        of chain: PeriodChain, _ segments: [Segment], _ names: ChartNames, to contribution: inout ChartContribution
    ) {
        var isOpen = false
        for (index, segment) in segments.enumerated() {
            let period = chain.periods[segment.periodIndex]
            let (product, app) = (names.product(of: period), period.fact.bundleID)
            switch segment.state {
            case .inGracePeriod, .inBillingRetry:
                if !isOpen { contribution.note(.retryEntered, product, app: app, at: segment.start) }
                isOpen = true
            case .active, .expired, .revoked:
                if isOpen {
                    let before = names.product(of: chain.periods[segments[index - 1].periodIndex])
                    let figure: ChartFigure = segment.state == .active ? .retryRecovered : .retryLost
                    contribution.note(figure, before, app: app, at: segment.start)
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
        contribution.note(.begun, cohort.product, app: cohort.app, at: cohort.start)
        contribution.add(
            1, to: ChartSeries(.cohortBegun, cohort.product, app: cohort.app, detail: month),
            day: cohort.start.daysSinceEpoch)
        for index in shown.indices[first...] {
            let piece = shown[index]
            let next = index + 1 < shown.endIndex ? shown[index + 1] : nil
            contribution.hold(
                ChartSeries(.subscribed, piece.product, app: piece.app), from: piece.start, until: piece.end)
            contribution.hold(
                ChartSeries(.retained, cohort.product, app: cohort.app, detail: month), from: piece.start,
                until: piece.end)
            if piece.end != .endless, next?.start != piece.end {
                contribution.note(.churned, piece.product, app: piece.app, at: piece.end)
                if let next { contribution.note(.resumed, next.product, app: next.app, at: next.start) }
            }
        }
    }

    // MARK: - Refunds

    /// Each transaction that was refunded.
    private func addRefunds(of sales: [TransactionFact], to contribution: inout ChartContribution) {
        for fact in sales {
            guard let revocation = fact.revocation, revocation.kind != .known(.familyRevoke) else { continue }
            let isPart = revocation.kind == .known(.refundProrated)
            contribution.note(
                isPart ? .refundedInPart : .refunded, ChartProduct(appStore: fact.productID), app: fact.bundleID,
                at: revocation.date)
        }
    }

    /// Each invoice or payment of the web that was refunded, and each that is disputed: one may be both.
    private func addWebRefunds(_ web: WebOriginal, to contribution: inout ChartContribution) {
        let invoices = web.chargedInvoices
        func product(_ subject: WebPaymentGroups.Subject) -> ChartProduct {
            web.invoice(of: [subject], among: invoices)?.product ?? web.boughtOnce
        }
        for (subject, at, isPart) in web.subjectsRefunded {
            contribution.note(isPart ? .refundedInPart : .refunded, product(subject), app: "", at: at)
        }
        for (subject, at) in web.subjectsDisputed {
            contribution.note(.disputed, product(subject), app: "", at: at)
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

extension TransactionFact {
    fileprivate var isFamilyShared: Bool { ownership == .known(.familyShared) }
}

extension Period {
    fileprivate var isFamilyShared: Bool { fact.isFamilyShared }

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

    func product(of period: Period) -> ChartProduct {
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

/// A stretch in which one chain of periods reads as something that a chart counts.
private struct ChartPiece {
    var start: Timestamp
    var end: Timestamp
    let figure: ChartFigure
    /// The place of the chain among those of the original.
    let chain: Int
    let product: ChartProduct
    let app: String
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
