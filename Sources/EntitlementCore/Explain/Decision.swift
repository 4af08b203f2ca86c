/// The rule that decided about an entitlement, also where there is nothing to read.
package enum DecidingRule: Hashable, Sendable {
    /// The rule by which a period or grant reads as it does.
    case reading(ReasonCode)
    /// What gives it begins later.
    case notBegun
    /// Nothing the customer bought or was given gives it.
    case neverHeld
    /// No product of the catalog gives it, and nobody was granted it.
    case unknownEntitlement
    /// Nothing is known of the customer in this environment.
    case unknownCustomer

    package var code: String {
        switch self {
        case .reading(let reason): reason.rawValue
        case .notBegun: "not_begun"
        case .neverHeld: "never_held"
        case .unknownEntitlement: "unknown_entitlement"
        case .unknownCustomer: "unknown_customer"
        }
    }
}

/// A yes or a no about one entitlement at one instant, and the rule behind it.
package struct Decision: Hashable, Sendable {
    package let entitlementID: String
    package let givesAccess: Bool
    /// The rest is `nil` where nothing gives, or gave, the entitlement by then.
    package let state: EntitlementState?
    package let productID: String?
    package let source: EntitlementOrigin?
    package let originalTransactionID: String?
    package let rule: DecidingRule
    /// The rule applied, in one sentence for people; it names no identity.
    package let sentence: String
}

/// A decision, and what was shown.
struct Verdict {
    let decision: Decision
    /// `nil` where nothing gives, or gave, the entitlement by then.
    let shown: ShownReading?
    /// What gave access last, as it read from then on; `nil` where what is shown says that itself.
    var ending: ShownReading?
    /// The original transaction of a purchase that was not paid, where the sentence speaks of one.
    var begun: String?
    /// A purchase that became another's by its account token, where the sentence speaks of one.
    var moved: TokenMove?
    /// A link that was taken back, where the sentence speaks of one.
    var undone: UndoneLink?
    /// A purchase that gives nothing for want of a duration, where the sentence speaks of one.
    var idle: IdlePurchase?
}

/// What one source says at an instant.
struct ShownReading {
    let source: SourceTimeline
    let index: Int

    var reading: Reading { source.readings[index] }

    /// What the source said before; `nil` where this is its first word.
    var previous: Reading? { index > 0 ? source.readings[index - 1] : nil }

    /// What the source says next; `nil` where this is its last word.
    var next: Reading? { index + 1 < source.readings.count ? source.readings[index + 1] : nil }

    /// `nil` before the source begins.
    init(source: SourceTimeline, index: Int) {
        self.source = source
        self.index = index
    }

    init?(_ source: SourceTimeline, at instant: Timestamp) {
        guard let index = source.readings.lastIndex(where: { $0.start <= instant }) else { return nil }
        self.source = source
        self.index = index
    }

    /// The period of the instant; `nil` for a grant.
    func period(at instant: Timestamp) -> Period? {
        switch source.giver {
        case .chain(let chain): chain.periods.last { $0.opening <= instant }
        case .grant: nil
        }
    }

    /// What followed, by the reading's start, the last period of its product; `nil` for a grant.
    var successor: Period? {
        guard case .chain(let chain) = source.giver else { return nil }
        let begun = chain.periods.prefix { $0.opening <= reading.start }
        guard let last = begun.lastIndex(where: { $0.fact.productID == reading.productID }), last + 1 < begun.count
        else { return nil }
        return begun[last + 1]
    }

    /// The period that is known to come after the one of the instant; `nil` where none is, and for a grant.
    func period(after instant: Timestamp) -> Period? {
        switch source.giver {
        case .chain(let chain): chain.periods.first { instant < $0.opening }
        case .grant: nil
        }
    }

    var grant: GrantState? {
        switch source.giver {
        case .chain: nil
        case .grant(let grant): grant
        }
    }
}

