/// Whether one entitlement is held at an instant, and why.
package struct EntitlementAnswer: Hashable, Sendable {
    package let entitlementID: String
    package let givesAccess: Bool
    package let state: EntitlementState
    /// The unbroken run of the same `givesAccess` around the instant, across periods and sources.
    package let since: Timestamp
    /// `nil`: without end, as far as known.
    package let until: Timestamp?
    /// What the newest renewal statement says; `nil` where nothing renews or nothing is known.
    package let willRenew: Bool?
    /// What is shown at the instant, with the events it rests on.
    package let reading: Reading
}

/// A customer's facts together with the timelines folded from them, from which any instant is answered.
package struct FoldedCustomer: Sendable {
    package let facts: CustomerFacts
    package let timelines: [EntitlementTimeline]

    package init(_ facts: CustomerFacts) { (self.facts, timelines) = (facts, facts.timelines()) }

    /// The answers at an instant, and until when they hold: from the instant on, before `until`.
    package func answersHolding(at instant: Timestamp) -> (answers: [EntitlementAnswer], until: Timestamp) {
        facts.answersHolding(at: instant, timelines)
    }
}

extension CustomerFacts {
    /// What the customer holds, or held, at an instant: the entitlements whose timeline has begun by then.
    package func answers(at instant: Timestamp) -> [EntitlementAnswer] {
        timelines().compactMap { answer(from: $0, at: instant) }
    }

    /// The first instant after `instant` at which `answers(at:)` may change; `endless` when only new facts can change
    /// them.
    package func nextChange(after instant: Timestamp) -> Timestamp {
        nextChange(of: timelines(), after: instant)
    }

    /// The answers at an instant, and until when they hold: from the instant on, before `until`.
    package func answersHolding(at instant: Timestamp) -> (answers: [EntitlementAnswer], until: Timestamp) {
        answersHolding(at: instant, timelines())
    }

    fileprivate func answersHolding(
        at instant: Timestamp, _ timelines: [EntitlementTimeline]
    ) -> (answers: [EntitlementAnswer], until: Timestamp) {
        (timelines.compactMap { answer(from: $0, at: instant) }, nextChange(of: timelines, after: instant))
    }

    /// The next start of a reading, on which state, `since` and `until` depend, or the next date of a statement about a
    /// renewal, from which on that statement decides `willRenew`.
    private func nextChange(of timelines: [EntitlementTimeline], after instant: Timestamp) -> Timestamp {
        var next = Timestamp.endless
        for timeline in timelines {
            for reading in timeline.readings where reading.start > instant { next = min(next, reading.start) }
        }
        for state in originals.values {
            for renewal in state.renewals {
                guard let signed = renewal.fact.signedDate, signed > instant else { continue }
                next = min(next, signed)
            }
            for stated in state.web?.subscriptions ?? [] where stated.statedAt > instant {
                next = min(next, stated.statedAt)
            }
        }
        return next
    }

    /// One timeline read at an instant; `nil` before it begins.
    package func answer(from timeline: EntitlementTimeline, at instant: Timestamp) -> EntitlementAnswer? {
        let readings = timeline.readings
        guard let index = readings.lastIndex(where: { $0.start <= instant }) else { return nil }
        let reading = readings[index]
        let givesAccess = catalog.policy.givesAccess(reading.state)
        var first = index
        while first > 0, catalog.policy.givesAccess(readings[first - 1].state) == givesAccess { first -= 1 }
        var last = index
        while last + 1 < readings.count, catalog.policy.givesAccess(readings[last + 1].state) == givesAccess {
            last += 1
        }
        return EntitlementAnswer(
            entitlementID: timeline.entitlementID, givesAccess: givesAccess, state: reading.state,
            since: readings[first].start, until: readings[last].end == .endless ? nil : readings[last].end,
            willRenew: willRenew(reading, at: instant), reading: reading)
    }

    private func willRenew(_ reading: Reading, at instant: Timestamp) -> Bool? {
        guard reading.isSubscription, let originalID = reading.originalTransactionID else { return nil }
        switch reading.state {
        case .expired, .revoked:
            return false
        case .active, .inGracePeriod, .inBillingRetry:
            guard let original = originals[originalID] else { return nil }
            guard let web = original.web else { return original.willRenew(at: instant) }
            return web.willRenew(reading.web, at: instant)
        }
    }
}

extension OriginalState {
    /// What the newest statement about the renewal by an instant says, of a subscription on the web as a whole; `nil` where
    /// nothing is known.
    package func willRenew(at instant: Timestamp) -> Bool? {
        if let web { return web.willRenew(at: instant) }
        return newestRenewal(at: instant)?.autoRenews
    }

    /// The product as which the App Store is to renew it, as the newest statement by an instant says; `nil` where it says
    /// none.
    package func renewsAs(at instant: Timestamp) -> String? { newestRenewal(at: instant)?.autoRenewProductID }

    /// Whether the newest statement by an instant awaits the customer's consent to a higher price, and was signed since a
    /// period began: what was signed before was about the renewal that made it.
    package func awaitsConsent(at instant: Timestamp, since start: Timestamp) -> Bool {
        guard let newest = newestRenewal(at: instant), let signed = newest.signedDate else { return false }
        return newest.awaitsConsent && start <= signed
    }

    private func newestRenewal(at instant: Timestamp) -> RenewalFact? {
        renewals.last { ($0.fact.signedDate ?? .earliest) <= instant }?.fact
    }
}
