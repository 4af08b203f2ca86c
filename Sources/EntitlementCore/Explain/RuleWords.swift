/// Says in one sentence, for people, which rule decided.
///
/// Dates are in UTC, floored to seconds. What it says must follow from the decision's own events, so it names what was
/// signed (an expiry, a grace end) and not how a later statement cut it short.
struct RuleWords {
    let entitlementID: String
    let instant: Timestamp
    let facts: CustomerFacts
    /// Those that the facts were folded from; empty where nobody asks whose anything was.
    var told: [HistoryEvent] = []
    /// Who was asked about, links not followed; `nil` where nobody asks whose anything was.
    var asked: IdentityRef?

    func sentence(givesAccess: Bool, _ clause: String) -> String {
        "On \(instant.inWords), \(entitlementID) is \(givesAccess ? "open" : "closed"), because \(clause)."
    }

    /// - Parameter first: the first word of what begins first.
    func notBegun(_ first: ShownReading) -> String {
        let start = first.reading.start
        guard let product = first.reading.productID else {
            return "the grant that gives it begins only on \(start.inWords)"
        }
        // What was another's before.
        if let period = first.period(at: start), period.opening < start {
            return "\(product) is this customer's only from \(start.inWords) on"
        }
        return "what \(product) gives begins only on \(start.inWords)"
    }

    /// Why a source reads as it does.
    func clause(for shown: ShownReading) -> String {
        let reading = shown.reading
        if let grant = shown.grant { return clause(reading, of: grant) }
        let product = reading.productID ?? ""
        guard let period = shown.period(at: instant) else { return "\(product) is \(reading.state.inWords)" }
        if period.web != nil, let clause = webClause(product, period, reading) { return clause }
        switch reading.reason {
        case .paidPeriod:
            return paid(product, period, shown)
        case .oneTimePurchase:
            let bought = period.web == nil ? "bought\(shared(period))" : "paid for"
            return "\(product) was \(bought) on \(period.start.inWords) and does not run out" + sinceWhen(period, shown)
                + (refundOfPart(of: period) ?? reversal(of: period))
        case .leeway:
            return "\(product) ran out on \(period.end.inWords), and the catalog's policy leaves it open until "
                + reading.end.inWords
        case .gracePeriod:
            let end = graceEnd(of: reading, period)
            let until = end.map { " until \($0.inWords)" } ?? ""
            let policy =
                facts.catalog.policy.graceGivesAccess ? "" : ", in which the catalog's policy gives no access"
            return "the charge for \(product) that was due on \(period.expiry.inWords) failed, and the store grants "
                + "a grace period\(until)\(policy)"
        case .billingRetry:
            let policy =
                facts.catalog.policy.billingRetryGivesAccess ? ", during which the catalog's policy gives access" : ""
            return "the charge for \(product) that was due on \(period.expiry.inWords) failed, and the store is still "
                + "trying to collect it\(graceOver(shown))\(policy)"
        case .billingGivenUp:
            return "the charge for \(product) that was due on \(period.expiry.inWords) failed, and the store no longer "
                + "tries to collect it" + (lapse(of: shown).map { ", since \($0.clause)" } ?? "")
        case .expired:
            let end = period.ending == .ranOut ? period.end : period.expiry
            let ranOut = "\(product) ran out on \(end.inWords)"
            guard period.isSubscription else { return ranOut }
            if let lapse = lapse(of: shown) { return "\(ranOut): \(lapse.clause)" }
            guard let next = shown.period(after: instant) else { return "\(ranOut) and no renewal of it is known" }
            return "\(ranOut) and \(renewal(of: product, by: next, "was renewed", "went on"))"
        case .upgradedElsewhere:
            return "\(product) was upgraded to another product on \(period.end.inWords), and nothing has been heard of "
                + "that one yet"
        case .replaced:
            return replaced(product, shown)
        case .refunded:
            let date = (period.revokedAt ?? reading.start).inWords
            let refund =
                period.isRefundedInPart
                ? "\(part(refundedOf: period)) of what was paid for \(product) was refunded on \(date), and by the catalog's "
                    + "policy that ends access" : "\(product) was refunded on \(date)"
            return refund + contradiction(of: period)
        case .familyRevoked:
            return "\(product) has not been shared by the family since \((period.revokedAt ?? reading.start).inWords)"
                + contradiction(of: period)
        case .ownedByAnother:
            if facts.isUnclaimed(shown) {
                return "\(product) has gone on since \(reading.start.inWords) with a purchase that does not say whose "
                    + "it is, and nobody has claimed it"
            }
            let why = tokenMove(of: shown)?.cause ?? undoneLink(of: shown)?.cause
            let cause = why.map { ": \($0)" } ?? ""
            return "\(product) has been another customer's since \(reading.start.inWords)\(cause)"
        case .grant, .grantRevoked, .renewalPending, .pastDue, .dispute, .cancelled, .paused:
            return "\(product) is \(reading.state.inWords)"
        }
    }

