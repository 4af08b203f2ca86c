/// What the log speaks of that is for a person to look at: the answer of `GET /v1/remarks`.
package struct RemarksDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Seen: Codable, Hashable, Sendable {
        package let name: String
        /// What the catalog can name it by, where it was sold on the web.
        package let stripe: Stripe?
        /// How many events speak of it.
        package let events: Int64
        package let firstPosition: Int64
        package let lastPosition: Int64

        package init(name: String, stripe: Stripe?, events: Int64, firstPosition: Int64, lastPosition: Int64) {
            self.name = name
            self.stripe = stripe
            self.events = events
            self.firstPosition = firstPosition
            self.lastPosition = lastPosition
        }

        private enum CodingKeys: String, CodingKey {
            case name, stripe, events
            case firstPosition = "first_position"
            case lastPosition = "last_position"
        }
    }

    /// What Stripe calls a product.
    package struct Stripe: Codable, Hashable, Sendable {
        package let price: String?
        package let product: String?

        package init(price: String?, product: String?) {
            self.price = price
            self.product = product
        }
    }

    package static let objectName = "remarks"
    package private(set) var object = Self.objectName
    /// Up to which position it is counted.
    package let countedTo: Int64
    /// By kind, such as `unknown_field`; the most frequent first.
    package let remarks: [Seen]
    /// Products that were sold and of which the catalog in force knows nothing; the most frequent first.
    package let unmappedProducts: [Seen]
    /// Products that were sold as non-renewing subscriptions and that give nothing, because the catalog in force has no
    /// `duration` for them; the most frequent first.
    package let productsWithoutDuration: [Seen]

    package init(countedTo: Int64, remarks: [Seen], unmappedProducts: [Seen], productsWithoutDuration: [Seen]) {
        self.countedTo = countedTo
        self.remarks = remarks
        self.unmappedProducts = unmappedProducts
        self.productsWithoutDuration = productsWithoutDuration
    }

    private enum CodingKeys: String, CodingKey {
        case object, remarks
        case countedTo = "counted_to"
        case unmappedProducts = "unmapped_products"
        case productsWithoutDuration = "products_without_duration"
    }
}
