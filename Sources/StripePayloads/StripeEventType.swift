package import EntitlementCore

/// The types of Stripe's events that are asked for, and of which object each is.
package enum StripeEventType {
    /// What a webhook endpoint should be sent, and a sweep should ask for; an endpoint that is sent more loses nothing.
    package static let wanted: [String] = objects.keys.sorted()

    /// How many types one list of events may name.
    package static let perList = 20

    /// What a sweep asks for, list by list.
    package static let lists: [[String]] = stride(from: 0, to: wanted.count, by: perList).map {
        Array(wanted[$0..<min($0 + perList, wanted.count)])
    }

    /// The path of a page of the events of some types that were made within some time, the newest first.
    ///
    /// - Parameter after: the id of the last event of the page before.
    package static func page(_ types: [String], from: Timestamp, until: Timestamp, after: String?) -> String {
        // Events are dated in whole seconds; the last one may not be over yet.
        let (start, end) = (from.milliseconds / 1000, (until.milliseconds + 999) / 1000)
        return "/v1/events?created[gte]=\(start)&created[lt]=\(end)&limit=100"
            + types.map { "&types[]=\($0)" }.joined()
            + (after.map { "&starting_after=" + StripeLookup.escaped($0) } ?? "")
    }

    /// The `object` of what an event of a type is about; `nil` for a type that nobody asked for.
    static func object(of type: String) -> String? { objects[type] ?? tolerated[type] }

    /// The types that were known when this was written.
    package static var known: Set<String> { Set(objects.keys).union(tolerated.keys) }

    /// Whether an event's type is one that was known when this was written.
    package static func isKnown(_ type: String) -> Bool { object(of: type) != nil }

    private static let objects: [String: String] = [
        "checkout.session.completed": "checkout.session",
        "checkout.session.async_payment_succeeded": "checkout.session",
        "checkout.session.async_payment_failed": "checkout.session",
        "checkout.session.expired": "checkout.session",
        "customer.subscription.created": "subscription",
        "customer.subscription.updated": "subscription",
        "customer.subscription.deleted": "subscription",
        "customer.subscription.paused": "subscription",
        "customer.subscription.resumed": "subscription",
        "invoice.paid": "invoice",
        "invoice.payment_failed": "invoice",
        "invoice.payment_action_required": "invoice",
        "invoice.voided": "invoice",
        "invoice.marked_uncollectible": "invoice",
        "charge.refunded": "charge",
        "charge.refund.updated": "refund",
        "refund.created": "refund",
        "refund.updated": "refund",
        "refund.failed": "refund",
        "charge.dispute.created": "dispute",
        "charge.dispute.updated": "dispute",
        "charge.dispute.closed": "dispute",
        "charge.dispute.funds_withdrawn": "dispute",
        "charge.dispute.funds_reinstated": "dispute",
    ]

    /// What says nothing that the others do not, and is understood where it comes.
    private static let tolerated: [String: String] = [
        "invoice.payment_succeeded": "invoice",
        "invoice.updated": "invoice",
        "invoice.finalized": "invoice",
        "payment_intent.succeeded": "payment_intent",
        "charge.succeeded": "charge",
        "invoice_payment.paid": "invoice_payment",
        "customer.subscription.trial_will_end": "subscription",
        "customer.subscription.pending_update_applied": "subscription",
        "customer.subscription.pending_update_expired": "subscription",
    ]

    /// Which way an event says that disputed money went.
    static func funds(of type: String) -> Bool? {
        switch type {
        case "charge.dispute.funds_withdrawn": false
        case "charge.dispute.funds_reinstated": true
        default: nil
        }
    }
}
