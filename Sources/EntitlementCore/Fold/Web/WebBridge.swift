// Between the end of what was paid for and the next payment Stripe's own word about the subscription speaks: a renewal is
// charged about an hour after the period has ended, and ending access meanwhile would lock every subscriber out.

/// What a statement about a subscription says of an item after its paid time.
private enum BridgeWord {
    /// It goes on, and the next payment is under way; until then the item's own period runs.
    case goesOn(until: Timestamp)
    /// It goes on, by a statement that knows no later period yet.
    case goesOnWithoutPeriod
    case pastDue
    case unpaid
    case over(ReasonCode)
}

extension WebOriginal {
    /// How long a renewal may be under way, in milliseconds.
    static let pendingLimit: Int64 = 72 * 3_600_000
    /// How long a renewal is taken to be under way while nothing is heard of it, in milliseconds.
    static let unheardLimit: Int64 = 3_600_000
    /// How long after the paid end Stripe may still collect, in milliseconds.
    static let collectionLimit: Int64 = 60 * Timestamp.millisecondsPerDay

    /// Reads a chain of paid periods together with what was said of the subscription: what holds, and why, from the first
    /// period's start without gaps.
    func segments(of chain: PeriodChain, policy: AccessPolicy) -> [Segment] {
        var builder = SegmentBuilder(of: chain)
        for (index, period) in chain.periods.enumerated() {
            let isLast = index + 1 == chain.periods.count
            let next = isLast ? Timestamp.endless : chain.periods[index + 1].opening
            builder.beginPeriod(index, limit: next)
            let reason: ReasonCode = period.expiry == .endless ? .oneTimePurchase : .paidPeriod
            builder.append(.active, reason, until: period.end, from: period.opening, positions: period.positions)
            switch period.ending {
            case .revoked:
                break
            case .cancelled:
                append(.expired, .cancelled, after: period, to: &builder)
            case .superseded, .upgradedElsewhere:
                append(.expired, .expired, after: period, to: &builder)
            case .ranOut:
                if period.web?.isBridged == true {
                    appendBridge(after: period, policy: policy, to: &builder)
                } else {
                    builder.appendLeeway(after: period, until: period.revokedAt ?? .endless, policy)
                    append(.expired, .expired, after: period, to: &builder)
                }
            }
            builder.append(.revoked, period.revocationReason, until: .endless, positions: period.positions)
        }
        return builder.segments
    }

    /// Appends what holds after a period, until a later refund or dispute, which outranks it.
    private func append(
        _ state: EntitlementState, _ reason: ReasonCode, after period: Period, positions: [Int64]? = nil,
        to builder: inout SegmentBuilder
    ) {
        builder.append(state, reason, until: period.revokedAt ?? .endless, positions: positions ?? period.positions)
    }

    private func appendBridge(after period: Period, policy: AccessPolicy, to builder: inout SegmentBuilder) {
        let paidEnd = period.end
        let endedAt = ending?.value.endedAt ?? .endless
        let yieldsAt = period.web?.yieldsAt ?? .endless
        let bound = min(
            paidEnd.adding(milliseconds: Self.collectionLimit), period.revokedAt ?? .endless, endedAt, yieldsAt)
        let words = subscriptions.compactMap { stated in
            word(of: stated.value, after: period).map { (stated: stated, word: $0) }
        }
        let first = words.partitioningIndex { paidEnd <= $0.stated.statedAt }
        var positions = period.positions
        if first < words.endIndex {
            for index in first..<words.endIndex {
                let (stated, word) = words[index]
                let until = index + 1 < words.endIndex ? max(paidEnd, words[index + 1].stated.statedAt) : .endless
                positions = period.positions.union([words[first].stated.position, stated.position])
                append(word, after: period, until: min(bound, until), positions: positions, policy, to: &builder)
            }
        } else if let before = words.last, before.word.isMeantToGoOn(before.stated.value, with: period.web) {
            positions = period.positions.union([before.stated.position])
            let until = paidEnd.adding(milliseconds: Self.unheardLimit)
            builder.append(.active, .renewalPending, until: min(bound, until), positions: positions)
        } else {
            if let before = words.last { positions = period.positions.union([before.stated.position]) }
            builder.appendLeeway(after: period, until: period.revokedAt ?? .endless, positions: positions, policy)
        }
        if let ending, endedAt != .endless { positions = positions.union([ending.position]) }
        let reason = builder.cursor == yieldsAt ? ReasonCode.expired : builder.reasonOfEnd
        append(.expired, reason, after: period, positions: positions, to: &builder)
    }

