package import AppStorePayloads
package import EntitlementCore

extension JSONObject {
    /// A reference: an id, or the object itself where it was asked for expanded.
    package func id(_ name: String) -> String? {
        self[name]?.identifier ?? self[name]?.object?["id"]?.identifier
    }

    /// The object that a reference was expanded to.
    package func expanded(_ name: String) -> JSONObject? { self[name]?.object }

    /// An instant, which Stripe writes in whole seconds since 1970.
    package func instant(_ name: String) -> Timestamp? { self[name]?.int64.map { Timestamp(seconds: $0) } }

    func flag(_ name: String) -> Bool { self[name]?.bool ?? false }

    /// The elements of a list: of an array, or of one that Stripe pages.
    func elements(_ name: String) -> [JSONObject] {
        (self[name]?.array ?? self[name]?.object?["data"]?.array ?? []).compactMap(\.object)
    }

    /// Whether a list has more than what is here.
    func hasMore(_ name: String) -> Bool { self[name]?.object?.flag("has_more") ?? false }

    /// A field without which the object is not what it was taken for.
    package func mandatory<Value>(
        _ name: String, of object: String, _ read: (JSONObject) -> Value?
    ) throws(PayloadError) -> Value {
        guard let value = read(self) else { throw .inconsistent("\(object) has no usable \(name)") }
        return value
    }

    package func mandatoryID(of object: String) throws(PayloadError) -> String {
        try mandatory("id", of: object) { $0["id"]?.identifier }
    }
}

extension Timestamp {
    init(seconds: Int64) {
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        self.init(milliseconds: overflow ? (seconds < 0 ? .min : .max) : milliseconds)
    }
}

/// What we write into the metadata of what we sell, so that Stripe hands it back.
package enum StripeMetadata {
    /// Whose it is: in the session, and in the subscription or payment intent that it makes.
    package static let customerID = "rightful_customer_id"
    /// Which product of the catalog is sold: in the session, and in the payment intent of a one-time payment.
    package static let productID = "rightful_product_id"
    /// What Apple gave the app for a purchase outside of it, to be reported to Apple with what was bought.
    package static let externalPurchaseToken = "rightful_external_purchase_token"

    /// Whether something can be a key of metadata, which has at most 40 characters and no brackets (Stripe, "Metadata").
    package static func isKey(_ text: String) -> Bool {
        (1...40).contains(text.unicodeScalars.count)
            && text.unicodeScalars.allSatisfy { scalar in
                scalar != "[" && scalar != "]" && scalar != "\"" && scalar != "\\"
                    && scalar.properties.generalCategory != .control
            }
    }
}

/// What the metadata of an object says of us.
struct OwnMetadata {
    let customerID: CustomerID?
    let productID: String?
    /// A customer id is there, and can be nobody's.
    let isUnusable: Bool

    /// - Parameter other: another key under which somebody else wrote whose it is; ours counts before it.
    init(_ metadata: JSONObject?, or other: String?) {
        let text = metadata?[StripeMetadata.customerID]?.string ?? other.flatMap { metadata?[$0]?.string }
        customerID = text.flatMap { CustomerID($0) }
        isUnusable = customerID == nil && text.map { !$0.isEmpty } ?? false
        productID = metadata?[StripeMetadata.productID]?.identifier
    }

    init(of object: JSONObject, or other: String?) { self.init(object["metadata"]?.object, or: other) }

    var isOurs: Bool { customerID != nil || productID != nil }
}
