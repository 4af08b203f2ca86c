import EntitlementCore

/// All purchases and grants of a customer at one moment, by the rules of the document.
struct PurchaseStandings {
    private(set) var standings: [PurchaseKey: PurchaseStanding] = [:]
    private let facts: CustomerFacts
    private let instant: Timestamp

    init(_ facts: CustomerFacts, at instant: Timestamp) {
        (self.facts, self.instant) = (facts, instant)
        for (originalID, state) in facts.originals { add(originalID, state) }
        for grant in facts.grants
        where facts.ownership.customer(of: grant.customer) == facts.customer && grant.from <= instant {
            standings[PurchaseKey(source: grant.grantID, part: "")] = standing(of: grant)
        }
    }

    private func entitlements(of productID: String) -> [String] {
        facts.catalog.product(productID)?.entitlements ?? []
    }

    // MARK: - What a store sold

    private mutating func add(_ originalID: String, _ state: OriginalState) {
        let (facts, instant) = (self.facts, self.instant)
        func isOwned(_ fact: TransactionFact) -> Bool {
            facts.ownership.owner(of: fact, at: instant) == facts.customer
        }
        var once: [PurchaseKey: ChainStanding.Latest] = [:]
        var items: [PurchaseKey] = []
        let chains = state.chains(facts.catalog)
        for chain in chains {
            let standing = ChainStanding(
                chain, of: state, at: instant, facts.catalog.policy, isOwned: isOwned)
            let latest = standing.latest.filter { !$0.period.fact.productID.isEmpty }
            let subscribed = latest.filter(\.period.isSubscription)
            if let last = subscribed.max(by: { $0.index < $1.index }) {
                let key = PurchaseKey(source: originalID, part: last.period.web?.item ?? "")
                standings[key] = self.standing(of: last, among: subscribed, standing, chain, of: chains)
                items.append(key)
            }
            for bought in latest where !bought.period.isSubscription && runs(bought.period) {
                once[Self.key(originalID, bought.period.fact, Set(bought.period.transactionIDs))] = bought
            }
        }
        standings.joinRows(of: items)
        let purchases =
            state.web == nil
            ? state.winningStatements() : state.purchases(facts.catalog).map { (fact: $0, [$0.transactionID]) }
        for (fact, ids) in purchases
        where !fact.isOfSubscription && !fact.productID.isEmpty && fact.purchaseDate <= instant && isOwned(fact) {
            let key = Self.key(originalID, fact, ids)
            standings[key] = standing(of: fact, ids, once[key], isOfWeb: state.web != nil)
        }
    }

    /// Whether it is known how long a one-time purchase runs.
    ///
    /// Of a payment on the web the catalog alone says that. A product that the catalog lacks may have been for a time, so it
    /// does not count as one without an end.
    private func runs(_ period: Period) -> Bool {
        period.web == nil || facts.catalog.product(period.fact.productID) != nil
    }

    /// The store may know one purchase under several ids, and say another each time.
    private static func key(_ originalID: String, _ fact: TransactionFact, _ ids: Set<String>) -> PurchaseKey {
        let transaction = ids.contains(originalID) ? "" : (ids.min() ?? fact.transactionID) + ":"
        return PurchaseKey(source: originalID, part: transaction + fact.productID)
    }

    /// - Parameter others: what its payment is told as paid for, too.
    private func view(
        _ fact: TransactionFact, transactionID: String, _ access: Access?, isOfWeb: Bool,
        with others: [TransactionFact] = []
    ) -> PurchaseView {
        let state = facts.originals[fact.originalTransactionID]
        let isWithdrawn = fact.revocation.map { $0.date <= instant } ?? false
        return PurchaseView(
            productID: fact.productID, entitlementIDs: entitlements(of: fact.productID),
            periodType: EventPeriodType(PeriodType(fact.offer)), store: isOfWeb ? .stripe : .appStore,
            appID: fact.bundleID.isEmpty ? nil : fact.bundleID, transactionID: transactionID,
            originalTransactionID: fact.originalTransactionID, purchasedAt: fact.purchaseDate,
            expiresAt: access.flatMap { $0.end == .endless ? nil : $0.end },
            isFamilyShare: fact.ownership == .known(.familyShared),
            offerCode: fact.offer?.type == Self.offerCode ? fact.offer?.identifier : nil,
            price: state?.price(of: fact, with: others),
            refund: isOfWeb || isWithdrawn ? state?.refunded(of: fact, with: others) : nil)
    }

    /// Apple's `offerType` of an offer code.
    private static let offerCode: Int64 = 3