    /// What one statement says from where the one before stopped to speak.
    private func append(
        _ word: BridgeWord, after period: Period, until bound: Timestamp, positions: [Int64], _ policy: AccessPolicy,
        to builder: inout SegmentBuilder
    ) {
        let paidEnd = period.end
        switch word {
        case .goesOn(let periodEnd):
            let until = min(paidEnd.adding(milliseconds: Self.pendingLimit), periodEnd)
            builder.append(.active, .renewalPending, until: min(until, bound), positions: positions)
            builder.append(.inBillingRetry, .billingRetry, until: bound, positions: positions)
        case .goesOnWithoutPeriod:
            let until = paidEnd.adding(milliseconds: Self.unheardLimit)
            builder.append(.active, .renewalPending, until: min(until, bound), positions: positions)
            builder.append(.expired, .expired, until: bound, positions: positions)
        case .pastDue:
            let until = graceEnd(after: period, policy)
            builder.append(.inGracePeriod, .pastDue, until: min(until, bound), positions: positions)
            builder.append(.inBillingRetry, .billingRetry, until: bound, positions: positions)
        case .unpaid:
            builder.append(.inBillingRetry, .billingRetry, until: bound, positions: positions)
        case .over(let reason):
            if reason == .expired, builder.cursor <= paidEnd {
                builder.appendLeeway(after: period, until: period.revokedAt ?? .endless, positions: positions, policy)
            }
            builder.append(.expired, reason, until: bound, positions: positions)
        }
    }

    /// When the policy's grace after a paid period ends.
    func graceEnd(after period: Period, _ policy: AccessPolicy) -> Timestamp {
        let grace = policy.webGraceDays.multipliedReportingOverflow(by: Timestamp.millisecondsPerDay)
        return period.end.adding(milliseconds: grace.overflow ? .max : grace.partialValue)
    }

    /// What a statement says of the item of a period, or of those that took its place; `nil` for a status that this version
    /// does not know, which says nothing.
    private func word(of fact: WebSubscription, after period: Period) -> BridgeWord? {
        let (item, heirs, paidEnd) = (period.web?.item, period.web?.heirs ?? [], period.end)
        let status: WebSubscriptionStatus
        switch fact.status {
        case .known(let known): status = known
        case .unknown: return fact.endedAt == nil ? nil : .over(.expired)
        }
        if fact.endedAt != nil { return .over(.expired) }
        if fact.collectionPause != nil { return .over(.paused) }
        switch status {
        case .paused: return .over(.paused)
        case .canceled, .incomplete, .incompleteExpired: return .over(.expired)
        case .active, .trialing, .pastDue, .unpaid: break
        }
        guard fact.goesOn(with: period.web) else { return .over(.expired) }
        switch status {
        case .pastDue: return .pastDue
        case .unpaid: return .unpaid
        case .active, .trialing, .paused, .canceled, .incomplete, .incompleteExpired:
            let periodEnd = fact.periodEnd(of: item, heirs) ?? .earliest
            if periodEnd > paidEnd { return .goesOn(until: periodEnd) }
            // It knows no later period, and perhaps there is to be none.
            return fact.isToBeCharged(for: period.web) ? .goesOnWithoutPeriod : .over(.expired)
        }
    }
}

extension BridgeWord {
    fileprivate func isMeantToGoOn(_ fact: WebSubscription, with period: WebPeriod?) -> Bool {
        switch self {
        case .goesOn, .goesOnWithoutPeriod, .pastDue: fact.isToBeCharged(for: period)
        case .unpaid, .over: false
        }
    }
}

extension WebSubscription {
    /// Whether it renews by itself, as far as this statement says: what answers give as `will_renew`.
    package var willRenew: Bool {
        let isRunning =
            switch status {
            case .known(.active), .known(.trialing), .known(.pastDue): true
            case .known(.incomplete), .known(.incompleteExpired), .known(.canceled), .known(.unpaid), .known(.paused),
                .unknown:
                false
            }
        return isRunning && !cancelsAtPeriodEnd && cancelAt == nil && collectionPause == nil && endedAt == nil
    }

    /// Whether another period of an item follows; `willRenew` is another question: an end may be set for after that.
    fileprivate func isToBeCharged(for period: WebPeriod?) -> Bool { charging(of: period)?.renewal == .charged }

    /// Whether an item is part of it; a line without an item is of all of it.
    func holds(_ item: String?) -> Bool {
        guard let item else { return true }
        return hasMoreItems || items.isEmpty || items.contains { $0.item == item }
    }

    /// Whether the item of a period is part of it, or what took the item's place.
    package func goesOn(with period: WebPeriod?) -> Bool {
        holds(period?.item) || items.contains { period?.heirs.contains($0.item) ?? false }
    }

    /// When the item's own period ends, or that of what took its place; where neither is listed, when the latest does.
    fileprivate func periodEnd(of item: String?, _ heirs: Set<String>) -> Timestamp? {
        if let own = items.first(where: { $0.item == item }) { return own.periodEnd }
        let ofHeirs = items.filter { heirs.contains($0.item) }
        return ofHeirs.isEmpty ? latestPeriodEnd : ofHeirs.compactMap(\.periodEnd).max()
    }
}
