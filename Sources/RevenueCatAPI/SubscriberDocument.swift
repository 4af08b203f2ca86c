package import EntitlementAPI
import EntitlementCore

/// A customer as RevenueCat's `GET /v1/subscribers/{app_user_id}` shows them.
///
/// Source: `Subscriber` of RevenueCat's OpenAPI file of its REST API v1 (<https://www.revenuecat.com/docs/api-v1>). Its
/// members keep their names and types here, and what Rightful does not know is `null` or empty.
package struct SubscriberDocument: Codable, Hashable, Sendable {
    package let requestDate: WholeSecond
    /// The same in milliseconds since 1970, to the millisecond.
    package let requestDateMS: Int64
    package let subscriber: SubscriberBody

    private enum CodingKeys: String, CodingKey {
        case subscriber
        case requestDate = "request_date"
        case requestDateMS = "request_date_ms"
    }
}

/// RevenueCat's `subscriber`, its "customer info".
package struct SubscriberBody: Codable, Hashable, Sendable {
    /// By their ids; those that lapsed are kept.
    package let entitlements: [String: EntitlementEntry]
    /// When the ledger first heard of a purchase or grant of theirs; for somebody unknown when they were asked about.
    package let firstSeen: WholeSecond
    /// When it last did; a read does not move it.
    package let lastSeen: WholeSecond
    /// Where the customer looks after a running subscription of the App Store; `null` without one, for a page of Stripe's is
    /// made when somebody asks for it.
    @Nullable package internal(set) var managementURL: String?
    /// One-time purchases by their products, the oldest first.
    package let nonSubscriptions: [String: [OneTimeEntry]]
    /// The customer's own id: where the one that was asked about is linked to another, that one.
    package let originalAppUserID: String
    /// Always `null`: app transactions are not kept.
    @Nullable package internal(set) var originalApplicationVersion: String?
    /// When the app itself was bought; always `null`, for the same reason.
    @Nullable package internal(set) var originalPurchaseDate: WholeSecond?
    /// The latest one-time purchase of each product; deprecated there.
    package let otherPurchases: [String: OtherPurchaseEntry]
    /// Always empty: Rightful keeps no attributes.
    package let subscriberAttributes: [String: String]
    /// By their products, one entry each, with its latest period; grants are among them, and those that ended are kept.
    package let subscriptions: [String: SubscriptionEntry]

    private enum CodingKeys: String, CodingKey {
        case entitlements, subscriptions
        case firstSeen = "first_seen"
        case lastSeen = "last_seen"
        case managementURL = "management_url"
        case nonSubscriptions = "non_subscriptions"
        case originalAppUserID = "original_app_user_id"
        case originalApplicationVersion = "original_application_version"
        case originalPurchaseDate = "original_purchase_date"
        case otherPurchases = "other_purchases"
        case subscriberAttributes = "subscriber_attributes"
    }
}

/// One of `subscriber.entitlements`.
package struct EntitlementEntry: Codable, Hashable, Sendable {
    /// Until when it gives access without a break, as far as is known, or gave it: the same as its product's, the end of a grace
    /// period included; `null` for a lifetime.
    @Nullable package internal(set) var expiresDate: WholeSecond?
    /// The same where a grace period, ahead or under way, keeps it open, else `null`.
    @Nullable package internal(set) var gracePeriodExpiresDate: WholeSecond?
    /// A key of `subscriptions` or `non_subscriptions`, always.
    package let productIdentifier: String
    package let purchaseDate: WholeSecond

    private enum CodingKeys: String, CodingKey {
        case expiresDate = "expires_date"
        case gracePeriodExpiresDate = "grace_period_expires_date"
        case productIdentifier = "product_identifier"
        case purchaseDate = "purchase_date"
    }
}

