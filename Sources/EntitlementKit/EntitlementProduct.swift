/// A product, and everywhere it can be bought.
public struct EntitlementProduct: Sendable, Hashable, Identifiable {
    /// What it is called.
    public let id: String
    /// `nil` where the store does not sell it here.
    public let displayName: String?
    /// What it gives.
    public let entitlements: [String]
    /// Whether the store sells it here, and this device may buy; see ``isStoreKnown``.
    public let storeKitAvailable: Bool
    /// As the store formats it for this customer; `nil` where the store does not sell it here.
    public let appStorePrice: String?
    /// All that the store tells of it: price, period and offers; `nil` where the store does not sell it here.
    public let storeProduct: StoreProduct?
    /// Whether the store could be asked; where it could not, as without a network, nobody knows whether it sells the product, and
    /// the list is to be asked for once more.
    public let isStoreKnown: Bool
    /// As it is to be shown to this person; `nil` where it cannot be bought on the web here and now, and so must not be
    /// offered there, or its price was not learnt.
    public let webPrice: String?
    /// The same as a number; `nil` in the same cases.
    public let web: WebPrice?
    /// Why there is no ``webPrice``; `nil` where there is one.
    public let webUnavailability: WebUnavailability?

    /// Puts one together from its parts.
    public init(
        id: String, displayName: String?, entitlements: [String], storeKitAvailable: Bool, appStorePrice: String?,
        webPrice: String?, web: WebPrice? = nil, webUnavailability: WebUnavailability? = nil,
        storeProduct: StoreProduct? = nil, isStoreKnown: Bool = true
    ) {
        self.id = id
        self.displayName = displayName
        self.entitlements = entitlements
        self.storeKitAvailable = storeKitAvailable
        self.appStorePrice = appStorePrice
        self.webPrice = webPrice
        self.web = web
        self.webUnavailability = webUnavailability
        self.storeProduct = storeProduct
        self.isStoreKnown = isStoreKnown
    }
}
