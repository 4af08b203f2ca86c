import EntitlementCore

/// A subscription that goes on giving access beyond the end of what was paid for, until more is known.
///
/// Either the device's store still lists it as current, which is its word for a grace period or a renewal that is about
/// to come; or its auto-renewal is on, and the server, which would know of the renewal, could not be asked since. What was
/// bought on the web no store on the device knows: for that only the second counts.
struct PeriodExtension: Sendable {
    let originalTransactionID: String
    /// The facts of this subscription alone, folded with a leeway.
    private let facts: CustomerFacts
    /// Whether it was bought on the web, where the fold has no such leeway.
    let isOfWeb: Bool
    /// The end of what was paid for.
    let begins: Timestamp
    let ends: Timestamp
    /// How it reads.
    let state: Entitlement.State

    /// How long the store's word counts after it was last given, in milliseconds.
    static let wordLimit: Int64 = 86_400_000

    /// - Parameters:
    ///   - current: when the store last listed a subscription as current that had run out.
    ///   - serverConfirmedAt: when the server last answered about the customer.
    ///   - leeway: in milliseconds.
    static func all(
        of facts: CustomerFacts, current: [String: Timestamp], serverConfirmedAt: Timestamp?, leeway: Int64
    ) -> [PeriodExtension] {
        facts.originals.flatMap { original, state in
            state.web == nil
                ? [ofStore(original, state, of: facts, current[original], serverConfirmedAt, leeway)].compactMap(\.self)
                : ofWeb(original, state, of: facts, serverConfirmedAt, leeway)
        }
    }

    private static func ofStore(
        _ original: String, _ state: OriginalState, of facts: CustomerFacts, _ current: Timestamp?,
        _ serverConfirmedAt: Timestamp?, _ leeway: Int64
    ) -> PeriodExtension? {
        // The period that begins last: one before it that was refunded or replaced might have run for longer.
        guard let last = state.latestSubscriptionPeriod(facts.catalog), last.ending == .ranOut,
            last.revokedAt == nil
        else { return nil }
        let end = last.end
        // What is said after the end speaks for itself, unless it is that the renewal is yet to come.
        let word = state.renewals.last?.fact
        guard (word?.signedDate ?? .earliest) < end || word?.announcesRenewal == true else { return nil }
        if let seen = current, seen >= end, facts.catalog.policy.graceGivesAccess {
            return PeriodExtension(
                original, state, of: facts, from: end, to: seen.adding(milliseconds: wordLimit), as: .inGracePeriod)
        }
        guard leeway > 0, word?.autoRenews == true, (serverConfirmedAt ?? .earliest) < end else { return nil }
        return PeriodExtension(
            original, state, of: facts, from: end, to: end.adding(milliseconds: leeway), as: .active)
    }

    /// Those of a subscription's items that are to be charged when their paid time is over, of which the payment provider
    /// could have told the server alone.
    private static func ofWeb(
        _ original: String, _ state: OriginalState, of facts: CustomerFacts, _ serverConfirmedAt: Timestamp?,
        _ leeway: Int64
    ) -> [PeriodExtension] {
        let last = state.chains(facts.catalog).compactMap(\.periods.last)
        let ends = Set(last.filter { $0.ending == .ranOut && $0.web?.isBridged == true }.map(\.end))
        return ends.filter { leeway > 0 && (serverConfirmedAt ?? .earliest) < $0 }.sorted().map { end in
            PeriodExtension(
                original, state, of: facts, from: end, to: end.adding(milliseconds: leeway), as: .active)
        }
    }

    private init(
        _ original: String, _ state: OriginalState, of facts: CustomerFacts, from begin: Timestamp, to end: Timestamp,
        as name: Entitlement.State
    ) {
        var facts = facts
        facts.originals = [original: state]
        facts.grants = []
        var policy = facts.catalog.policy
        policy.leewaySeconds = max(policy.leewaySeconds, (end.milliseconds - begin.milliseconds) / 1000)
        facts.catalog = Catalog(products: facts.catalog.products, policy: policy)
        (originalTransactionID, self.facts, begins, ends, self.state) = (original, facts, begin, end, name)
        isOfWeb = state.web != nil
    }

    /// What it gives at an instant.
    func answers(at now: Timestamp) -> [EntitlementAnswer] {
        guard begins <= now else { return [] }
        guard isOfWeb else { return facts.answers(at: now).filter(\.givesAccess) }
        // The fold takes a renewal that nobody has heard of to be under way for an hour: that goes on.
        return now < ends
            ? facts.answers(at: begins).filter { $0.givesAccess && $0.reading.reason == .renewalPending } : []
    }
}

extension DeviceFold {
    /// The originals of the web that were to be charged again since the server was last asked, however long that is ago, and do
    /// not go on beyond their end for now: then they are owned, as far as anybody knows.
    func unknownWebRenewals(at now: Timestamp, bound: Int64?) -> Set<String> {
        let owned = prolonged(at: now, bound: bound).filter { $0.isOfWeb && !$0.answers(at: now).isEmpty }
        let awaited = PeriodExtension.all(
            of: facts, current: [:], serverConfirmedAt: serverConfirmedAt, leeway: Self.longestUnheard
        ).filter { awaited in
            awaited.isOfWeb && !awaited.answers(at: now).isEmpty
                && !owned.contains {
                    ($0.originalTransactionID, $0.begins) == (awaited.originalTransactionID, awaited.begins)
                }
        }
        return Set(awaited.map(\.originalTransactionID))
    }

    /// A hundred years, in milliseconds.
    private static let longestUnheard: Int64 = 36_525 * 86_400_000
}
