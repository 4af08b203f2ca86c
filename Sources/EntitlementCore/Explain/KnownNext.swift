// What follows on what is shown, as far as is known.

extension OutlookFinder {
    /// What follows, where the answer itself changes or the reason does: it is known, or holds unless something is heard.
    func knownNext(_ shown: ShownReading) -> Outlook? {
        guard let timeline, let answer else { return nil }
        if !answer.givesAccess, let until = answer.until {
            return Outlook(
                code: .knownNext, at: until, sentence: "As far as is known it opens on \(until.inWords).")
        }
        guard var next = timeline.readings.first(where: { $0.start > instant }) else { return nil }
        // That a renewal will be under way is no news.
        if next.reason == .renewalPending, shown.reading.reason == .paidPeriod { return nil }
        let gives = policy.givesAccess(next.state)
        var name = "it"
        if answer.givesAccess, !gives, let own = shown.next, own.start == next.start, own.reason != next.reason {
            // What is shown from then on may be the old end of something else, which is not what comes.
            (next, name) = (own, own.productID ?? "it")
        }
        let date = next.start.inWords
        if gives, answer.givesAccess, next.state == shown.reading.state {
            // The next period is known.
            let until = answer.until.map { "until \($0.inWords)" } ?? "without an end"
            let what =
                next.productID == shown.reading.productID
                ? "What follows on \(date) is known already" : "\(next.productID ?? "A grant") follows on \(date)"
            return Outlook(
                code: .knownNext, at: next.start, sentence: "\(what); as far as is known it stays open \(until).")
        }
        guard answer.givesAccess || gives, next.reason != .expired else { return nil }
        let effect = gives ? "" : ", which gives no access"
        switch next.reason {
        case .gracePeriod, .billingRetry, .billingGivenUp, .leeway, .renewalPending, .pastDue:
            return Outlook(
                code: .knownNext, at: next.start,
                sentence: "Unless something else is heard, \(name) is \(next.state.inWords) from \(date) on\(effect).")
        case .paidPeriod, .oneTimePurchase, .grant, .expired, .upgradedElsewhere, .replaced, .refunded, .familyRevoked,
            .dispute, .cancelled, .paused, .ownedByAnother, .grantRevoked:
            break
        }
        guard !gives, let own = shown.next, own == next else {
            return Outlook(
                code: .knownNext, at: next.start,
                sentence: "It is known already that \(name) is \(next.state.inWords) from \(date) on\(effect).")
        }
        let lost = ShownReading(source: shown.source, index: shown.index + 1)
        return Outlook(
            code: .knownNext, at: next.start,
            sentence: "It is known already that it closes on \(date): \(words.loss(by: lost)).")
    }
}
