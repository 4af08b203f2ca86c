/// Why an entitlement reads as it does: the rule that decided.
package enum ReasonCode: String, Hashable, Sendable, Codable, CaseIterable {
    /// Inside a period that was paid for.
    case paidPeriod = "paid_period"
    /// Inside a one-time purchase that does not run out.
    case oneTimePurchase = "one_time_purchase"
    /// After a period that ran out, within the policy's leeway.
    case leeway
    /// Given by hand.
    case grant
    /// The store retries the charge, and keeps access open until the grace period ends.
    case gracePeriod = "grace_period"
    /// The store retries the charge without a grace period, or after it.
    case billingRetry = "billing_retry"
    /// The period ran out and nothing followed.
    case expired
    /// The store gave up collecting.
    case billingGivenUp = "billing_given_up"
    /// It was seen as upgraded; what it was upgraded to has not been seen.
    case upgradedElsewhere = "upgraded_elsewhere"
    /// A later purchase took its place, and that one does not give this entitlement.
    case replaced
    /// The purchase was refunded.
    case refunded
    /// Family sharing ended.
    case familyRevoked = "family_revoked"
    /// The grant was taken back.
    case grantRevoked = "grant_revoked"
    /// The original transaction was transferred, or its next period belongs to another customer.
    case ownedByAnother = "owned_by_another"
    /// A subscription bought on the web goes on, and what is due for it was not paid yet.
    case renewalPending = "renewal_pending"
    /// The charge for a subscription bought on the web failed, and is tried again.
    case pastDue = "past_due"
    /// The payment is disputed, or the dispute was lost.
    case dispute
    /// The subscription was ended before the time that was paid for.
    case cancelled
    /// The subscription is paused.
    case paused
}

/// A stretch of one state inside the life of one original transaction, with the events it rests on.
package struct Segment: Hashable, Sendable {
    package var start: Timestamp
    /// `endless` for what does not end.
    package var end: Timestamp
    package var state: EntitlementState
    package var reason: ReasonCode
    /// The events this reading rests on, ascending.
    package var positions: [Int64]
    /// Which of the chain's periods it belongs to.
    package var periodIndex: Int
}

/// A statement's word about the time after an expiry, from the instant it takes over.
private struct BillingWord {
    let from: Timestamp
    let stated: StatedRenewal
}

extension OriginalState {
    /// Reads a chain of periods together with the renewal history: what holds, and why, from the first period's
    /// start without gaps.
    package func segments(of chain: PeriodChain, policy: AccessPolicy) -> [Segment] {
        if let web, chain.periods.first?.web != nil { return web.segments(of: chain, policy: policy) }
        var builder = SegmentBuilder(of: chain)
        for (index, period) in chain.periods.enumerated() {
            let isLast = index + 1 == chain.periods.count
            let next = isLast ? Timestamp.endless : chain.periods[index + 1].start
            builder.beginPeriod(index, limit: next)
            let reason: ReasonCode = period.expiry == .endless ? .oneTimePurchase : .paidPeriod
            builder.append(.active, reason, until: period.end, from: period.start, positions: period.positions)
            if period.ending == .revoked {
                builder.append(.revoked, period.revocationReason, until: next, positions: period.positions)
            } else {
                let statements = period.isSubscription ? statements(about: index, of: chain) : []
                builder.appendTail(of: period, statements: statements, policy: policy)
            }
        }
        return builder.segments
    }

    /// The renewal statements about one period: those for which it is the latest that begins at or before their
    /// signed date.
    ///
    /// Oldest first.
    private func statements(about index: Int, of chain: PeriodChain) -> ArraySlice<StatedRenewal> {
        let start = chain.periods[index].start
        let next = index + 1 < chain.periods.count ? chain.periods[index + 1].start : .endless
        // Looked for by halves, because a long life has as many statements as periods.
        let first = renewals.partitioningIndex { start <= ($0.fact.signedDate ?? .earliest) }
        let signed = renewals[first...].prefix { ($0.fact.signedDate ?? .earliest) < next }
        return signed.contains { $0.fact.signedDate == nil } ? signed.filter { $0.fact.signedDate != nil }[...] : signed
    }
}

extension Period {
    var revocationReason: ReasonCode {
        switch web?.withdrawal {
        case .dispute: return .dispute
        case .refund, .partialRefund: return .refunded
        case nil: break
        }
        if fact.revocation?.kind == .known(.familyRevoke) { return .familyRevoked }
        // Before revocationType existed a family revocation was told from a refund by the ownership alone.
        if fact.revocation?.kind == nil, fact.ownership == .known(.familyShared) { return .familyRevoked }
        return .refunded
    }
}

