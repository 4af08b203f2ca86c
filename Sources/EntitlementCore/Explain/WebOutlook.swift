// What would change what was bought on the web: there Stripe charges, and the customer pays in its portal.

extension OutlookFinder {
    /// What would change a reading of something that was bought on the web; `nil` where the words for all serve.
    func ofWeb(_ shown: ShownReading, _ product: String) -> [Outlook]? {
        guard let period = shown.period(at: instant), period.web != nil else { return nil }
        switch shown.reading.reason {
        case .renewalPending:
            let end = shown.reading.end
            if let known = knownRenewal(of: product, shown) { return [known] }
            return [
                payment(product),
                Outlook(
                    code: .renewal, at: end,
                    sentence:
                        "A renewal of \(product) counts as under way until \(end.inWords), unless it is heard that "
                        + "it failed."),
            ]
        case .pastDue:
            let end = words.webGraceEnd(after: period)
            let grace = Outlook(code: .graceEnd, at: end, sentence: "The grace period ends on \(end.inWords).")
            return [openPayment(product, shown, period), grace]
                + (policy.graceGivesAccess ? [] : [policyChange("a grace period")])
        case .billingRetry:
            let limit = period.end.adding(milliseconds: WebOriginal.collectionLimit)
            let end = Outlook(
                code: .retryLimit, at: limit,
                sentence: words.isSaidUnpaid(shown.reading, period)
                    ? "If nothing is paid by \(limit.inWords), 60 days after it was due, it counts as given up here."
                    : "If no payment is heard of by \(limit.inWords), 60 days after the time that was paid for, it counts "
                        + "as given up here.")
            return [openPayment(product, shown, period), end]
                + (policy.billingRetryGivesAccess ? [] : [policyChange("billing retry")])
        case .billingGivenUp:
            return (isEnded(period) ? [] : [openPayment(product, shown, period)]) + purchases() + [grant()]
        case .expired where period.isSubscription:
            if let known = knownRenewal(of: product, shown) { return [known] + purchases() + [grant()] }
            guard !isEnded(period), isPart(period) else { return purchases() + [grant()] }
            let renewal = Outlook(
                code: .renewal, at: nil,
                sentence: "A renewal of \(product) would open it from when it is paid; none has been heard of.")
            return [renewal] + purchases() + [grant()]
        case .expired:
            return purchases() + [grant()]
        case .refunded:
            let reversal = Outlook(
                code: .refundReversal, at: nil,
                sentence: "If the refund fails or is cancelled, the period reads as if it had never been refunded.")
            return (wouldStillRun(shown) ? [reversal] : []) + nextCharge(after: period) + partialRefundPolicy(shown)
                + purchases()
        case .dispute:
            let isOpen = words.dispute(over: period)?.lostAt == nil && wouldStillRun(shown)
            return (isOpen ? [disputeWon()] : []) + nextCharge(after: period) + purchases()
        case .cancelled:
            return purchases() + [grant()]
        case .paused:
            let resumption = Outlook(
                code: .resumption, at: nil,
                sentence: "When the subscription to \(product) is resumed and paid for, it opens again.")
            return [resumption, grant()]
        case .paidPeriod, .oneTimePurchase, .leeway, .grant, .gracePeriod, .upgradedElsewhere, .replaced,
            .familyRevoked, .grantRevoked, .ownedByAnother:
            return nil
        }
    }

    /// The charge that Stripe is to make when a paid period is over.
    private func charge(_ product: String, _ period: Period) -> Outlook {
        let date = period.expiry.inWords
        let due = period.isFreeTrial ? "is to be charged for the first time" : "is to be renewed"
        return Outlook(
            code: .renewal, at: period.expiry,
            sentence: "\(product) \(due) on \(date); that payment has not been heard of yet.")
    }

