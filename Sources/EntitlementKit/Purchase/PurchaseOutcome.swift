/// What became of a purchase.
///
/// A later major version may add cases; write `default:` where you switch over it.
public enum PurchaseOutcome: Sendable, Hashable {
    /// Bought, verified and in the published state; what the App Store sold is on disk, too, or is tried again to be put there, and
    /// is not finished before.
    case success(Purchase)
    /// Somebody has to approve it first (Ask to Buy), or the bank does; or a page of the web checkout was left, and the server
    /// has not heard of the payment yet. Should it come, it becomes part of the published state by itself, however much later.
    case pending
    /// The person changed their mind.
    case userCancelled
    /// Nothing was bought, as far as the store tells; what it made all the same becomes part of the published state.
    case failed(PurchaseError)

    /// What was bought; `nil` for every outcome but success.
    public var purchase: Purchase? {
        if case .success(let purchase) = self { purchase } else { nil }
    }
}

/// A purchase that was made and believed.
public struct Purchase: Sendable, Hashable {
    /// The store's id of the transaction; the original's, for what was bought on the web.
    public let transactionID: String
    /// The original transaction it rests on; on the web that is a subscription or a payment, or the checkout where the server
    /// does not tell.
    public let originalTransactionID: String
    /// The product.
    public let productID: String
    /// What the customer holds with it.
    public let entitlements: Entitlements

    /// Puts one together from its parts.
    public init(
        transactionID: String, originalTransactionID: String, productID: String, entitlements: Entitlements
    ) {
        self.transactionID = transactionID
        self.originalTransactionID = originalTransactionID
        self.productID = productID
        self.entitlements = entitlements
    }
}
