// What is said only of what was bought on the web.

extension RuleWords {
    /// Why something that was bought on the web reads as it does; `nil` where the words for all serve.
    func webClause(_ product: String, _ period: Period, _ reading: Reading) -> String? {
        let due = period.end.inWords
        switch reading.reason {
        case .renewalPending:
            return "\(product) was paid until \(due), and its renewal is not paid yet and has not failed"
        case .pastDue:
            let policy =
                facts.catalog.policy.graceGivesAccess ? "" : ", in which the catalog's policy gives no access"
            return "the charge for \(product) that was due on \(due) failed and is tried again, and the catalog's "
                + "policy leaves a grace period until \(webGraceEnd(after: period).inWords)\(policy)"
        case .billingRetry:
            let policy =
                facts.catalog.policy.billingRetryGivesAccess ? ", during which the catalog's policy gives access" : ""
            return "what was due for \(product) on \(due) was not paid, and may still be collected\(policy)"
        case .billingGivenUp:
            return "what was due for \(product) on \(due) was not paid, and is no longer collected"
        case .dispute:
            return "the payment for \(product) was disputed on \((period.revokedAt ?? reading.start).inWords)"
                + (facts.catalog.policy.webDispute == .keepsAccess ? " and the dispute was lost" : "")
        case .cancelled:
            return "the subscription to \(product) was ended on \(due), before the time that was paid for was over"
        case .paused:
            return "\(product) was paid until \(due), and its subscription is paused since"
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
}

extension OutlookFinder {
    func ofWeb(_ shown: ShownReading, _ product: String) -> [Outlook] {
        switch shown.reading.reason {
        case .renewalPending:
            let end = shown.reading.end
            return [
                payment(product),
                Outlook(
                    code: .renewal, at: end,
                    sentence:
                        "A renewal of \(product) counts as under way until \(end.inWords), unless it is heard that "
                        + "it failed."),
            ]
        case .pastDue:
            var outlook = [payment(product)]
            if let period = shown.period(at: instant) {
                let end = RuleWords(entitlementID: entitlementID, instant: instant, facts: facts)
                    .webGraceEnd(after: period)
                outlook.append(
                    Outlook(code: .graceEnd, at: end, sentence: "The grace period ends on \(end.inWords)."))
            }
            return outlook + (policy.graceGivesAccess ? [] : [policyChange("a grace period")])
        case .dispute:
            let won = Outlook(
                code: .disputeWon, at: nil,
                sentence: "If the dispute is won or withdrawn, the period reads as if it had never been disputed.")
            return [won, purchase()]
        case .cancelled:
            return [purchase(), grant()]
        case .paused:
            let resumption = Outlook(
                code: .resumption, at: nil,
                sentence: "When the subscription to \(product) is resumed and paid for, it opens again.")
            return [resumption, grant()]
        case .paidPeriod, .oneTimePurchase, .leeway, .grant, .gracePeriod, .billingRetry, .expired, .billingGivenUp,
            .upgradedElsewhere, .replaced, .refunded, .familyRevoked, .grantRevoked, .ownedByAnother:
            return []
        }
    }

    private func payment(_ product: String) -> Outlook {
        Outlook(
            code: .payment, at: nil,
            sentence: "The payment for the renewal of \(product) has not been heard of yet; it would "
                + "\(verdict.decision.givesAccess ? "keep it open" : "open it").")
    }
}
