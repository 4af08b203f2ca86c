// What was paid for one original transaction and what went back, as far as the stores state it.

extension OriginalState {
    /// Adds what was paid on the day on which it was paid, and what went back on the day of the refund or dispute.
    ///
    /// - Parameter sales: without what family members share, which somebody else paid for.
    func addRevenue(of sales: [ChartSale], to contribution: inout ChartContribution) {
        for sale in sales {
            let (article, soldAt) = (sale.article, sale.stated.fact.purchaseDate)
            let price = sale.stated.fact.price
            if let price {
                contribution.add(price, as: .charged, article, at: soldAt)
            } else if sale.stated.fact.offer?.discount == "FREE_TRIAL" {
                // A free trial costs nothing, whether that is stated or not.
                continue
            } else {
                contribution.note(.unpriced, article, at: soldAt)
            }
            guard let revocation = sale.stated.fact.revocation, revocation.kind != .known(.familyRevoke),
                price?.thousandths != 0
            else { continue }
            if let part = price.flatMap(revocation.part) {
                contribution.add(part, as: .paidBack, article, at: revocation.date)
            } else {
                contribution.note(.unpriced, article, at: revocation.date)
            }
        }
    }
}

extension WebOriginal {
    /// The same of the web.
    func addRevenue(to contribution: inout ChartContribution) {
        let invoices = chargedInvoices
        for invoice in invoices.values {
            guard let amount = invoice.amount else {
                contribution.note(.unpriced, invoice.article, at: invoice.paidAt)
                continue
            }
            contribution.add(invoice.shares(of: amount), as: .charged, at: invoice.paidAt)
        }
        let bought = boughtOnce
        if let paidAt = paidOnceAt {
            if let amount = amountPaidOnce {
                contribution.add(amount, as: .charged, bought, at: paidAt)
            } else {
                contribution.note(.unpriced, bought, at: paidAt)
            }
        }
        func addReturn(
            _ amount: Money?, as figure: ChartFigure, of subjects: [WebPaymentGroups.Subject], at instant: Timestamp
        ) {
            let invoice = invoice(of: subjects, among: invoices)
            guard let amount else {
                return contribution.note(.unpriced, invoice?.article ?? bought, at: instant)
            }
            guard let invoice else { return contribution.add(amount, as: figure, bought, at: instant) }
            contribution.add(invoice.shares(of: amount), as: figure, at: instant)
        }
        for (refund, subjects) in refundsMade {
            addReturn(Money(refund.amount, refund.currency), as: .paidBack, of: subjects, at: refund.created)
        }
        for (dispute, date, subjects) in disputesInForce(Catalog.empty.policy) {
            addReturn(Money(dispute.amount, dispute.currency), as: .heldBack, of: subjects, at: date)
        }
    }

    /// What was sold for a one-time payment; the first where it was for several things, since nobody says what each cost.
    var boughtOnce: ChartArticle {
        let paid = whatWasPaid
        return ChartArticle(ChartProduct(web: paid.productIDs.first, paid.products.first), app: "")
    }

    private var paidOnceAt: Timestamp? { whatWasPaid.at }
}

extension ChartContribution {
    /// An amount at an instant.
    fileprivate mutating func add(
        _ amount: Money, as figure: ChartFigure, _ article: ChartArticle, at instant: Timestamp
    ) {
        let series = ChartSeries(figure, article, detail: amount.currency)
        add(amount.thousandths, to: series, day: instant.daysSinceEpoch)
    }

    fileprivate mutating func add(
        _ shares: [(line: WebLine, amount: Money)], as figure: ChartFigure, at instant: Timestamp
    ) {
        for (line, amount) in shares {
            add(amount, as: figure, ChartArticle(ChartProduct(web: nil, line.product), app: ""), at: instant)
        }
    }
}

extension ChargedInvoice {
    /// What most of it was paid for.
    var article: ChartArticle { ChartArticle(ChartProduct(web: nil, dearest?.product), app: "") }
}
