package import EntitlementCore

/// One customer in one environment, as RevenueCat would show them.
///
/// An entitlement is read off what stands behind it: each subscription, one-time purchase and grant says until when it gives
/// access under the catalog and its policy, and the one that does furthest is shown. So it is active, by RevenueCat's own
/// rule, just when `GET …/entitlements` says that it gives access.
package struct Subscriber {
    private let facts: CustomerFacts
    private let environment: StoreEnvironment
    private let hearings: Hearings

    package init(_ facts: CustomerFacts, in environment: StoreEnvironment, hearings: Hearings) {
        self.facts = facts
        self.environment = environment
        self.hearings = hearings
    }

    /// All that a history says.
    package init(_ history: CustomerHistory) {
        self.init(
            history.facts(), in: history.environment, hearings: Hearings(history.events, own: history.handedOut))
    }

    /// The customer's number, every link followed.
    package var customer: IdentityRef { facts.customer }

    /// The customer as they stand at an instant, by all that is known.
    package func document(of appUserID: String, at instant: Timestamp) -> SubscriberDocument {
        let request = WholeSecond(instant)
        let purchases = facts.originals.sorted { $0.key < $1.key }.map { originalID, state in
            OriginalPurchases(originalID, state, of: facts, at: instant)
        }
        let bought = purchases.flatMap(\.subscriptions).map { shown($0, request) }
        let subscriptions = latestOfEachProduct(bought + grants(at: instant, request))
        let oneTime = Dictionary(grouping: purchases.flatMap(\.oneTime), by: \.fact.productID).mapValues { bought in
            bought.sorted { $0.fact.isBought(before: $1.fact) }
        }
        let holdings =
            subscriptions.values.map(\.holding)
            + oneTime.values.joined().compactMap { bought in
                bought.access.map { access in
                    Holding(
                        productID: bought.fact.productID, entitlementIDs: entitlements(of: bought.fact.productID),
                        purchasedAt: bought.fact.purchaseDate, expiry: access.expiry(at: request), graceEnd: nil)
                }
            }
        return SubscriberDocument(
            requestDate: request, requestDateMS: instant.milliseconds,
            subscriber: SubscriberBody(
                entitlements: entitlements(by: holdings),
                firstSeen: WholeSecond(hearings.seen?.lowerBound ?? instant),
                lastSeen: WholeSecond(hearings.seen?.upperBound ?? instant),
                managementURL: bought.contains { $0.isRunningInAppStore(at: request) }
                    ? PurchaseStore.appStoreManagementURL : nil,
                nonSubscriptions: oneTime.mapValues { $0.map(entry) }, originalAppUserID: appUserID,
                originalApplicationVersion: nil, originalPurchaseDate: nil,
                otherPurchases: oneTime.compactMapValues { bought in
                    bought.last.map { OtherPurchaseEntry(purchaseDate: WholeSecond($0.fact.purchaseDate)) }
                },
                subscriberAttributes: [:], subscriptions: subscriptions.mapValues(\.entry)))
    }

    private func entitlements(of productID: String) -> [String] {
        facts.catalog.product(productID)?.entitlements ?? []
    }

    /// Of each entitlement the holding that gives it furthest.
    private func entitlements(by holdings: [Holding]) -> [String: EntitlementEntry] {
        var shown: [String: Holding] = [:]
        for holding in holdings.sorted(by: { $0.productID < $1.productID }) {
            for id in holding.entitlementIDs where shown[id].map({ holding.isFurther(than: $0) }) ?? true {
                shown[id] = holding
            }
        }
        return shown.mapValues { holding in
            EntitlementEntry(
                expiresDate: holding.expiry, gracePeriodExpiresDate: holding.graceEnd,
                productIdentifier: holding.productID, purchaseDate: holding.purchaseDate)
        }
    }

    // MARK: - Entries

    private func latestOfEachProduct(_ shown: [ShownSubscription]) -> [String: ShownSubscription] {
        Dictionary(shown.map { ($0.holding.productID, $0) }) { $1.holding.isFurther(than: $0.holding) ? $1 : $0 }
    }

    private func shown(_ subscription: OriginalPurchases.Subscription, _ request: WholeSecond) -> ShownSubscription {
        let (period, access) = (subscription.latest.period, subscription.latest.access)
        let expiry = access.expiry(at: request)
        let graceEnd = access.graceEnd == nil ? nil : expiry
        func heard(_ told: [Told]) -> WholeSecond? { hearings.first(of: told).map { WholeSecond($0) } }
        let isRefunded = period.isRefunded(by: subscription.instant)
        let isOfWeb = period.web != nil
        let holding = Holding(
            productID: period.fact.productID, entitlementIDs: entitlements(of: period.fact.productID),
            purchasedAt: period.fact.purchaseDate, expiry: expiry, graceEnd: graceEnd)
        return ShownSubscription(
            entry: SubscriptionEntry(
                autoResumeDate: nil, billingIssuesDetectedAt: heard(subscription.billingIssues), displayName: nil,
                expiresDate: expiry, gracePeriodExpiresDate: graceEnd, isSandbox: environment == .sandbox,
                originalPurchaseDate: min(WholeSecond(subscription.originalPurchaseDate), holding.purchaseDate),
                ownershipType: period.fact.ownership == .known(.familyShared) ? .familyShared : .purchased,
                periodType: PeriodType(period.fact.offer), price: price(of: period.fact, with: subscription.others),
                purchaseDate: holding.purchaseDate,
                refundedAt: isRefunded ? hearings.refund(of: period).map { WholeSecond($0) } : nil,
                store: isOfWeb ? .stripe : .appStore,
                storeTransactionID: isOfWeb ? period.fact.originalTransactionID : period.fact.transactionID,
                unsubscribeDetectedAt: heard(subscription.unsubscriptions)),
            holding: holding)
    }

    /// Those made by the instant.
    private func grants(at instant: Timestamp, _ request: WholeSecond) -> [ShownSubscription] {
        facts.grants.sorted { $0.grantID < $1.grantID }.filter {
            facts.ownership.customer(of: $0.customer) == facts.customer && $0.from <= instant
        }.map { grant in
            let end = PromotionalProduct.end(of: grant)
            let expiry = Access(end: end, isOpen: instant < end, state: nil).expiry(at: request)
            let holding = Holding(
                productID: PromotionalProduct.identifier(of: grant), entitlementIDs: [grant.entitlementID],
                purchasedAt: grant.from, expiry: expiry, graceEnd: nil)
            let from = holding.purchaseDate
            return ShownSubscription(
                entry: SubscriptionEntry(
                    autoResumeDate: nil, billingIssuesDetectedAt: nil, displayName: nil, expiresDate: expiry,
                    gracePeriodExpiresDate: nil, isSandbox: environment == .sandbox, originalPurchaseDate: from,
                    ownershipType: .purchased, periodType: .normal, price: nil, purchaseDate: from, refundedAt: nil,
                    store: .promotional, storeTransactionID: grant.grantID, unsubscribeDetectedAt: nil),
                holding: holding)
        }
    }

    /// Of a family member's share 0, for somebody else paid.
    private func price(of fact: TransactionFact, with others: [TransactionFact] = []) -> Price? {
        let isShared = fact.ownership == .known(.familyShared)
        return facts.originals[fact.originalTransactionID]?.price(of: fact, with: others)
            .flatMap { isShared ? Money(thousandths: 0, currency: $0.currency) : $0 }.map { Price($0) }
    }

    private func entry(_ bought: OriginalPurchases.OneTime) -> OneTimeEntry {
        let date = WholeSecond(bought.fact.purchaseDate)
        return OneTimeEntry(
            displayName: nil, id: bought.fact.transactionID, isSandbox: environment == .sandbox,
            originalPurchaseDate: date, price: price(of: bought.fact), purchaseDate: date,
            store: bought.isOfWeb ? .stripe : .appStore,
            storeTransactionID: bought.fact.transactionID)
    }
}

