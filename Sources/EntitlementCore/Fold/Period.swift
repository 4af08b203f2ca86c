/// What one transaction paid for, as its statement and the catalog say: what a period has whatever its neighbours are.
///
/// It never changes, so a period and all that is read from it share it by reference.
package struct PurchaseTerms: Hashable, Sendable {
    private let statement: Shared<TransactionFact>
    /// Empty where the statement's own id is the only one.
    private let ids: [String]
    /// When it would run out by itself; `endless` for what does not run out.
    package let expiry: Timestamp
    /// The revocation that applies under the policy.
    package let revokedAt: Timestamp?
    /// A device states that a revocation is gone which the store itself stated.
    package let needsStoreCheck: Bool
    /// What only a web purchase has; `nil` for what the App Store sold.
    package let web: WebPeriod?

    /// The winning statement; of what was bought on the web, what was paid, in the terms of a transaction.
    package var fact: TransactionFact {
        // Lent, because a statement has a dozen fields with storage of their own, and a copy would be one of each.
        _read { yield statement.value }
    }

    /// All transaction ids under which the purchase is known, in ascending order.
    package var transactionIDs: [String] { ids.isEmpty ? [fact.transactionID] : ids }

    /// Where it was bought.
    package var origin: EntitlementOrigin { web == nil ? .appStore : .webCheckout }

    package var isSubscription: Bool {
        switch fact.kind {
        case .known(.autoRenewable): true
        case .known(.nonConsumable), .known(.consumable), .known(.nonRenewing): false
        case .unknown, nil: fact.expiresDate != nil
        }
    }

    init(
        _ statement: Shared<TransactionFact>, ids: [String] = [], expiry: Timestamp, revokedAt: Timestamp?,
        needsStoreCheck: Bool = false, web: WebPeriod? = nil
    ) {
        self.statement = statement
        self.ids = ids
        self.expiry = expiry
        self.revokedAt = revokedAt
        self.needsStoreCheck = needsStoreCheck
        self.web = web
    }
}

/// The stretch that one transaction pays for, once all statements about it and its neighbours are weighed.
package struct Period: Hashable, Sendable {
    /// Why a period ended when it did.
    package enum End: Hashable, Sendable {
        /// It reached its expiry, or has none.
        case ranOut
        /// A later purchase of the same original transaction (an upgrade, a resubscription) took its place.
        case superseded
        /// It was seen as upgraded, and the upgrade itself has not been seen yet.
        case upgradedElsewhere
        /// The store took it back.
        case revoked
        /// The subscription that paid for it was ended before its time.
        case cancelled
    }

    let terms: Shared<PurchaseTerms>
    /// When it begins; later than its purchase date where the store charged early.
    package fileprivate(set) var start: Timestamp
    /// When access ends; `endless` for what does not run out.
    package fileprivate(set) var end: Timestamp
    package fileprivate(set) var ending: End
    /// The events its extent rests on, ascending.
    package fileprivate(set) var positions: [Int64]

    init(terms: PurchaseTerms, start: Timestamp, end: Timestamp, ending: End, positions: [Int64]) {
        self.terms = Shared(terms)
        self.start = start
        self.end = end
        self.ending = ending
        self.positions = positions
    }

    /// See ``PurchaseTerms/fact``.
    package var fact: TransactionFact { _read { yield terms.value.fact } }

    /// See ``PurchaseTerms/transactionIDs``.
    package var transactionIDs: [String] { terms.value.transactionIDs }

    /// When it would run out by itself.
    package var expiry: Timestamp { terms.value.expiry }

    /// The revocation that applies under the policy.
    package var revokedAt: Timestamp? { terms.value.revokedAt }

    /// A device states that a revocation is gone which the store itself stated.
    package var needsStoreCheck: Bool { terms.value.needsStoreCheck }

    /// What only a web purchase has; `nil` for what the App Store sold.
    package var web: WebPeriod? { terms.value.web }

    package var isSubscription: Bool { terms.value.isSubscription }

    /// Where it was bought.
    package var origin: EntitlementOrigin { terms.value.origin }

    /// The instant from which the timeline shows this period; see ``WebPeriod/opening``.
    package var opening: Timestamp { terms.value.web?.opening ?? start }

    /// Nothing is left of it: it was superseded before it began, or its neighbour covers all of it.
    fileprivate var isVoid: Bool {
        ending == .superseded && end <= start || start > fact.purchaseDate && start >= expiry
    }
}