/// Appends the segments of a chain one after the other, each clipped to the start of the period after its own.
struct SegmentBuilder {
    private var periodIndex = 0
    private var limit = Timestamp.endless
    private(set) var segments: [Segment] = []
    /// Where the next begins.
    private(set) var cursor = Timestamp.earliest

    init(of chain: PeriodChain) { segments.reserveCapacity(chain.periods.count + 1) }

    /// What is appended from here on belongs to this period.
    ///
    /// - Parameter limit: where the next period begins.
    mutating func beginPeriod(_ index: Int, limit: Timestamp) {
        (periodIndex, self.limit, cursor) = (index, limit, .earliest)
    }

    /// The reason to give after the segment that was appended last, where nothing else was said.
    ///
    /// Only what was in grace or billing retry can be given up: a failure that was solved by the expiry says nothing of it.
    var reasonOfEnd: ReasonCode {
        guard let last else { return .expired }
        return switch last.state {
        case .inGracePeriod, .inBillingRetry: .billingGivenUp
        case .expired: last.reason == .upgradedElsewhere ? .expired : last.reason
        case .active, .revoked: .expired
        }
    }

    /// The segment of this period that was appended last.
    var last: Segment? { segments.last.flatMap { $0.periodIndex == periodIndex ? $0 : nil } }

    mutating func append(
        _ state: EntitlementState, _ reason: ReasonCode, until end: Timestamp, from start: Timestamp? = nil,
        positions: [Int64]
    ) {
        if let start { cursor = start }
        let end = min(end, limit)
        guard cursor < end else { return }
        segments.append(
            Segment(
                start: cursor, end: end, state: state, reason: reason, positions: positions, periodIndex: periodIndex))
        cursor = end
    }

    /// What follows a period that was not taken back while it ran: grace, billing retry, leeway, expiry; and a later
    /// revocation.
    ///
    /// After one that was superseded nothing does, since the next begins where it ends.
    fileprivate mutating func appendTail(of period: Period, statements: ArraySlice<StatedRenewal>, policy: AccessPolicy)
    {
        let revokedAt = period.revokedAt ?? .endless
        if period.ending == .upgradedElsewhere {
            let until = min(period.expiry, revokedAt)
            append(.expired, .upgradedElsewhere, until: until, positions: period.positions)
        }
        if let first = statements.firstIndex(where: { $0.fact.graceEnd != nil || $0.fact.readsBillingRetry }) {
            appendBilling(of: period, words: statements[first...], until: revokedAt)
        } else if period.ending == .ranOut {
            appendLeeway(after: period, until: revokedAt, policy)
        }
        append(.expired, .expired, until: revokedAt, positions: period.positions)
        append(.revoked, period.revocationReason, until: .endless, positions: period.positions)
    }

    /// What the policy leaves open after a period that simply ran out.
    mutating func appendLeeway(
        after period: Period, until bound: Timestamp, positions: [Int64]? = nil, _ policy: AccessPolicy
    ) {
        guard policy.leewaySeconds > 0, period.end != .endless else { return }
        let leeway = policy.leewaySeconds.multipliedReportingOverflow(by: 1000)
        let end = period.end.adding(milliseconds: leeway.overflow ? .max : leeway.partialValue)
        append(.active, .leeway, until: min(end, bound), positions: positions ?? period.positions)
    }

    /// The first statement of a grace end or billing retry speaks from the expiry on, each later one from its signed
    /// date; none beyond sixty days.
    private mutating func appendBilling(
        of period: Period, words statements: ArraySlice<StatedRenewal>, until revokedAt: Timestamp
    ) {
        let expiry = period.expiry
        let sixtyDays = expiry.adding(milliseconds: 60 * Timestamp.millisecondsPerDay)
        let bound = min(sixtyDays, revokedAt)
        guard let first = statements.first else { return }
        let words = statements.enumerated().map { index, stated in
            BillingWord(from: index == 0 ? expiry : max(expiry, stated.fact.signedDate ?? expiry), stated: stated)
        }
        for (index, word) in words.enumerated() {
            let until = min(bound, index + 1 < words.count ? words[index + 1].from : bound)
            let said = word.stated.fact
            let positions = period.positions.union([first.position, word.stated.position])
            if let graceEnd = said.graceEnd, graceEnd > expiry {
                append(.inGracePeriod, .gracePeriod, until: min(graceEnd, until), positions: positions)
            }
            if said.readsBillingRetry || said.graceEnd != nil {
                append(.inBillingRetry, .billingRetry, until: until, positions: positions)
            } else {
                append(.expired, reasonOfEnd, until: until, positions: positions)
            }
        }
        let spoken = period.positions.union([first.position])
        append(.expired, reasonOfEnd, until: revokedAt, positions: spoken)
    }
}
