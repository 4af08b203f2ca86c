package import Foundation

/// What RevenueCat's SDK for iOS makes of the body of `GET /v1/subscribers/…`: as strict as its decoder, with its own rules
/// for what is active and what renews.
///
/// Source: `CustomerInfoResponse`, `EntitlementInfos` and `EntitlementInfo` of RevenueCat/purchases-ios, written anew.
package struct SDKCustomerInfo {
    package struct Body: Decodable {
        package let subscriber: Subscriber
        package let requestDate: Date

        private enum CodingKeys: String, CodingKey {
            case subscriber
            case requestDate = "request_date"
        }
    }

    package struct Subscriber: Decodable {
        package let originalAppUserID: String
        package let firstSeen: Date
        package let managementURL: URL?
        package let subscriptions: [String: Subscription]
        package let nonSubscriptions: [String: [OneTime]]
        package let entitlements: [String: Entitlement]

        private enum CodingKeys: String, CodingKey {
            case subscriptions, entitlements
            case originalAppUserID = "original_app_user_id"
            case firstSeen = "first_seen"
            case managementURL = "management_url"
            case nonSubscriptions = "non_subscriptions"
        }
    }

    package struct Subscription: Decodable {
        package let purchaseDate: Date
        package let expiresDate: Date?
        package let unsubscribeDetectedAt: Date?
        package let billingIssuesDetectedAt: Date?
        package let periodType: String?
        package let store: String?
        package let storeTransactionID: String?

        private enum CodingKeys: String, CodingKey {
            case store
            case purchaseDate = "purchase_date"
            case expiresDate = "expires_date"
            case unsubscribeDetectedAt = "unsubscribe_detected_at"
            case billingIssuesDetectedAt = "billing_issues_detected_at"
            case periodType = "period_type"
            case storeTransactionID = "store_transaction_id"
        }
    }

    package struct OneTime: Decodable {
        package let purchaseDate: Date
        package let isSandbox: Bool
        package let storeTransactionID: String?

        private enum CodingKeys: String, CodingKey {
            case purchaseDate = "purchase_date"
            case isSandbox = "is_sandbox"
            case storeTransactionID = "store_transaction_id"
        }
    }

    package struct Entitlement: Decodable {
        package let productIdentifier: String
        package let expiresDate: Date?

        private enum CodingKeys: String, CodingKey {
            case productIdentifier = "product_identifier"
            case expiresDate = "expires_date"
        }
    }

    package let body: Body
    private let clock: Date

    /// - Parameter clock: the device's; `nil`: it stands at the request.
    package init(_ bytes: [UInt8], clock: Date? = nil) throws {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        body = try decoder.decode(Body.self, from: Data(bytes))
        self.clock = clock ?? body.requestDate
    }

    /// The entitlements that are kept: those behind whose product there is an entry.
    package var kept: [String: Entitlement] {
        body.subscriber.entitlements.filter { _, entitlement in
            body.subscriber.subscriptions[entitlement.productIdentifier] != nil
                || body.subscriber.nonSubscriptions[entitlement.productIdentifier]?.last != nil
        }
    }

    package var active: Set<String> { Set(kept.filter { isActive($0.value) }.keys) }

    /// For three days the request's own date counts, then the device's clock.
    private func isActive(_ entitlement: Entitlement) -> Bool {
        guard let expiry = entitlement.expiresDate else { return true }
        let isRecent = clock.timeIntervalSince(body.requestDate) <= 3 * 86_400
        return expiry >= (isRecent ? body.requestDate : clock)
    }

    /// Whether an entitlement renews by itself; a one-time purchase does not.
    package func willRenew(_ id: String) -> Bool {
        guard let product = kept[id]?.productIdentifier, let subscription = body.subscriber.subscriptions[product]
        else { return false }
        return subscription.store != "promotional" && subscription.expiresDate != nil
            && subscription.unsubscribeDetectedAt == nil && subscription.billingIssuesDetectedAt == nil
            && subscription.periodType != "prepaid"
    }
}
