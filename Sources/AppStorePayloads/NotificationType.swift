/// What Apple calls `notificationType`.
///
/// A label: it never decides access.
package enum NotificationType: String, CaseIterable, Hashable, Sendable {
    case subscribed = "SUBSCRIBED"
    case didRenew = "DID_RENEW"
    case didChangeRenewalPreference = "DID_CHANGE_RENEWAL_PREF"
    case didChangeRenewalStatus = "DID_CHANGE_RENEWAL_STATUS"
    case offerRedeemed = "OFFER_REDEEMED"
    case didFailToRenew = "DID_FAIL_TO_RENEW"
    case gracePeriodExpired = "GRACE_PERIOD_EXPIRED"
    case expired = "EXPIRED"
    case priceIncrease = "PRICE_INCREASE"
    case refund = "REFUND"
    case refundReversed = "REFUND_REVERSED"
    case refundDeclined = "REFUND_DECLINED"
    case consumptionRequest = "CONSUMPTION_REQUEST"
    case revoke = "REVOKE"
    case renewalExtended = "RENEWAL_EXTENDED"
    case renewalExtension = "RENEWAL_EXTENSION"
    case oneTimeCharge = "ONE_TIME_CHARGE"
    case externalPurchaseToken = "EXTERNAL_PURCHASE_TOKEN"
    case rescindConsent = "RESCIND_CONSENT"
    case metadataUpdate = "METADATA_UPDATE"
    case migration = "MIGRATION"
    case priceChange = "PRICE_CHANGE"
    case test = "TEST"
}

/// What Apple calls the `subtype` of a notification.
package enum NotificationSubtype: String, CaseIterable, Hashable, Sendable {
    case initialBuy = "INITIAL_BUY"
    case resubscribe = "RESUBSCRIBE"
    case billingRecovery = "BILLING_RECOVERY"
    case upgrade = "UPGRADE"
    case downgrade = "DOWNGRADE"
    case autoRenewEnabled = "AUTO_RENEW_ENABLED"
    case autoRenewDisabled = "AUTO_RENEW_DISABLED"
    case gracePeriod = "GRACE_PERIOD"
    case voluntary = "VOLUNTARY"
    case billingRetry = "BILLING_RETRY"
    case priceIncrease = "PRICE_INCREASE"
    case productNotForSale = "PRODUCT_NOT_FOR_SALE"
    case pending = "PENDING"
    case accepted = "ACCEPTED"
    case summary = "SUMMARY"
    case failure = "FAILURE"
    case created = "CREATED"
    case activeTokenReminder = "ACTIVE_TOKEN_REMINDER"
    case unreported = "UNREPORTED"
}

/// The ledger's word for what a notification reports, as an event's `type` shows it.
///
/// An unknown subtype reads as its type alone, an unknown type as `unknown`.
package func eventLabel(type: String, subtype: String?) -> String {
    guard let type = NotificationType(rawValue: type) else { return "unknown" }
    let subtype = subtype.flatMap(NotificationSubtype.init(rawValue:))
    switch (type, subtype) {
    case (.subscribed, .resubscribe): return "resubscribed"
    case (.subscribed, _): return "subscribed"
    case (.didRenew, .billingRecovery): return "billing_recovered"
    case (.didRenew, _): return "renewed"
    case (.didChangeRenewalPreference, .upgrade): return "upgraded"
    case (.didChangeRenewalPreference, .downgrade): return "downgrade_scheduled"
    case (.didChangeRenewalPreference, _): return "renewal_preference_changed"
    case (.didChangeRenewalStatus, .autoRenewEnabled): return "auto_renew_enabled"
    case (.didChangeRenewalStatus, .autoRenewDisabled): return "auto_renew_disabled"
    case (.didChangeRenewalStatus, _): return "auto_renew_changed"
    case (.offerRedeemed, _): return "offer_redeemed"
    case (.didFailToRenew, .gracePeriod): return "grace_period_started"
    case (.didFailToRenew, _): return "renewal_failed"
    case (.gracePeriodExpired, _): return "grace_period_expired"
    case (.expired, _): return "expired"
    case (.priceIncrease, _): return "price_increase"
    case (.refund, _): return "refunded"
    case (.refundReversed, _): return "refund_reversed"
    case (.refundDeclined, _): return "refund_declined"
    case (.consumptionRequest, _): return "consumption_requested"
    case (.revoke, _): return "family_access_revoked"
    case (.renewalExtended, _): return "renewal_extended"
    case (.renewalExtension, .failure): return "renewal_extension_failed"
    case (.renewalExtension, _): return "renewal_extension_summary"
    case (.oneTimeCharge, _): return "one_time_purchased"
    case (.externalPurchaseToken, _): return "external_purchase_token"
    case (.rescindConsent, _): return "consent_rescinded"
    case (.metadataUpdate, _): return "metadata_updated"
    case (.migration, _): return "migrated"
    case (.priceChange, _): return "price_changed"
    case (.test, _): return "test"
    }
}
