/// A line of an invoice.
package struct StripeLine: Sendable, Equatable {
    let id: String
    let amount: Int64
    /// Nil for what somebody wrote by hand.
    let price: SimulatedWebPrice?
    let start: Int64
    let end: Int64
    /// Nil for what was written by hand, and for a proration of an account whose prorations name the subscription alone.
    let item: String?
    let isProration: Bool
    /// Whether it is a period that was paid for; a credit is none.
    let isPeriod: Bool
    /// Whether it takes the place of what ran before.
    let replaces: Bool

    func json(_ shape: StripeShape, of subscription: String?, isLive: Bool) -> PayloadValue {
        let ofItem = price == nil ? nil : subscription
        var members: [String: PayloadValue] = [
            "id": .string(id), "object": .string("line_item"), "amount": .integer(amount),
            "currency": .string(price?.currency ?? "usd"), "livemode": .boolean(isLive), "metadata": .object([:]),
            "period": .object(["start": .seconds(start), "end": .seconds(end)]), "quantity": .integer(1),
            "description": .string(price.map { "1 × \($0.id)" } ?? "Support"), "discountable": .boolean(!isProration),
        ]
        switch shape {
        case .early:
            members["type"] = .string(price == nil || isProration ? "invoiceitem" : "subscription")
            members["proration"] = .boolean(isProration)
            members["price"] = price?.json(isLive: isLive) ?? .null
            members["plan"] = price?.plan ?? .null
            members["subscription"] = .text(ofItem)
            if let item { members["subscription_item"] = .string(item) }
        case .recent:
            members["pricing"] =
                price.map {
                    .object([
                        "type": .string("price_details"), "unit_amount_decimal": .string("\($0.amount)"),
                        "price_details": .object(["price": .string($0.id), "product": .string($0.product)]),
                    ])
                } ?? .null
            members["parent"] = parent(ofItem)
        }
        return .object(members)
    }

    private func parent(_ subscription: String?) -> PayloadValue {
        let isInvoiceItem = item == nil
        var details: [String: PayloadValue] = [
            "proration": .boolean(isProration), "subscription": .text(subscription), "proration_details": .null,
            "invoice_item": isProration || isInvoiceItem ? .string("ii_\(id.dropFirst(3))") : .null,
        ]
        if let item { details["subscription_item"] = .string(item) }
        let kind = isInvoiceItem ? "invoice_item_details" : "subscription_item_details"
        let other = isInvoiceItem ? "subscription_item_details" : "invoice_item_details"
        return .object(["type": .string(kind), kind: .object(details), other: .null])
    }
}

/// An invoice as Stripe has it.
package struct StripeInvoice: Sendable, Equatable {
    /// How many lines stand in the invoice itself.
    static let shownLines = 10

    package let id: String
    package let customer: String
    /// Nil for one that was written by hand.
    package let subscription: String?
    let created: Int64
    let reason: String
    package internal(set) var status: String
    package let lines: [StripeLine]
    var attempts: Int64 = 0
    var nextAttempt: Int64?
    var amountPaid: Int64 = 0
    var paidAt: Int64?
    var paymentIntent: String?
    var charge: String?
    /// The subscription's metadata when the invoice was made.
    let metadata: [String: String]
    let isLive: Bool

    /// What is to be paid: what is credited beyond that is kept for later.
    package var due: Int64 { max(0, lines.reduce(0) { $0 + $1.amount }) }

    var currency: String { lines.lazy.compactMap(\.price).first?.currency ?? "usd" }

    func members(_ shape: StripeShape) -> [String: PayloadValue] {
        let shown = lines.prefix(Self.shownLines).map { $0.json(shape, of: subscription, isLive: isLive) }
        var members: [String: PayloadValue] = [
            "customer": .string(customer), "created": .seconds(created), "billing_reason": .string(reason),
            "status": .string(status), "amount_due": .integer(due), "amount_paid": .integer(amountPaid),
            "amount_remaining": .integer(due - amountPaid), "total": .integer(lines.reduce(0) { $0 + $1.amount }),
            "currency": .string(currency), "attempt_count": .integer(attempts),
            "attempted": .boolean(attempts > 0), "next_payment_attempt": .seconds(nextAttempt),
            "period_start": .seconds(created), "period_end": .seconds(created), "metadata": .object([:]),
            "status_transitions": .object([
                "finalized_at": status == "draft" ? .null : .seconds(created), "paid_at": .seconds(paidAt),
                "voided_at": .null, "marked_uncollectible_at": .null,
            ]),
            "lines": .list(shown, hasMore: lines.count > Self.shownLines, url: "/v1/invoices/\(id)/lines"),
        ]
        switch shape {
        case .early:
            members["paid"] = .boolean(status == "paid")
            members["subscription"] = .text(subscription)
            members["charge"] = .text(charge)
            members["payment_intent"] = .text(paymentIntent)
            members["subscription_details"] =
                .object(["metadata": subscription == nil ? .null : .texts(metadata)])
        case .recent:
            let details: PayloadValue = .object(["subscription": .text(subscription), "metadata": .texts(metadata)])
            members["parent"] =
                subscription == nil
                ? .null
                : .object([
                    "type": .string("subscription_details"), "quote_details": .null, "subscription_details": details,
                ])
        }
        return members
    }

    /// For which invoice a payment was made; since basil no other object says so.
    func payment(_ shape: StripeShape, expanded: Bool) -> PayloadValue? {
        guard let paymentIntent, status == "paid" else { return nil }
        let invoice: PayloadValue =
            expanded ? StripeObject.invoice(self).json(shape, isLive: isLive) : .string(id)
        return .object([
            "id": .string("inpay_\(id.dropFirst(3))"), "object": .string("invoice_payment"),
            "amount_paid": .integer(amountPaid), "amount_requested": .integer(due), "created": .seconds(created),
            "currency": .string(currency), "invoice": invoice,
            "is_default": .boolean(true), "livemode": .boolean(isLive), "status": .string("paid"),
            "payment": .object(["type": .string("payment_intent"), "payment_intent": .string(paymentIntent)]),
        ])
    }
}
