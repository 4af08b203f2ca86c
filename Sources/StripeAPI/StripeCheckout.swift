package import AppStorePayloads
package import EntitlementCore
import StripePayloads

/// A checkout that is to be opened: `POST /v1/checkout/sessions`.
package struct StripeCheckoutOrder: Hashable, Sendable {
    /// The longest `client_reference_id`, in characters (Stripe, "Create a Checkout Session").
    private static let referenceLimit = 200

    package let customer: CustomerID
    private let productID: String
    private let price: String
    private let mode: StripeProduct.Mode
    private let successURL: String
    private let cancelURL: String
    private var stripeCustomer: String?
    private let externalPurchaseToken: String?

    /// - Parameters:
    ///   - customer: whose the purchase will be.
    ///   - productID: what is sold, as the catalog names it.
    ///   - price: what Stripe calls it, `price_…`.
    ///   - mode: how it is sold.
    ///   - stripeCustomer: `cus_…` of whoever bought before, so that Stripe keeps one for each customer.
    ///   - externalPurchaseToken: what Apple gave the app for a purchase outside of it; up to 500 characters
    ///     (Stripe, "Metadata").
    package init(
        for customer: CustomerID, of productID: String, price: String, _ mode: StripeProduct.Mode,
        successURL: String, cancelURL: String, stripeCustomer: String? = nil, externalPurchaseToken: String? = nil
    ) {
        self.customer = customer
        self.productID = productID
        self.price = price
        self.mode = mode
        self.successURL = successURL
        self.cancelURL = cancelURL
        self.stripeCustomer = stripeCustomer
        self.externalPurchaseToken = externalPurchaseToken
    }

    /// The same, to be paid by somebody whom Stripe knows, or by nobody it does.
    package func paid(by stripeCustomer: String?) -> StripeCheckoutOrder {
        var order = self
        order.stripeCustomer = stripeCustomer
        return order
    }

    /// All that is ordered, one way for one order.
    package var description: String {
        request(idempotencyKey: "").body.map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// What Stripe is sent.
    ///
    /// The customer is named in every place from which something of the purchase may come back: Stripe copies the metadata
    /// of a session to nothing that it makes.
    ///
    /// - Parameter idempotencyKey: names this checkout, however often it is sent.
    package func request(idempotencyKey: String) -> StripeRequest {
        var form = [
            StripeRequest.Field("mode", mode.rawValue),
            StripeRequest.Field("line_items[0][price]", price),
            StripeRequest.Field("line_items[0][quantity]", "1"),
            StripeRequest.Field("success_url", successURL), StripeRequest.Field("cancel_url", cancelURL),
        ]
        if customer.value.unicodeScalars.count <= Self.referenceLimit {
            form.append(StripeRequest.Field("client_reference_id", customer.value))
        }
        if let stripeCustomer { form.append(StripeRequest.Field("customer", stripeCustomer)) }
        let copied: String
        switch mode {
        case .subscription: copied = "subscription_data[metadata]"
        case .payment:
            copied = "payment_intent_data[metadata]"
            // Else there is nobody whom the portal could show the receipt to.
            if stripeCustomer == nil { form.append(StripeRequest.Field("customer_creation", "always")) }
        }
        for place in ["metadata", copied] {
            form.append(StripeRequest.Field("\(place)[\(StripeMetadata.customerID)]", customer.value))
            form.append(StripeRequest.Field("\(place)[\(StripeMetadata.productID)]", productID))
            if let externalPurchaseToken {
                form.append(
                    StripeRequest.Field("\(place)[\(StripeMetadata.externalPurchaseToken)]", externalPurchaseToken))
            }
        }
        return .post("/v1/checkout/sessions", form, idempotencyKey: idempotencyKey)
    }
}

/// A checkout that is open: what `POST /v1/checkout/sessions` answers.
package struct StripeCheckoutSession: Hashable, Sendable {
    /// `cs_…`.
    package let id: String
    /// The page on which is paid.
    package let url: String
    /// Until when it can be paid there.
    package let expiresAt: Timestamp?

    /// - Throws: `PayloadError` for what is no open session of the environment.
    package init(answer body: [UInt8], in environment: StoreEnvironment) throws(PayloadError) {
        let object = try JSONObject(parsing: body)
        id = try object.mandatoryID(of: "the checkout session")
        url = try object.mandatory("url", of: "the checkout session") { $0["url"]?.string }
        guard url.hasPrefix("https://") || url.hasPrefix("http://") else {
            throw .inconsistent("the url of the checkout session is no web address")
        }
        expiresAt = object.instant("expires_at")
        try object.check(environment, of: "the checkout session")
    }

    /// Closes a page, so that nothing is paid on it any more; refused where it is closed already.
    ///
    /// - Parameter idempotencyKey: another for each attempt, since Stripe repeats what it answered first, failures too.
    package static func expiry(of id: String, idempotencyKey: String) -> StripeRequest {
        .post("/v1/checkout/sessions/\(id)/expire", [], idempotencyKey: idempotencyKey)
    }
}

/// What became of a page on which something is to be paid.
///
/// Source: Stripe, "The Checkout Session object", "The PaymentIntent object", "The Subscription object".
package enum StripeCheckoutStanding: Hashable, Sendable {
    /// It can be paid.
    case open
    /// It was paid, or a payment is under way; with all that the purchase may be known by.
    case used(Set<String>)
    /// Nothing comes of it.
    case over

    package static func request(_ id: String) -> StripeRequest {
        .get("/v1/checkout/sessions/\(id)?expand%5B%5D=payment_intent&expand%5B%5D=subscription")
    }

    /// - Throws: `PayloadError` for what is no session of the environment.
    package init(answer body: [UInt8], in environment: StoreEnvironment) throws(PayloadError) {
        let object = try JSONObject(parsing: body)
        let id = try object.mandatoryID(of: "the checkout session")
        try object.check(environment, of: "the checkout session")
        let names = Set([id, object.id("payment_intent"), object.id("subscription")].compactMap(\.self))
        switch try object.mandatory("status", of: "the checkout session", { $0["status"]?.identifier }) {
        case "open": self = .open
        case "expired": self = .over
        default:
            let isPaid = object["payment_status"]?.identifier != "unpaid"
            let bought = [object.expanded("payment_intent"), object.expanded("subscription")].compactMap(\.self)
            self = isPaid || bought.isEmpty || bought.contains(where: Self.isUnderWay) ? .used(names) : .over
        }
    }

    /// The request for a payment intent or a subscription that was not paid when it was last heard of.
    package static func request(ofUnpaid original: String) -> StripeRequest? {
        guard StripeRequest.isPlain(original) else { return nil }
        if original.hasPrefix("pi_") { return .get("/v1/payment_intents/\(original)") }
        return original.hasPrefix("sub_") ? .get("/v1/subscriptions/\(original)") : nil
    }

    /// Whether money may still come of a payment intent or a subscription.
    package static func isUnderWay(answer body: [UInt8]) throws(PayloadError) -> Bool {
        isUnderWay(try JSONObject(parsing: body))
    }

    private static func isUnderWay(_ object: JSONObject) -> Bool {
        switch object["status"]?.identifier {
        // Of a payment intent: it failed, or was given up.
        case "requires_payment_method", "canceled": false
        // Of a subscription whose first payment never came, or which was ended.
        case "incomplete_expired", "unpaid": false
        default: true
        }
    }
}

/// The page on which somebody looks after what they bought: `POST /v1/billing_portal/sessions`.
package enum StripePortal {
    /// - Parameters:
    ///   - stripeCustomer: `cus_…`.
    ///   - returnURL: where the page leads back to.
    ///   - idempotencyKey: names this page, however often it is sent.
    package static func request(
        of stripeCustomer: String, returnURL: String, idempotencyKey: String
    ) -> StripeRequest {
        .post(
            "/v1/billing_portal/sessions",
            [StripeRequest.Field("customer", stripeCustomer), StripeRequest.Field("return_url", returnURL)],
            idempotencyKey: idempotencyKey)
    }

    /// The page's address, good for a short time.
    ///
    /// - Throws: `PayloadError` for what is no portal session of the environment.
    package static func url(answer body: [UInt8], in environment: StoreEnvironment) throws(PayloadError) -> String {
        let object = try JSONObject(parsing: body)
        let url = try object.mandatory("url", of: "the portal session") { $0["url"]?.string }
        guard url.hasPrefix("https://") || url.hasPrefix("http://") else {
            throw .inconsistent("the url of the portal session is no web address")
        }
        try object.check(environment, of: "the portal session")
        return url
    }
}

extension JSONObject {
    /// - Throws: `PayloadError` where the object is of the other mode: the key is another account's, or of the other mode.
    fileprivate func check(_ environment: StoreEnvironment, of object: String) throws(PayloadError) {
        guard let isLive = self["livemode"]?.bool else { return }
        guard isLive == (environment == .production) else {
            throw .inconsistent("\(object) is of Stripe's \(isLive ? "live" : "test") mode")
        }
    }
}