    /// The events that the words about a reading may rest on beside those that the reading itself names.
    func positionsBeside(_ shown: ShownReading) -> [Int64] {
        [lapse(of: shown)?.position].compactMap(\.self)
            + (tokenMove(of: shown)?.positions ?? undoneLink(of: shown)?.positions ?? [])
            + (shown.reading.reason == .expired ? shown.period(after: instant)?.positions ?? [] : [])
            + ([.paidPeriod, .oneTimePurchase].contains(shown.reading.reason) ? refundPositions(beside: shown) : [])
            + (shown.reading.state == .revoked ? contradictionPositions(shown) : [])
    }

    /// That a device contradicts a revocation, which only the store can settle.
    private func contradiction(of period: Period) -> String {
        guard period.needsStoreCheck else { return "" }
        return "; a newer statement of the store's, which a device brought, knows nothing of that, so the store is to "
            + "be asked"
    }

    private func contradictionPositions(_ shown: ShownReading) -> [Int64] {
        guard let period = shown.period(at: instant), period.needsStoreCheck else { return [] }
        let stated = facts.originals[period.fact.originalTransactionID]?.transactions ?? []
        return stated.filter { !$0.sources.includesStore && period.transactionIDs.contains($0.fact.transactionID) }
            .map(\.position)
    }

    /// That a known period follows another, and when.
    func renewal(of product: String, by next: Period, _ renewed: String, _ changed: String) -> String {
        let other = next.fact.productID
        return (other == product ? renewed : "\(changed) as \(other)") + " on \(next.opening.inWords)"
    }

    private func refundPositions(beside shown: ShownReading) -> [Int64] {
        (shown.period(at: instant).flatMap { partialRefund(of: $0) }?.positions ?? [])
            + (shown.period(at: instant).flatMap { reversedRefund(of: $0) }?.positions ?? [])
            + (earlierRefund(before: shown)?.positions ?? [])
    }

    private func graceOver(_ shown: ShownReading) -> String {
        guard shown.previous?.reason == .gracePeriod else { return "" }
        return ", and its grace period ended on \(shown.reading.start.inWords)"
    }

    /// The refund of a part by an instant, which ends no access; of the web with the events that state it.
    private func partialRefund(of period: Period) -> (at: Timestamp, positions: [Int64])? {
        guard period.revokedAt == nil else { return nil }
        let refund: (at: Timestamp, positions: [Int64])?
        if let invoice = period.web?.invoiceID {
            var policy = facts.catalog.policy
            policy.proratedRefund = .endsAccess
            refund = web(period)?.withdrawals(policy).first(ofInvoice: invoice).map { ($0.at, $0.positions) }
        } else {
            refund = period.fact.revocation.map { ($0.date, []) }
        }
        return refund.flatMap { $0.at <= instant ? $0 : nil }
    }

    /// The refund of a period by an instant that the store took back, with the events in which it said so and before that the
    /// refund; `nil` where there was none.
    ///
    /// The store took it back in the first of its own statements behind the refund, though what gives access may be another: a
    /// device may have brought one before, and any later one says it again.
    private func reversedRefund(of period: Period) -> (at: Timestamp, positions: [Int64])? {
        guard period.web == nil, period.fact.revocation == nil, period.fact.ownership != .known(.familyShared) else {
            return nil
        }
        let statements = told.filter { StatementSources($0.statementSource).includesStore }.flatMap { event in
            event.fact.transactions.filter { fact in
                period.transactionIDs.contains(fact.transactionID)
                    && fact.originalTransactionID == period.fact.originalTransactionID
            }.map { (fact: $0, position: event.position) }
        }
        let refunds = statements.filter { ($0.fact.revocation?.date).map { $0 <= instant } ?? false }
        guard let refund = refunds.max(by: { $0.fact.precedes($1.fact) }), let date = refund.fact.revocation?.date,
            let reversal = statements.filter({ $0.fact.revocation == nil && refund.fact.precedes($0.fact) })
                .min(by: { $0.fact.precedes($1.fact) })
        else { return nil }
        return (date, [refund.position, reversal.position])
    }

