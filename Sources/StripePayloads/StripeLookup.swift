import AppStorePayloads
import EntitlementCore

/// Something that is to be read from Stripe's API.
///
/// `path` is the whole request: a `GET` of it from `https://api.stripe.com`.
package enum StripeLookup: Hashable, Sendable {
    case subscription(String)
    case subscriptionItems(String, after: String?)
    case invoice(String)
    case invoiceLines(String, after: String?)
    /// For which invoice a payment intent was paid, if for any; with that invoice.
    case invoiceOfPayment(String)
    /// The same by a charge, for payments without an intent.
    case invoiceOfCharge(String)
    /// In which session a payment was made, if in any.
    case sessionOfPayment(String)
    case session(String)
    case sessionItems(String, after: String?)
    case paymentIntent(String)
    case charge(String)
    case refund(String)
    case refundsOfCharge(String, after: String?)
    case dispute(String)

    /// The largest page that Stripe gives.
    static let pageSize = 100

    package var path: String {
        switch self {
        case .subscription(let id): "/v1/subscriptions/\(Self.escaped(id))"
        case .subscriptionItems(let id, let after):
            "/v1/subscription_items?subscription=\(Self.escaped(id))" + Self.page(after, "&")
        case .invoice(let id): "/v1/invoices/\(Self.escaped(id))"
        case .invoiceLines(let id, let after): "/v1/invoices/\(Self.escaped(id))/lines" + Self.page(after, "?")
        case .invoiceOfPayment(let id):
            "/v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=\(Self.escaped(id))"
                + "&expand[]=data.invoice&limit=\(Self.pageSize)"
        case .invoiceOfCharge(let id):
            "/v1/invoice_payments?payment[type]=charge&payment[charge]=\(Self.escaped(id))"
                + "&expand[]=data.invoice&limit=\(Self.pageSize)"
        case .sessionOfPayment(let id): "/v1/checkout/sessions?payment_intent=\(Self.escaped(id))&limit=1"
        case .session(let id): "/v1/checkout/sessions/\(Self.escaped(id))"
        case .sessionItems(let id, let after):
            "/v1/checkout/sessions/\(Self.escaped(id))/line_items" + Self.page(after, "?")
        case .paymentIntent(let id): "/v1/payment_intents/\(Self.escaped(id))?expand[]=latest_charge"
        case .charge(let id): "/v1/charges/\(Self.escaped(id))"
        case .refund(let id): "/v1/refunds/\(Self.escaped(id))"
        case .refundsOfCharge(let id, let after): "/v1/refunds?charge=\(Self.escaped(id))" + Self.page(after, "&")
        case .dispute(let id): "/v1/disputes/\(Self.escaped(id))"
        }
    }

    /// The object with an id, told by what Stripe begins such ids with; `nil` for one of which nothing is read.
    package init?(id: String) {
        switch id.prefix(while: { $0 != "_" }) {
        case "sub": self = .subscription(id)
        case "in": self = .invoice(id)
        case "cs": self = .session(id)
        case "pi": self = .paymentIntent(id)
        case "ch", "py": self = .charge(id)
        case "re", "pyr": self = .refund(id)
        case "dp", "du": self = .dispute(id)
        default: return nil
        }
    }

    /// Whether it looks for something that may not be there; else it asks for what Stripe itself has told of.
    package var isSearch: Bool {
        switch self {
        case .invoiceOfPayment, .invoiceOfCharge, .sessionOfPayment: true
        case .subscription, .subscriptionItems, .invoice, .invoiceLines, .session, .sessionItems, .paymentIntent,
            .charge, .refund, .refundsOfCharge, .dispute:
            false
        }
    }

    /// Whether an object is of the kind that was asked for, and where it was asked for by its id, is that one.
    func isAnswered(by object: JSONObject) -> Bool {
        switch self {
        case .subscription(let id), .invoice(let id), .session(let id), .paymentIntent(let id), .charge(let id),
            .refund(let id), .dispute(let id):
            object["id"]?.identifier == id
        case .subscriptionItems, .invoiceLines, .invoiceOfPayment, .invoiceOfCharge, .sessionOfPayment, .sessionItems,
            .refundsOfCharge:
            object["object"]?.identifier == "list"
        }
    }

    private static func page(_ after: String?, _ joint: String) -> String {
        "\(joint)limit=\(pageSize)" + (after.map { "&starting_after=\(escaped($0))" } ?? "")
    }

    /// An id as a part of a path or a query; Stripe's own have nothing to escape, and a forged one must not lead elsewhere.
    package static func escaped(_ id: String) -> String { PercentEncoding.text(id, leaving: "-_") }
}

/// A look-up that an event calls for.
package struct StripeFollowUp: Hashable, Sendable {
    package enum Urgency: Hashable, Sendable {
        /// What the event says takes effect only with it: it belongs before the answer.
        case now
        /// The event speaks for itself, and two may have come in the wrong order: it may wait a little.
        case soon
    }

    package let lookup: StripeLookup
    package let urgency: Urgency

    package init(_ lookup: StripeLookup, _ urgency: Urgency) {
        self.lookup = lookup
        self.urgency = urgency
    }
}
