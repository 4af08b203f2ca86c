/// A subscription for which the store, or Stripe, goes on charging by itself, or when its collection goes on.
package struct RunningCharge: Hashable, Sendable {
    package let originalTransactionID: String
    /// `nil` where the catalog knows none of what was paid for.
    package let productID: String?
    package let isOfWeb: Bool
    /// Nothing is charged until its collection goes on.
    package let isPaused: Bool
}

extension CustomerFacts {
    /// The subscriptions that name this customer, or are theirs, and are charged again, as far as is known; in the order of
    /// their ids.
    ///
    /// What a family shares is charged to whoever bought it.
    package func runningCharges(at instant: Timestamp) -> [RunningCharge] {
        originals.sorted { $0.key < $1.key }.compactMap { original, state in
            let stated = state.web?.statedOwner.map(ownership.customer(of:)) == customer
            let named = state.winningStatements().contains { ownership.owner(of: $0.fact) == customer }
            guard stated || named || holds(original), state.goesOn(after: instant) else { return nil }
            let all = state.chains(catalog).flatMap(\.periods)
            let periods = all.filter { $0.fact.ownership != .known(.familyShared) }
            guard all.isEmpty || !periods.isEmpty else { return nil }
            let charged = periods.filter { state.web?.charging(of: $0.web, at: instant)?.goesOn ?? true }
            let latest = (charged.isEmpty ? periods : charged).max { ($0.start, $0.end) < ($1.start, $1.end) }
            return RunningCharge(
                originalTransactionID: original, productID: latest?.fact.productID, isOfWeb: state.web != nil,
                isPaused: state.web?.charging(at: instant).map { !$0.isCharged } ?? false)
        }
    }
}

extension OriginalState {
    /// Whether it is charged for after an instant, or when it goes on; where nothing says whether it renews, what is paid for
    /// then may be.
    fileprivate func goesOn(after instant: Timestamp) -> Bool {
        if let web {
            return web.charging(at: instant)?.goesOn ?? web.lines.contains { instant < $0.value.line.end }
        }
        return nextEvent != nil && willRenew(at: instant) != false
    }
}
