// The store signs every answer anew, so the same content comes with another date each time it is asked. Only what says
// more than the log does is worth an event.

extension OriginalState {
    /// Whether a transaction that the store gives when it is asked says more than what is known.
    ///
    /// The same content again does where a device spoke last, because then the store's own word settles it.
    package func learns(fromStore fact: TransactionFact) -> Bool {
        guard joining(fact, source: .serverAPI) else { return false }
        guard let newest = newest(about: fact) else { return true }
        return !newest.sources.includesStore || !newest.fact.saysTheSame(as: fact)
    }

    /// The newest statement that is known about the same transaction.
    package func newestStatement(about fact: TransactionFact) -> TransactionFact? { newest(about: fact)?.fact }

    private func newest(about fact: TransactionFact) -> StatedTransaction? {
        transactions.filter { TransactionKey($0.fact) == TransactionKey(fact) }.max { $0.fact.precedes($1.fact) }
    }

    /// Whether renewal information that the store gives when it is asked says more than what is known.
    ///
    /// It is compared with the newest statement before it: what was said earlier, and changed since, is news again. The same
    /// content is news as well where the store was expected to speak, since that settles what it had to say.
    package func learns(fromStore fact: RenewalFact) -> Bool {
        var joined = self
        guard joined.join(fact, source: .serverAPI, position: lastPosition) else { return false }
        guard !renewals.contains(where: { $0.fact.payloadHash == fact.payloadHash }) else { return false }
        guard let before = renewals.last(where: { $0.fact.precedes(fact) })?.fact else { return true }
        if RenewalContent(before) != RenewalContent(fact) { return true }
        // A grace period without its end would read as given up, though nothing more was said of it.
        return !before.isGraceWithoutEnd && joined.nextEvent != nextEvent
    }

    private func joining(_ fact: TransactionFact, source: StatementSource) -> Bool {
        var joined = self
        return joined.join(fact, source: source, position: lastPosition)
    }
}
