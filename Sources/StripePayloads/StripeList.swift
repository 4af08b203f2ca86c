package import AppStorePayloads

/// A page of one of Stripe's lists, taken apart so that each element is kept as it came.
package struct StripeList: Hashable, Sendable {
    /// The bytes of each element, in the order of the page: the newest first.
    package let elements: [[UInt8]]
    /// The id of the last element: where the next page goes on (`starting_after`); `nil` on an empty page.
    package let lastID: String?
    /// The id of the first element, from which a later sweep goes on (`ending_before`).
    package let firstID: String?
    package let hasMore: Bool

    /// The largest page that is read, in bytes: a hundred events with large objects are a few megabytes.
    package static let byteLimit = 32 << 20

    /// - Throws: `malformed` for what is no JSON object within the limits, `inconsistent` for what is no list.
    package init(parsing bytes: [UInt8]) throws(PayloadError) {
        let json = try JSONObject(parsing: bytes, limit: Self.byteLimit)
        guard json["object"]?.identifier == "list", let data = json["data"]?.array else {
            throw .inconsistent("the answer is no list")
        }
        elements = data.compactMap { $0.object?.text }
        firstID = data.first?.object?["id"]?.identifier
        lastID = data.last?.object?["id"]?.identifier
        guard let hasMore = json["has_more"]?.bool else { throw .inconsistent("the list has no usable has_more") }
        self.hasMore = hasMore
    }
}
