import AppStorePayloads
import EntitlementCore
import Foundation
import Testing

/// JSON in the making: what tests change one member of.
typealias Members = [String: Any]

func json(_ members: Members) throws -> JSONObject { try JSONObject(parsing: bytes(members)) }

func bytes(_ members: Members) throws -> [UInt8] {
    Array(try JSONSerialization.data(withJSONObject: members, options: [.sortedKeys]))
}

func json(text: String) throws -> JSONObject { try JSONObject(parsing: Array(text.utf8)) }

extension Members {
    func with(_ name: String, _ value: Any?) -> Members {
        var changed = self
        changed[name] = value
        return changed
    }
}

func instant(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

func hash(_ byte: UInt8 = 7) throws -> Digest { try #require(Digest([UInt8](repeating: byte, count: 32))) }

enum Samples {
    /// Every documented field of a transaction, as a subscriber's renewal with an offer would have it.
    static var transaction: Members {
        [
            "transactionId": "2000000123456790", "originalTransactionId": "2000000123456780",
            "previousOriginalTransactionId": "2000000123456000", "webOrderLineItemId": "2000000011112222",
            "bundleId": "com.example.app", "productId": "com.example.pro.yearly",
            "subscriptionGroupIdentifier": "21000001", "purchaseDate": 1_767_225_600_000,
            "originalPurchaseDate": 1_735_689_600_000, "expiresDate": 1_798_761_600_000,
            "signedDate": 1_767_225_601_234, "quantity": 1, "type": "Auto-Renewable Subscription",
            "appAccountToken": "7E3FB20B-4CDB-47CC-936D-99D65F608138", "appTransactionId": "704000001",
            "inAppOwnershipType": "PURCHASED", "offerType": 1, "offerIdentifier": "intro",
            "offerPeriod": "P1M", "offerDiscountType": "FREE_TRIAL", "environment": "Production",
            "storefront": "USA", "storefrontId": "143441", "currency": "USD", "price": 39_990,
            "transactionReason": "RENEWAL", "billingPlanType": "MONTHLY",
            "commitmentInfo": [
                "billingPeriodNumber": 1, "totalBillingPeriods": 12, "commitmentExpiresDate": 1_798_761_600_000,
                "commitmentPrice": 479_880,
            ],
            "advancedCommerceInfo": [
                "descriptors": ["description": "d", "displayName": "n"], "estimatedTax": 1, "period": "P1M",
                "requestReferenceId": "r", "taxCode": "c", "taxExclusivePrice": 2, "taxRate": "0.2",
                "items": [
                    [
                        "SKU": "s", "description": "d", "displayName": "n", "price": 3, "revocationDate": 4,
                        "offer": ["period": "P1M", "periodCount": 1, "price": 5, "reason": "ACQUISITION"],
                        "refunds": [
                            ["refundAmount": 6, "refundDate": 7, "refundReason": "OTHER", "refundType": "FULL"]
                        ],
                    ] as Members
                ],
            ] as Members,
            "deviceVerification": "AA==", "deviceVerificationNonce": "e0b0bd5e-0000-4000-8000-000000000000",
        ]
    }

    /// The fields of a refund, which a transaction above may have besides.
    static var refund: Members {
        [
            "revocationDate": 1_770_000_000_000, "revocationReason": 1, "revocationType": "REFUND_PRORATED",
            "revocationPercentage": 40_000, "isUpgraded": true,
        ]
    }

    static var renewal: Members {
        [
            "originalTransactionId": "2000000123456780", "productId": "com.example.pro.yearly",
            "autoRenewProductId": "com.example.pro.monthly", "autoRenewStatus": 1, "expirationIntent": 2,
            "isInBillingRetryPeriod": true, "gracePeriodExpiresDate": 1_799_000_000_000, "priceIncreaseStatus": 0,
            "renewalDate": 1_798_761_600_000, "renewalPrice": 39_990, "currency": "USD", "offerType": 2,
            "offerIdentifier": "promo", "offerPeriod": "P1M", "offerDiscountType": "PAY_UP_FRONT",
            "eligibleWinBackOfferIds": ["w1", "w2"], "recentSubscriptionStartDate": 1_735_689_600_000,
            "signedDate": 1_767_225_601_235, "environment": "Production",
            "appAccountToken": "7e3fb20b-4cdb-47cc-936d-99d65f608138", "appTransactionId": "704000001",
            "renewalBillingPlanType": "BILLED_UPFRONT",
            "commitmentInfo": [
                "commitmentAutoRenewProductId": "p", "commitmentAutoRenewStatus": 1,
                "commitmentRenewalBillingPlanType": "MONTHLY", "commitmentRenewalDate": 8,
                "commitmentRenewalPrice": 9,
            ] as Members,
            "advancedCommerceInfo": [
                "consistencyToken": "t", "period": "P1M", "requestReferenceId": "r", "taxCode": "c",
                "descriptors": ["description": "d", "displayName": "n"],
                "items": [
                    [
                        "SKU": "s", "price": 3,
                        "priceIncreaseInfo": ["status": "PENDING", "price": 4, "dependentSKUs": ["x"]] as Members,
                    ] as Members
                ],
            ] as Members,
        ]
    }

    static var appTransaction: Members {
        [
            "receiptType": "Production", "appAppleId": 1_234_567_890, "bundleId": "com.example.app",
            "applicationVersion": "2.0", "versionExternalIdentifier": 12, "receiptCreationDate": 1_767_225_601_236,
            "originalPurchaseDate": 1_735_689_600_000, "originalApplicationVersion": "1.0",
            "deviceVerification": "AA==", "deviceVerificationNonce": "n", "preorderDate": 1,
            "appTransactionId": "704000001", "originalPlatform": "iOS",
        ]
    }

    static var data: Members {
        [
            "environment": "Production", "appAppleId": 1_234_567_890, "bundleId": "com.example.app",
            "bundleVersion": "7", "signedTransactionInfo": "a.b.c", "signedRenewalInfo": "d.e.f", "status": 1,
            "consumptionRequestReason": "OTHER",
        ]
    }

    static var containers: [(name: String, members: Members)] {
        [
            ("data", data),
            (
                "summary",
                [
                    "environment": "Production", "appAppleId": 1, "bundleId": "com.example.app", "productId": "p",
                    "requestIdentifier": "r", "storefrontCountryCodes": ["USA"], "succeededCount": 5,
                    "failedCount": 2,
                ]
            ),
            (
                "externalPurchaseToken",
                [
                    "externalPurchaseId": "x", "tokenCreationDate": 1, "tokenExpirationDate": 2,
                    "tokenType": "ACQUISITION", "appAppleId": 1, "bundleId": "com.example.app",
                ]
            ),
            (
                "appData",
                [
                    "environment": "Production", "appAppleId": 1, "bundleId": "com.example.app",
                    "signedAppTransactionInfo": "g.h.i",
                ]
            ),
        ]
    }

    static var notification: Members {
        [
            "notificationType": "DID_RENEW", "notificationUUID": "3838DF56-31AB-4E2D-9F44-9B2B3B6B9A11",
            "version": "2.0", "signedDate": 1_767_225_601_300, "data": data,
        ]
    }
}
