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
