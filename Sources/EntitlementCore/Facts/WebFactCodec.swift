// The canonical form of what a web checkout states; see FactCodec.swift.

extension CanonicalWriter {
    mutating func web(_ fact: WebFact) {
        text(fact.type)
        optional(fact.eventID) { $0.text($1) }
        timestamp(fact.statedAt)
        digest(fact.payloadHash)
        optional(fact.originalTransactionID) { $0.text($1) }
        optional(fact.subscription) { $0.webSubscription($1) }
        list(fact.invoices) { $0.webInvoice($1) }
        optional(fact.payment) { $0.webPayment($1) }
        list(fact.refunds) { $0.webRefund($1) }
        list(fact.disputes) { $0.webDispute($1) }
        list(fact.invoicePayments) { $0.webInvoicePayment($1) }
        list(fact.owners) { $0.webOwner($1) }
        list(fact.mentioned) { $0.text($1) }
        list(fact.remarks) { $0.text($1) }
    }

    mutating func list<Value>(_ values: [Value], _ write: (inout CanonicalWriter, Value) -> Void) {
        count(values.count)
        for value in values { write(&self, value) }
    }

    private mutating func webProduct(_ product: WebProduct) {
        optional(product.price) { $0.text($1) }
        optional(product.product) { $0.text($1) }
    }

    mutating func webSubscription(_ fact: WebSubscription) {
        text(fact.status.raw)
        list(fact.items) { writer, item in
            writer.text(item.item)
            writer.webProduct(item.product)
            writer.optional(item.periodStart) { $0.timestamp($1) }
            writer.optional(item.periodEnd) { $0.timestamp($1) }
        }
        flag(fact.hasMoreItems)
        optional(fact.cancelAt) { $0.timestamp($1) }
        flag(fact.cancelsAtPeriodEnd)
        optional(fact.endedAt) { $0.timestamp($1) }
        optional(fact.collectionPause) { $0.text($1) }
        optional(fact.trialStart) { $0.timestamp($1) }
        optional(fact.trialEnd) { $0.timestamp($1) }
    }

    private mutating func webInvoice(_ invoice: WebInvoice) {
        text(invoice.invoiceID)
        optional(invoice.paidAt) { $0.timestamp($1) }
        optional(invoice.amountPaid) { $0.integer($1) }
        optional(invoice.currency) { $0.text($1) }
        list(invoice.lines) { $0.webLine($1) }
    }

    mutating func webLine(_ line: WebLine) {
        text(line.lineID)
        optional(line.item) { $0.text($1) }
        webProduct(line.product)
        timestamp(line.start)
        timestamp(line.end)
        flag(line.isProration)
        integer(line.amount)
    }

    mutating func webPayment(_ payment: WebPayment) {
        optional(payment.paidAt) { $0.timestamp($1) }
        flag(payment.isPaidByEvent)
        optional(payment.amount) { $0.integer($1) }
        optional(payment.currency) { $0.text($1) }
        optional(payment.catalogProductID) { $0.text($1) }
        list(payment.products) { $0.webProduct($1) }
    }

    mutating func webRefund(_ refund: WebRefund) {
        text(refund.refundID)
        integer(refund.amount)
        optional(refund.currency) { $0.text($1) }
        optional(refund.status) { $0.text($1.raw) }
        timestamp(refund.created)
        optional(refund.paymentIntent) { $0.text($1) }
        optional(refund.charge) { $0.text($1) }
    }

    mutating func webDispute(_ dispute: WebDispute) {
        text(dispute.disputeID)
        text(dispute.status.raw)
        timestamp(dispute.created)
        optional(dispute.amount) { $0.integer($1) }
        optional(dispute.currency) { $0.text($1) }
        optional(dispute.funds) { $0.byte($1.rawValue) }
        optional(dispute.paymentIntent) { $0.text($1) }
        optional(dispute.charge) { $0.text($1) }
    }

    mutating func webInvoicePayment(_ paid: WebInvoicePayment) {
        optional(paid.paymentIntent) { $0.text($1) }
        optional(paid.charge) { $0.text($1) }
        optional(paid.invoice) { $0.text($1) }
        optional(paid.amount) { $0.integer($1) }
    }

