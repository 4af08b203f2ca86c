// Whose a payment is, and what devices hold of it.
extension Storyteller {
    /// The store learns whose a payment is, and says so of it and of the payments that follow.
    ///
    /// - Parameters:
    ///   - payment: the number of the payment; the last where nil.
    ///   - token: the login it bears from now on; as before where nil.
    ///   - appTransactionID: the Apple account it bears from now on; as before where nil.
    package mutating func identify(
        _ key: SimulatedOriginalKey, payment: Int? = nil, token: String? = nil, appTransactionID: String? = nil,
        at instant: Int64, signedAt: Int64? = nil
    ) {
        let number = payment ?? book(key).last.number
        if let token { books[key]?.payments[number].appAccountToken = token }
        if let appTransactionID {
            books[key]?.payments[number].appTransactionID = appTransactionID
            books[key]?.account.appTransactionID = appTransactionID
        }
        let named = book(key).payments[number]
        if let chapter = named.chapter { record.name(key, chapter: chapter, owner: owner(book(key), named)) }
        restate(key, payment: number, as: "METADATA_UPDATE", at: instant, signedAt: signedAt)
    }

    /// A device asks the store for a payment, and keeps what it signs; no notification tells of it.
    package mutating func deviceStatement(
        _ key: SimulatedOriginalKey, payment: Int? = nil, at instant: Int64, signedAt: Int64? = nil
    ) -> StoreStatement {
        let signed = stamp(key, action: instant, signedAt: signedAt)
        let book = book(key)
        let payment = payment.map { book.payments[$0] } ?? book.last
        return StoreStatement(
            testimony: testimony(book, payment, signed: signed),
            transaction: transactionPayload(book, payment, signed: signed))
    }

    /// The last notification gets lost for good: what it said is known from devices alone, which hold no word on
    /// auto-renewal.
    ///
    /// Meant for purchases and renewals without a billing problem: there the record needs nothing else forgotten.
    ///
    /// - Returns: the transaction it carried.
    package mutating func loseLastNotification() -> StoreStatement {
        guard let lost = notifications.popLast(), let statement = lost.statement else {
            preconditionFailure("only a notification with a transaction leaves something to post")
        }
        record.forgetRenewalNote(statement.testimony.key, signedDate: lost.signedDate)
        return statement
    }

    /// What a transaction as it stands in the books says of whose it is.
    func testimony(_ book: StoreBook, _ payment: Payment, signed: Int64) -> Testimony {
        Testimony(
            key: book.key, payment: payment.number, signedDate: signed,
            owner: owner(book, payment).map { CustomerKey(book.key.environment, $0) })
    }

    private func owner(_ book: StoreBook, _ payment: Payment) -> String? {
        StoreAccount(
            book.key.environment, appAccountToken: payment.appAccountToken,
            appTransactionID: payment.appTransactionID
        ).customerID
    }
}
