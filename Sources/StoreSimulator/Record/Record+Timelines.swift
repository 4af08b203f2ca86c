// The timelines, worked out from the stories and from what people did about whose they are.
extension Record {
    /// Works out one customer's timelines; empty for a customer who never owned anything.
    ///
    /// Asking for an alias answers what the customer holds whom it means.
    package func customer(_ key: CustomerKey) -> CustomerRecord {
        let customer = ownership.customer(key)
        let holdings = originals(of: customer).flatMap { self.holdings(of: customer, in: $0) }
        let grants = ownership.grants.filter { ownership.customer($0.customer) == customer }
        let bought = web.stories.filter { key, story in
            key.environment == customer.environment
                && story.owner.map { ownership.customer(CustomerKey(key.environment, $0)) } == customer
        }.sorted { $0.key < $1.key }
        let strands = bought.flatMap { key, story in
            story.strands(under: world.policy).map { WebHolding(key, story, $0, world) }
        }
        let entitlements = Set(holdings.flatMap(\.entitlements)).union(grants.map(\.entitlement))
            .union(strands.flatMap(\.entitlements))
        var timelines: [String: [RecordInterval]] = [:]
        var shown: [String: [ShownStrand]] = [:]
        for entitlement in entitlements {
            let (intervals, strands) = timeline(
                holdings: holdings.filter { $0.entitlements.contains(entitlement) },
                grants: grants.filter { $0.entitlement == entitlement },
                strands: strands.filter { $0.entitlements.contains(entitlement) }, of: entitlement)
            if !intervals.isEmpty { timelines[entitlement] = intervals }
            shown[entitlement] = strands
        }
        let mine = Set(holdings.map(\.key)).map { ($0.originalTransactionID, stories[$0]) }
        return CustomerRecord(
            timelines: timelines, stories: Dictionary(uniqueKeysWithValues: mine).compactMapValues { $0 },
            webStories: Dictionary(uniqueKeysWithValues: bought.map { ($0.key.originalTransactionID, $0.value) }),
            strands: shown)
    }

    /// What is true of a customer at an instant.
    package func answer(
        customer: String, environment: SimulatedStoreEnvironment, at instant: Int64
    ) -> [RecordAnswer] {
        self.customer(CustomerKey(environment, customer)).answer(at: instant)
    }

    /// Every instant at which something changes for a customer, and the milliseconds before and after it.
    package func boundaryInstants(_ key: CustomerKey) -> [Int64] {
        customer(key).boundaryInstants
    }

    /// One payment of which a customer has or had something.
    private struct Holding {
        let key: SimulatedOriginalKey
        let chapter: Chapter
        let stages: [Stage]
        let entitlements: [String]
        /// Where the next payment of the same original begins, whoever's it is.
        let next: Int64
        let tenures: [Range<Int64>]
    }

    /// Payments of a length that nobody knows grant nothing, and are left out.
    private func holdings(of customer: CustomerKey, in key: SimulatedOriginalKey) -> [Holding] {
        let chapters = stories[key]?.chapters ?? []
        return chapters.enumerated().compactMap { index, chapter in
            let tenures = tenures(of: chapter, in: key, by: customer)
            let stages = stages(of: chapter)
            guard !tenures.isEmpty, !stages.isEmpty else { return nil }
            return Holding(
                key: key, chapter: chapter, stages: stages,
                entitlements: world.entitlements(of: chapter.productID),
                next: index + 1 < chapters.count ? chapters[index + 1].begin : .max, tenures: tenures)
        }
    }

    /// Asks what holds between every two neighbouring instants at which anything at all could change.
    private func timeline(
        holdings: [Holding], grants: [Ownership.Grant], strands: [WebHolding], of entitlement: String
    ) -> ([RecordInterval], [ShownStrand]) {
        let ordered = edges(holdings, grants).union(strands.flatMap(\.edges)).sorted()
        var intervals: [RecordInterval] = []
        var shownStrands: [ShownStrand] = []
        for (index, edge) in ordered.enumerated() {
            let latest = Dictionary(grouping: holdings, by: \.key).values.compactMap { holdings in
                holdings.last { $0.tenures[0].lowerBound <= edge }
            }
            let standings =
                latest.map { standing(of: $0, at: edge) } + grants.compactMap { standing(of: $0, at: edge) }
                + strands.compactMap { standing(of: $0, entitlement, at: edge) }
            guard let shown = standings.min(by: isShownBefore) else { continue }
            shownStrands.append(ShownStrand(from: edge, holding: shown.strand))
            let until = index + 1 < ordered.count ? ordered[index + 1] : nil
            var from = edge
            if let previous = intervals.last, shown.continues(previous) {
                from = previous.from
                intervals.removeLast()
            }
            intervals.append(
                RecordInterval(
                    from: from, until: until, state: shown.state, givesAccess: givesAccess(shown.state),
                    productID: shown.productID, originalTransactionID: shown.original, source: shown.source))
        }
        return (intervals, shownStrands)
    }

