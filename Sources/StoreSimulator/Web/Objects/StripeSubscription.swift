/// Somebody who pays.
package struct StripeCustomer: Sendable, Equatable {
    package let id: String
    let created: Int64
    var email: String?
    var metadata: [String: String] = [:]

    var members: [String: PayloadValue] {
        ["created": .seconds(created), "email": .text(email), "metadata": .texts(metadata), "name": .null]
    }
}

/// One thing that a subscription is of.
package struct StripeItem: Sendable, Equatable {
    let id: String
    var price: SimulatedWebPrice
    var quantity: Int64 = 1
    var start: Int64
    var end: Int64

    func json(_ shape: StripeShape, isLive: Bool = true) -> PayloadValue {
        var members: [String: PayloadValue] = [
            "id": .string(id), "object": .string("subscription_item"), "quantity": .integer(quantity),
            "price": price.json(isLive: isLive), "metadata": .object([:]),
        ]
        switch shape {
        case .early: members["plan"] = price.plan
        case .recent:
            members["current_period_start"] = .seconds(start)
            members["current_period_end"] = .seconds(end)
        }
        return .object(members)
    }
}

/// A subscription as Stripe has it.
package struct StripeSubscription: Sendable, Equatable {
    package let id: String
    package let customer: String
    let created: Int64
    package internal(set) var status: String
    package internal(set) var items: [StripeItem]
    package internal(set) var cancelAt: Int64?
    package internal(set) var cancelsAtPeriodEnd = false
    var canceledAt: Int64?
    package internal(set) var endedAt: Int64?
    /// Why it was cancelled.
    var reason: String?
    /// The behaviour of a pause of its collection.
    package internal(set) var pause: String?
    var trialStart: Int64?
    package internal(set) var trialEnd: Int64?
    var latestInvoice: String?
    var metadata: [String: String] = [:]

    /// When the period that ends first is over.
    package var periodEnd: Int64 { items.map(\.end).min() ?? created }

    func members(_ shape: StripeShape) -> [String: PayloadValue] {
        var members: [String: PayloadValue] = [
            "customer": .string(customer), "created": .seconds(created), "status": .string(status),
            "cancel_at": .seconds(cancelAt), "cancel_at_period_end": .boolean(cancelsAtPeriodEnd),
            "canceled_at": .seconds(canceledAt), "ended_at": .seconds(endedAt), "trial_start": .seconds(trialStart),
            "trial_end": .seconds(trialEnd), "latest_invoice": .text(latestInvoice), "metadata": .texts(metadata),
            "cancellation_details": .object(["reason": .text(reason), "comment": .null, "feedback": .null]),
            "collection_method": .string("charge_automatically"), "test_clock": .null,
            "currency": .string(items.first?.price.currency ?? "usd"), "start_date": .seconds(created),
            "items": .list(items.map { $0.json(shape) }, url: "/v1/subscription_items?subscription=\(id)"),
        ]
        members["pause_collection"] =
            pause.map { .object(["behavior": .string($0), "resumes_at": .null]) } ?? .null
        switch shape {
        case .early:
            members["current_period_start"] = .seconds(items.map(\.start).min())
            members["current_period_end"] = .seconds(items.map(\.end).min())
        case .recent:
            members["billing_mode"] = .object(["type": .string("flexible")])
        }
        return members
    }
}
