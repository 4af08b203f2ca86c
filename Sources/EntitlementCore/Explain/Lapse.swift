/// Why a subscription of the App Store was not renewed, in the store's own word.
struct Lapse {
    /// In the middle of a sentence.
    let clause: String
    /// The event that says so.
    let position: Int64
}

extension RuleWords {
    /// Why what ran out was not renewed, where the store gave a reason other than a charge that failed.
    ///
    /// The newest statement about the last period counts that was signed by the instant.
    func lapse(of shown: ShownReading) -> Lapse? {
        guard shown.reading.reason == .expired, case .chain(let chain) = shown.source.giver,
            let index = chain.periods.lastIndex(where: { $0.opening <= shown.reading.start })
        else { return nil }
        let period = chain.periods[index]
        let next = chain.periods.dropFirst(index + 1).first?.start ?? .endless
        guard period.isSubscription, period.web == nil, period.ending == .ranOut,
            let original = facts.originals[period.fact.originalTransactionID]
        else { return nil }
        let newest = original.renewals.last { stated in
            guard let signed = stated.fact.signedDate else { return false }
            return period.start <= signed && signed <= instant && signed < next
        }
        guard let newest, let clause = newest.fact.reasonOfLapse else { return nil }
        return Lapse(clause: clause, position: newest.position)
    }
}

extension RenewalFact {
    /// Apple's `expirationIntent` in words; before that is stated, what the subscription was set to.
    fileprivate var reasonOfLapse: String? {
        switch expirationIntent {
        case 1?: "it was set not to renew"
        case 3?: "a higher price was not agreed to"
        case 4?: "the store no longer sold it"
        // A charge that failed, or what Apple does not tell.
        case _?: nil
        case nil: autoRenews == false ? "it was set not to renew" : nil
        }
    }
}
