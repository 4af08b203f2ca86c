import EntitlementCore

// The fields of Apple's payloads as documented by App Store Server Notifications 2.21 and App Store Server API 1.20.
// A field is listed whether the facts need it or not: what is listed nowhere is new, and worth a look.

private let environments: FieldKind = .oneOf(["Production", "Sandbox", "Xcode", "LocalTesting"])
private let offerTypes: FieldKind = .code(1...4)
private let offerDiscounts: FieldKind = .oneOf(["FREE_TRIAL", "PAY_AS_YOU_GO", "PAY_UP_FRONT", "ONE_TIME"])
private let billingPlans: FieldKind = .oneOf(["BILLED_UPFRONT", "MONTHLY"])

extension PayloadSchema {
    /// responseBodyV2DecodedPayload.
    ///
    /// Type and subtype are compared with their own enumerations.
    static let notification = PayloadSchema([
        "notificationType": .identifier,
        "subtype": .identifier,
        "notificationUUID": .identifier,
        "version": .identifier,
        "signedDate": .instant,
        "data": .object([
            "environment": environments,
            "appAppleId": .integer,
            "bundleId": .identifier,
            "bundleVersion": .text,
            "signedTransactionInfo": .signed,
            "signedRenewalInfo": .signed,
            "status": .code(1...5),
            "consumptionRequestReason": .oneOf([
                "UNINTENDED_PURCHASE", "FULFILLMENT_ISSUE", "UNSATISFIED_WITH_PURCHASE", "LEGAL", "OTHER",
            ]),
        ]),
        "summary": .object([
            "environment": environments,
            "appAppleId": .integer,
            "bundleId": .identifier,
            "productId": .identifier,
            "requestIdentifier": .identifier,
            "storefrontCountryCodes": .list(.text),
            "succeededCount": .integer,
            "failedCount": .integer,
        ]),
        "externalPurchaseToken": .object([
            "externalPurchaseId": .identifier,
            "tokenCreationDate": .instant,
            "tokenExpirationDate": .instant,
            "tokenType": .text,
            "appAppleId": .integer,
            "bundleId": .identifier,
        ]),
        "appData": .object([
            "environment": environments,
            "appAppleId": .integer,
            "bundleId": .identifier,
            "signedAppTransactionInfo": .signed,
        ]),
    ])

    /// JWSTransactionDecodedPayload, as the store and as a device holds it.
    static let transaction = PayloadSchema([
        "transactionId": .identifier,
        "originalTransactionId": .identifier,
        "previousOriginalTransactionId": .identifier,
        "webOrderLineItemId": .identifier,
        "bundleId": .identifier,
        "productId": .identifier,
        "subscriptionGroupIdentifier": .text,
        "purchaseDate": .instant,
        "originalPurchaseDate": .instant,
        "expiresDate": .instant,
        "signedDate": .instant,
        "quantity": .integer,
        "type": .oneOf(ProductKind.self),
        "appAccountToken": .identifier,
        "appTransactionId": .identifier,
        "inAppOwnershipType": .oneOf(AppleOwnership.self),
        "revocationDate": .instant,
        "revocationReason": .code(0...1),
        "revocationType": .oneOf(RevocationKind.self),
        "revocationPercentage": .code(0...100_000),
        "isUpgraded": .flag,
        "offerType": offerTypes,
        "offerIdentifier": .identifier,
        "offerPeriod": .identifier,
        "offerDiscountType": offerDiscounts,
        "environment": environments,
        "storefront": .text,
        "storefrontId": .text,
        "currency": .text,
        "price": .integer,
        "transactionReason": .oneOf(TransactionReason.self),
        "billingPlanType": billingPlans,
        "commitmentInfo": .object([
            "billingPeriodNumber": .integer,
            "totalBillingPeriods": .integer,
            "commitmentExpiresDate": .instant,
            "commitmentPrice": .integer,
        ]),
        "advancedCommerceInfo": .object([
            "descriptors": advancedCommerceDescriptors,
            "estimatedTax": .integer,
            "items": .list(
                .object(
                    advancedCommerceItem.merging(
                        [
                            "revocationDate": .instant,
                            "refunds": .list(
                                .object([
                                    "refundAmount": .integer,
                                    "refundDate": .instant,
                                    "refundReason": .text,
                                    "refundType": .text,
                                ])),
                        ],
                        uniquingKeysWith: { item, _ in item }))),
            "period": .text,
            "requestReferenceId": .text,
            "taxCode": .text,
            "taxExclusivePrice": .integer,
            "taxRate": .text,
        ]),
        "deviceVerification": .text,
        "deviceVerificationNonce": .text,
    ])

    /// JWSRenewalInfoDecodedPayload.
    static let renewal = PayloadSchema([
        "originalTransactionId": .identifier,
        "productId": .identifier,
        "autoRenewProductId": .identifier,
        "autoRenewStatus": .code(0...1),
        "expirationIntent": .code(1...5),
        "isInBillingRetryPeriod": .flag,
        "gracePeriodExpiresDate": .instant,
        "priceIncreaseStatus": .code(0...1),
        "renewalDate": .instant,
        "renewalPrice": .integer,
        "currency": .text,
        "offerType": offerTypes,
        "offerIdentifier": .identifier,
        "offerPeriod": .identifier,
        "offerDiscountType": offerDiscounts,
        "eligibleWinBackOfferIds": .list(.text),
        "recentSubscriptionStartDate": .instant,
        "signedDate": .instant,
        "environment": environments,
        "appAccountToken": .identifier,
        "appTransactionId": .identifier,
        "renewalBillingPlanType": billingPlans,
        "commitmentInfo": .object([
            "commitmentAutoRenewProductId": .identifier,
            "commitmentAutoRenewStatus": .code(0...1),
            "commitmentRenewalBillingPlanType": billingPlans,
            "commitmentRenewalDate": .instant,
            "commitmentRenewalPrice": .integer,
        ]),
        "advancedCommerceInfo": .object([
            "consistencyToken": .text,
            "descriptors": advancedCommerceDescriptors,
            "items": .list(
                .object(
                    advancedCommerceItem.merging(
                        [
                            "priceIncreaseInfo": .object([
                                "status": .oneOf(["SCHEDULED", "PENDING", "ACCEPTED"]),
                                "price": .integer,
                                "dependentSKUs": .list(.text),
                            ])
                        ],
                        uniquingKeysWith: { item, _ in item }))),
            "period": .text,
            "requestReferenceId": .text,
            "taxCode": .text,
        ]),
        "deviceVerification": .text,
        "deviceVerificationNonce": .text,
    ])

    /// AppTransaction; its `receiptCreationDate` is its signed date, its `receiptType` the environment.
    static let appTransaction = PayloadSchema([
        "receiptType": environments,
        "appAppleId": .integer,
        "bundleId": .identifier,
        "applicationVersion": .text,
        "versionExternalIdentifier": .integer,
        "receiptCreationDate": .instant,
        "originalPurchaseDate": .instant,
        "originalApplicationVersion": .text,
        "deviceVerification": .text,
        "deviceVerificationNonce": .text,
        "preorderDate": .instant,
        "appTransactionId": .identifier,
        "originalPlatform": .text,
    ])
}

private let advancedCommerceDescriptors: FieldKind = .object(["description": .text, "displayName": .text])

/// What an item of a transaction and one of a renewal have in common.
private let advancedCommerceItem: [String: FieldKind] = [
    "SKU": .text,
    "description": .text,
    "displayName": .text,
    "offer": .object(["period": .text, "periodCount": .integer, "price": .integer, "reason": .text]),
    "price": .integer,
]
