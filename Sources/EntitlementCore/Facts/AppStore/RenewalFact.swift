/// What one signed renewal information states about the subscription of an original transaction.
package struct RenewalFact: Hashable, Sendable {
    package var payloadHash: Digest
    /// The statement's own signed date, else the notification's; `nil` sorts lowest.
    package var signedDate: Timestamp?
    package var originalTransactionID: String
    package var autoRenewProductID: String?
    package var autoRenews: Bool?
    package var isInBillingRetry: Bool
    package var graceEnd: Timestamp?
    package var expirationIntent: Int64?
    /// Apple's `priceIncreaseStatus`: 0 while the customer has not answered to a higher price that needs their consent, 1
    /// once they agreed, or where no consent is needed; `nil` where no higher price is announced.
    package var priceIncreaseStatus: Int64?
    /// It came in a grace notification and states no grace end, which reads as billing retry.
    package var isGraceWithoutEnd: Bool

    package init(
        payloadHash: Digest, signedDate: Timestamp?, originalTransactionID: String,
        autoRenewProductID: String? = nil, autoRenews: Bool? = nil, isInBillingRetry: Bool = false,
        graceEnd: Timestamp? = nil, expirationIntent: Int64? = nil, priceIncreaseStatus: Int64? = nil,
        isGraceWithoutEnd: Bool = false
    ) {
        self.payloadHash = payloadHash
        self.signedDate = signedDate
        self.originalTransactionID = originalTransactionID
        self.autoRenewProductID = autoRenewProductID
        self.autoRenews = autoRenews
        self.isInBillingRetry = isInBillingRetry
        self.graceEnd = graceEnd
        self.expirationIntent = expirationIntent
        self.priceIncreaseStatus = priceIncreaseStatus
        self.isGraceWithoutEnd = isGraceWithoutEnd
    }

    /// It will not renew unless the customer agrees to a higher price, which they had not done when this was signed.
    var awaitsConsent: Bool { priceIncreaseStatus == 0 }

    /// The retry flag, or the notification's word for a grace period it did not date.
    var readsBillingRetry: Bool { isInBillingRetry || (isGraceWithoutEnd && graceEnd == nil) }
}
