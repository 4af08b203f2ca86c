// What was paid on the web and what went back, divided among what was sold.

extension OriginalState {
    /// What was paid for one of its periods or purchases; `nil` where nobody stated it.
    ///
    /// - Parameter others: of the same invoice, to be counted with it.
    package func price(of fact: TransactionFact, with others: [TransactionFact] = []) -> Money? {
        guard let web else { return fact.price }
        return web.price(of: fact.transactionID, with: others.map(\.transactionID))
    }

    /// What was refunded of it, all refunds together; `nil` where there is none, or nobody stated how much.
    ///
    /// - Parameter others: of the same invoice, to be counted with it.
    package func refunded(of fact: TransactionFact, with others: [TransactionFact] = []) -> Money? {
        guard let web else {
            guard let price = fact.price, fact.revocation?.kind != .known(.familyRevoke) else { return nil }
            return fact.revocation?.part(of: price)
        }
        return web.refunded(of: fact.transactionID, with: others.map(\.transactionID))
    }
}

extension WebOriginal {
    /// The invoices that were paid, by their ids.
    var chargedInvoices: [String: ChargedInvoice] {
        Dictionary(grouping: lines, by: \.value.invoiceID).mapValues(ChargedInvoice.init)
    }

    /// What was paid in all for a one-time purchase.
    var amountPaidOnce: Money? {
        payments.compactMap { Money($0.value.amount, $0.value.currency) }.max { $0.thousandths < $1.thousandths }
    }

    /// The invoice against which a refund or dispute is counted; `nil` for a one-time payment.
    ///
    /// Where a payment was for several invoices, nobody says for which of them money went back. Where none is known, it
    /// is the invoice that was paid last.
    ///
    /// - Parameter subjects: what the amount was paid for.
    func invoice(
        of subjects: [WebPaymentGroups.Subject], among invoices: [String: ChargedInvoice]
    ) -> ChargedInvoice? {
        let latest = invoices.values.max { $0.isEarlier(than: $1) }
        switch subjects.first {
        case .invoice(let id): return invoices[id] ?? latest
        case .payment: return nil
        case nil: return latest
        }
    }

    /// What was paid for lines of an invoice, or for the one-time payment.
    fileprivate func price(of id: String, with others: [String]) -> Money? {
        guard let invoiceID = lines.first(where: { $0.value.line.lineID == id })?.value.invoiceID else {
            return id == originalTransactionID ? amountPaidOnce : nil
        }
        let invoice = ChargedInvoice(lines.filter { $0.value.invoiceID == invoiceID })
        return invoice.amount.flatMap { invoice.share(ofLines: [id] + others, in: $0) }
    }

    fileprivate func refunded(of id: String, with others: [String]) -> Money? {
        let made = refundsMade
        if made.isEmpty { return nil }
        let invoices = chargedInvoices
        var sum: Money?
        for (refund, subjects) in made {
            guard let amount = Money(refund.amount, refund.currency) else { continue }
            let invoice = invoice(of: subjects, among: invoices)
            let part =
                invoice.map { $0.share(ofLines: [id] + others, in: amount) }
                ?? (id == originalTransactionID ? amount : nil)
            guard let part else { continue }
            // What was paid is in one currency, and so is what goes back.
            sum =
                sum.map { Money(thousandths: $0.thousandths + part.thousandths, currency: part.currency) ?? $0 } ?? part
        }
        return sum
    }
}

/// A paid invoice, put together from those of its lines that are known.
struct ChargedInvoice {
    private let lines: [WebLine]
    let paidAt: Timestamp
    /// What was paid for all of it.
    let amount: Money?

    init(_ stated: [WebStated<WebPaidLine>]) {
        lines = stated.map(\.value.line)
        let newest = stated.max { $0.precedes($1) }?.value
        paidAt = newest?.paidAt ?? lines.map(\.start).min() ?? .earliest
        amount = Money(newest?.amountPaid, newest?.currency)
    }

    func isEarlier(than other: ChargedInvoice) -> Bool {
        paidAt != other.paidAt ? paidAt < other.paidAt : (dearest?.lineID ?? "") < (other.dearest?.lineID ?? "")
    }

    /// The line with the greatest amount.
    var dearest: WebLine? {
        lines.max { ($0.amount, $1.lineID) < ($1.amount, $0.lineID) }
    }

    /// Divides an amount among what was sold, in proportion to the lines.
    ///
    /// So discounts, taxes and what was credited fall on each alike. What is left over by rounding is counted with the dearest.
    func shares(of amount: Money) -> [(line: WebLine, amount: Money)] {
        guard let dearest else { return [] }
        let others = lines.filter { $0.amount > 0 && $0.lineID != dearest.lineID }
        let whole = others.reduce(Double(dearest.amount)) { $0 + Double($1.amount) }
        var rest = amount.thousandths
        var shares: [(WebLine, Money)] = []
        for line in others {
            let share = Int64(Double(amount.thousandths) * (Double(line.amount) / whole))
            rest -= share
            if let money = Money(thousandths: share, currency: amount.currency) { shares.append((line, money)) }
        }
        if let money = Money(thousandths: rest, currency: amount.currency) { shares.append((dearest, money)) }
        return shares
    }

    /// The part of an amount that is some lines', with all that bill the same time; nothing for what was free, or is a credit.
    ///
    /// - Returns: `nil` where none of the lines is of this invoice.
    func share(ofLines ids: [String], in amount: Money) -> Money? {
        let named = lines.filter { ids.contains($0.lineID) }
        if named.isEmpty { return nil }
        let times = Set(named.compactMap(\.billedTime))
        let own = shares(of: amount).filter { $0.line.billedTime.map(times.contains) ?? false }
        return Money(thousandths: own.reduce(0) { $0 + $1.amount.thousandths }, currency: amount.currency)
    }
}
