extension OriginalState {
    /// What was paid for one of its periods or purchases; `nil` where nobody stated it.
    package func price(of fact: TransactionFact) -> Money? {
        guard let web else { return fact.price }
        return web.price(of: fact.transactionID)
    }
}

extension WebOriginal {
    /// What was paid for a line of an invoice, or for the one-time payment.
    ///
    /// For a line that is alone on its invoice that is what was paid for all of it; of several nobody says how discounts and
    /// taxes fall on each, and what is shown is what the line states.
    fileprivate func price(of id: String) -> Money? {
        guard let paid = lines.first(where: { $0.value.line.lineID == id })?.value else {
            return id == originalTransactionID ? amountPaidOnce : nil
        }
        let isAlone = lines.lazy.filter { $0.value.invoiceID == paid.invoiceID }.prefix(2).count == 1
        return Money(isAlone ? paid.amountPaid : paid.line.amount, paid.currency)
    }

    /// What was paid in all for a one-time purchase.
    var amountPaidOnce: Money? {
        payments.compactMap { Money($0.value.amount, $0.value.currency) }.max { $0.thousandths < $1.thousandths }
    }
}
