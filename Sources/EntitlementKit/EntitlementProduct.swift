public import Foundation

/// A product, and everywhere it can be bought.
public struct EntitlementProduct: Sendable, Hashable, Identifiable {
    /// What it is called.
    public let id: String
    /// `nil` where the store does not sell it here.
    public let displayName: String?
    /// What it gives.
    public let entitlements: [String]
    /// Whether the store sells it here, and this device may buy.
    public let storeKitAvailable: Bool
    /// As the store formats it for this customer; `nil` where the store does not sell it here.
    public let storeKitPrice: String?
    /// All that the store tells of it: price, period and offers; `nil` where the store does not sell it here.
    public let storeProduct: StoreProduct?
    /// As the web checkout formats it; `nil` where it is not sold there.
    public let webPrice: String?

    /// Puts one together from its parts.
    public init(
        id: String, displayName: String?, entitlements: [String], storeKitAvailable: Bool, storeKitPrice: String?,
        webPrice: String?, storeProduct: StoreProduct? = nil
    ) {
        self.id = id
        self.displayName = displayName
        self.entitlements = entitlements
        self.storeKitAvailable = storeKitAvailable
        self.storeKitPrice = storeKitPrice
        self.webPrice = webPrice
        self.storeProduct = storeProduct
    }
}

/// A seam for buying outside of the store.
///
/// What is bought there reaches the ledger by the checkout's own webhook, and the device with the server's next answer.
public protocol WebCheckout: Sendable {
    /// Prices by product id, as they are to be shown; what is not sold there is left out.
    func prices(for productIDs: [String]) async -> [String: String]
    /// Where this customer pays for a product.
    func checkoutURL(for productID: String, customerID: String?) async throws -> URL
}
