package import AppStorePayloads
package import EntitlementCore

/// One of Stripe's lists of objects, which are read page by page, the newest first.
package struct StripeListing: Hashable, Sendable {
    /// Such as `subscriptions`: what it lists.
    package let name: String
    private let query: String

    private init(_ name: String, _ query: [String]) {
        self.name = name
        self.query = (query + ["limit=\(StripeLookup.pageSize)"]).joined(separator: "&")
    }

    /// Everything that an account holds and that bears on what somebody has, in the order in which to read it: who bought
    /// something stands in a session before it is asked whose a subscription is.
    ///
    /// - Parameter withCustomers: whether Stripe's customers are read beside what they bought.
    package static func all(withCustomers: Bool) -> [StripeListing] {
        let customer = withCustomers ? ["expand[]=data.customer"] : []
        return [
            StripeListing(
                "checkout/sessions",
                ["expand[]=data.line_items", "expand[]=data.payment_intent.latest_charge"] + customer),
            payments(customer),
            // Else those that are over are left out.
            StripeListing("subscriptions", ["status=all"] + customer), StripeListing("invoices", []),
            StripeListing("refunds", []), StripeListing("disputes", []),
        ]
    }

    private static func payments(_ expanded: [String]) -> StripeListing {
        StripeListing("payment_intents", ["expand[]=data.latest_charge"] + expanded)
    }

    /// The invoices of a subscription.
    package static func invoices(ofSubscription id: String) -> StripeListing {
        StripeListing("invoices", ["subscription=\(StripeLookup.escaped(id))"])
    }

    /// The session in which a subscription was sold.
    package static func sessions(ofSubscription id: String) -> StripeListing {
        StripeListing("checkout/sessions", ["subscription=\(StripeLookup.escaped(id))"])
    }

    /// The payments of one of Stripe's customers.
    package static func charges(ofCustomer id: String) -> StripeListing {
        StripeListing("charges", ["customer=\(StripeLookup.escaped(id))"])
    }

    /// What of a payment was given back, or is disputed.
    package static func refunds(ofPayment id: String) -> StripeListing { ofPayment(id, "refunds") }
    package static func disputes(ofPayment id: String) -> StripeListing { ofPayment(id, "disputes") }

    private static func ofPayment(_ id: String, _ name: String) -> StripeListing {
        let filter = id.hasPrefix("pi_") ? "payment_intent" : "charge"
        return StripeListing(name, ["\(filter)=\(StripeLookup.escaped(id))"])
    }

    /// The path of a page.
    ///
    /// - Parameters:
    ///   - after: the last object of the page before.
    ///   - until: what was made later is left out.
    package func page(after: String? = nil, until: Timestamp? = nil) -> String {
        "/v1/\(name)?\(query)" + (until.map { "&created[lte]=\($0.milliseconds / 1000)" } ?? "")
            + (after.map { "&starting_after=\(StripeLookup.escaped($0))" } ?? "")
    }
}

/// What of an object out of a list is to be known before it is read.
package struct StripeListed: Hashable, Sendable {
    /// `nil` where it has none, and so is nothing of Stripe's.
    package let id: String?
    package let created: Timestamp?
    /// `cus_…`: who paid.
    package let customer: String?
    /// Whether nothing that is recorded can come of it: a checkout that nobody went through, or an invoice or a payment that
    /// is not paid.
    package let isUnfinished: Bool
    /// Of a payment, whether some of it was given back, or it was disputed.
    package let isTakenBack: Bool
    /// Its metadata says whose it is, or which product of the catalog was sold.
    package let isNamed: Bool

    /// - Parameter ownerMetadata: another key of metadata under which is written whose something is.
    /// - Throws: `malformed` for what is no JSON object within the limits.
    package init(parsing bytes: [UInt8], ownerMetadata: String? = nil) throws(PayloadError) {
        let object = try JSONObject(parsing: bytes, limit: StripeList.byteLimit)
        id = object["id"]?.identifier
        created = object.instant("created")
        customer = object.id("customer")
        let status = object["status"]?.identifier
        isUnfinished =
            switch object["object"]?.identifier {
            case "checkout.session": ["open", "expired"].contains(status)
            case "invoice": status.map { $0 != "paid" } ?? false
            case "payment_intent": status != "succeeded"
            default: false
            }
        isTakenBack = object["amount_refunded"]?.int64 ?? 0 > 0 || object.flag("disputed")
        isNamed = OwnMetadata(of: object, or: ownerMetadata).isOurs
    }
}
