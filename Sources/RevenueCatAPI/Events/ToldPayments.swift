import EntitlementCore

/// What names a payment: of one on the web the product, too, for one may be for several.
struct Payment: Hashable, Sendable {
    let originalTransactionID: String
    /// The store may know it under several.
    let transactionIDs: Set<String>
    let productID: String
}

/// What receivers were told of payments until a moment.
///
/// Nothing keeps that. It follows from what was known earlier, so it is found out again where it decides something. Who was
/// told does not matter: a receiver sums money by transaction, whoever has it. What was bought before an endpoint was made
/// counts as told, because whoever told the receiver until then told it that.
struct ToldPayments {
    private let moments: (_ originalID: String) -> PurchaseMoments

    init(_ hearings: PurchaseHearings, knownAt position: Int64, at instant: Timestamp, under catalog: Catalog) {
        moments = { originalID in
            hearings.moments(of: originalID, knownAt: position, at: instant, under: catalog)
        }
    }

    /// Whether a payment was told: it was somebody's while it gave access, or soon enough after that.
    func isTold(_ payment: Payment) -> Bool {
        for moment in moments(payment.originalTransactionID) {
            let found = Self.standings(of: payment, in: moment)
            if found.contains(where: { $0.isOfPayment && $0.standing.isTellable(at: $0.instant) }) { return true }
        }
        return false
    }

    /// How much of a payment went back by what was told; `nil` where the payment was not.
    func moneyBack(of payment: Payment) -> MoneyBack? {
        var told: MoneyBack?
        for moment in moments(payment.originalTransactionID) {
            for found in Self.standings(of: payment, in: moment) {
                if found.isOfPayment {
                    if told != nil || found.standing.isTellable(at: found.instant) { told = found.standing.moneyBack }
                } else if told != nil, let ahead = found.standing.refundedAhead {
                    told = MoneyBack(isRefunded: true, amount: ahead.refund)
                }
            }
        }
        return told
    }

    private struct Found {
        let standing: PurchaseStanding
        let instant: Timestamp
        /// Whether the payment is for the period that was shown; else it was for one that was refunded ahead of its time.
        let isOfPayment: Bool
    }

    /// How a payment stood when something became known, and when its period began while nothing else did; nothing while
    /// it was nobody's, or something else was shown.
    private static func standings(of payment: Payment, in moment: PurchaseMoments.Moment) -> [Found] {
        let ids = payment.transactionIDs
        let statements =
            moment.state.web == nil
            ? moment.state.winningStatements()
            : moment.state.purchases(moment.facts.catalog).map { (fact: $0, [$0.transactionID]) }
        let stated = statements.first {
            !$0.transactionIDs.isDisjoint(with: ids) && $0.fact.productID == payment.productID
        }
        guard let fact = stated?.fact else { return [] }
        let period = moment.state.chains(moment.facts.catalog).lazy.flatMap(\.periods).first {
            !ids.isDisjoint(with: $0.transactionIDs)
        }
        let begins = [period?.start, period?.opening, fact.purchaseDate].compactMap(\.self)
        let instants = Set(begins.filter { moment.span.contains($0) } + [moment.span.lowerBound]).sorted()
        return instants.compactMap { instant in
            guard let owner = moment.facts.ownership.owner(of: fact, at: instant) else { return nil }
            var facts = moment.facts
            facts.customer = owner
            let standings = PurchaseStandings(facts, at: instant).standings.values
            func isShown(_ standing: PurchaseStanding) -> Bool {
                !standing.transactionIDs.isDisjoint(with: ids) && standing.view.productID == payment.productID
            }
            if let shown = standings.first(where: isShown) {
                return Found(standing: shown, instant: instant, isOfPayment: true)
            }
            return standings.first { $0.refundedAhead.map { ids.contains($0.transactionID) } ?? false }.map {
                Found(standing: $0, instant: instant, isOfPayment: false)
            }
        }
    }
}
