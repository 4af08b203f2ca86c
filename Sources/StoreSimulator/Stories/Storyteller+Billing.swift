// Billing problems: grace periods, billing retry, and how they end.
extension Storyteller {
    /// The longest the store goes on trying to collect.
    package static let longestRetry: Int64 = 60 * Span.day

    /// A renewal could not be charged.
    ///
    /// - Parameters:
    ///   - graceEnd: where the grace period ends; nil for a failure without grace.
    ///   - retryFlag: what the renewal information says of billing retry; in grace the store states either.
    ///   - isCalledGrace: the notification's subtype, which for a grace end is the rule.
    package mutating func failToRenew(
        _ key: SimulatedOriginalKey, at instant: Int64, graceEnd: Int64? = nil, retryFlag: Bool = true,
        isCalledGrace: Bool? = nil, signedAt: Int64? = nil
    ) {
        guard retryFlag || graceEnd != nil else {
            preconditionFailure("a failure states a grace end or billing retry")
        }
        let isFirst = book(key).renewal?.hasFailed == false
        books[key]?.renewal?.isInBillingRetry = retryFlag
        books[key]?.renewal?.graceEnd = graceEnd
        books[key]?.renewal?.hasFailed = true
        books[key]?.renewal?.expirationIntent = 2
        let signed = stamp(key, action: instant, signedAt: signedAt)
        // The first statement of a problem speaks for the time before it was signed as well.
        tellProblem(key, from: isFirst ? .min : signed, graceEnd: graceEnd)
        let isGrace = isCalledGrace ?? (graceEnd != nil)
        notify("DID_FAIL_TO_RENEW", isGrace ? "GRACE_PERIOD" : nil, about: key, signed: signed)
    }

    /// The grace period is over; the store goes on trying.
    package mutating func endGrace(_ key: SimulatedOriginalKey, at instant: Int64, signedAt: Int64? = nil) {
        books[key]?.renewal?.isInBillingRetry = true
        books[key]?.renewal?.graceEnd = nil
        let signed = stamp(key, action: instant, signedAt: signedAt)
        tellProblem(key, from: signed, graceEnd: nil)
        notify("GRACE_PERIOD_EXPIRED", about: key, signed: signed)
    }

    /// The store says that there is no billing problem any more, without having charged.
    package mutating func withdrawProblem(_ key: SimulatedOriginalKey, at instant: Int64, signedAt: Int64? = nil) {
        let signed = stamp(key, action: instant, signedAt: signedAt)
        forgetProblem(key, from: signed)
        notify("DID_CHANGE_RENEWAL_PREF", about: key, signed: signed)
    }

    /// A subscription is over for good, as far as the store knows.
    ///
    /// - Parameter subtype: `VOLUNTARY`, `BILLING_RETRY`, `PRICE_INCREASE`, `PRODUCT_NOT_FOR_SALE` or nil.
    package mutating func expire(
        _ key: SimulatedOriginalKey, _ subtype: String?, at instant: Int64, signedAt: Int64? = nil
    ) {
        let signed = stamp(key, action: instant, signedAt: signedAt)
        if book(key).renewal?.hasFailed == true { forgetProblem(key, from: signed) }
        books[key]?.renewal?.autoRenews = false
        books[key]?.renewal?.expirationIntent =
            switch subtype {
            case "VOLUNTARY": 1
            case "BILLING_RETRY": 2
            case "PRICE_INCREASE": 3
            case "PRODUCT_NOT_FOR_SALE": 4
            default: 5
            }
        notify("EXPIRED", subtype, about: key, signed: signed)
    }

    /// From an instant on, but not before the period is over, the present period's problem is this.
    private mutating func tellProblem(_ key: SimulatedOriginalKey, from: Int64, graceEnd: Int64?) {
        guard let expiresDate = book(key).last.expiresDate, let chapter = book(key).last.chapter else { return }
        let start = max(from, expiresDate)
        let givenUp = expiresDate + Self.longestRetry
        guard start < givenUp else { return }
        var stages: [Record.Stage] = []
        var retry = start
        if let graceEnd, graceEnd > start {
            stages.append(Record.Stage(from: start, condition: .inGracePeriod))
            retry = min(graceEnd, givenUp)
        }
        if retry < givenUp { stages.append(Record.Stage(from: retry, condition: .inBillingRetry)) }
        stages.append(Record.Stage(from: givenUp, condition: .expired))
        record.rewrite(key, chapter: chapter, from: start, as: stages)
    }

    /// From an instant on the present period is simply over.
    private mutating func forgetProblem(_ key: SimulatedOriginalKey, from signed: Int64) {
        books[key]?.renewal?.isInBillingRetry = false
        books[key]?.renewal?.graceEnd = nil
        guard let expiresDate = book(key).last.expiresDate, let chapter = book(key).last.chapter else { return }
        let start = max(signed, expiresDate)
        guard start < expiresDate + Self.longestRetry else { return }
        record.rewrite(key, chapter: chapter, from: start, as: [Record.Stage(from: start, condition: .expired)])
    }
}