/// Periods of one original transaction that follow each other and never overlap, in order.
package struct PeriodChain: Hashable, Sendable {
    package let periods: [Period]
}

extension OriginalState {
    /// All periods under a catalog: one chain of the periods that exclude each other, and one for each consumable or
    /// non-renewing purchase, since repeats of those overlap.
    package func chains(_ catalog: Catalog) -> [PeriodChain] {
        if let web, transactions.isEmpty { return web.chains(catalog) }
        var excluding: [Period] = []
        excluding.reserveCapacity(transactions.count)
        var overlapping: [PeriodChain] = []
        forEachPeriod { winner, ids, needsStoreCheck in
            guard let period = Period(winner, ids: ids, needsStoreCheck: needsStoreCheck, catalog: catalog) else {
                return
            }
            if period.runsForCatalogDuration {
                overlapping.append(PeriodChain(periods: [period]))
            } else {
                excluding.append(period)
            }
        }
        let chained = Period.chained(excluding)
        let chains = (chained.isEmpty ? [] : [PeriodChain(periods: chained)]) + overlapping
        return web.map { chains + $0.chains(catalog) } ?? chains
    }

    /// The statement that counts about each period, also about those that grant nothing, such as coins.
    package func winningStatements() -> [(fact: TransactionFact, transactionIDs: Set<String>)] {
        if let web { return web.paidTransactions().map { ($0, [$0.transactionID]) } }
        var statements: [(fact: TransactionFact, transactionIDs: Set<String>)] = []
        forEachPeriod { winner, ids, _ in
            statements.append((winner.fact, ids.isEmpty ? [winner.fact.transactionID] : Set(ids)))
        }
        return statements
    }

    /// The same without the ids.
    func winningFacts() -> [TransactionFact] {
        if let web { return web.paidTransactions() }
        return winningTransactions().map(\.fact)
    }

    /// The App Store's alone, with where each was stated.
    func winningTransactions() -> [StatedTransaction] {
        var winners: [StatedTransaction] = []
        forEachPeriod { winner, _, _ in winners.append(winner) }
        return winners
    }

    /// Lends the statement that counts about each period, and says under which transaction ids the purchase is known, in
    /// ascending order; none where its own is the only one.
    private func forEachPeriod(_ body: (StatedTransaction, _ ids: [String], _ needsStoreCheck: Bool) -> Void) {
        if isInOrder {
            for stated in transactions { body(stated, [], false) }
            return
        }
        for group in periodGroups() {
            guard let (winner, needsStoreCheck) = Period.winner(of: group) else { continue }
            let ids = group.count == 1 ? [] : Set(group.map(\.fact.transactionID)).sorted()
            body(winner, ids, needsStoreCheck)
        }
    }

    /// The statements about each period, gathered by what identifies it.
    ///
    /// Two statements are about one period when they name the same transaction or the same web order line item; where
    /// either has no line item, when they name the same product and purchase date.
    private func periodGroups() -> [[StatedTransaction]] {
        var groups = DisjointSets(count: transactions.count)
        var seen: [PeriodLabel: Int] = [:]
        let purchasesWithoutLineItem = Set(
            transactions.filter { $0.fact.webOrderLineItemID == nil }.map { PeriodLabel.purchase(of: $0.fact) })
        for (index, stated) in transactions.enumerated() {
            var labels: [PeriodLabel] = [.transaction(stated.fact.transactionID)]
            if let lineItem = stated.fact.webOrderLineItemID { labels.append(.lineItem(lineItem)) }
            let purchase = PeriodLabel.purchase(of: stated.fact)
            if purchasesWithoutLineItem.contains(purchase) { labels.append(purchase) }
            for label in labels {
                if let first = seen[label] { groups.unite(first, index) } else { seen[label] = index }
            }
        }
        return groups.sets().map { $0.map { transactions[$0] } }
    }