    private func reversal(of period: Period) -> String {
        guard let refund = reversedRefund(of: period) else { return "" }
        return "; the store has taken back its refund of \(refund.at.inWords)"
    }

    /// How much of a period's price went back, in the middle of a sentence.
    private func part(refundedOf period: Period) -> String {
        period.web == nil ? period.fact.revocation?.partInWords ?? "a part" : "a part"
    }

    /// The period before the one that is shown, or the one before that, where it was refunded: people ask why that closed nothing.
    private func earlierRefund(before shown: ShownReading) -> Period? {
        guard case .chain(let chain) = shown.source.giver,
            let index = chain.periods.lastIndex(where: { $0.opening <= instant })
        else { return nil }
        return chain.periods[..<index].suffix(2).last {
            $0.revokedAt.map { $0 <= instant } ?? false && $0.revocationReason == .refunded
        }
    }

    /// When access was lost and by what, and beside it what is shown.
    func clause(_ ending: ShownReading, then clause: String, _ shown: ShownReading) -> String {
        let lostAt = ending.reading.start
        let name = ending.grant.map { "the grant of \($0.from.inWords)" } ?? ending.reading.productID ?? ""
        let order =
            shown.reading.start == lostAt ? "" : shown.reading.start < lostAt ? "before that, " : "after that, "
        return "\(name) gave access until \(lostAt.inWords), when \(loss(by: ending)); \(order)\(clause)"
    }

    func loss(by ending: ShownReading) -> String {
        switch ending.reading.reason {
        case .expired:
            if ending.grant != nil { return "it ended" }
            if ending.previous?.reason == .leeway { return "its leeway was over" }
            if ending.previous?.reason == .renewalPending { return "no renewal of it had been heard of" }
            return "it ran out" + (lapse(of: ending).map { ", for \($0.clause)" } ?? "")
        case .billingRetry, .gracePeriod, .pastDue, .billingGivenUp:
            let isSaid = ending.period(at: ending.reading.start).map { isSaidUnpaid(ending.reading, $0) } ?? true
            return isSaid ? "its renewal was not paid" : "no renewal of it had been heard of"
        case .cancelled: return "its subscription was ended"
        case .paused: return "its subscription was paused"
        case .refunded: return "it was refunded"
        case .familyRevoked: return "it was no longer shared by the family"
        case .dispute:
            return facts.catalog.policy.webDispute == .keepsAccess
                ? "the dispute over its payment was lost" : "its payment was disputed"
        case .upgradedElsewhere: return "it was upgraded to another product"
        case .replaced: return "another product took its place"
        case .ownedByAnother:
            return facts.isUnclaimed(ending)
                ? "it went on with a purchase that nobody has claimed" : "it became another customer's"
        case .grantRevoked: return "it was taken back"
        case .paidPeriod, .oneTimePurchase, .leeway, .grant, .renewalPending: return "it ended"
        }
    }

    private func clause(_ reading: Reading, of grant: GrantState) -> String {
        switch reading.state {
        case .revoked:
            return "the grant of \(grant.from.inWords) was taken back on \(reading.start.inWords)"
        case .expired:
            return "the grant of \(grant.from.inWords) ended on \(reading.start.inWords)"
        case .active, .inGracePeriod, .inBillingRetry:
            let until = grant.until.map { "until \($0.inWords)" } ?? "without an end"
            return "it was granted on \(grant.from.inWords), \(until)"
        }
    }

    private func paid(_ product: String, _ period: Period, _ shown: ShownReading) -> String {
        let until = "from \(period.start.inWords) until \(period.expiry.inWords)"
        let since = sinceWhen(period, shown) + refunds(period, shown)
        guard period.isSubscription else {
            return "\(product) was bought\(shared(period)) and runs \(until)\(since)"
        }
        if period.isFreeTrial {
            return "the free trial of \(product)\(shared(period)) runs \(until)\(since)"
        }
        if period.web?.isFree == true { return "\(product) runs \(until)\(since), and nothing was charged for it" }
        return "\(product) is paid\(shared(period)) \(until)\(since)"
    }

