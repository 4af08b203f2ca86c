package import EntitlementCore

/// Decoded renewal information (JWSRenewalInfoDecodedPayload).
///
/// It names no app, so it proves nothing on its own.
package struct RenewalPayload: Hashable, Sendable {
    package let originalTransactionID: String
    /// The environment in Apple's word.
    package let environment: String

    package let signedDate: Timestamp?
    package let autoRenewProductID: String?
    /// `nil` when the status is absent or none of the two documented.
    package let autoRenews: Bool?
    package let isInBillingRetry: Bool
    package let gracePeriodExpiresDate: Timestamp?
    package let expirationIntent: Int64?
    package let priceIncreaseStatus: Int64?
    package let remarks: RemarkList

    /// Decodes the payload's JSON text.
    package init(parsing bytes: [UInt8]) throws(PayloadError) { try self.init(JSONObject(parsing: bytes)) }

    package init(_ json: JSONObject) throws(PayloadError) {
        let name = "the renewal information"
        originalTransactionID = try json.mandatory("originalTransactionId", of: name) { $0.identifier }
        environment = try json.mandatory("environment", of: name) { $0.identifier }
        // A transaction has all that is mandatory here, and these two, which renewal information has not.
        guard json["transactionId"] == nil || json["purchaseDate"] == nil else {
            throw .inconsistent("a transaction is in the place of the renewal information")
        }

        signedDate = json["signedDate"]?.timestamp
        autoRenewProductID = json["autoRenewProductId"]?.identifier
        autoRenews =
            switch json["autoRenewStatus"]?.int64 {
            case 0: false
            case 1: true
            default: nil
            }
        isInBillingRetry = json["isInBillingRetryPeriod"]?.bool ?? false
        gracePeriodExpiresDate = json["gracePeriodExpiresDate"]?.timestamp
        expirationIntent = json["expirationIntent"]?.int64
        priceIncreaseStatus = json["priceIncreaseStatus"]?.int64

        var remarks = RemarkList()
        PayloadSchema.renewal.inspect(json, path: "renewal", into: &remarks)
        self.remarks = remarks
    }

    /// What the renewal information states.
    ///
    /// `fallbackSignedDate` is the notification's, for renewal information that bears no date of its own.
    /// `isGraceNotification` says that it came with the news of a grace period; without a grace end that reads as
    /// billing retry, on which the caller remarks (``Remark/graceWithoutEnd``).
    package func fact(
        payloadHash: Digest, fallbackSignedDate: Timestamp?, isGraceNotification: Bool
    ) -> RenewalFact {
        RenewalFact(
            payloadHash: payloadHash, signedDate: signedDate ?? fallbackSignedDate,
            originalTransactionID: originalTransactionID, autoRenewProductID: autoRenewProductID,
            autoRenews: autoRenews, isInBillingRetry: isInBillingRetry, graceEnd: gracePeriodExpiresDate,
            expirationIntent: expirationIntent, priceIncreaseStatus: priceIncreaseStatus,
            isGraceWithoutEnd: isGraceNotification && gracePeriodExpiresDate == nil)
    }
}
