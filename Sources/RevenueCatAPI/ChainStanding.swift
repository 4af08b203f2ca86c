import EntitlementCore

/// Until when a purchase or grant gives access, or gave it.
struct Access {
    /// When it stops to give access for the first time, by all that is known: what the policy adds to the time that was paid
    /// for is part of it, a grace period, the leeway and a payment under way; `endless` for what does not end.
    let end: Timestamp
    /// Whether it gives access at the instant asked about, so that `end` lies ahead.
    let isOpen: Bool
    /// What holds at that instant; `nil` where something later took its place.
    let state: EntitlementState?
    /// A grace period, ahead or under way, is part of the time until `end`.
    var hasGrace = false

    /// Until when it gives access with the grace period; `nil` where there is none.
    var graceEnd: Timestamp? { isOpen && hasGrace ? end : nil }

    /// The end as it is shown; `nil` for what does not end.
    ///
    /// RevenueCat's SDK takes for active what ends in the very second of the request. So what ended within that second is
    /// shown as ended the second before.
    func expiry(at request: WholeSecond) -> WholeSecond? {
        if isOpen { return end == .endless ? nil : WholeSecond(end) }
        return min(WholeSecond(end), request.predecessor)
    }
}

/// One chain of periods of an original transaction, read at an instant.
struct ChainStanding {
    /// A period as RevenueCat shows it: the latest one of its product.
    struct Latest {
        let index: Int
        let period: Period
        let access: Access
    }

    private let state: OriginalState
    private let chain: PeriodChain
    private let instant: Timestamp
    private let policy: AccessPolicy
    /// By the period they belong to, those that have begun and those that have not.
    private let segments: [Int: [Segment]]
    private let isOwned: (TransactionFact) -> Bool

    /// - Parameter isOwned: whether a purchase is the customer's at the instant.
    init(
        _ chain: PeriodChain, of state: OriginalState, at instant: Timestamp, _ policy: AccessPolicy,
        isOwned: @escaping (TransactionFact) -> Bool
    ) {
        (self.chain, self.state, self.instant, self.policy, self.isOwned) = (chain, state, instant, policy, isOwned)
        segments = Dictionary(grouping: state.segments(of: chain, policy: policy), by: \.periodIndex)
    }

    /// Of each product the latest period that is the customer's.
    var latest: [Latest] {
        var indices: [String: Int] = [:]
        for (index, period) in chain.periods.enumerated() where isOwned(period.fact) {
            if access(of: index) != nil { indices[period.fact.productID] = index }
        }
        return indices.values.sorted().compactMap { index in
            guard let access = access(of: index) else { return nil }
            return chargedEarly(after: index, access)
                ?? Latest(index: index, period: chain.periods[index], access: access)
        }
    }

    /// What a period gives; `nil` before it begins.
    private func access(of index: Int) -> Access? {
        guard let own = segments[index], let first = own.first, first.start <= instant else { return nil }
        let current = own.lastIndex { $0.start <= instant && instant < $0.end }
        if let current, policy.givesAccess(own[current].state) { return run(of: own[current...], in: index) }
        let last = own.last { policy.givesAccess($0.state) && $0.end <= instant }
        return Access(end: last?.end ?? first.start, isOpen: false, state: current.map { own[$0].state })
    }

    /// The access that some segments of a period begin with, as far as it goes on without a break: through the segments behind
    /// the first, and through the periods of the same product that follow.
    private func run(of segments: ArraySlice<Segment>, in index: Int) -> Access {
        let open = segments.prefix { policy.givesAccess($0.state) }
        var end = open.last?.end ?? segments.first?.start ?? .earliest
        var hasGrace = open.contains { $0.state == .inGracePeriod }
        if open.count == segments.count, let next = follower(of: index, from: end) {
            let rest = run(of: next[...], in: index + 1)
            (end, hasGrace) = (rest.end, hasGrace || rest.hasGrace)
        }
        return Access(end: end, isOpen: true, state: segments.first?.state, hasGrace: hasGrace)
    }

