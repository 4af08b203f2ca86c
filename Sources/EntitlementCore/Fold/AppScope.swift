/// The part of the log that a key or token of one app may see.
///
/// Facts about other apps are left out before the fold, so every answer is that of a ledger that never heard of other
/// apps. Four things hold in every app: the catalog, grants, web purchases, and links; of links only those are kept
/// that lead from an identity named in this app to its customer.
///
/// A web checkout sells a product of the catalog, not of an app's store, and names no app. So it counts in each app, as
/// a grant does: otherwise the app in which its buyer signs in would not know that they have paid.
package struct AppScope: Hashable, Sendable {
    package let bundleID: String

    package init(_ bundleID: String) { self.bundleID = bundleID }

    /// Whether a fact names the app; `nil` where it names no app at all.
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
    ///   - customer: the customer for whom they were looked up.
    func part(of events: [HistoryEvent], about customer: IdentityRef?) -> [HistoryEvent] {
        let part = Part(of: events, scope: self)
        return part.events(linkedBy: part.linked(with: customer))
    }

    /// The events about the app and those that hold in every app, whoever the customer is; which links belong to it
    /// depends on the customer, and is decided last.
    struct Part: Sendable {
        private let scope: AppScope
        private let events: [HistoryEvent]
        /// The positions of what is about the app's original transactions.
        private let kept: Set<Int64>
        /// Everybody whom these name, and everybody who has a grant.
        private let named: Set<IdentityRef>

        /// - Parameter events: of one environment, in the order of their positions.
        init(of events: [HistoryEvent], scope: AppScope) {
            var filters: [String: OriginalFilter] = [:]
            let purchases = events.filter { event in
                guard let original = event.fact.originalTransactionID else { return false }
                return filters[original, default: OriginalFilter(of: scope)].keeps(event.fact)
            }
            let holders = events.compactMap { event in
                if case .grant(let fact) = event.fact { fact.customer } else { nil }
            }
            (self.scope, self.events) = (scope, events)
            named = Set(purchases.flatMap(\.fact.namedIdentities)).union(holders)
            kept = Set(purchases.map(\.position))
        }

        /// The identities whose links are kept when a customer is asked about.
        func linked(with customer: IdentityRef?) -> Set<IdentityRef> {
            named.isEmpty ? [] : AppScope.closure(of: named.union([customer].compactMap(\.self)), events)
        }

        /// The events of the part, and of the links those that lead from these identities.
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

    /// The identities, and every identity that any link, in force or not, leads to from them.
    ///
    /// A map that is built from the links of these alone gives them the same owners as the map of all links.
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

    /// Tells which facts of one original transaction are about the app, one after the other in the order of their
    /// positions.
    ///
    /// A fact that names no app, such as a claim, is about the app that was named first; a web purchase is about every
    /// app.
    package struct OriginalFilter: Sendable {
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
