/// What became of a purchase.
///
/// A later major version may add cases; write `default:` where you switch over it.
public enum PurchaseOutcome: Sendable, Hashable {
    /// Bought, verified, on disk and in the published state.
    case success(Purchase)
    /// Somebody has to approve it first (Ask to Buy), or the bank does; should they, it becomes part of the published
    /// state by itself, however much later.
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
    /// The store's id of the transaction.
    public let transactionID: String
    /// The original transaction it rests on; `nil` for what was not bought in the store.
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