/// What stands behind an entitlement: a subscription's latest period, a one-time purchase, or a grant.
private struct Holding {
    let productID: String
    let entitlementIDs: [String]
    let purchasedAt: Timestamp
    /// `nil`: never.
    let expiry: WholeSecond?
    let graceEnd: WholeSecond?

    /// When it was bought, as it is shown: what ended in the second in which it began is shown as ended the second before, and
    /// nothing ends before it was bought.
    var purchaseDate: WholeSecond { min(WholeSecond(purchasedAt), expiry ?? WholeSecond(purchasedAt)) }

    /// Whether it gives, or gave, access for longer; of two alike the one that was bought later.
    func isFurther(than other: Holding) -> Bool {
        guard expiry != other.expiry else { return purchasedAt > other.purchasedAt }
        guard let expiry else { return true }
        return other.expiry.map { expiry > $0 } ?? false
    }
}

private struct ShownSubscription {
    let entry: SubscriptionEntry
    let holding: Holding

    func isRunningInAppStore(at request: WholeSecond) -> Bool {
        entry.store == .appStore && (holding.expiry.map { $0 >= request } ?? true)
    }
}

extension Period {
    /// Whether its money was given back by an instant; a family's sharing that ends and a dispute are no refunds.
    func isRefunded(by instant: Timestamp) -> Bool {
        guard let revocation = fact.revocation, revocation.date <= instant else { return false }
        if let web { return web.withdrawal != .dispute }
        let isShared = fact.ownership == .known(.familyShared)
        return revocation.kind.map { $0 != .known(.familyRevoke) } ?? !isShared
    }
}

extension PeriodType {
    /// What Apple and Stripe state of the offer a period was bought under; `nil` without one.
    init(_ offer: Offer?) {
        switch (offer?.discount, offer?.type) {
        case ("FREE_TRIAL"?, _): self = .trial
        case (_, 1?): self = .intro
        case (_, _): self = .normal
        }
    }
}