    mutating func webOwner(_ owner: WebOwner) {
        byte(owner.place.rawValue)
        integer(owner.customer.number)
    }
}

extension CanonicalReader {
    mutating func web() throws(Failure) -> WebFact {
        WebFact(
            type: try text(), eventID: try optionalText(), statedAt: try timestamp(), payloadHash: try digest(),
            originalTransactionID: try optionalText(), subscription: try flag() ? try webSubscription() : nil,
            invoices: try list { reader throws(Failure) in try reader.webInvoice() },
            payment: try flag() ? try webPayment() : nil,
            refunds: try list { reader throws(Failure) in try reader.webRefund() },
            disputes: try list { reader throws(Failure) in try reader.webDispute() },
            invoicePayments: try list { reader throws(Failure) in try reader.webInvoicePayment() },
            owners: try list { reader throws(Failure) in try reader.webOwner() },
            mentioned: try list { reader throws(Failure) in try reader.text() },
            remarks: try list { reader throws(Failure) in try reader.text() })
    }

    private mutating func webProduct() throws(Failure) -> WebProduct {
        WebProduct(price: try optionalText(), product: try optionalText())
    }

    mutating func webSubscription() throws(Failure) -> WebSubscription {
        WebSubscription(
            status: Known(try text()),
            items: try list { reader throws(Failure) in
                WebItem(
                    item: try reader.text(), product: try reader.webProduct(),
                    periodStart: try reader.optionalTimestamp(), periodEnd: try reader.optionalTimestamp())
            },
            hasMoreItems: try flag(), cancelAt: try optionalTimestamp(), cancelsAtPeriodEnd: try flag(),
            endedAt: try optionalTimestamp(), collectionPause: try optionalText(),
            trialStart: try optionalTimestamp(), trialEnd: try optionalTimestamp())
    }

    private mutating func webInvoice() throws(Failure) -> WebInvoice {
        WebInvoice(
            invoiceID: try text(), paidAt: try optionalTimestamp(), amountPaid: try optionalInteger(),
            currency: try optionalText(), lines: try list { reader throws(Failure) in try reader.webLine() })
    }

    mutating func webLine() throws(Failure) -> WebLine {
        WebLine(
            lineID: try text(), item: try optionalText(), product: try webProduct(), start: try timestamp(),
            end: try timestamp(), isProration: try flag(), amount: try integer())
    }

    mutating func webPayment() throws(Failure) -> WebPayment {
        WebPayment(
            paidAt: try optionalTimestamp(), isPaidByEvent: try flag(), amount: try optionalInteger(),
            currency: try optionalText(), catalogProductID: try optionalText(),
            products: try list { reader throws(Failure) in try reader.webProduct() })
    }

    mutating func webRefund() throws(Failure) -> WebRefund {
        WebRefund(
            refundID: try text(), amount: try integer(), currency: try optionalText(),
            status: try optionalText().map { Known($0) },
            created: try timestamp(), paymentIntent: try optionalText(), charge: try optionalText())
    }

    mutating func webDispute() throws(Failure) -> WebDispute {
        WebDispute(
            disputeID: try text(), status: Known(try text()), created: try timestamp(),
            amount: try optionalInteger(), currency: try optionalText(),
            funds: try flag() ? try funds() : nil, paymentIntent: try optionalText(), charge: try optionalText())
    }

    private mutating func funds() throws(Failure) -> WebDispute.Funds {
        let byte = try byte()
        guard let funds = WebDispute.Funds(rawValue: byte) else { throw .invalid("a dispute's funds of \(byte)") }
        return funds
    }

    mutating func webInvoicePayment() throws(Failure) -> WebInvoicePayment {
        WebInvoicePayment(
            paymentIntent: try optionalText(), charge: try optionalText(), invoice: try optionalText(),
            amount: try optionalInteger())
    }

    mutating func webOwner() throws(Failure) -> WebOwner {
        let byte = try byte()
        guard let place = WebOwner.Place(rawValue: byte) else { throw .invalid("an owner's place of \(byte)") }
        return WebOwner(place: place, customer: IdentityRef(try integer()))
    }
}