    /// The segments of the period that follows one without a break and gives the customer the same product; `nil` without one.
    ///
    /// It counts as soon as it is known: the App Store announces a renewal up to a day before the period begins.
    private func follower(of index: Int, from end: Timestamp) -> [Segment]? {
        guard let own = successor(of: index, from: end), let first = own.first, policy.givesAccess(first.state)
        else { return nil }
        return own
    }

    /// The same, whatever it gives.
    private func successor(of index: Int, from end: Timestamp) -> [Segment]? {
        guard chain.periods.indices.contains(index + 1), let own = segments[index + 1], own.first?.start == end else {
            return nil
        }
        let (period, next) = (chain.periods[index], chain.periods[index + 1])
        return next.fact.productID == period.fact.productID && isOwned(next.fact) ? own : nil
    }

    /// The next period of the same product, where the store has charged for it before it begins: it is what is shown from
    /// then on.
    private func chargedEarly(after index: Int, _ access: Access) -> Latest? {
        guard access.isOpen, let start = segments[index]?.last?.end, instant < start,
            let own = follower(of: index, from: start)
        else { return nil }
        let next = chain.periods[index + 1]
        guard next.web == nil, start < access.end else { return nil }
        return Latest(index: index + 1, period: next, access: run(of: own[...], in: index + 1))
    }

    /// The period behind the latest one, where its money went back before it begins: it was announced, and is shown no more.
    func refundedAhead(of latest: Latest) -> Period? {
        guard let start = segments[latest.index]?.last?.end, instant < start,
            successor(of: latest.index, from: start) != nil
        else { return nil }
        let next = chain.periods[latest.index + 1]
        return next.web == nil && next.ending == .revoked && next.isRefunded(by: .endless) ? next : nil
    }
}

extension ChainStanding {
    /// The statements that the charge for what follows a period failed, until one that it is solved.
    ///
    /// Of the App Store nothing but the next period says that.
    func billingIssues(of latest: Latest) -> [Told] {
        guard latest.period.web != nil else {
            // One whose grace ended before this period does was about the period before, whose charge it was that went through.
            return renewals(about: latest).filter { stated in
                stated.fact.statesBillingIssue
                    && stated.fact.graceEnd.map { latest.period.expiry <= $0 } ?? true
            }.map(\.told)
        }
        var failed: [Told] = []
        for stated in statements(about: latest) where latest.period.opening <= stated.statedAt {
            switch stated.value.status {
            case .known(.pastDue), .known(.unpaid): failed.append(stated.told)
            case .known(.active), .known(.trialing): failed = []
            case .known(.incomplete), .known(.incompleteExpired), .known(.canceled), .known(.paused), .unknown: break
            }
        }
        return failed
    }

    /// The last statements in a row that the subscription does not renew; none where it does, or nobody said.
    func unsubscriptions(of latest: Latest) -> [Told] {
        guard !isRenewed(latest) else { return [] }
        let words =
            latest.period.web == nil
            ? intentions(about: latest).compactMap { stated in stated.fact.autoRenews.map { (stated.told, $0) } }
            : statements(about: latest).map { ($0.told, $0.value.isMeantToGoOn(with: latest.period, by: $0.statedAt)) }
        return words.reversed().prefix { _, goesOn in !goesOn }.map { told, _ in told }
    }

    /// Whether the App Store has charged for what follows a period: that it is not to renew is said of the period after.
    private func isRenewed(_ latest: Latest) -> Bool {
        guard latest.period.web == nil, let next = chain.periods.dropFirst(latest.index + 1).first else { return false }
        // What went back before it began followed nothing.
        return next.start == latest.period.end && !next.isPurchase(after: latest.period) && isOwned(next.fact)
            && next.revokedAt.map { next.start < $0 } ?? true
    }

    /// What Stripe said last, while a period runs, of what its item is charged for next; `nil` where it said nothing, or it is
    /// not to renew.
    ///
    /// What was said before led to this period: an item has its new price before the invoice is paid.
    func nextWebProductID(of latest: Latest, in catalog: Catalog) -> String? {
        guard let item = latest.period.web?.item,
            let last = statements(about: latest).last(where: { latest.period.opening <= $0.statedAt }),
            last.value.isMeantToGoOn(with: latest.period, by: last.statedAt)
        else { return nil }
        return last.value.items.first { $0.item == item }.flatMap { catalog.productID(of: $0.product) }
    }