/// One of `subscriber.subscriptions`.
package struct SubscriptionEntry: Codable, Hashable, Sendable {
    /// Only Google Play's subscriptions pause so: always `null`.
    @Nullable package internal(set) var autoResumeDate: WholeSecond?
    /// When the ledger heard that the charge had failed; `null` once it is solved.
    @Nullable package internal(set) var billingIssuesDetectedAt: WholeSecond?
    /// Always `null`: products have no names here.
    @Nullable package internal(set) var displayName: String?
    @Nullable package internal(set) var expiresDate: WholeSecond?
    @Nullable package internal(set) var gracePeriodExpiresDate: WholeSecond?
    package let isSandbox: Bool
    /// The first purchase that is known of the subscription, whatever product that was of.
    package let originalPurchaseDate: WholeSecond
    package let ownershipType: OwnershipType
    package let periodType: PeriodType
    /// What was paid for the period, 0 for a family member; `null` where no statement says it.
    @Nullable package internal(set) var price: Price?
    package let purchaseDate: WholeSecond
    /// When the ledger heard that it was refunded.
    @Nullable package internal(set) var refundedAt: WholeSecond?
    package let store: PurchaseStore
    /// A text, though RevenueCat's example shows a number: of the App Store the transaction's id, of Stripe the
    /// subscription's, of a grant its own.
    package let storeTransactionID: String
    /// When the ledger heard that it does not renew; `null` once it does again.
    @Nullable package internal(set) var unsubscribeDetectedAt: WholeSecond?

    private enum CodingKeys: String, CodingKey {
        case price, store
        case autoResumeDate = "auto_resume_date"
        case billingIssuesDetectedAt = "billing_issues_detected_at"
        case displayName = "display_name"
        case expiresDate = "expires_date"
        case gracePeriodExpiresDate = "grace_period_expires_date"
        case isSandbox = "is_sandbox"
        case originalPurchaseDate = "original_purchase_date"
        case ownershipType = "ownership_type"
        case periodType = "period_type"
        case purchaseDate = "purchase_date"
        case refundedAt = "refunded_at"
        case storeTransactionID = "store_transaction_id"
        case unsubscribeDetectedAt = "unsubscribe_detected_at"
    }
}

/// One purchase in `subscriber.non_subscriptions`.
package struct OneTimeEntry: Codable, Hashable, Sendable {
    @Nullable package internal(set) var displayName: String?
    /// Names the purchase; the store's own id.
    package let id: String
    package let isSandbox: Bool
    package let originalPurchaseDate: WholeSecond
    @Nullable package internal(set) var price: Price?
    package let purchaseDate: WholeSecond
    package let store: PurchaseStore
    package let storeTransactionID: String

    private enum CodingKeys: String, CodingKey {
        case id, price, store
        case displayName = "display_name"
        case isSandbox = "is_sandbox"
        case originalPurchaseDate = "original_purchase_date"
        case purchaseDate = "purchase_date"
        case storeTransactionID = "store_transaction_id"
    }
}

/// One of `subscriber.other_purchases`.
package struct OtherPurchaseEntry: Codable, Hashable, Sendable {
    package let purchaseDate: WholeSecond

    private enum CodingKeys: String, CodingKey { case purchaseDate = "purchase_date" }
}

/// RevenueCat's `price`.
package struct Price: Codable, Hashable, Sendable {
    package let amount: Double
    /// ISO 4217.
    package let currency: String

    init(_ money: Money) { (amount, currency) = (money.units, money.currency) }
}

/// RevenueCat's `ownership_type`.
package enum OwnershipType: String, Codable, Hashable, Sendable, CaseIterable {
    case purchased = "PURCHASED"
    case familyShared = "FAMILY_SHARED"
}

/// RevenueCat's `period_type`.
package enum PeriodType: String, Codable, Hashable, Sendable, CaseIterable {
    case normal
    /// Nothing is charged for it.
    case trial
    /// An introductory price is.
    case intro
}

/// RevenueCat's `store`.
package enum PurchaseStore: String, Codable, Hashable, Sendable, CaseIterable {
    case appStore = "app_store"
    case stripe
    /// It was granted.
    case promotional

    static let appStoreManagementURL = "https://apps.apple.com/account/subscriptions"
}
