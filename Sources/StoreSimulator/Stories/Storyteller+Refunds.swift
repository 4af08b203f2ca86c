// Money that goes back, and sharing that ends.
extension Storyteller {
    /// A payment is refunded.
    ///
    /// - Parameters:
    ///   - payment: the number of the payment; the last where nil.
    ///   - prorated: the part paid back, in thousandths of a percent; nil for all of it.
    ///   - transactionID: another id under which the store knows the payment.
    package mutating func refund(
        _ key: SimulatedOriginalKey, payment: Int? = nil, at date: Int64, prorated: Int64? = nil, reason: Int64 = 0,
        transactionID: String? = nil, signedAt: Int64? = nil
    ) {
        let number = payment ?? book(key).last.number
        revoke(
            key, number,
            Payment.Revocation(
                date: date, reason: reason, type: prorated == nil ? "REFUND_FULL" : "REFUND_PRORATED",
                percentage: prorated ?? 100_000))
        let signed = stamp(key, action: date, signedAt: signedAt)
        notify("REFUND", about: key, payment: number, signed: signed, transactionID: transactionID)
    }

    /// A refund is taken back: the transaction is signed again without a word of it.
    package mutating func reverseRefund(
        _ key: SimulatedOriginalKey, payment: Int? = nil, at instant: Int64, signedAt: Int64? = nil
    ) {
        let number = payment ?? book(key).last.number
        books[key]?.payments[number].revocation = nil
        if let chapter = book(key).payments[number].chapter { record.withdraw(key, chapter: chapter, nil) }
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("REFUND_REVERSED", about: key, payment: number, signed: signed)
    }

    /// Family Sharing ends for a member.
    package mutating func endSharing(_ key: SimulatedOriginalKey, at date: Int64, signedAt: Int64? = nil) {
        let number = book(key).last.number
        revoke(key, number, Payment.Revocation(date: date, reason: 0, type: "FAMILY_REVOKE", percentage: nil))
        let signed = stamp(key, action: date, signedAt: signedAt)
        notify("REVOKE", about: key, payment: number, signed: signed)
    }

    private mutating func revoke(_ key: SimulatedOriginalKey, _ number: Int, _ revocation: Payment.Revocation) {
        books[key]?.payments[number].revocation = revocation
        guard let chapter = book(key).payments[number].chapter else { return }
        record.withdraw(
            key, chapter: chapter,
            Record.Withdrawal(
                date: revocation.date, isProrated: revocation.type == "REFUND_PRORATED", part: revocation.percentage))
    }
}
