package import EntitlementCore

/// A product of the catalog and where it is sold: an item of `GET /v1/products`.
package struct ProductDocument: Codable, Hashable, Sendable {
    /// What it costs on the web.
    package struct WebPrice: Codable, Hashable, Sendable {
        /// In the currency's smallest unit; `null` where it depends on how much is bought.
        @Nullable package private(set) var amount: Int64?
        /// The currency's ISO code, in lower case.
        package let currency: String
        /// `day`, `week`, `month` or `year`; `null` for what is paid once.
        @Nullable package private(set) var interval: String?
        /// How many of them pass from one payment to the next; `null` for what is paid once.
        @Nullable package private(set) var intervalCount: Int64?
        /// When Stripe said so.
        package let asOf: Timestamp

        package init(amount: Int64?, currency: String, interval: String?, intervalCount: Int64?, asOf: Timestamp) {
            _amount = Nullable(wrappedValue: amount)
            self.currency = currency
            _interval = Nullable(wrappedValue: interval)
            _intervalCount = Nullable(wrappedValue: intervalCount)
            self.asOf = asOf
        }

        private enum CodingKeys: String, CodingKey {
            case amount, currency, interval
            case intervalCount = "interval_count"
            case asOf = "as_of"
        }
    }

    package let productID: String
    package let entitlements: [String]
    /// Whether the App Store sells it.
    package let appStore: Bool
    /// `null` where it is not sold on the web, or where its price is not known now.
    @Nullable package private(set) var web: WebPrice?

    package init(productID: String, entitlements: [String], isInAppStore: Bool, web: WebPrice?) {
        self.productID = productID
        self.entitlements = entitlements
        appStore = isInAppStore
        _web = Nullable(wrappedValue: web)
    }

    private enum CodingKeys: String, CodingKey {
        case entitlements, web
        case productID = "product_id"
        case appStore = "app_store"
    }
}
