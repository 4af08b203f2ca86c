package import EntitlementCore
import StripePayloads

/// A team's own list of whose what is at Stripe, for purchases in whose metadata nobody is named.
package struct StripeOwnerList: Sendable {
    private var entries: [String: StripeOwnerEntry] = [:]

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    /// Whether an id is of a kind that the list may speak of: a subscription's, a customer's of Stripe, a payment's or a session's.
    package static func isOfKind(_ id: String) -> Bool { StripeOwnerEntry.prefixes.contains { id.hasPrefix($0) } }

    /// Why an entry is not taken.
    package enum Refusal: Error, Sendable {
        /// The id is none, or too long, or a product is named of what is no payment.
        case unusable
        /// The list says something else of the same.
        case contradiction
    }

    /// Adds an entry.
    ///
    /// - Parameter productID: what was paid for, of a payment or session alone.
    package mutating func add(_ id: String, of customer: CustomerID, for productID: String? = nil) throws(Refusal) {
        guard let entry = StripeOwnerEntry(id: id, customer: customer, productID: productID) else { throw .unusable }
        if let known = entries[id], known != entry { throw .contradiction }
        entries[id] = entry
    }

    /// The entries about subscriptions and payments, in the order of their ids.
    var purchases: [StripeOwnerEntry] {
        entries.values.filter { $0.id.hasPrefix("sub_") || $0.id.hasPrefix("pi_") }.sorted { $0.id < $1.id }
    }

    func names(_ id: String) -> Bool { entries[id] != nil }

    /// What is said of something by one of its ids: the purchase itself before who paid.
    func entry(ofAny names: [String]) -> StripeOwnerEntry? {
        let known = names.compactMap { entries[$0] }
        return known.first { !$0.id.hasPrefix("cus_") } ?? known.first
    }
}