extension CustomerFacts {
    /// Decides about one entitlement.
    ///
    /// - Parameters:
    ///   - sources: those of `sources()`.
    ///   - asked: who was asked about, links not followed.
    ///   - events: those that the facts were folded from.
    func verdict(
        on entitlementID: String, at instant: Timestamp, sources: [SourceTimeline], asked: IdentityRef?,
        told events: [HistoryEvent], knowsCustomer: Bool, environment: StoreEnvironment
    ) -> Verdict {
        let own = sources.filter { $0.entitlementID == entitlementID }
        var best: ShownReading?
        for candidate in own.compactMap({ ShownReading($0, at: instant) }) {
            if let best, !candidate.reading.isShown(before: best.reading, policy: catalog.policy) { continue }
            best = candidate
        }
        let words = RuleWords(
            entitlementID: entitlementID, instant: instant, facts: self, told: events, asked: asked)
        guard let best else {
            let rule: DecidingRule
            let clause: String
            var begun: String?
            var moved: TokenMove?
            var undone: UndoneLink?
            var idle: IdlePurchase?
            let first = own.filter { !$0.readings.isEmpty }.map { ShownReading(source: $0, index: 0) }
                .min { $0.reading.start < $1.reading.start }
            if let first {
                rule = .notBegun
                clause = words.notBegun(first)
            } else if !knowsCustomer {
                rule = .unknownCustomer
                clause = "nothing is known of this customer in \(environment.rawValue)"
            } else if catalog.products.contains(where: { $0.entitlements.contains(entitlementID) }) {
                rule = .neverHeld
                let unpaid = unpaidPurchases(giving: entitlementID, at: instant, told: events).first
                moved = unpaid == nil ? tokenMove(giving: entitlementID, at: instant, told: events) : nil
                if unpaid == nil, moved == nil {
                    undone = undoneLink(
                        giving: entitlementID, at: instant, by: LinkTrail(asked: asked, told: events))
                }
                idle = moved == nil && undone == nil ? idlePurchases(giving: entitlementID, at: instant).last : nil
                clause =
                    unpaid?.clause ?? moved?.clause ?? undone?.clause ?? idle?.clause
                    ?? "nothing that this customer bought or was given gives \(entitlementID)"
                begun = unpaid?.originalTransactionID
            } else {
                rule = .unknownEntitlement
                clause = "no product of the catalog gives \(entitlementID), and nobody granted it to this customer"
            }
            return Verdict(
                decision: Decision(
                    entitlementID: entitlementID, givesAccess: false, state: nil, productID: nil, source: nil,
                    originalTransactionID: nil, rule: rule, sentence: words.sentence(givesAccess: false, clause)),
                shown: nil, begun: begun, moved: moved, undone: undone, idle: idle)
        }
        let reading = best.reading
        let givesAccess = catalog.policy.givesAccess(reading.state)
        let ending = givesAccess ? nil : lastEnding(among: own, besides: best, at: instant)
        let clause = words.clause(for: best)
        return Verdict(
            decision: Decision(
                entitlementID: entitlementID, givesAccess: givesAccess, state: reading.state,
                productID: reading.productID, source: reading.source,
                originalTransactionID: reading.originalTransactionID, rule: .reading(reading.reason),
                sentence: words.sentence(
                    givesAccess: givesAccess, ending.map { words.clause($0, then: clause, best) } ?? clause)),
            shown: best, ending: ending)
    }

    /// What gave access last by an instant at which nothing does, as it read from then on.
    ///
    /// Which reading is shown follows an order, in which an old refund comes before what ran out since: so what is shown may
    /// be no reason for the loss. `nil` where it is the reason, or nothing ever gave access.
    private func lastEnding(
        among sources: [SourceTimeline], besides shown: ShownReading, at instant: Timestamp
    ) -> ShownReading? {
        func ending(of source: SourceTimeline) -> ShownReading? {
            let begun = source.readings.prefix { $0.start <= instant }
            return begun.lastIndex { catalog.policy.givesAccess($0.state) }.flatMap { last in
                last + 1 < begun.endIndex ? ShownReading(source: source, index: last + 1) : nil
            }
        }
        let own = ending(of: shown.source)
        var latest = own
        for ending in sources.compactMap(ending(of:)) {
            if let latest, ending.reading.start <= latest.reading.start { continue }
            latest = ending
        }
        guard let latest else { return nil }
        guard let own, own.reading == latest.reading else { return latest }
        // Of one source the last word tells how it was lost, unless that came when it was lost already.
        let isLater = own.index < shown.index
        switch shown.reading.reason {
        case .refunded, .familyRevoked, .dispute, .grantRevoked, .ownedByAnother, .replaced:
            return isLater ? own : nil
        case .paidPeriod, .oneTimePurchase, .leeway, .grant, .gracePeriod, .billingRetry, .expired, .billingGivenUp,
            .upgradedElsewhere, .renewalPending, .pastDue, .cancelled, .paused:
            return nil
        }
    }
}

extension CustomerFacts {
    /// Whether a reading that is not this customer's any more is nobody's instead of somebody else's.
    ///
    /// A later period of an original transaction may bear no identity, such as one bought outside of the app.
    func isUnclaimed(_ shown: ShownReading) -> Bool {
        guard shown.reading.reason == .ownedByAnother, let period = shown.period(at: shown.reading.start),
            period.web == nil
        else { return false }
        return ownership.owner(of: period.fact, at: shown.reading.start) == nil
    }
}