    /// Whether dates, transaction ids and line items all ascend, as in nearly every life; then each statement is about a
    /// period of its own.
    private var isInOrder: Bool {
        var lineItem: String?
        for index in transactions.indices {
            let fact = transactions[index].statement
            if index > 0 {
                let previous = transactions[index - 1].statement
                guard previous.value.purchaseDate < fact.value.purchaseDate,
                    previous.value.transactionID < fact.value.transactionID
                else { return false }
            }
            if let next = fact.value.webOrderLineItemID {
                if let lineItem, lineItem >= next { return false }
                lineItem = next
            }
        }
        return true
    }
}

private enum PeriodLabel: Hashable {
    case transaction(String)
    case lineItem(String)
    case purchase(product: String, date: Timestamp)

    static func purchase(of fact: TransactionFact) -> PeriodLabel {
        .purchase(product: fact.productID, date: fact.purchaseDate)
    }
}

/// Union-find over the indices of an array.
private struct DisjointSets {
    private var parent: [Int]

    init(count: Int) { parent = Array(0..<count) }

    mutating func root(_ index: Int) -> Int {
        var index = index
        while parent[index] != index {
            parent[index] = parent[parent[index]]
            index = parent[index]
        }
        return index
    }

    mutating func unite(_ left: Int, _ right: Int) {
        let (a, b) = (root(left), root(right))
        parent[max(a, b)] = min(a, b)
    }

    mutating func sets() -> [[Int]] {
        var members: [Int: [Int]] = [:]
        for index in parent.indices { members[root(index), default: []].append(index) }
        return members.keys.sorted().compactMap { members[$0] }
    }
}

extension AccessPolicy {
    /// When a revocation of the App Store's ends access; `nil` where there is none, or it ends none.
    func revokedAt(by revocation: Revocation?) -> Timestamp? {
        let keepsAccess = revocation?.kind == .known(.refundProrated) && proratedRefund == .keepsAccess
        return keepsAccess ? nil : revocation?.date
    }
}

extension Period {
    /// Reads the statement that counts about one period; `nil` when it grants nothing because nobody says how long it
    /// runs.
    fileprivate init?(_ winner: StatedTransaction, ids: [String], needsStoreCheck: Bool, catalog: Catalog) {
        guard let expiry = Self.expiry(of: winner.fact, catalog: catalog) else { return nil }
        let terms = PurchaseTerms(
            winner.statement, ids: ids, expiry: expiry, revokedAt: catalog.policy.revokedAt(by: winner.fact.revocation),
            needsStoreCheck: needsStoreCheck)
        let start = winner.fact.purchaseDate
        self.init(
            terms: terms, start: start, end: max(expiry, start), ending: .ranOut, positions: [winner.position])
        endEarly()
    }

    /// The statement about a period that counts: the newest, unless only a device says that a revocation is gone which
    /// the store stated.
    fileprivate static func winner(
        of statements: [StatedTransaction]
    ) -> (winner: StatedTransaction, needsStoreCheck: Bool)? {
        guard let newest = statements.max(by: { $0.fact.precedes($1.fact) }) else { return nil }
        let newestOfStore = statements.filter(\.sources.includesStore).max { $0.fact.precedes($1.fact) }
        if !newest.sources.includesStore, newest.fact.revocation == nil,
            let newestOfStore, newestOfStore.fact.revocation != nil
        {
            return (newestOfStore, true)
        }
        return (newest, false)
    }

    /// When the fact runs out; `nil` when neither the store nor the catalog says.
    static func expiry(of fact: TransactionFact, catalog: Catalog) -> Timestamp? {
        func byCatalog() -> Timestamp? {
            catalog.product(fact.productID)?.duration.map { fact.purchaseDate.adding($0) }
        }
        return switch fact.kind {
        case .known(.autoRenewable): fact.expiresDate
        case .known(.nonConsumable): .endless
        case .known(.consumable), .known(.nonRenewing): byCatalog()
        case .unknown, nil: fact.expiresDate ?? byCatalog()
        }
    }

