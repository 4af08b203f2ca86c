import EntitlementCore

/// A subscription that goes on giving access beyond the end of what was paid for, until more is known.
///
/// Either the device's store still lists it as current, which is its word for a grace period or a renewal that is about
/// to come; or its auto-renewal is on, and the server, which would know of the renewal, could not be asked since.
struct PeriodExtension: Sendable {
    let originalTransactionID: String
    /// The facts of this subscription alone, folded with a leeway.
    let facts: CustomerFacts
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
        facts.originals.compactMap { original, state in
            // The period that begins last: one before it that was refunded or replaced might have run for longer.
            guard state.web == nil, let last = state.latestSubscriptionPeriod, last.ending == .ranOut,
                last.fact.revocation == nil
            else { return nil }
            let end = last.end
            // What is said after the end speaks for itself, unless it is that the renewal is yet to come.
            let word = state.renewals.last?.fact
            guard (word?.signedDate ?? .earliest) < end || word?.announcesRenewal == true else { return nil }
            if let seen = current[original], seen >= end, facts.catalog.policy.graceGivesAccess {
                return PeriodExtension(
                    original, state, of: facts, from: end, to: seen.adding(milliseconds: wordLimit), as: .inGracePeriod)
            }
            guard leeway > 0, word?.autoRenews == true, (serverConfirmedAt ?? .earliest) < end else { return nil }
            return PeriodExtension(
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
    }
}
