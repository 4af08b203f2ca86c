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
    /// The store says it was bought, and the device cannot believe it: nothing was granted, nothing finished, and it
    /// comes again at the next launch.
    case unverified(reason: String)
    /// Nothing was bought, as far as the store tells; what it made all the same becomes part of the published state.
    case failed(PurchaseError)
    /// Nothing with this id is on sale here.
    case productNotFound
    /// The store said something this version does not know; should it be a purchase, it comes as an update.
    case unknown

    /// What was bought.
    ///
    /// - Throws: ``PurchaseError`` for everything but success.
    public func get() throws -> Purchase {
        switch self {
        case .success(let purchase): return purchase
        case .pending: throw PurchaseError.pending
        case .userCancelled: throw PurchaseError.userCancelled
        case .unverified(let reason): throw PurchaseError.verificationFailed(reason: reason)
        case .failed(let error): throw error
        case .productNotFound: throw PurchaseError.productNotFound
        case .unknown: throw PurchaseError.unknown("the store answered with a result that this version does not know")
        }
    }
}

/// What kind of thing was bought, in Apple's word.
///
/// New ones may come, so it is no enumeration.
public struct PurchaseKind: RawRepresentable, Sendable, Hashable {
    /// The word itself.
    public let rawValue: String

    /// Takes any word, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// What is used up, such as coins.
    public static let consumable = PurchaseKind(rawValue: "Consumable")
    /// What is bought for good.
    public static let nonConsumable = PurchaseKind(rawValue: "Non-Consumable")
    /// What the store renews.
    public static let autoRenewable = PurchaseKind(rawValue: "Auto-Renewable Subscription")
    /// What runs for a while, and is bought anew.
    public static let nonRenewing = PurchaseKind(rawValue: "Non-Renewing Subscription")
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

/// Why there is no purchase.
///
/// An adapter to a store throws it from ``DeviceStore/purchase(_:appAccountToken:)`` wherever it can tell; whatever else
/// it throws reads as ``unknown(_:)``. A later major version may add cases; write `default:` where you switch over it.
public enum PurchaseError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Nothing with this id is on sale here.
    case productNotFound
    /// The device could not believe what the store signed.
    case verificationFailed(reason: String)
    /// The person changed their mind.
    case userCancelled
    /// It waits for somebody's approval.
    case pending
    /// The person, or this device, is not allowed to buy anything.
    case notAllowed
    /// The person may not have the offer; without it the product can be bought.
    case ineligibleForOffer
    /// The store does not take the offer as it was given; the text is for people who read logs.
    case invalidOffer(String)
    /// The store could not be reached; the text is for people who read logs.
    case network(String)
    /// This product is being bought already.
    case alreadyUnderWay
    /// Anything else; the text is for people who read logs.
    case unknown(String)

    /// A sentence for people who read logs.
    public var description: String {
        switch self {
        case .productNotFound: "no product with this id is on sale here"
        case .verificationFailed(let reason): "the purchase could not be verified: \(reason)"
        case .userCancelled: "the purchase was cancelled"
        case .pending: "the purchase waits for approval"
        case .notAllowed: "this person or device is not allowed to buy anything"
        case .ineligibleForOffer: "the person may not have this offer"
        case .invalidOffer(let reason): "the store does not take the offer: \(reason)"
        case .network(let what): "the store could not be reached: \(what)"
        case .alreadyUnderWay: "this product is being bought already"
        case .unknown(let what): what
        }
    }
}
