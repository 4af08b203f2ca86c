import EntitlementAPI
package import EntitlementCore

/// Tells what became of purchases in the events that RevenueCat's receivers know.
///
/// They are read off the same standings as the document of `GET /revenuecat/v1/subscribers/…`, so the two cannot contradict
/// each other.
package struct EventTeller: PurchaseTeller {
    package init() {}

    package func changes(from before: CustomerMoment?, to after: CustomerMoment?) throws -> PurchaseChanges {
        guard let moment = after ?? before else { return PurchaseChanges(before: [], after: []) }
        let new = after?.standings ?? [:]
        let old = Self.renamed(before?.standings ?? [:], as: new)
        var courses: [PurchaseKey: [PurchaseEvent]] = [:]
        var departed: [PurchaseKey: PurchaseStanding] = [:]
        // Who was no customer before comes to be one by the last event.
        let told = ToldPayments(
            moment.hearings, knownAt: before?.position ?? moment.position - 1, at: before?.instant ?? moment.instant,
            under: moment.facts.catalog)
        for (key, standing) in new {
            courses[key] = PurchaseCourse(from: old[key], to: standing, at: moment.instant, told).events
        }
        for (key, standing) in old where new[key] == nil {
            departed[key] = standing
            // What is nobody's any more has ended for them.
            courses[key] = standing.isOpen ? [standing.end(at: moment.instant)] : []
        }
        let rows = PurchaseRows(old, new)
        Self.joinItems(&courses, old, new, rows)
        for (key, events) in courses { courses[key] = rows.told(events, of: key) }
        let isSame = departed.isEmpty && courses.allSatisfy { old[$0.key] != nil && $0.value.isEmpty }
        guard !isSame else { return PurchaseChanges(before: [], after: []) }
        var changes = PurchaseChanges(before: try Self.shown(before), after: try Self.shown(after))
        changes.holdsSomething = new.values.contains(where: \.isOpen)
        var number = 0
        func news(_ events: [PurchaseEvent], _ key: PurchaseKey) throws -> [PurchaseNews] {
            try events.map { event in
                number += 1
                return try PurchaseNews(
                    event.type,
                    body: EventMembers(
                        event, key, number: number, names: moment.names, customer: moment.facts.customer,
                        in: moment.environment
                    ).bytes)
            }
        }
        for (key, events) in courses.sorted(by: { $0.key < $1.key }) {
            let told = try news(events, key)
            if let standing = departed[key] {
                changes.departed[key.text] = PurchaseChanges.Departed(
                    purchase: [Self.store: standing.view.store.rawValue, Self.app: standing.view.appID ?? ""],
                    news: told)
            } else if old[key] == nil {
                // It was bought before, by whomever: it goes on, with what is so of its renewing.
                let goingOn = new[key].map { $0.isOpen && $0.isShown } == true ? events.map(\.ofTransferred) : []
                changes.arrived[key.text] = PurchaseChanges.Arrived(
                    news: told, transferred: try news(goingOn, key))
            } else {
                changes.news += told
            }
        }
        return changes
    }

    package func transfer(
        of purchases: [[String: String]], from giver: IdentityRef, to taker: IdentityRef, told teller: IdentityRef,
        in environment: StoreEnvironment
    ) throws -> [PurchaseNews] {
        let kinds = Set(purchases).sorted {
            ($0[Self.store] ?? "", $0[Self.app] ?? "") < ($1[Self.store] ?? "", $1[Self.app] ?? "")
        }
        return try kinds.map { kind in
            let app = kind[Self.app].flatMap { $0.isEmpty ? nil : $0 }
            return try PurchaseNews(
                .transfer,
                body: EventMembers(
                    transferFrom: giver, to: taker, told: teller, appID: app,
                    store: kind[Self.store].flatMap { PurchaseStore(rawValue: $0) } ?? .appStore, in: environment
                ).bytes)
        }
    }

    /// The standings before by the names of those after: the store may know a one-time purchase under several ids, and by which
    /// it is named changes as they become known.
    private static func renamed(
        _ old: [PurchaseKey: PurchaseStanding], as new: [PurchaseKey: PurchaseStanding]
    ) -> [PurchaseKey: PurchaseStanding] {
        var renamed = old
        for (key, standing) in new.sorted(by: { $0.key < $1.key }) where standing.kind == .oneTime && old[key] == nil {
            let former = old.keys.sorted().first { other in
                guard other.source == key.source, new[other] == nil, let left = old[other] else { return false }
                return left.kind == .oneTime && left.view.productID == standing.view.productID
                    && !left.knownIDs.isDisjoint(with: standing.knownIDs)
            }
            if let former, let left = renamed.removeValue(forKey: former) { renamed[key] = left }
        }
        return renamed
    }

    private static let store = "store"
    private static let app = "app"

    /// Where one item of a subscription on the web takes another's place, the subscription has changed its product.
    private static func joinItems(
        _ courses: inout [PurchaseKey: [PurchaseEvent]], _ old: [PurchaseKey: PurchaseStanding],
        _ new: [PurchaseKey: PurchaseStanding], _ rows: PurchaseRows
    ) {
        let begun = courses.filter { key, events in
            old[key] == nil && new[key]?.kind == .subscription && events.contains { $0.type.begins }
        }
        for (key, events) in begun {
            let ended = courses.keys.sorted().filter { other in
                other != key && other.source == key.source && old[other]?.isOpen == true && new[other]?.isOpen == false
                    && new[other]?.withdrawnAt == nil && new[other]?.isShown == true
            }
            guard let view = new[key]?.view else { continue }
            guard let other = ended.first, let left = new[other]?.view else {
                // Who has it, or lapsed, has the same again, under another item.
                let hadIt = old.contains { former, standing in
                    former.source == key.source && standing.view.productID == view.productID
                }
                if hadIt { courses[key] = events.map { $0.renewed(as: view) } }
                continue
            }
            courses[other]?.removeAll { $0.type == .expiration || $0.type == .cancellation }
            if left.productID != view.productID {
                courses[other]?.append(
                    PurchaseEvent(type: .productChange, view: left, detail: .productChange(to: view.productID)))
            }
            courses[key] = events.map { $0.renewed(as: view) }
        }
    }

    /// The entitlements as the document has them.
    private static func shown(_ moment: CustomerMoment?) throws -> [UInt8] {
        guard let moment else { return Array("{}".utf8) }
        let subscriber = Subscriber(moment.facts, in: moment.environment, hearings: Hearings([], own: []))
        return try WireJSON.encode(subscriber.document(of: "", at: moment.instant).subscriber.entitlements)
    }
}

extension CustomerMoment {
    fileprivate var standings: [PurchaseKey: PurchaseStanding] { PurchaseStandings(facts, at: instant).standings }
}

extension MessageType {
    /// Whether it says that a subscription was paid for.
    var begins: Bool { self == .initialPurchase || self == .renewal }
}

extension PurchaseEvent {
    /// The same of what is no new subscription.
    func renewed(as view: PurchaseView) -> PurchaseEvent {
        type.begins ? PurchaseEvent(type: .renewal, view: view, detail: .renewal(isTrialConversion: false)) : self
    }

    /// The same of what came along with a transfer, where nothing was bought.
    fileprivate var ofTransferred: PurchaseEvent {
        type.begins || type == .nonRenewingPurchase ? PurchaseEvent(type: .subscriptionExtended, view: view) : self
    }
}

extension PurchaseStanding {
    fileprivate func end(at instant: Timestamp) -> PurchaseEvent {
        var view = view
        view.expiresAt = min(view.expiresAt ?? instant, instant)
        return PurchaseEvent(type: .expiration, view: view, detail: .expiration(.unknown))
    }
}