    fileprivate var runsForCatalogDuration: Bool {
        switch fact.kind {
        case .known(.consumable), .known(.nonRenewing): true
        case .known(.autoRenewable), .known(.nonConsumable): false
        case .unknown, nil: fact.expiresDate == nil
        }
    }

    /// Applies what the winning statement itself says of an early end, from the period's current start.
    fileprivate mutating func endEarly() {
        if fact.isUpgraded {
            let signed = max(fact.signedDate ?? .earliest, start)
            if signed < end {
                end = signed
                ending = .upgradedElsewhere
            }
        }
        if let revokedAt, revokedAt < end || revokedAt <= start {
            end = max(revokedAt, start)
            ending = .revoked
        }
    }

    /// Orders the periods of one original transaction and lets each end or delay its neighbours.
    fileprivate static func chained(_ periods: [Period]) -> [Period] {
        // Mostly they are, and to sort them would copy each.
        let isInOrder = zip(periods, periods.dropFirst()).allSatisfy { inOrderOfPurchase($0, $1) }
        let ordered = isInOrder ? periods : periods.sorted(by: inOrderOfPurchase)
        var chain: [Period] = []
        chain.reserveCapacity(ordered.count)
        /// The place of the first of those that end last, kept because a long life has too many to look through each time.
        var latest: Int?
        for (index, period) in ordered.enumerated() {
            var period = period
            let previous = index > 0 ? ordered[index - 1] : nil
            let overlap = latest.flatMap { chain[$0].end > period.start ? $0 : nil }
            if let previous, period.isPurchase(after: previous) {
                let isUpgrade = chain.last?.wasUpgraded(by: period) ?? false
                if overlap != nil || isUpgrade {
                    for earlier in chain.indices
                    where chain[earlier].end > period.start || isUpgrade && earlier == chain.count - 1 {
                        chain[earlier].end = period.start
                        chain[earlier].ending = .superseded
                        chain[earlier].positions = chain[earlier].positions.union(period.positions)
                    }
                    chain.removeAll(where: \.isVoid)
                    latest = chain.indices.max { chain[$0].end < chain[$1].end }
                }
            } else if let overlap {
                let last = chain[overlap]
                // Stores charge early: what was paid for begins where the earlier period ends.
                period.start = last.end
                period.end = max(period.expiry, period.start)
                period.ending = .ranOut
                period.positions = period.positions.union(last.positions)
                period.endEarly()
            }
            guard !period.isVoid else { continue }
            if latest.map({ chain[$0].end < period.end }) ?? true { latest = chain.count }
            chain.append(period)
        }
        return chain
    }

    /// Whether a later purchase is the upgrade that this one was seen to have had: it ends this one, whenever that was signed.
    private func wasUpgraded(by later: Period) -> Bool {
        ending == .upgradedElsewhere && end < later.start && later.start < min(expiry, revokedAt ?? .endless)
    }

    /// A change of product without a stated reason is a purchase; the same product again is a renewal.
    package func isPurchase(after earlier: Period) -> Bool {
        switch fact.reason {
        case .known(.purchase): true
        case .known(.renewal): false
        case .unknown, nil: fact.productID != earlier.fact.productID
        }
    }

    /// By purchase date; at one instant an upgraded period comes before what it was upgraded to, a renewal before a
    /// purchase.
    private static func inOrderOfPurchase(_ left: Period, _ right: Period) -> Bool {
        if left.fact.purchaseDate != right.fact.purchaseDate { return left.fact.purchaseDate < right.fact.purchaseDate }
        if left.fact.isUpgraded != right.fact.isUpgraded { return left.fact.isUpgraded }
        let leftIsRenewal = left.fact.reason == .known(.renewal)
        if leftIsRenewal != (right.fact.reason == .known(.renewal)) { return leftIsRenewal }
        if left.expiry != right.expiry { return left.expiry < right.expiry }
        return (left.transactionIDs.first ?? "") < (right.transactionIDs.first ?? "")
    }
}
