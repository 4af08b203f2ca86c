package import EntitlementAPI

// The events of RevenueCat's webhooks, as they are sent.
//
// Source: "Event Types and Fields" of RevenueCat's documentation of webhooks. Members keep their names and types here, and what
// Rightful does not know is `null` or empty; `sequence`, `before` and `after` are Rightful's own.

/// The stores that an event may name.
package enum EventStore: String, Codable, Hashable, Sendable, CaseIterable {
    case appStore = "APP_STORE"
    case stripe = "STRIPE"
    case promotional = "PROMOTIONAL"
}

package enum EventEnvironment: String, Codable, Hashable, Sendable, CaseIterable {
    case production = "PRODUCTION"
    case sandbox = "SANDBOX"
}

/// What became of a purchase.
package struct PurchaseEventDocument: Codable, Hashable, Sendable {
    /// The same however often the event is told.
    package let id: String
    package let type: String
    /// The bundle id; `null` for what is of no app.
    @Nullable package private(set) var appID: String?
    package let store: EventStore
    package let environment: EventEnvironment
    /// When it was found, in milliseconds since 1970.
    package let eventTimestampMS: Int64
    package let appUserID: String
    package let originalAppUserID: String
    /// At most 50 ids, the customer's own among them; one that is a UUID in lower case and in upper case.
    package let aliases: [String]
    /// Always empty: Rightful keeps no attributes.
    package let subscriberAttributes: [String: String]
    package let productID: String
    @Nullable package private(set) var entitlementIDs: [String]?
    /// The first of them; deprecated there.
    @Nullable package private(set) var entitlementID: String?
    package let periodType: EventPeriodType
    package let purchasedAtMS: Int64
    /// Until when it gives access without a break, as far as is known, a grace period included; `null` for what does not end.
    @Nullable package private(set) var expirationAtMS: Int64?
    package let transactionID: String
    package let originalTransactionID: String
    package let isFamilyShare: Bool
    @Nullable package private(set) var offerCode: String?
    /// In dollars, where it was paid in dollars or costs nothing; a refund is less than 0.
    @Nullable package private(set) var price: Double?
    /// `null` where the store does not state it.
    @Nullable package private(set) var priceInPurchasedCurrency: Double?
    @Nullable package private(set) var currency: String?
    @Nullable package private(set) var countryCode: String?
    @Nullable package private(set) var taxPercentage: Double?
    @Nullable package private(set) var commissionPercentage: Double?
    @Nullable package private(set) var takehomePercentage: Double?
    @Nullable package private(set) var presentedOfferingID: String?
    @Nullable package private(set) var renewalNumber: Int64?
    @Nullable package private(set) var metadata: [String: String]?
    /// Always empty.
    package let experiments: [String]
    /// Of `RENEWAL` alone.
    package let isTrialConversion: Bool?
    /// Of `CANCELLATION` alone.
    package let cancelReason: EndReason?
    /// Of `EXPIRATION` alone.
    package let expirationReason: EndReason?
    /// Of `BILLING_ISSUE` alone; `null` where there is no grace period.
    package let gracePeriodExpirationAtMS: Nullable<Int64>?
    /// Of `PRODUCT_CHANGE` alone.
    package let newProductID: String?
    /// 1, 2, 3… for each customer, environment and endpoint; not of `TEST`.
    package let sequence: Int64?
    /// As ``SubscriberBody/entitlements`` has them; not of `TEST`.
    package let before: Written<[String: EntitlementEntry]>?
    package let after: Written<[String: EntitlementEntry]>?

    private enum CodingKeys: String, CodingKey {
        case id, type, store, environment, aliases, price, currency, metadata, experiments, sequence, before, after
        case appID = "app_id"
        case eventTimestampMS = "event_timestamp_ms"
        case appUserID = "app_user_id"
        case originalAppUserID = "original_app_user_id"
        case subscriberAttributes = "subscriber_attributes"
        case productID = "product_id"
        case entitlementIDs = "entitlement_ids"
        case entitlementID = "entitlement_id"
        case periodType = "period_type"
        case purchasedAtMS = "purchased_at_ms"
        case expirationAtMS = "expiration_at_ms"
        case transactionID = "transaction_id"
        case originalTransactionID = "original_transaction_id"
        case isFamilyShare = "is_family_share"
        case offerCode = "offer_code"
        case priceInPurchasedCurrency = "price_in_purchased_currency"
        case countryCode = "country_code"
        case taxPercentage = "tax_percentage"
        case commissionPercentage = "commission_percentage"
        case takehomePercentage = "takehome_percentage"
        case presentedOfferingID = "presented_offering_id"
        case renewalNumber = "renewal_number"
        case isTrialConversion = "is_trial_conversion"
        case cancelReason = "cancel_reason"
        case expirationReason = "expiration_reason"
        case gracePeriodExpirationAtMS = "grace_period_expiration_at_ms"
        case newProductID = "new_product_id"
    }
}

/// That purchases went from one customer to another: RevenueCat says nothing else about it.
package struct TransferEventDocument: Codable, Hashable, Sendable {
    package let id: String
    package let type: String
    @Nullable package private(set) var appID: String?
    package let store: EventStore
    package let environment: EventEnvironment
    package let eventTimestampMS: Int64
    package let transferredFrom: [String]
    package let transferredTo: [String]
    package let sequence: Int64
    package let before: Written<[String: EntitlementEntry]>
    package let after: Written<[String: EntitlementEntry]>

    private enum CodingKeys: String, CodingKey {
        case id, type, store, environment, sequence, before, after
        case appID = "app_id"
        case eventTimestampMS = "event_timestamp_ms"
        case transferredFrom = "transferred_from"
        case transferredTo = "transferred_to"
    }
}
