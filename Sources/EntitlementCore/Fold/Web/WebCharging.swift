// Whether Stripe charges for a subscription again. That is not `will_renew`, which is `false` wherever an end or a
// pause is set: Stripe may charge many times before that end, and tries a failed charge again whatever is set.

/// What Stripe charges for a subscription by itself, as far as one statement says.
package struct WebCharging: Hashable, Sendable {
    /// What becomes of the next period.
    package enum Renewal: Hashable, Sendable, CaseIterable {
        /// It is charged when the present one is over.
        case charged
        /// Collection is paused: it is charged when that goes on.
        case paused
        /// There is none until somebody brings a card: a trial ended without one.
        case awaitsCard
        /// There is none until what is due is paid, and that is not tried any more.
        case awaitsPayment
        /// There is none: it is over, is cancelled before another period begins, or no longer has the item.
        case cancelled
    }

    package let renewal: Renewal
    /// What is due was not paid, and the card is tried again, whatever becomes of the next period.
    package let isRetried: Bool

    /// Whether the customer is charged again without anybody doing anything.
    package var isCharged: Bool { isRetried || renewal == .charged }

    /// Whether the customer is charged again, at once or when collection goes on.
    package var goesOn: Bool { isCharged || renewal == .paused }
}

extension WebSubscription {
    /// What Stripe charges for anything in it by itself; `nil` for a status that this version does not know, which says nothing.
    package var charging: WebCharging? { charging { _ in true } }

    /// The same of one item.
    func charging(of item: WebItem) -> WebCharging? { charging { $0.item == item.item } }

    /// The same of a period's item, or of what took its place.
    package func charging(of period: WebPeriod?) -> WebCharging? {
        guard endedAt == nil, let item = period?.item else { return charging }
        guard goesOn(with: period) else {
            return status.isKnown ? WebCharging(renewal: .cancelled, isRetried: false) : nil
        }
        return charging { $0.item == item || period?.heirs.contains($0.item) ?? false }
    }

    private func charging(where isMeant: (WebItem) -> Bool) -> WebCharging? {
        if endedAt != nil { return WebCharging(renewal: .cancelled, isRetried: false) }
        guard case .known(let status) = status else { return nil }
        return WebCharging(renewal: renewal(status, isMeant), isRetried: status == .pastDue)
    }

    private func renewal(_ status: WebSubscriptionStatus, _ isMeant: (WebItem) -> Bool) -> WebCharging.Renewal {
        if endsBeforeNextPeriod(isMeant) { return .cancelled }
        switch status {
        case .active, .trialing, .pastDue: return collectionPause == nil ? .charged : .paused
        case .paused: return .awaitsCard
        case .unpaid, .incomplete: return .awaitsPayment
        case .canceled, .incompleteExpired: return .cancelled
        }
    }

    /// Whether it is to be cancelled before another period of what is meant is charged: a date further ahead is the end of a
    /// commitment.
    private func endsBeforeNextPeriod(_ isMeant: (WebItem) -> Bool) -> Bool {
        if cancelsAtPeriodEnd { return true }
        guard let cancelAt else { return false }
        let meant = items.filter(isMeant)
        // An item may be missing because the list was cut; then the other items decide.
        guard let next = (meant.isEmpty ? items : meant).compactMap(\.periodEnd).min() else { return true }
        // Stripe's instants are whole seconds.
        return cancelAt <= next.adding(milliseconds: 1000)
    }
}

extension WebOriginal {
    /// The newest statement about the subscription by an instant, of those whose status this version knows; one that
    /// states an end is final and comes before all others.
    package func statement(at instant: Timestamp) -> WebSubscription? { lastStatement(at: instant)?.value }

    /// The same with the event that says it.
    func lastStatement(at instant: Timestamp) -> WebStated<WebSubscription>? {
        let told = subscriptions.prefix { $0.statedAt <= instant }
        return told.last { $0.value.endedAt != nil } ?? told.last { $0.value.status.isKnown }
    }

    /// Whether the newest statement by an instant says that the subscription renews, in the sense of `will_renew`; `nil` where
    /// none does.
    package func willRenew(at instant: Timestamp) -> Bool? { statement(at: instant)?.willRenew }

    /// Whether the same holds of a period's item: one that was taken out does not renew, though the subscription does.
    func willRenew(_ period: WebPeriod?, at instant: Timestamp) -> Bool? {
        statement(at: instant).map { $0.willRenew && $0.goesOn(with: period) }
    }

    /// What Stripe charges by itself, by what was said up to an instant; `nil` where nothing was.
    package func charging(at instant: Timestamp) -> WebCharging? { statement(at: instant)?.charging }

    /// The same for a period's item, or what took its place.
    package func charging(of period: WebPeriod?, at instant: Timestamp) -> WebCharging? {
        statement(at: instant)?.charging(of: period)
    }

    /// The same for the item of a reading.
    package func charging(of reading: Reading, at instant: Timestamp) -> WebCharging? {
        charging(of: reading.web, at: instant)
    }
}

extension CustomerFacts {
    /// Whether what a reading shows is charged for again without anybody doing anything, as far as is known.
    package func isCharged(_ reading: Reading, at instant: Timestamp) -> Bool {
        guard reading.isSubscription, let original = reading.originalTransactionID.flatMap({ originals[$0] }) else {
            return false
        }
        switch reading.state {
        case .expired, .revoked:
            return false
        case .active, .inGracePeriod, .inBillingRetry:
            guard let web = original.web else { return original.willRenew(at: instant) ?? false }
            return web.charging(of: reading, at: instant)?.isCharged ?? false
        }
    }
}
