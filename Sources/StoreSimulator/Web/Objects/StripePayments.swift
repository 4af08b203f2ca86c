/// A session of a checkout.
package struct StripeSession: Sendable, Equatable {
    package let id: String
    /// `subscription` or `payment`.
    package let mode: String
    package internal(set) var status: String
    package internal(set) var paymentStatus: String
    package let created: Int64
    package let expiresAt: Int64
    package let prices: [SimulatedWebPrice]
    /// What is due in all, after what was given away.
    package let amount: Int64
    package internal(set) var customer: String?
    package internal(set) var subscription: String?
    package internal(set) var paymentIntent: String?
    var invoice: String?
    var clientReference: String?
    var metadata: [String: String] = [:]
    /// Where it is to be paid, while it is open.
    package var url: String?
    package var successURL: String?
    package var cancelURL: String?
    /// What is to be written into what it sells: the subscription or the payment intent.
    var saleMetadata: [String: String] = [:]
    var trialDays: Int64?
    /// Whether a customer is made of whoever pays once.
    var makesCustomer = false

    func members(_ shape: StripeShape) -> [String: PayloadValue] {
        [
            "mode": .string(mode), "status": .string(status), "payment_status": .string(paymentStatus),
            "created": .seconds(created), "expires_at": .seconds(expiresAt), "amount_total": .integer(amount),
            "amount_subtotal": .integer(prices.reduce(0) { $0 + $1.amount }),
            "currency": .string(prices.first?.currency ?? "usd"), "customer": .text(customer),
            "subscription": .text(subscription), "payment_intent": .text(paymentIntent), "invoice": .text(invoice),
            "client_reference_id": .text(clientReference), "metadata": .texts(metadata), "url": .text(url),
            "success_url": .text(successURL), "cancel_url": .text(cancelURL), "customer_email": .null,
            "ui_mode": .string(shape == .early ? "hosted" : "hosted_page"), "expires": .null,
        ]
    }

    func lineItems(isLive: Bool) -> [PayloadValue] {
        prices.enumerated().map { index, price in
            .object([
                "id": .string("li_\(index)_\(id.dropFirst(3))"), "object": .string("item"), "quantity": .integer(1),
                "amount_total": .integer(price.amount), "currency": .string(price.currency),
                "price": price.json(isLive: isLive), "description": .string(price.product),
            ])
        }
    }
}

/// A payment as Stripe has it.
package struct StripePaymentIntent: Sendable, Equatable {
    package let id: String
    let amount: Int64
    let currency: String
    var status: String
    let created: Int64
    let customer: String?
    var latestCharge: String?
    /// Only old versions say so.
    var invoice: String?
    var metadata: [String: String] = [:]

    func members(_ shape: StripeShape) -> [String: PayloadValue] {
        var members: [String: PayloadValue] = [
            "amount": .integer(amount), "amount_received": .integer(status == "succeeded" ? amount : 0),
            "currency": .string(currency), "status": .string(status), "created": .seconds(created),
            "customer": .text(customer), "latest_charge": .text(latestCharge), "metadata": .texts(metadata),
        ]
        if shape == .early { members["invoice"] = .text(invoice) }
        return members
    }
}

package struct StripeCharge: Sendable, Equatable {
    package let id: String
    let amount: Int64
    let currency: String
    var amountRefunded: Int64 = 0
    let created: Int64
    let customer: String?
    let paymentIntent: String
    /// Only old versions say so.
    let invoice: String?
    var isDisputed = false

    func members(_ shape: StripeShape) -> [String: PayloadValue] {
        var members: [String: PayloadValue] = [
            "amount": .integer(amount), "amount_refunded": .integer(amountRefunded), "currency": .string(currency),
            "created": .seconds(created), "customer": .text(customer), "payment_intent": .string(paymentIntent),
            "refunded": .boolean(amountRefunded >= amount), "disputed": .boolean(isDisputed), "paid": .boolean(true),
            "status": .string("succeeded"), "metadata": .object([:]),
        ]
        if shape == .early { members["invoice"] = .text(invoice) }
        return members
    }
}

package struct StripeRefund: Sendable, Equatable {
    package let id: String
    let amount: Int64
    let currency: String
    var status: String
    let created: Int64
    let charge: String
    let paymentIntent: String

    var members: [String: PayloadValue] {
        [
            "amount": .integer(amount), "currency": .string(currency), "status": .string(status),
            "created": .seconds(created), "charge": .string(charge), "payment_intent": .string(paymentIntent),
            "reason": .string("requested_by_customer"), "metadata": .object([:]),
        ]
    }
}

package struct StripeDispute: Sendable, Equatable {
    package let id: String
    let amount: Int64
    let currency: String
    var status: String
    let created: Int64
    let charge: String
    let paymentIntent: String

    func members(_ shape: StripeShape) -> [String: PayloadValue] {
        [
            "amount": .integer(amount), "currency": .string(currency), "status": .string(status),
            "created": .seconds(created), "charge": .string(charge), "payment_intent": .string(paymentIntent),
            "reason": .string("fraudulent"), "is_charge_refundable": .boolean(false), "metadata": .object([:]),
        ]
    }
}