    /// Whether a subscription on the web still waits for its first payment by the last word of it, which says nothing of
    /// whether it is meant to renew.
    func awaitsFirstPayment(_ latest: Latest) -> Bool {
        guard latest.period.web != nil, let last = statements(about: latest).last?.value else { return false }
        return last.status == .known(.incomplete) && last.endedAt == nil && !last.cancelsAtPeriodEnd
            && last.cancelAt == nil
    }

    /// What the App Store said, by the instant, of whether a period renews, and as what: the last word of it counts.
    ///
    /// A renewal is charged up to a day before its period begins, and may be cancelled as soon as that. What was said before, or
    /// in another period than the one before, as in the sandbox's minutes, was of another charge, and it went through.
    func intentions(about latest: Latest) -> [StatedRenewal] {
        let bought = latest.period.fact.purchaseDate
        let earlier = latest.index > 0 ? chain.periods[latest.index - 1] : nil
        guard let earlier, !latest.period.isPurchase(after: earlier) else { return renewals(from: bought, to: latest) }
        let dayBefore = latest.period.start.adding(milliseconds: -Timestamp.millisecondsPerDay)
        return renewals(from: min(bought, max(dayBefore, earlier.start)), to: latest)
    }

    /// What the App Store said, by the instant, of the charges for a period from when it was bought on.
    private func renewals(about latest: Latest) -> [StatedRenewal] {
        renewals(from: latest.period.fact.purchaseDate, to: latest)
    }

    private func renewals(from bought: Timestamp, to latest: Latest) -> [StatedRenewal] {
        let next = chain.periods.dropFirst(latest.index + 1).first?.start ?? .endless
        return state.renewals.filter { stated in
            guard let signed = stated.fact.signedDate else { return false }
            return bought <= signed && signed < next && signed <= instant
        }
    }

    /// What Stripe said of the subscription by the instant, or by when another period took over, in words that are known.
    private func statements(about latest: Latest) -> [WebStated<WebSubscription>] {
        let next = chain.periods.dropFirst(latest.index + 1).first?.opening ?? .endless
        return (state.web?.subscriptions ?? []).filter { stated in
            stated.statedAt <= instant && stated.statedAt < next
                && (stated.value.status.isKnown || stated.value.endedAt != nil)
        }
    }
}

extension RenewalFact {
    fileprivate var statesBillingIssue: Bool { graceEnd != nil || isInBillingRetry || isGraceWithoutEnd }
}

extension WebSubscription {
    /// Whether nobody wished to end it with a period, the item of that included: what is due and not collected any more is a
    /// billing issue, and an end that is set for after more periods is the end of a commitment.
    fileprivate func isMeantToGoOn(with period: Period, by statedAt: Timestamp) -> Bool {
        switch charging(of: period.web)?.renewal {
        case .charged, .paused: true
        case .awaitsPayment: status == .known(.unpaid)
        case .cancelled: isCharging(after: period, by: statedAt)
        case .awaitsCard, nil: false
        }
    }

    /// Whether the period that follows a paid one has begun and is being charged for, though it is to be the last.
    private func isCharging(after period: Period, by statedAt: Timestamp) -> Bool {
        switch status {
        case .known(.active), .known(.trialing), .known(.pastDue): break
        case .known(.incomplete), .known(.incompleteExpired), .known(.canceled), .known(.unpaid), .known(.paused),
            .unknown:
            return false
        }
        // Stripe's instants are whole seconds.
        let second: Int64 = 1000
        guard period.expiry <= statedAt.adding(milliseconds: second), endedAt == nil, collectionPause == nil,
            goesOn(with: period.web)
        else { return false }
        // Of one that something else took the place of that tells.
        let meant = items.filter { $0.item == period.web?.item }
        let paidEnd = period.expiry.adding(milliseconds: second)
        return (meant.isEmpty ? items : meant).contains { $0.periodEnd.map { paidEnd < $0 } ?? false }
    }
}

extension StatedRenewal {
    fileprivate var told: Told { Told(position: position, statedAt: fact.signedDate ?? .earliest) }
}

extension WebStated {
    fileprivate var told: Told { Told(position: position, statedAt: statedAt) }
}
