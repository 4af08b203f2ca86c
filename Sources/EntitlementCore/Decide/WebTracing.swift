// Finds what a refund or a dispute is about, where only other facts say so.

extension WebFact {
    /// What was refunded or disputed, as far as it is told: payment intents, charges and invoices.
    ///
    /// Empty where the original is stated, so that nothing is to be found out.
    package var untracedNames: Set<String> {
        guard originalTransactionID == nil, !moneyBack.isEmpty else { return [] }
        var names = Set(moneyBack.flatMap { [$0.paymentIntent, $0.charge] }.compactMap(\.self))
        for paid in invoicePayments {
            names.formUnion([paid.paymentIntent, paid.charge, paid.invoice].compactMap(\.self))
        }
        return names
    }

    /// Whether it states what refunds and disputes are looked for by: what was paid, and under which names.
    package var tiesPayments: Bool {
        originalTransactionID != nil && (payment != nil || !invoices.isEmpty || !invoicePayments.isEmpty)
    }

    /// The payments that refunds and disputes took money back from.
    fileprivate var moneyBack: [(paymentIntent: String?, charge: String?)] {
        refunds.map { ($0.paymentIntent, $0.charge) } + disputes.map { ($0.paymentIntent, $0.charge) }
    }
}

extension WebOriginal {
    /// Whether it is known which invoice of this, or whether this payment itself, every refund and dispute of a fact is about.
    ///
    /// Where one is not, it would be counted against the invoice that was paid last.
    package func tells(whatWasPaidBackBy fact: WebFact) -> Bool {
        var joined = self
        joined.join(fact, position: .max)
        let groups = WebPaymentGroups(joined)
        let invoices = Set<String?>(joined.lines.map(\.value.invoiceID))
        return fact.moneyBack.allSatisfy { paymentIntent, charge in
            let subjects = groups.subjects(paidBy: paymentIntent, charge)
            // A one-time payment may have an invoice as well, of which nothing is kept.
            if subjects.contains(.payment(originalTransactionID)) { return !payments.isEmpty }
            return !subjects.isEmpty && subjects.allSatisfy { invoices.contains($0.invoiceID) }
        }
    }
}

extension WebPaymentGroups.Subject {
    fileprivate var invoiceID: String? {
        switch self {
        case .invoice(let id): id
        case .payment: nil
        }
    }
}
