/// Why a subscription was not renewed, in the store's own word.
struct Lapse {
    /// In the middle of a sentence.
    let clause: String
    /// The event that says so.
    let position: Int64
}

extension RuleWords {
    /// Why what ran out was not renewed, as far as the store said so by the instant.
    func lapse(of shown: ShownReading) -> Lapse? {
        let reason = shown.reading.reason
        guard reason == .expired || reason == .billingGivenUp, case .chain(let chain) = shown.source.giver,
            let index = chain.periods.lastIndex(where: { $0.opening <= shown.reading.start })
        else { return nil }
        let period = chain.periods[index]
        guard period.isSubscription, period.ending == .ranOut,
            let original = facts.originals[period.fact.originalTransactionID]
        else { return nil }
        if let web = original.web { return reason == .expired ? lapse(of: period, web) : nil }
        let next = chain.periods.dropFirst(index + 1).first?.start ?? .endless
        let told = original.renewals.filter { stated in
            guard let signed = stated.fact.signedDate else { return false }
            return period.start <= signed && signed <= instant && signed < next
        }
        if let newest = told.last(where: { $0.fact.expirationIntent != nil }) {
            // That a charge failed is said already of what was given up.
            let isNews = reason == .expired || newest.fact.expirationIntent != 2
            let clause = isNews ? newest.fact.expirationIntent.flatMap(Self.lapse(by:)) : nil
            return clause.map { Lapse(clause: $0, position: newest.position) }
        }
        // What was set when it had ended already is no reason for that.
        guard reason == .expired,
            let last = told.last(where: { ($0.fact.signedDate ?? .endless) <= period.expiry })
        else { return nil }
        if last.fact.autoRenews == false { return Lapse(clause: Self.isSetNotToRenew, position: last.position) }
        guard last.fact.awaitsConsent else { return nil }
        return Lapse(clause: Self.isNotAgreedTo, position: last.position)
    }

    private static let isSetNotToRenew = "it was set not to renew"
    private static let isNotAgreedTo = "a higher price was not agreed to"

    /// Apple's `expirationIntent` in words; `nil` for what Apple does not tell.
    private static func lapse(by intent: Int64) -> String? {
        switch intent {
        case 1: isSetNotToRenew
        case 2: "the charge for its renewal failed"
        case 3: isNotAgreedTo
        case 4: "the store no longer sold it"
        case _: nil
        }
    }

    /// The same of a subscription of Stripe's: by its last statement.
    private func lapse(of period: Period, _ web: WebOriginal) -> Lapse? {
        guard let last = web.lastStatement(at: instant), let charging = last.value.charging(of: period.web) else {
            return nil
        }
        switch charging.renewal {
        case .cancelled:
            let clause =
                if last.value.cancelsAtPeriodEnd || last.value.cancelAt != nil {
                    Self.isSetNotToRenew
                } else if last.value.endedAt == nil, !last.value.goesOn(with: period.web) {
                    "it was taken out of the subscription"
                } else {
                    "its subscription was ended"
                }
            return Lapse(clause: clause, position: last.position)
        case .paused: return Lapse(clause: "its subscription was paused", position: last.position)
        case .awaitsCard: return Lapse(clause: "there was no card to charge", position: last.position)
        case .charged, .awaitsPayment: return nil
        }
    }
}
