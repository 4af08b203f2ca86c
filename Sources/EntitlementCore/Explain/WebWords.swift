// What is said only of what was bought on the web.

extension RuleWords {
    /// Why something that was bought on the web reads as it does; `nil` where the words for all serve.
    func webClause(_ product: String, _ period: Period, _ reading: Reading) -> String? {
        let due = period.end.inWords
        switch reading.reason {
        case .renewalPending:
            if let longer = longerTrial(product, period, reading) { return longer }
            return period.isFreeTrial
                ? "the free trial of \(product) ran until \(due), and the first payment is not made yet and has not failed"
                : "\(product) was paid until \(due), and its renewal is not paid yet and has not failed"
        case .pastDue:
            let policy =
                facts.catalog.policy.graceGivesAccess ? "" : ", in which the catalog's policy gives no access"
            return "the charge for \(product) that was due on \(due) failed and is tried again, and the catalog's "
                + "policy leaves a grace period until \(webGraceEnd(after: period).inWords)\(policy)"
        case .billingRetry:
            let policy =
                facts.catalog.policy.billingRetryGivesAccess ? ", during which the catalog's policy gives access" : ""
            return unpaid(product, period, reading) + policy
        case .billingGivenUp:
            return givenUp(product, period, reading)
        case .dispute:
            return disputed(product, period, reading)
        case .cancelled:
            return "the subscription to \(product) was ended on \(due), before the time that was paid for was over"
        case .paused:
            return "\(product) was paid until \(due), and its subscription has been paused since"
        case .paidPeriod, .oneTimePurchase, .leeway, .grant, .gracePeriod, .expired, .upgradedElsewhere, .replaced,
            .refunded, .familyRevoked, .grantRevoked, .ownedByAnother:
            return nil
        }
    }

    /// When a renewal on the web was paid that had failed, or was long not paid; `nil` of any other.
    func recovery(of period: Period, _ shown: ShownReading) -> Timestamp? {
        guard period.web != nil, let before = shown.previous, before.end == shown.reading.start else { return nil }
        switch before.reason {
        case .pastDue, .billingRetry, .billingGivenUp:
            break
        case .paidPeriod, .oneTimePurchase, .leeway, .grant, .gracePeriod, .expired, .upgradedElsewhere, .replaced,
            .refunded, .familyRevoked, .grantRevoked, .ownedByAnother, .renewalPending, .dispute, .cancelled, .paused:
            return nil
        }
        let line = web(period)?.lines.first { $0.value.line.lineID == period.fact.transactionID }
        return line?.value.paidAt == period.opening ? period.opening : nil
    }

    /// All that is known of what was bought on the web.
    func web(_ period: Period) -> WebOriginal? { facts.originals[period.fact.originalTransactionID]?.web }

    func webGraceEnd(after period: Period) -> Timestamp {
        web(period)?.graceEnd(after: period, facts.catalog.policy) ?? period.end
    }

    // MARK: - What is not paid

    /// The statement about the subscription that speaks in a reading.
    func speaker(of reading: Reading, _ period: Period) -> WebSubscription? {
        web(period)?.subscriptions.last { reading.positions.contains($0.position) }?.value
    }

    /// Whether Stripe has said that something which was due was not paid.
    ///
    /// A subscription may be `active` or `trialing` without a paid invoice though nothing is due: a trial was extended, an
    /// invoice is to be paid later, or time is billed when it is over.
    func isSaidUnpaid(_ reading: Reading, _ period: Period) -> Bool {
        web(period)?.subscriptions.contains { stated in
            reading.positions.contains(stated.position)
                && [.known(.pastDue), .known(.unpaid)].contains(stated.value.status)
        } ?? true
    }

    /// That Stripe speaks of a longer trial than any invoice; `nil` where it does not.
    private func longerTrial(_ product: String, _ period: Period, _ reading: Reading) -> String? {
        guard let said = speaker(of: reading, period), said.status == .known(.trialing), let end = said.trialEnd,
            end > period.end
        else { return nil }
        return "Stripe says that the trial of \(product) runs until \(end.inWords), and no invoice for the time since "
            + "\(period.end.inWords) has been heard of"
    }

    private func unpaid(_ product: String, _ period: Period, _ reading: Reading) -> String {
        let due = period.end.inWords
        switch speaker(of: reading, period)?.status {
        case .known(.pastDue):
            return "the charge for \(product) that was due on \(due) failed, Stripe still tries to collect it, and the "
                + "grace period of the catalog's policy ended on \(webGraceEnd(after: period).inWords)"
        case .known(.unpaid):
            return "what was due for \(product) on \(due) was not paid, and Stripe does not try to collect it any more"
        case .known(.active), .known(.trialing), .known(.incomplete), .known(.incompleteExpired), .known(.canceled),
            .known(.paused), .unknown, nil:
            guard !isSaidUnpaid(reading, period) else {
                return "what was due for \(product) on \(due) was not paid, and may still be collected"
            }
            return longerTrial(product, period, reading)
                ?? "no payment for \(product) has been heard of for the time since \(due), nor that one failed"
        }
    }

    private func givenUp(_ product: String, _ period: Period, _ reading: Reading) -> String {
        let date = period.end.inWords
        let isSaid = isSaidUnpaid(reading, period)
        if let endedAt = web(period)?.ending?.value.endedAt, endedAt <= reading.start {
            let due =
                isSaid
                ? "what was due for \(product) on \(date) was not paid"
                : "no payment for \(product) was heard of after \(date)"
            return "\(due), and the subscription was ended on \(endedAt.inWords)"
        }
        let limit =
            (isSaid
                ? "what was due for \(product) on \(date) was not paid within 60 days"
                : "no payment for \(product) was heard of within 60 days after \(date)")
            + ", after which it counts as given up here"
        switch speaker(of: reading, period)?.status {
        case .known(.pastDue):
            return "\(limit), though Stripe has not ended the subscription and says past_due"
        case .known(.unpaid):
            return "\(limit); Stripe has not ended the subscription, and does not try to collect it any more"
        case .known(.active), .known(.trialing), .known(.incomplete), .known(.incompleteExpired), .known(.canceled),
            .known(.paused), .unknown, nil:
            return limit
        }
    }

    // MARK: - Disputes

    private func disputed(_ product: String, _ period: Period, _ reading: Reading) -> String {
        guard let dispute = dispute(over: period) else {
            return "the payment for \(product) was disputed on \((period.revokedAt ?? reading.start).inWords)"
        }
        let lostAt = dispute.lostAt.flatMap { $0 <= instant ? $0 : nil }
        let lost = lostAt.map { ", and the dispute was lost on \($0.inWords)" } ?? ""
        return "the payment for \(product) was disputed on \(dispute.created.inWords)\(lost)"
    }

    /// The dispute that takes a period back, and when it was lost; `nil` where none does.
    func dispute(over period: Period) -> (created: Timestamp, lostAt: Timestamp?)? {
        guard period.web?.withdrawal == .dispute, let web = web(period) else { return nil }
        let named = Set(web.disputes.filter { period.positions.contains($0.position) }.map(\.value.disputeID))
        for id in named.sorted() {
            let statements = web.disputes.filter { $0.value.disputeID == id }
            guard let newest = statements.last?.value else { continue }
            let lost =
                newest.status == .known(.lost)
                ? statements.first { $0.value.status == .known(.lost) }?.statedAt : nil
            let from = facts.catalog.policy.webDispute == .suspendsAccess ? newest.created : lost
            if from == period.revokedAt { return (newest.created, lost) }
        }
        return nil
    }
}