    private func standing(
        of last: ChainStanding.Latest, among latest: [ChainStanding.Latest], _ standing: ChainStanding,
        _ chain: PeriodChain, of chains: [PeriodChain]
    ) -> PurchaseStanding {
        // Of Stripe each period has an invoice, where the document names the subscription.
        let views = latest.map { shown in
            view(
                shown.period.fact, transactionID: shown.period.web?.invoiceID ?? shown.period.fact.transactionID,
                shown.access, isOfWeb: shown.period.web != nil, with: chains.paid(with: shown.period))
        }
        let byProduct = Dictionary(views.map { ($0.productID, $0) }) { $1 }
        let (period, access, fact) = (last.period, last.access, last.period.fact)
        let earlier = last.index > 0 ? chain.periods[last.index - 1] : nil
        let failed = standing.billingIssues(of: last)
        let isUnsubscribed = !standing.unsubscriptions(of: last).isEmpty && !standing.awaitsFirstPayment(last)
        let said = period.web == nil ? standing.intentions(about: last).map(\.fact) : []
        let revokedAt = fact.revocation.flatMap { $0.date <= instant ? $0.date : nil }
        let isRefunded = period.isRefunded(by: instant)
        // Stripe ends by itself what it could not collect.
        let cancelReason: EndReason =
            period.web != nil && !failed.isEmpty ? .billingError : EndReason(intent: said.last?.expirationIntent)
        let endReason: EndReason =
            if isRefunded {
                .customerSupport
            } else if revokedAt != nil {
                .unknown
            } else if !failed.isEmpty {
                .billingError
            } else {
                isUnsubscribed ? cancelReason : .unknown
            }
        return PurchaseStanding(
            kind: .subscription, view: byProduct[fact.productID] ?? views[0], views: byProduct, isOpen: access.isOpen,
            givesNothing: false, transactionIDs: Set(period.transactionIDs),
            knownIDs: Set(chain.periods.prefix(last.index + 1).flatMap(\.transactionIDs)),
            aheadIDs: Set(chain.periods.dropFirst(last.index + 1).flatMap(\.transactionIDs)),
            isFirst: period.web == nil
                ? period.transactionIDs.contains(fact.originalTransactionID) : last.index == 0,
            followsTrial: earlier.map { PeriodType($0.fact.offer) == .trial } ?? false
                && PeriodType(fact.offer) != .trial,
            expiry: period.expiry, graceEnd: access.graceEnd, failedAt: failed.map(\.statedAt).min(),
            isCollecting: access.isOpen || access.state == .inBillingRetry || access.state == .inGracePeriod,
            isUnsubscribed: isUnsubscribed,
            nextProductID: period.web == nil
                ? said.last { $0.autoRenewProductID != nil }?.autoRenewProductID
                : standing.nextWebProductID(of: last, in: facts.catalog), withdrawnAt: revokedAt,
            isRefunded: isRefunded,
            refundedAhead: standing.refundedAhead(of: last).map { ahead in
                var view = view(ahead.fact, transactionID: ahead.fact.transactionID, access, isOfWeb: false)
                view.refund = facts.originals[fact.originalTransactionID]?.refunded(of: ahead.fact)
                return view
            }, cancelReason: cancelReason, endReason: endReason)
    }

    private func standing(
        of fact: TransactionFact, _ ids: Set<String>, _ latest: ChainStanding.Latest?, isOfWeb: Bool
    ) -> PurchaseStanding {
        var view = view(fact, transactionID: fact.transactionID, latest?.access, isOfWeb: isOfWeb)
        // What the catalog gives no time, as coins, gives nothing, whatever it maps to.
        if latest == nil { view.entitlementIDs = [] }
        let withdrawnAt = fact.revocation.flatMap { $0.date <= instant ? $0.date : nil }
        let isRefunded =
            withdrawnAt != nil
            && (latest?.period.isRefunded(by: instant) ?? (fact.revocation?.kind != .known(.familyRevoke)))
        return PurchaseStanding(
            kind: .oneTime, view: view, views: [view.productID: view], isOpen: latest?.access.isOpen ?? false,
            givesNothing: latest == nil, transactionIDs: ids, knownIDs: ids, aheadIDs: [],
            isFirst: true, followsTrial: false, expiry: latest?.period.expiry ?? .endless, graceEnd: nil, failedAt: nil,
            isCollecting: false, isUnsubscribed: false, nextProductID: nil, withdrawnAt: withdrawnAt,
            isRefunded: isRefunded, refundedAhead: nil, cancelReason: .unknown,
            endReason: isRefunded ? .customerSupport : .unknown)
    }

    // MARK: - What was given

    private func standing(of grant: GrantState) -> PurchaseStanding {
        let end = PromotionalProduct.end(of: grant)
        let revokedAt = grant.revokedAt.flatMap { $0 <= instant && $0 <= end ? $0 : nil }
        let view = PurchaseView(
            productID: PromotionalProduct.identifier(of: grant), entitlementIDs: [grant.entitlementID],
            periodType: .promotional, store: .promotional, appID: nil, transactionID: grant.grantID,
            originalTransactionID: grant.grantID, purchasedAt: grant.from, expiresAt: end, isFamilyShare: false,
            offerCode: nil, price: nil, refund: nil)
        return PurchaseStanding(
            kind: .grant, view: view, views: [view.productID: view], isOpen: instant < end, givesNothing: false,
            transactionIDs: [grant.grantID], knownIDs: [grant.grantID], aheadIDs: [], isFirst: true,
            followsTrial: false,
            expiry: end, graceEnd: nil, failedAt: nil, isCollecting: false, isUnsubscribed: false, nextProductID: nil,
            withdrawnAt: revokedAt, isRefunded: false, refundedAhead: nil,
            cancelReason: .developerInitiated, endReason: revokedAt == nil ? .unknown : .developerInitiated)
    }
}

extension EventPeriodType {
    init(_ type: PeriodType) {
        switch type {
        case .trial: self = .trial
        case .intro: self = .intro
        case .normal: self = .normal
        }
    }
}
