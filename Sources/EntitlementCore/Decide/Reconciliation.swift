/// What a device's verified statements mean beside what is known: what is news, whose it is, and what can be finished.
///
/// Who posts a statement decides nothing by itself: a statement proves a purchase, not its owner.
package struct Reconciliation: Sendable {
    /// Statements about one original transaction that go into one event.
    package struct News: Hashable, Sendable {
        package let originalTransactionID: String
        package var transactions: [TransactionFact]
        package var renewals: [RenewalFact]
    }

    /// Whose a posted transaction is.
    package enum Standing: Hashable, Sendable {
        /// The customer's already.
        case own
        /// Nobody's so far; the customer's by this claim.
        case claimed
        /// Somebody else's, while the customer claims it.
        case conflict(owner: IdentityRef)
        /// Somebody else's, and nobody contradicts: nothing claims it, or it was the customer's and transferred away.
        case foreign
        /// Nobody's, and nobody claims it.
        case unclaimed
    }

    /// In the order in which the transactions were posted: whose each is, and whether it said anything new.
    package private(set) var verdicts: [(standing: Standing, isNews: Bool)] = []
    /// The statement that counts of each posted transaction's period, in the same order.
    package private(set) var periods: [TransactionFact] = []
    /// Whether each renewal information said anything new, in the order in which they were posted.
    package private(set) var renewalNews: [Bool] = []
    package private(set) var news: [News] = []
    /// Those of the news that say what was known, on later dates.
    package private(set) var repetitions: (transactions: [TransactionFact], renewals: [RenewalFact]) = ([], [])
    /// The original transactions that become the customer's by this claim, in order.
    package private(set) var claims: [String] = []
    /// The original transactions that the customer claims and somebody else owns.
    package private(set) var conflicts: [(originalTransactionID: String, owner: IdentityRef)] = []

    /// Weighs what was posted.
    ///
    /// - Parameters:
    ///   - customer: who is spoken for, every link followed; `nil` where nothing proves that the sender may.
    ///   - states: what is known of the original transactions that were posted.
    ///   - renewals: of original transactions of which a transaction was posted, too.
    ///   - repeating: the original transactions of which repetitions are no news, because there were too many.
    package init(
        of transactions: [TransactionFact], renewals: [RenewalFact], for customer: IdentityRef?,
        states: [String: OriginalState], ownership: OwnershipMap, repeating: Set<String> = []
    ) {
        var states = states
        let fresh = Self.fresh(transactions, renewals, &states, repeating)
        let newRenewals = Set(fresh.renewals + fresh.repeatedRenewals)
        renewalNews = renewals.map { newRenewals.contains($0) }
        repetitions = (fresh.advances, fresh.repeatedRenewals)
        news = Self.events(fresh)
        let winners = Self.winners(Set(transactions.map(\.originalTransactionID)), states)
        for transaction in transactions {
            // What the statement that counts says of the owner, whichever was posted.
            let period = winners[transaction.originalTransactionID]?[transaction.transactionID] ?? transaction
            periods.append(period)
            let standing = Self.standing(of: period, for: customer, ownership: ownership)
            verdicts.append(
                (standing, fresh.transactions.contains(transaction) || fresh.advances.contains(transaction)))
            let original = transaction.originalTransactionID
            switch standing {
            case .claimed where !claims.contains(original):
                claims.append(original)
            case .conflict(let owner) where !conflicts.contains(where: { $0.originalTransactionID == original }):
                conflicts.append((original, owner))
            case .own, .claimed, .conflict, .foreign, .unclaimed:
                break
            }
        }
        claims.sort()
    }

    private struct Fresh {
        var transactions: [TransactionFact] = []
        /// These say what was known, on a later date.
        var advances: [TransactionFact] = []
        var renewals: [RenewalFact] = []
        /// These say what the statement before them said.
        var repeatedRenewals: [RenewalFact] = []
    }

    /// What an event is about as a whole: whose it is, too, so that it is found, and forgotten, by it.
    private struct Subject: Hashable {
        let original: String
        let accountToken: IdentityRef?
        let appTransaction: IdentityRef?

        init(_ fact: TransactionFact) {
            original = fact.originalTransactionID
            accountToken = fact.accountToken
            appTransaction = fact.appTransaction
        }
    }

    /// What changes the states, and the states after it; the newest transaction first, so that what it outdates is no
    /// news.
    private static func fresh(
        _ transactions: [TransactionFact], _ renewals: [RenewalFact], _ states: inout [String: OriginalState],
        _ repeating: Set<String>
    ) -> Fresh {
        var fresh = Fresh()
        let before = states
        for transaction in transactions.sorted(by: { $1.precedes($0) }) {
            let original = transaction.originalTransactionID
            let isAdvance =
                states[original]?.transactions.contains { $0.fact.saysTheSame(as: transaction) } ?? false
            if isAdvance, repeating.contains(original) { continue }
            guard states[original, default: OriginalState()].learn(transaction) else { continue }
            if isAdvance { fresh.advances.append(transaction) } else { fresh.transactions.append(transaction) }
        }
        for renewal in renewals {
            let original = renewal.originalTransactionID
            let isRepeated = states[original]?.repeats(renewal) ?? false
            if isRepeated, repeating.contains(original) { continue }
            guard states[original, default: OriginalState()].learn(renewal) else { continue }
            if isRepeated { fresh.repeatedRenewals.append(renewal) } else { fresh.renewals.append(renewal) }
        }
        // Where many repetitions are posted at once, later ones may make the fold drop earlier ones, which then are no
        // news. That is so only once the fold drops any (`isThinned`): until then it counts all that are recorded.
        fresh.repeatedRenewals.removeAll { renewal in
            let original = renewal.originalTransactionID
            return before[original]?.isThinned == true && states[original]?.keeps(renewal) == false
        }
        return fresh
    }

    /// One event for each transaction with something to say, so that it is found by its id, and one for all that only
    /// moves dates; renewal information goes with the first of its original transaction.
    private static func events(_ fresh: Fresh) -> [News] {
        var events = fresh.transactions.map {
            News(originalTransactionID: $0.originalTransactionID, transactions: [$0], renewals: [])
        }
        for (subject, advances) in Dictionary(grouping: fresh.advances, by: Subject.init) {
            events.append(News(originalTransactionID: subject.original, transactions: advances, renewals: []))
        }
        let renewals = fresh.renewals + fresh.repeatedRenewals
        for (original, renewals) in Dictionary(grouping: renewals, by: \.originalTransactionID) {
            if let index = events.firstIndex(where: { $0.originalTransactionID == original }) {
                events[index].renewals = renewals
            } else {
                events.append(News(originalTransactionID: original, transactions: [], renewals: renewals))
            }
        }
        return events
    }

    /// The statements that count, by original transaction and transaction.
    private static func winners(
        _ originals: Set<String>, _ states: [String: OriginalState]
    ) -> [String: [String: TransactionFact]] {
        var winners: [String: [String: TransactionFact]] = [:]
        for original in originals {
            for (fact, transactionIDs) in states[original]?.winningStatements() ?? [] {
                for transactionID in transactionIDs { winners[original, default: [:]][transactionID] = fact }
            }
        }
        return winners
    }

    private static func standing(
        of period: TransactionFact, for customer: IdentityRef?, ownership: OwnershipMap
    ) -> Standing {
        let holder = ownership.currentOwner(of: period)
        guard let customer else { return holder == nil ? .unclaimed : .foreign }
        if holder == customer { return .own }
        // Whoever bought it may go on posting what was transferred away: that contradicts nothing.
        guard let owner = ownership.owner(of: period) else {
            // Nobody claimed it, but it may have been given to somebody all the same.
            return holder.map { .conflict(owner: $0) } ?? .claimed
        }
        return owner == customer ? .foreign : .conflict(owner: holder ?? owner)
    }
}

extension Reconciliation.Standing {
    /// Whether a device may finish the transaction once its facts are durable: it was granted to whoever owns it, or the
    /// catalog says that it gives nothing here.
    ///
    /// A product that the catalog does not name may be missing by mistake, and a consumable that is finished is never
    /// posted again: until it has an owner it is kept on the device.
    package func allowsFinishing(_ transaction: TransactionFact, catalog: Catalog) -> Bool {
        switch self {
        case .own, .claimed, .foreign: true
        case .conflict, .unclaimed: catalog.product(transaction.productID)?.entitlements.isEmpty ?? false
        }
    }
}

extension OriginalState {
    /// Joins a transaction that a device posted; returns whether what is known has changed.
    fileprivate mutating func learn(_ fact: TransactionFact) -> Bool {
        join(fact, source: .device, position: lastPosition)
    }

    /// Joins renewal information that a device posted; returns whether what is known has changed.
    fileprivate mutating func learn(_ fact: RenewalFact) -> Bool {
        join(fact, source: .device, position: lastPosition)
    }

    fileprivate func keeps(_ fact: RenewalFact) -> Bool { renewals.contains { $0.fact.isSameStatement(as: fact) } }
}