    /// What follows a paid period of a subscription.
    func ofPaidTime(_ product: String, _ period: Period, _ shown: ShownReading, until end: Timestamp) -> [Outlook] {
        if let known = knownRenewal(of: product, shown) { return [known] }
        let paid = period.isFreeTrial ? "the free trial" : "the paid period"
        guard isPart(period) else {
            let subject =
                "It is no longer part of the subscription \(period.fact.originalTransactionID), and \(paid)"
            return [expiry(at: end, subject)]
        }
        switch words.web(period)?.charging(of: period.web, at: instant)?.renewal {
        case .charged:
            return [charge(product, period), expiry(at: end, "Without a renewal \(paid)")]
        case .paused, .awaitsCard:
            return [
                expiry(at: period.end, "The subscription is paused: unless it is resumed, \(paid)"),
                Outlook(
                    code: .resumption, at: nil,
                    sentence: "When the subscription to \(product) is resumed and paid for, it goes on."),
            ]
        case .cancelled, .awaitsPayment:
            return [expiry(at: end, "It is set not to renew, and \(paid)")]
        case nil:
            return [expiry(at: end, "Without a renewal \(paid)")]
        }
    }

    /// That Stripe has announced an end inside the time that is paid for, or after further charges.
    func announcedEnd(_ product: String, _ period: Period, before end: Timestamp) -> [Outlook] {
        guard let said = words.web(period)?.statement(at: instant), let date = said.cancelAt, instant < date,
            date < end || said.charging(of: period.web)?.renewal == .charged
        else { return [] }
        return [
            Outlook(
                code: .knownNext, at: date,
                sentence: "Stripe has announced that it ends the subscription to \(product) on \(date.inWords)"
                    + "\(date < end ? ", before the paid time is over" : "").")
        ]
    }

    private func isEnded(_ period: Period) -> Bool {
        words.web(period)?.ending?.value.endedAt.map { $0 <= instant } ?? false
    }

    /// Whether Stripe's last word has the period's item in the subscription, or what took its place.
    private func isPart(_ period: Period) -> Bool {
        words.web(period)?.statement(at: instant)?.goesOn(with: period.web) ?? true
    }

    private func payment(_ product: String) -> Outlook {
        Outlook(
            code: .payment, at: nil,
            sentence: "The payment for the renewal of \(product) has not been heard of yet; it would "
                + "\(verdict.decision.givesAccess ? "keep it open" : "open it").")
    }

    /// What is due is on an invoice: its payment opens, not another purchase.
    private func openPayment(_ product: String, _ shown: ShownReading, _ period: Period) -> Outlook {
        let effect =
            verdict.decision.givesAccess
            ? "keep it open" : "open it from then on, for as long as the time that it is for lasts"
        let sentence =
            words.isSaidUnpaid(shown.reading, period)
            ? "The payment of the open invoice would \(effect); the customer pays it, or brings another card, in Stripe's "
                + "customer portal."
            : "A paid invoice for \(product) would \(effect)."
        return Outlook(code: .payment, at: nil, sentence: sentence)
    }

    private func disputeWon() -> Outlook {
        Outlook(
            code: .disputeWon, at: nil,
            sentence: "If the dispute is won or withdrawn, the period reads as if it had never been disputed.")
    }

    /// That Stripe goes on to charge for what was taken back: a refund or a dispute ends no subscription there.
    private func nextCharge(after period: Period) -> [Outlook] {
        guard let subscription = words.web(period)?.statement(at: instant) else { return [] }
        let giving = subscription.items.filter { item in
            subscription.charging(of: item)?.goesOn == true
                && facts.catalog.productID(of: item.product).flatMap { facts.catalog.product($0) }?.entitlements
                    .contains(entitlementID) ?? false
        }
        guard let item = giving.first, let product = facts.catalog.productID(of: item.product),
            let charging = subscription.charging(of: item)
        else { return [] }
        let end = "to end it, cancel the subscription \(period.fact.originalTransactionID) there."
        if charging.renewal == .charged {
            let date = giving.compactMap(\.periodEnd).filter { $0 > instant }.min()
            let on = date.map { " on \($0.inWords)" } ?? ""
            return [
                Outlook(
                    code: .renewal, at: date,
                    sentence: "Stripe is to charge for \(product) again\(on), which would open it; \(end)")
            ]
        }
        let sentence =
            charging.isRetried
            ? "Stripe tries to collect what is due for \(product), which would open it; \(end)"
            : "When the subscription to \(product) is resumed and paid for, it opens again; \(end)"
        return [Outlook(code: charging.isRetried ? .payment : .resumption, at: nil, sentence: sentence)]
    }
}
