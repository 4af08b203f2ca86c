import SeededRandom

// What becomes of subscriptions when their story has been told: they go on, as in any store.
extension Storyteller {
    /// How long before a period's end it is decided what comes of it, in milliseconds.
    private static let foresight = Span.day

    /// Tells what becomes of the subscriptions that still run, up to an instant.
    ///
    /// They are renewed period after period; now and then one has a billing problem that is solved, or is left and taken up
    /// again later. To go on in several steps tells the same as in one; what happens from the instant on is told by the next.
    ///
    /// - Parameter instant: in milliseconds since 1970; nothing is told that is signed later by more than a few weeks.
    package mutating func goOn(until instant: Int64) {
        while let (decision, key) = nextDecision, decision < instant { decide(key) }
    }

    /// The subscription whose period ends next, and when it is decided what comes of it.
    private var nextDecision: (instant: Int64, key: SimulatedOriginalKey)? {
        books.values.compactMap { book -> (instant: Int64, key: SimulatedOriginalKey)? in
            decision(on: book).map { ($0, book.key) }
        }.min { ($0.instant, $0.key) < ($1.instant, $1.key) }
    }

    private func decision(on book: StoreBook) -> Int64? {
        guard let renewal = book.renewal, let last = book.payments.last, let end = last.expiresDate,
            last.chapter != nil, last.revocation == nil, !last.isUpgraded
        else { return nil }
        if renewal.isInBillingRetry || renewal.graceEnd != nil || renewal.hasFailed {
            // The store gives up in the end.
            let givenUp = end + Self.longestRetry
            return renewal.autoRenews && book.lastSignedDate < givenUp ? givenUp : nil
        }
        // Whoever has been told that it expired hears no more.
        guard book.lastSignedDate < end else { return nil }
        return end - Self.foresight
    }

    private mutating func decide(_ key: SimulatedOriginalKey) {
        let book = book(key)
        guard let end = book.last.expiresDate, let renewal = book.renewal else { return }
        if renewal.hasFailed { return expire(key, "BILLING_RETRY", at: end + Self.longestRetry) }
        guard renewal.autoRenews else { return expire(key, "VOLUNTARY", at: end) }
        switch random.number(in: 0...99) {
        case 0..<8:
            failToRenew(key, at: end, graceEnd: end + 16 * Span.day)
            renew(key, purchasedAt: end + random.number(in: Span.day...5 * Span.day))
        case 8..<13:
            failToRenew(key, at: end)
            renew(key, purchasedAt: end + random.number(in: Span.day...9 * Span.day))
        case 13..<20:
            setAutoRenew(key, false, at: max(book.lastSignedDate, end - Self.foresight / 2))
            expire(key, "VOLUNTARY", at: end)
            resubscribe(key, at: end + random.number(in: Span.day...9 * Span.day))
        default:
            renew(key)
        }
    }
}