    private func edges(_ holdings: [Holding], _ grants: [Ownership.Grant]) -> Set<Int64> {
        var edges = Set<Int64>()
        for holding in holdings {
            edges.formUnion([holding.chapter.begin, holding.next])
            edges.formUnion(holding.tenures.flatMap { [$0.lowerBound, $0.upperBound] })
            for stage in holding.stages {
                edges.insert(stage.from)
                if stage.condition == .ranOut { edges.insert(stage.from + leeway) }
            }
            if let withdrawal = holding.chapter.withdrawal { edges.insert(withdrawal.date) }
        }
        for grant in grants {
            edges.formUnion([grant.from, grant.until, grant.revokedAt].compactMap { $0 })
        }
        edges.remove(.max)
        return edges
    }

    private struct Standing {
        let state: RecordState
        let end: Int64
        let source: RecordSource
        let productID: String
        let original: String
        /// Nil for what was not bought on the web.
        var strand: WebHolding?

        func continues(_ interval: RecordInterval) -> Bool {
            state == interval.state && source == interval.source && productID == interval.productID
                && original == interval.originalTransactionID
        }
    }

    /// Where the last payment of an original that ever was the customer's stands for the customer at an instant.
    private func standing(of holding: Holding, at instant: Int64) -> Standing {
        let chapter = holding.chapter
        let withdrawal = standingWithdrawal(of: chapter)
        let tenure = holding.tenures.last { $0.lowerBound <= instant } ?? holding.tenures[0]
        let state: RecordState
        if holding.next <= instant || !tenure.contains(instant) {
            // A later payment of the same original has begun, for somebody else or for something else; or this one
            // was handed on.
            state = .expired
        } else if let withdrawal, withdrawal.date <= instant {
            state = .revoked
        } else {
            state = self.state(of: holding, at: instant)
        }
        var end = holding.stages.first { $0.condition != .active }?.from ?? .max
        if let withdrawal { end = min(end, max(withdrawal.date, chapter.begin)) }
        return Standing(
            state: state, end: min(end, holding.next, tenure.upperBound), source: .appStore,
            productID: chapter.productID, original: holding.key.originalTransactionID)
    }

    /// Where a grant stands; nil before it was given, and for one that ended before.
    private func standing(of grant: Ownership.Grant, at instant: Int64) -> Standing? {
        let until = grant.until ?? .max
        guard grant.from <= instant, grant.from < until else { return nil }
        let end = min(until, grant.revokedAt ?? .max)
        let state: RecordState = instant < end ? .active : end < until ? .revoked : .expired
        return Standing(state: state, end: end, source: .grant, productID: "", original: "")
    }

    /// Where something that was bought on the web stands; nil before it gave the entitlement.
    private func standing(of holding: WebHolding, _ entitlement: String, at instant: Int64) -> Standing? {
        guard let shown = holding.shown(for: entitlement, at: instant) else { return nil }
        return Standing(
            state: shown.state, end: shown.end, source: .webCheckout, productID: shown.productID,
            original: holding.key.originalTransactionID, strand: holding)
    }

    private func state(of holding: Holding, at instant: Int64) -> RecordState {
        guard let stage = holding.stages.last(where: { $0.from <= instant }) else { return .expired }
        return switch stage.condition {
        case .active: .active
        case .inGracePeriod: .inGracePeriod
        case .inBillingRetry: .inBillingRetry
        case .ranOut: instant < stage.from + leeway ? .active : .expired
        case .expired: .expired
        }
    }

    /// The stages as told, or those of the catalog's duration; none where the catalog does not know how long.
    private func stages(of chapter: Chapter) -> [Stage] {
        guard chapter.paid == .catalogDuration else { return chapter.stages }
        let mapping = world.mappings.first { $0.productID == chapter.productID }
        guard let duration = mapping?.duration.flatMap(SimulatedCalendarDuration.init(iso8601:)) else { return [] }
        let end = SimulatedCalendar.adding(duration, to: chapter.begin)
        return [Stage(from: chapter.begin, condition: .active), Stage(from: end, condition: .ranOut)]
    }

    private func standingWithdrawal(of chapter: Chapter) -> Withdrawal? {
        guard let withdrawal = chapter.withdrawal else { return nil }
        return withdrawal.isProrated && world.policy.proratedRefund == .keepsAccess ? nil : withdrawal
    }

    private var leeway: Int64 { world.policy.leewaySeconds * Span.second }

    private func givesAccess(_ state: RecordState) -> Bool {
        switch state {
        case .active: true
        case .inGracePeriod: world.policy.graceGivesAccess
        case .inBillingRetry: world.policy.billingRetryGivesAccess
        case .revoked, .expired: false
        }
    }

    /// The order of display: access first, then the state, the later end of the period, the smaller source
    /// and original.
    private func isShownBefore(_ left: Standing, _ right: Standing) -> Bool {
        let (leftAccess, rightAccess) = (givesAccess(left.state), givesAccess(right.state))
        if leftAccess != rightAccess { return leftAccess }
        if left.state != right.state { return left.state.rank < right.state.rank }
        if left.end != right.end { return left.end > right.end }
        return (left.source.rawValue, left.original) < (right.source.rawValue, right.original)
    }
}
