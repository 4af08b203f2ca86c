import AppStorePayloads
package import EntitlementCore

/// What a team's own records say of something that Stripe's metadata does not tell: whose it is, and what was paid for.
package struct StripeOwnerEntry: Hashable, Sendable {
    /// The longest id of Stripe's that is taken, in bytes.
    package static let idLimit = 255
    /// What the ids begin with that an entry may be about.
    package static let prefixes = ["sub_", "cus_", "pi_", "cs_"]

    /// A subscription, a customer of Stripe's, a payment intent or a session.
    package let id: String
    /// `nil` where Stripe itself names somebody: then nothing of whom the list names is kept.
    package private(set) var customer: CustomerID?
    /// What was paid for, of a payment alone: of a subscription Stripe says it.
    package let productID: String?

    /// - Returns: `nil` for an id that is none of those, and for a product of what is no payment.
    package init?(id: String, customer: CustomerID?, productID: String? = nil) {
        guard Self.prefixes.contains(where: { id.hasPrefix($0) && id.utf8.count > $0.utf8.count }),
            id.utf8.count <= Self.idLimit, Self.isPlain(id), productID.map(Self.isPlain) ?? true,
            productID == nil || id.hasPrefix("pi_") || id.hasPrefix("cs_")
        else { return nil }
        (self.id, self.customer, self.productID) = (id, customer, productID)
    }
}

extension StripeOwnerEntry {
    private static func isPlain(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= idLimit
            && text.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value != 127 }
    }

    /// What is left of it where Stripe itself says whose it is: what was paid for.
    var withoutCustomer: StripeOwnerEntry? {
        guard productID != nil else { return nil }
        var entry = self
        entry.customer = nil
        return entry
    }

    /// As it stands in evidence.
    var json: String {
        #"{"id":\#(JSONText.quoted(id))"# + (customer.map { #","customer_id":\#(JSONText.quoted($0.value))"# } ?? "")
            + (productID.map { #","product_id":\#(JSONText.quoted($0))"# } ?? "") + "}"
    }

    init?(_ json: JSONObject) {
        guard let id = json["id"]?.identifier else { return nil }
        let customer = json["customer_id"]?.string.flatMap { CustomerID($0) }
        let productID = json["product_id"]?.identifier
        guard customer != nil || productID != nil else { return nil }
        self.init(id: id, customer: customer, productID: productID)
    }
}
