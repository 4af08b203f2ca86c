import AppStorePayloads
import Testing

@Suite("Event labels")
struct EventLabelTests {
    static let table: [(type: String, subtype: String?, label: String)] = [
        ("SUBSCRIBED", "INITIAL_BUY", "subscribed"), ("SUBSCRIBED", nil, "subscribed"),
        ("SUBSCRIBED", "RESUBSCRIBE", "resubscribed"), ("DID_RENEW", nil, "renewed"),
        ("DID_RENEW", "BILLING_RECOVERY", "billing_recovered"), ("DID_CHANGE_RENEWAL_PREF", "UPGRADE", "upgraded"),
        ("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", "downgrade_scheduled"),
        ("DID_CHANGE_RENEWAL_PREF", nil, "renewal_preference_changed"),
        ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", "auto_renew_enabled"),
        ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", "auto_renew_disabled"),
        ("DID_CHANGE_RENEWAL_STATUS", nil, "auto_renew_changed"), ("OFFER_REDEEMED", nil, "offer_redeemed"),
        ("OFFER_REDEEMED", "UPGRADE", "offer_redeemed"), ("OFFER_REDEEMED", "DOWNGRADE", "offer_redeemed"),
        ("DID_FAIL_TO_RENEW", "GRACE_PERIOD", "grace_period_started"), ("DID_FAIL_TO_RENEW", nil, "renewal_failed"),
        ("GRACE_PERIOD_EXPIRED", nil, "grace_period_expired"), ("EXPIRED", "VOLUNTARY", "expired"),
        ("EXPIRED", "BILLING_RETRY", "expired"), ("EXPIRED", "PRICE_INCREASE", "expired"),
        ("EXPIRED", "PRODUCT_NOT_FOR_SALE", "expired"), ("EXPIRED", nil, "expired"),
        ("PRICE_INCREASE", "PENDING", "price_increase"), ("PRICE_INCREASE", "ACCEPTED", "price_increase"),
        ("REFUND", nil, "refunded"), ("REFUND_REVERSED", nil, "refund_reversed"),
        ("REFUND_DECLINED", nil, "refund_declined"), ("CONSUMPTION_REQUEST", nil, "consumption_requested"),
        ("REVOKE", nil, "family_access_revoked"), ("RENEWAL_EXTENDED", nil, "renewal_extended"),
        ("RENEWAL_EXTENSION", "SUMMARY", "renewal_extension_summary"),
        ("RENEWAL_EXTENSION", "FAILURE", "renewal_extension_failed"),
        ("ONE_TIME_CHARGE", nil, "one_time_purchased"),
        ("EXTERNAL_PURCHASE_TOKEN", "CREATED", "external_purchase_token"),
        ("EXTERNAL_PURCHASE_TOKEN", "ACTIVE_TOKEN_REMINDER", "external_purchase_token"),
        ("EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", "external_purchase_token"),
        ("RESCIND_CONSENT", nil, "consent_rescinded"), ("METADATA_UPDATE", nil, "metadata_updated"),
        ("MIGRATION", nil, "migrated"), ("PRICE_CHANGE", nil, "price_changed"), ("TEST", nil, "test"),
        ("DID_RENEW", "NEW_WAY", "renewed"), ("NEW_THING", nil, "unknown"), ("NEW_THING", "UPGRADE", "unknown"),
        ("", nil, "unknown"), ("did_renew", nil, "unknown"),
    ]

    @Test("each pair of type and subtype has its word", arguments: table.indices)
    func labels(row: Int) {
        let (type, subtype, label) = Self.table[row]
        #expect(eventLabel(type: type, subtype: subtype) == label, "\(type)/\(subtype ?? "-")")
    }

    @Test("the table has every type")
    func tableIsComplete() {
        #expect(Set(Self.table.map(\.type)).isSuperset(of: NotificationType.allCases.map(\.rawValue)))
    }
}