    /// Refunds that end nothing of a period that is paid.
    private func refunds(_ period: Period, _ shown: ShownReading) -> String {
        if let part = refundOfPart(of: period) { return part }
        let reversal = reversal(of: period)
        guard reversal.isEmpty else { return reversal }
        guard let earlier = earlierRefund(before: shown), let refundedAt = earlier.revokedAt else { return "" }
        return "; the refund of \(refundedAt.inWords) is of its period from \(earlier.start.inWords) until "
            + "\(earlier.expiry.inWords) alone"
    }

    private func refundOfPart(of period: Period) -> String? {
        partialRefund(of: period).map { refund in
            ", and \(part(refundedOf: period)) of that was refunded on \(refund.at.inWords), which by the catalog's "
                + "policy ends no access"
        }
    }

    private func shared(_ period: Period) -> String {
        period.fact.ownership == .known(.familyShared) ? " through Family Sharing" : ""
    }

    /// What tells that a reading began later than what was paid for: a transfer, or a payment that had failed at first.
    ///
    /// Nothing is said of the hour after which Stripe charges each renewal.
    private func sinceWhen(_ period: Period, _ shown: ShownReading) -> String {
        let first = firstHeld(of: period, shown)
        // A period that was transferred begins anew for whom it was transferred to.
        if first.reading.start > period.opening {
            return ", and has been this customer's since \(first.reading.start.inWords)"
        }
        if let paidAt = recovery(of: period, first) { return ", and was paid on \(paidAt.inWords)" }
        return ""
    }

    /// The first reading of a period from which on the customer held it without a break, up to the one that is shown.
    ///
    /// A transfer between two who are one customer by a link parts readings, and hands nothing on.
    private func firstHeld(of period: Period, _ shown: ShownReading) -> ShownReading {
        var first = shown
        while first.reading.start > period.opening, let before = first.previous, before.isHeld {
            first = ShownReading(source: shown.source, index: first.index - 1)
        }
        return first
    }

    private func replaced(_ product: String, _ shown: ShownReading) -> String {
        // Not the reading's own start: by a transfer it may have become the customer's when it was long replaced.
        let successor = shown.successor
        let date = (successor?.start ?? shown.reading.start).inWords
        guard let other = successor?.fact.productID, other != product else {
            return "\(product) was replaced on \(date) by a later purchase that does not give \(entitlementID)"
        }
        return "\(product) was replaced on \(date) by \(other), which does not give \(entitlementID)"
    }

    /// The grace end that speaks at the instant.
    func graceEnd(of reading: Reading, _ period: Period) -> Timestamp? {
        facts.originals[period.fact.originalTransactionID]?.renewals.last {
            reading.positions.contains($0.position) && ($0.fact.graceEnd ?? .earliest) > instant
        }?.fact.graceEnd
    }
}

extension Reading {
    /// Whether it is of something that was the customer's then, and had not become another product.
    fileprivate var isHeld: Bool { reason != .ownedByAnother && reason != .replaced }
}

extension Period {
    /// Only a part was refunded, and the policy ends access by that.
    package var isRefundedInPart: Bool {
        web?.withdrawal == .partialRefund || web == nil && fact.revocation?.kind == .known(.refundProrated)
    }

    var isFreeTrial: Bool { fact.offer?.discount == "FREE_TRIAL" }
}

extension EntitlementState {
    /// As a sentence has it after "is".
    var inWords: String {
        switch self {
        case .active: "active"
        case .inGracePeriod: "in its grace period"
        case .inBillingRetry: "in billing retry"
        case .revoked: "revoked"
        case .expired: "expired"
        }
    }
}

extension Timestamp {
    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ]

    /// As people write it: `20 November 2026, 19:00 UTC`; seconds where there are any.
    package var inWords: String {
        if self == .endless { return "no day" }
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let date = CivilDate(daysSinceEpoch: daysSinceEpoch)
        let second = millisecondOfDay / 1000
        var time = "\(two(second / 3600)):\(two(second / 60 % 60))"
        if second % 60 != 0 { time += ":\(two(second % 60))" }
        return "\(date.day) \(Self.months[Int(date.month) - 1]) \(date.year), \(time) UTC"
    }
}
