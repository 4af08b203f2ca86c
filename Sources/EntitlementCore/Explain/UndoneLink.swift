/// A link by which something would be this customer's, and would give access, had the link not been taken back.
struct UndoneLink: Hashable, Sendable {
    /// What was bought or granted, in the middle of a sentence.
    let what: String
    /// When the event was recorded that took it back, or put another in its place.
    let undoneAt: Timestamp
    let undonePosition: Int64
    let wasReplaced: Bool
    /// The events by which it was this customer's, and the one after which it was not.
    let positions: [Int64]

    /// What there is of it where nothing gives an entitlement, in the middle of a sentence.
    var clause: String { "\(told(of: what)), and so it is another customer's from its beginning" }

    /// Why it is another's, where that is said already.
    var cause: String { told(of: "it") }

    private func told(of what: String) -> String {
        "the link by which \(what) was this customer's was "
            + (wasReplaced ? "replaced by another" : "taken back") + " on \(undoneAt.inWords)"
    }
}

extension RuleWords {
    /// The link whose end made what is shown another customer's; `nil` where something else made it so.
    func undoneLink(of shown: ShownReading) -> UndoneLink? {
        guard shown.reading.reason == .ownedByAnother, let period = shown.period(at: shown.reading.start) else {
            return nil
        }
        return LinkTrail(asked: asked, told: told).undoneLink(
            of: period, positions: shown.reading.positions, at: shown.reading.start)
    }
}

extension CustomerFacts {
    /// The link undone last without which nothing gives an entitlement at an instant.
    ///
    /// A link holds for every instant from its position on, so nothing of it is left in any timeline once it is undone: only
    /// the events tell that it ever was.
    ///
    /// - Parameter trail: of the events that the facts were folded from.
    func undoneLink(giving entitlementID: String, at instant: Timestamp, by trail: LinkTrail) -> UndoneLink? {
        guard trail.hasLinks else { return nil }
        var found: [UndoneLink] = []
        for (originalID, state) in originals.sorted(by: { $0.key < $1.key }) {
            for chain in state.chains(catalog) {
                let segments = ownedSegments(of: chain, state: state, originalID: originalID)
                guard let item = segments.last(where: { $0.segment.start <= instant }), !item.isOwned,
                    catalog.policy.givesAccess(item.segment.state),
                    catalog.product(item.period.fact.productID)?.entitlements.contains(entitlementID) ?? false
                else { continue }
                found += [trail.undoneLink(of: item.period, positions: item.segment.positions, at: instant)]
                    .compactMap(\.self)
            }
        }
        for grant in grants.sorted(by: { $0.grantID < $1.grantID })
        where grant.entitlementID == entitlementID && grant.from <= instant && instant < grant.end {
            found += [trail.undoneLink(of: grant)].compactMap(\.self)
        }
        return found.max { $0.undonePosition < $1.undonePosition }
    }
}

/// How links led to a customer over time: in the events themselves, because the fold keeps only those in force.
struct LinkTrail {
    /// Who was asked about, links not followed; `nil` where nobody asks whose anything was.
    let asked: IdentityRef?
    private let events: [HistoryEvent]
    let hasLinks: Bool

    /// - Parameter told: the events that the facts were folded from, in their order.
    init(asked: IdentityRef?, told: [HistoryEvent]) {
        self.asked = asked
        events = told.filter { event in
            switch event.fact {
            case .link, .claim, .transfer, .transferUndo: true
            case .notification, .statements, .catalog, .conflict, .grant, .grantRevocation, .drift, .forgetting,
                .access,
                .storeRequest, .web:
                false
            }
        }
        hasLinks = events.contains { Self.isLink($0) }
    }

    /// The link whose end took a period from the customer; `nil` where something else did, or it never was theirs.
    ///
    /// - Parameter positions: the events that say how the period reads.
    func undoneLink(of period: Period, positions: [Int64], at instant: Timestamp) -> UndoneLink? {
        let fact = period.fact
        return undoneLink(of: fact.productID, positions) { map in
            let transfer = map.transfers(of: fact.originalTransactionID).last { $0.at <= instant }
            return transfer?.customer ?? fact.statedOwner ?? map.claim(of: fact.originalTransactionID)?.customer
        }
    }

    /// The same of a grant.
    func undoneLink(of grant: GrantState) -> UndoneLink? {
        undoneLink(of: "the grant of \(grant.from.inWords)", [grant.position]) { _ in grant.customer }
    }

    /// - Parameter bearer: whom something is of, links not followed, as far as a map knows.
    private func undoneLink(
        of what: String, _ positions: [Int64], bearer: (OwnershipMap) -> IdentityRef?
    ) -> UndoneLink? {
        guard let asked, hasLinks else { return nil }
        var map = OwnershipMap()
        /// The links by which it is the customer's; `nil` while it is not.
        var links: [Int64]?
        var undone: (event: HistoryEvent, links: [Int64])?
        for event in events {
            let before = links
            map.apply(event.fact, position: event.position, recordedAt: event.recordedAt)
            links = bearer(map).flatMap { bearer in
                guard map.customer(of: bearer) == map.customer(of: asked) else { return nil }
                return map.linkPositions(of: bearer) + map.linkPositions(of: asked)
            }
            if let before, links == nil { undone = (event, before) }
        }
        guard links == nil, let undone, case .link(let link) = undone.event.fact else { return nil }
        return UndoneLink(
            what: what, undoneAt: undone.event.recordedAt, undonePosition: undone.event.position,
            wasReplaced: link.identity != link.customer,
            positions: positions + undone.links + [undone.event.position])
    }

    private static func isLink(_ event: HistoryEvent) -> Bool {
        if case .link = event.fact { true } else { false }
    }
}
