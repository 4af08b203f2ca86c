public import Foundation

/// How a product is to be bought.
public struct PurchaseOptions: Sendable, Hashable {
    /// How many of it, from 1 on; only of consumables and non-renewing subscriptions the store sells more than one.
    ///
    /// Of a product to which the catalog gives a duration only one is sold at a time
    /// (``PurchaseError/Reason/invalidOffer``), since what is bought at once runs at the same time.
    public var quantity: Int
    /// For which offer; `nil`: the store applies an introductory offer by itself, where the customer may have it.
    public var offer: OfferChoice?
    /// Whether it is bought although the customer would be charged twice for one entitlement.
    ///
    /// That is where it is owned already, a page or a purchase that is unfinished may still bring it, or nobody can say what is
    /// owned (``PurchaseError/Reason/ownershipUnknown``). Set it only where they
    /// were told, and want it all the same.
    public var evenIfOwned: Bool

    /// One, for the usual price, and only what is not owned, unless told otherwise.
    public init(quantity: Int = 1, offer: OfferChoice? = nil, evenIfOwned: Bool = false) {
        self.quantity = quantity
        self.offer = offer
        self.evenIfOwned = evenIfOwned
    }
}

/// An offer that is to be applied to a purchase, by its id in App Store Connect.
///
/// A later major version may add cases; write `default:` where you switch over it.
public enum OfferChoice: Sendable, Hashable {
    /// One for present and former subscribers, which ``EntitlementConfiguration/offerSigner`` signs.
    case promotional(String)
    /// One for those who left, out of ``StoreProduct/Subscription/winBackOffersForThisCustomer``; from iOS 18, macOS 15,
    /// tvOS 18, watchOS 11 and visionOS 2 on.
    case winBack(String)
}

/// What your server is asked to sign for a promotional offer.
public struct PromotionalOfferRequest: Sendable, Hashable {
    /// What is to be bought.
    public let productID: String
    /// The offer's id.
    public let offerID: String
    /// Who is logged in; `nil`: nobody.
    public let customerID: String?
    /// What the purchase will be signed with, which the signature has to cover in lower case; `nil`: nothing.
    public let appAccountToken: UUID?

    /// Puts one together from its parts.
    public init(productID: String, offerID: String, customerID: String?, appAccountToken: UUID?) {
        self.productID = productID
        self.offerID = offerID
        self.customerID = customerID
        self.appAccountToken = appAccountToken
    }
}

/// A promotional offer as your server has signed it, with the key of App Store Connect.
///
/// It decodes from `{"key_id","nonce","timestamp","signature"}`, the signature in Base64.
public struct PromotionalOfferSignature: Sendable, Hashable, Decodable {
    /// Which key it was signed with.
    public let keyID: String
    /// The UUID it was signed with.
    public let nonce: UUID
    /// When it was signed, in milliseconds since 1970.
    public let timestamp: Int
    /// The signature.
    public let signature: Data

    /// Puts one together from its parts.
    public init(keyID: String, nonce: UUID, timestamp: Int, signature: Data) {
        self.keyID = keyID
        self.nonce = nonce
        self.timestamp = timestamp
        self.signature = signature
    }

    private enum CodingKeys: String, CodingKey {
        case keyID = "key_id"
        case nonce, timestamp, signature
    }
}

/// What a ``DeviceStore`` is told with a purchase.
public struct StorePurchaseOptions: Sendable, Hashable {
    /// What the store is to sign into the transaction, for it to be the customer's; `nil`: nothing.
    public var appAccountToken: UUID?
    /// How many, from 1 on.
    public var quantity: Int
    /// The offer, signed where it has to be.
    public var offer: StoreOffer?

    /// Puts one together from its parts.
    public init(appAccountToken: UUID? = nil, quantity: Int = 1, offer: StoreOffer? = nil) {
        self.appAccountToken = appAccountToken
        self.quantity = quantity
        self.offer = offer
    }
}

/// An offer as a store takes it.
public enum StoreOffer: Sendable, Hashable {
    /// By its id.
    case promotional(String, PromotionalOfferSignature)
    /// By its id.
    case winBack(String)
}
