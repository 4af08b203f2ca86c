/// What of the log is about one app: all that whoever is bound to it may hear of.
///
/// Facts are left out before they are folded, so every answer is that of a ledger to which nothing of other apps was ever
/// told. Four things hold in every app: the catalog, grants, what was bought on the web, and links, of which only those are
/// kept that lead from what names somebody here to whose it is.
///
/// A web checkout sells a product of the catalog, not of an app's store, and names no app: whoever bought it holds what it
/// gives in each of them, as with a grant. Else the app in which they sign in would not know that they have paid.
package struct AppScope: Hashable, Sendable {
    package let bundleID: String

    package init(_ bundleID: String) { self.bundleID = bundleID }

    /// Whether a fact is about the app, by the apps that it names itself; `nil` where it names none.
    package func names(_ fact: LedgerFact) -> Bool? {
        let apps = fact.bundleIDs
        return apps.isEmpty ? nil : apps.contains { $0.utf8.elementsEqual(bundleID.utf8) }
    }

    /// Whether a transaction is the app's.
    func isOfApp(_ fact: TransactionFact) -> Bool { fact.bundleID.utf8.elementsEqual(bundleID.utf8) }

    /// The events about a customer that are about the app, and those that hold in every app.
    ///
    /// - Parameters:
    ///   - events: of one environment, in the order of their positions.
    ///   - customer: whom they were looked up for.
    func part(of events: [HistoryEvent], about customer: IdentityRef?) -> [HistoryEvent] {
        let part = Part(of: events, scope: self)
        return part.events(linkedBy: part.linked(with: customer))
    }

    /// What of some events is about the app, or holds in every app, whomever they were looked up for; but for the links.
    struct Part: Sendable {
        private let scope: AppScope
        private let events: [HistoryEvent]
        /// The positions of what is about the app's original transactions.
        private let kept: Set<Int64>
        /// Whom that names, and whoever was granted something.
        private let named: Set<IdentityRef>

        /// - Parameter events: of one environment, in the order of their positions.
        init(of events: [HistoryEvent], scope: AppScope) {
            var lives: [String: Life] = [:]
            let purchases = events.filter { event in
                guard let original = event.fact.originalTransactionID else { return false }
                return lives[original, default: Life(of: scope)].keeps(event.fact)
            }
            let holders = events.compactMap { event in
                if case .grant(let fact) = event.fact { fact.customer } else { nil }
            }
            (self.scope, self.events) = (scope, events)
            named = Set(purchases.flatMap(\.fact.namedIdentities)).union(holders)
            kept = Set(purchases.map(\.position))
        }

        /// Whose links are kept for a customer.
        func linked(with customer: IdentityRef?) -> Set<IdentityRef> {
            named.isEmpty ? [] : AppScope.closure(of: named.union([customer].compactMap(\.self)), events)
        }

        /// The events, with the links that lead from these.
        func events(linkedBy known: Set<IdentityRef>) -> [HistoryEvent] {
            events.filter { event in
                switch event.fact {
                case .notification, .statements, .claim, .transfer, .transferUndo, .conflict, .storeRequest, .web,
                    .forgetting:
                    kept.contains(event.position) || event.fact.appTransaction != nil && scope.names(event.fact) == true
                case .catalog, .grant, .grantRevocation: true
                case .link(let link): known.contains(link.identity)
                case .drift: scope.names(event.fact) ?? false
                case .access: false
                }
            }
        }
    }

    /// Some identities, and everybody to whom links, ever made, lead from them: with all links of each of these the map is
    /// for them what it is with all there are.
    private static func closure(of identities: Set<IdentityRef>, _ events: [HistoryEvent]) -> Set<IdentityRef> {
        var targets: [IdentityRef: [IdentityRef]] = [:]
        for event in events {
            if case .link(let link) = event.fact { targets[link.identity, default: []].append(link.customer) }
        }
        var found = identities
        var frontier = Array(identities)
        while let next = frontier.popLast() {
            for target in targets[next] ?? [] where found.insert(target).inserted { frontier.append(target) }
        }
        return found
    }

    /// Goes through one original transaction's facts, in the order of their positions, and tells which are about the app.
    ///
    /// What names no app, such as a claim, is about the one that was named first; what was bought on the web is about each.
    package struct Life: Sendable {
        private let scope: AppScope
        private var isOfApp: Bool?

        package init(of scope: AppScope) { self.scope = scope }

        package mutating func keeps(_ fact: LedgerFact) -> Bool {
            guard let names = fact.isOfWeb ? true : scope.names(fact) else { return isOfApp ?? false }
            isOfApp = isOfApp ?? names
            return names
        }
    }
}

extension LedgerFact {
    /// The bundle ids of the apps that it names itself.
    package var bundleIDs: Set<String> {
        var ids = Set(transactions.map(\.bundleID))
        if case .notification(let fact) = self { ids.insert(fact.bundleID) }
        if case .storeRequest(let fact) = self { ids.insert(fact.bundleID) }
        if case .drift(let fact) = self { ids.insert(fact.bundleID) }
        return ids
    }

    /// Whether it states what was bought on the web.
    package var isOfWeb: Bool { if case .web = self { true } else { false } }

    /// Everybody whom a fact about an original transaction names.
    fileprivate var namedIdentities: [IdentityRef] {
        switch self {
        case .notification, .statements:
            transactions.flatMap { [$0.accountToken, $0.appTransaction].compactMap(\.self) }
        case .claim(let fact): [fact.customer]
        case .transfer(let fact): [fact.customer]
        case .conflict(let fact): [fact.claimant]
        case .web(let fact): fact.owners.map(\.customer)
        case .catalog, .link, .transferUndo, .grant, .grantRevocation, .drift, .forgetting, .access, .storeRequest: []
        }
    }
}
