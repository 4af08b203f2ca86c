package import AppStorePayloads
import StripePayloads

/// What something costs on the web: `GET /v1/prices/{id}`.
package struct StripePrice: Hashable, Sendable {
    /// In the currency's smallest unit; `nil` where it depends on how much is bought.
    package let amount: Int64?
    /// The currency's ISO code, in lower case.
    package let currency: String
    /// How often it is paid; `nil` for what is paid once.
    package let interval: Interval?
    /// Whether it can still be bought.
    package let isActive: Bool

    package struct Interval: Hashable, Sendable {
        /// Stripe's word: `day`, `week`, `month` or `year`.
        package let unit: String
        package let count: Int64
    }

    /// The request that reads a price.
    package static func request(_ id: String) -> StripeRequest {
        .get("/v1/prices/\(StripeLookup.escaped(id))")
    }

    /// - Throws: `PayloadError` for what is no price.
    package init(answer body: [UInt8]) throws(PayloadError) {
        let object = try JSONObject(parsing: body)
        guard object["object"]?.isText("price") == true else { throw .inconsistent("the answer is no price") }
        currency = try object.mandatory("currency", of: "the price") { $0["currency"]?.identifier }.lowercased()
        amount = object["unit_amount"]?.int64
        isActive = object["active"]?.bool ?? true
        guard let recurring = object["recurring"]?.object else {
            interval = nil
            return
        }
        interval = Interval(
            unit: try recurring.mandatory("interval", of: "the price") { $0["interval"]?.identifier },
            count: recurring["interval_count"]?.int64 ?? 1)
    }
}
