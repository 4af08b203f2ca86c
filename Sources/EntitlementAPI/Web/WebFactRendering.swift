import EntitlementCore

extension WireValue {
    /// What a web checkout states, as people read it.
    init(_ fact: WebFact) {
        self = .object([
            "event_id": WireValue(fact.eventID), "stated_at": WireValue(fact.statedAt),
            "payload_sha256": .string(fact.payloadHash.hex),
            "original_transaction_id": WireValue(fact.originalTransactionID),
            "subscription": fact.subscription.map { WireValue($0) } ?? .null,
            "invoices": .array(fact.invoices.map { WireValue($0) }),
            "payment": fact.payment.map { WireValue($0) } ?? .null,
            "refunds": .array(fact.refunds.map { WireValue($0) }),
            "disputes": .array(fact.disputes.map { WireValue($0) }),
            "payments_of_invoices": .array(fact.invoicePayments.map { WireValue($0) }),
            "owners": .array(fact.owners.map { WireValue($0) }),
            "mentioned": .array(fact.mentioned.map(WireValue.string)),
            "remarks": .array(fact.remarks.map(WireValue.string)),
        ])
    }

    private init(_ fact: WebSubscription) {
        self = .object([
            "status": .string(fact.status.raw),
            "items": .array(
                fact.items.map { item in
                    .object([
                        "item": .string(item.item), "price": WireValue(item.product.price),
                        "product": WireValue(item.product.product), "period_start": WireValue(item.periodStart),
                        "period_end": WireValue(item.periodEnd),
                    ])
                }),
            "has_more_items": .bool(fact.hasMoreItems), "cancel_at": WireValue(fact.cancelAt),
            "cancel_at_period_end": .bool(fact.cancelsAtPeriodEnd), "ended_at": WireValue(fact.endedAt),
            "pause_collection": WireValue(fact.collectionPause), "trial_start": WireValue(fact.trialStart),
            "trial_end": WireValue(fact.trialEnd),
        ])
    }

    private init(_ invoice: WebInvoice) {
        self = .object([
            "invoice": .string(invoice.invoiceID), "paid_at": WireValue(invoice.paidAt),
            "amount_paid": WireValue(invoice.amountPaid), "currency": WireValue(invoice.currency),
            "lines": .array(
                invoice.lines.map { line in
                    .object([
                        "line": .string(line.lineID), "item": WireValue(line.item),
                        "price": WireValue(line.product.price), "product": WireValue(line.product.product),
                        "start": WireValue(line.start), "end": WireValue(line.end),
                        "proration": .bool(line.isProration), "amount": .int(line.amount),
                    ])
                }),
        ])
    }

    private init(_ payment: WebPayment) {
        self = .object([
            "paid_at": WireValue(payment.paidAt), "said_by_event": .bool(payment.isPaidByEvent),
            "amount": WireValue(payment.amount), "currency": WireValue(payment.currency),
            "product_id": WireValue(payment.catalogProductID),
            "products": .array(
                payment.products.map { product in
                    .object(["price": WireValue(product.price), "product": WireValue(product.product)])
                }),
        ])
    }

    private init(_ refund: WebRefund) {
        self = .object([
            "refund": .string(refund.refundID), "amount": .int(refund.amount),
            "currency": WireValue(refund.currency),
            "status": WireValue(refund.status?.raw), "created": WireValue(refund.created),
            "payment_intent": WireValue(refund.paymentIntent), "charge": WireValue(refund.charge),
        ])
    }

    private init(_ dispute: WebDispute) {
        let funds: WireValue =
            switch dispute.funds {
            case .withdrawn: .string("withdrawn")
            case .reinstated: .string("reinstated")
            case nil: .null
            }
        self = .object([
            "dispute": .string(dispute.disputeID), "status": .string(dispute.status.raw),
            "created": WireValue(dispute.created), "amount": WireValue(dispute.amount),
            "currency": WireValue(dispute.currency), "funds": funds,
            "payment_intent": WireValue(dispute.paymentIntent), "charge": WireValue(dispute.charge),
        ])
    }

    private init(_ paid: WebInvoicePayment) {
        self = .object([
            "payment_intent": WireValue(paid.paymentIntent), "charge": WireValue(paid.charge),
            "invoice": WireValue(paid.invoice), "amount": WireValue(paid.amount),
        ])
    }

    private init(_ owner: WebOwner) {
        let place =
            switch owner.place {
            case .purchase: "purchase"
            case .session: "session"
            case .clientReference: "client_reference_id"
            case .payer: "customer"
            case .list: "owner_list"
            }
        self = .object(["place": .string(place), "customer": WireValue(owner.customer)])
    }
}
