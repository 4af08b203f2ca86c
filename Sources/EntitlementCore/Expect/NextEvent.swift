/// What the store has to say next of a subscription, and when: told from what it has said so far.
package struct NextEvent: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The period ends: the store renews it, fails to, or says that it has expired.
        case periodEnd
        /// The grace period ends.
        case graceEnd
        /// The store gives up collecting.
        case retryEnd
    }

    package let kind: Kind
    /// When it takes place.
    package let at: Timestamp

    package init(_ kind: Kind, at: Timestamp) {
        self.kind = kind
        self.at = at
    }

    /// When it must have been heard of, if everything works.
    ///
    /// In production the store renews up to some hours late, and tries a delivery that failed again after one hour; when it
    /// gives up collecting it does not say to the day. The sandbox's periods last minutes, and it tries each delivery once.
    package func overdueAt(in environment: StoreEnvironment) -> Timestamp {
        let hours: Int64 =
            switch (environment, kind) {
            case (.production, .periodEnd), (.production, .graceEnd): 6
            case (.production, .retryEnd): 72
            case (.sandbox, _): 1
            }
        return at.adding(milliseconds: hours * 3_600_000)
    }
}

/// Why the store is to be asked about an original transaction.
package enum CheckReason: String, Hashable, Sendable, CaseIterable {
    /// Its next event should have been heard of by now.
    case overdue
    /// A device says that a revocation is gone which the store stated.
    case disputed
    /// A grace period was announced without its end.
    case graceWithoutEnd = "grace_without_end"
}

extension OriginalState {
    /// What the store has to say next; `nil` where it has nothing more to say by itself.
    ///
    /// It rests on the store's own word: that a device told of a renewal first does not excuse the store's silence. Only what
    /// the store never spoke of is predicted from what devices say. Of what was bought on the web nothing is expected: what
    /// Stripe said and nobody heard stands in its own list of events, which is read again and again.
    package var nextEvent: NextEvent? {
        guard web == nil else { return nil }
        let own = ofStoreAlone
        guard let period = own.latestSubscriptionPeriod() else { return nil }
        let expiry = period.expiry
        let word = own.newestRenewal(of: period)
        let signed = word?.signedDate ?? .earliest
        if let revokedAt = period.revokedAt {
            // Money that went back does not switch the renewal off by itself: what the store has said since counts. One
            // word after the end is enough, as it may say for ever that what was taken back renews.
            let goesOn = word?.announcesRenewal == true && signed >= revokedAt && signed < expiry
            return goesOn ? NextEvent(.periodEnd, at: expiry) : nil
        }
        if period.ending == .upgradedElsewhere { return NextEvent(.periodEnd, at: period.end) }
        guard let newest = word else { return NextEvent(.periodEnd, at: expiry) }
        if let graceEnd = newest.graceEnd, graceEnd > expiry, signed < graceEnd {
            return NextEvent(.graceEnd, at: graceEnd)
        }
        if newest.readsBillingRetry || newest.graceEnd != nil {
            let end = expiry.adding(milliseconds: 60 * Timestamp.millisecondsPerDay)
            return signed < end ? NextEvent(.retryEnd, at: end) : nil
        }
        // Once the store has spoken after the end, the period has expired, unless it says that it renews all the same.
        return signed < expiry || newest.announcesRenewal ? NextEvent(.periodEnd, at: expiry) : nil
    }

    /// Why the store is to be asked whatever the time is; `nil` where nothing gives cause to.
    package var checkReason: CheckReason? {
        // Only what a device stated later than the store is ever disputed.
        if transactions.contains(where: { !$0.sources.includesStore }),
            chains(.empty).contains(where: { $0.periods.contains(where: \.needsStoreCheck) })
        {
            return .disputed
        }
        guard renewals.contains(where: { $0.fact.isGraceWithoutEnd }) else { return nil }
        let own = ofStoreAlone
        guard let period = own.latestSubscriptionPeriod(), period.revokedAt == nil,
            let newest = own.newestRenewal(of: period), newest.isGraceWithoutEnd, newest.graceEnd == nil
        else { return nil }
        return .graceWithoutEnd
    }

    /// What the store itself stated; everything, where it stated nothing.
    private var ofStoreAlone: OriginalState {
        let isMixed =
            transactions.contains { $0.sources.includesStore }
            && (transactions.contains { !$0.sources.includesStore } || renewals.contains { !$0.sources.includesStore })
        guard isMixed else { return self }
        var own = OriginalState()
        for stated in transactions where stated.sources.includesStore {
            own.join(stated.fact, source: .serverAPI, position: stated.position)
        }
        for stated in renewals where stated.sources.includesStore {
            own.join(stated.fact, source: .serverAPI, position: stated.position)
        }
        return own
    }

    /// The period of a subscription that begins last, however long an earlier one would have run; the same under every
    /// catalog, but for whether a prorated refund ends it.
    package func latestSubscriptionPeriod(_ catalog: Catalog = .empty) -> Period? {
        chains(catalog).flatMap(\.periods).filter { $0.isSubscription && $0.expiry != .endless }
            .max { $0.start < $1.start }
    }

    private func newestRenewal(of period: Period) -> RenewalFact? {
        renewals.last.map(\.fact).flatMap { ($0.signedDate ?? .earliest) >= period.start ? $0 : nil }
    }
}

extension RenewalFact {
    /// Whether it says that the subscription is renewed, also where that is yet to come.
    ///
    /// The store may renew some hours late, and until then says of what has run out that it renews. What has ended says
    /// why, or that it renews no more, and a charge that failed reads as grace or billing retry.
    package var announcesRenewal: Bool {
        autoRenews == true && expirationIntent == nil && !readsBillingRetry && graceEnd == nil
    }
}
