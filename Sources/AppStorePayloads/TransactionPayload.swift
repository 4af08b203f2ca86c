package import EntitlementCore

/// A decoded transaction (JWSTransactionDecodedPayload).
package struct TransactionPayload: Hashable, Sendable {
    package let transactionID: String
    package let originalTransactionID: String
    package let productID: String
    package let bundleID: String
    package let purchaseDate: Timestamp
    /// The environment in Apple's word.
    package let environment: String

    package let signedDate: Timestamp?
    package let webOrderLineItemID: String?
    package let kind: Known<ProductKind>?
    package let expiresDate: Timestamp?
    package let revocation: Revocation?
    package let isUpgraded: Bool
    package let reason: Known<TransactionReason>?
    package let ownership: Known<AppleOwnership>?
    package let offer: Offer?
    package let price: Money?
    /// Whose it is, in clear: an account token, in lower case when it is a UUID.
    package let appAccountToken: String?
    /// Whose it is, in clear: one id per Apple Account and app.
    package let appTransactionID: String?
    package let remarks: RemarkList

    /// Decodes the payload's JSON text.
    package init(parsing bytes: [UInt8]) throws(PayloadError) { try self.init(JSONObject(parsing: bytes)) }

    package init(_ json: JSONObject) throws(PayloadError) {
        let name = "the transaction information"
        transactionID = try json.mandatory("transactionId", of: name) { $0.identifier }
        originalTransactionID = try json.mandatory("originalTransactionId", of: name) { $0.identifier }
        productID = try json.mandatory("productId", of: name) { $0.identifier }
        bundleID = try json.mandatory("bundleId", of: name) { $0.identifier }
        purchaseDate = try json.mandatory("purchaseDate", of: name) { $0.timestamp }
        environment = try json.mandatory("environment", of: name) { $0.identifier }

        signedDate = json["signedDate"]?.timestamp
        webOrderLineItemID = json["webOrderLineItemId"]?.identifier
        kind = json["type"]?.identifier.map { Known($0) }
        expiresDate = json["expiresDate"]?.timestamp
        revocation = Self.revocation(in: json)
        isUpgraded = json["isUpgraded"]?.bool ?? false
        reason = json["transactionReason"]?.identifier.map { Known($0) }
        ownership = json["inAppOwnershipType"]?.identifier.map { Known($0) }
        offer = Self.offer(in: json)
        price = Self.price(in: json)
        let token = json["appAccountToken"]?.identifier.map(normalizedUUID)
        appAccountToken = token?.text
        appTransactionID = json["appTransactionId"]?.identifier

        var remarks = RemarkList()
        PayloadSchema.transaction.inspect(json, path: "transaction", into: &remarks)
        // Apple documents a UUID; anything else still names an owner, but somebody should know.
        if let token, !token.isUUID { remarks.insert(.unexpectedValue(path: "transaction.appAccountToken")) }
        if price == nil, json.contains("price") { remarks.insert(.unexpectedValue(path: "transaction.price")) }
        if kind == .known(.autoRenewable), expiresDate == nil { remarks.insert(.subscriptionWithoutEnd) }
        if let expiresDate, expiresDate < purchaseDate { remarks.insert(.endBeforePurchase) }
        self.remarks = remarks
    }

    /// What the transaction states, its owner by reference only.
    ///
    /// `fallbackSignedDate` is the notification's, for a transaction that bears no date of its own.
    package func fact(
        payloadHash: Digest, fallbackSignedDate: Timestamp?, identities: inout IdentityList
    ) -> TransactionFact {
        TransactionFact(
            payloadHash: payloadHash, signedDate: signedDate ?? fallbackSignedDate, transactionID: transactionID,
            originalTransactionID: originalTransactionID, webOrderLineItemID: webOrderLineItemID,
            productID: productID, bundleID: bundleID, kind: kind, purchaseDate: purchaseDate,
            expiresDate: expiresDate, revocation: revocation, isUpgraded: isUpgraded, reason: reason,
            ownership: ownership, accountToken: appAccountToken.map { identities.reference(accountToken: $0) },
            appTransaction: appTransactionID.map { identities.reference(appTransactionID: $0) }, offer: offer,
            price: price)
    }

    private static func revocation(in json: JSONObject) -> Revocation? {
        guard let date = json["revocationDate"]?.timestamp else { return nil }
        return Revocation(
            date: date, reason: json["revocationReason"]?.int64,
            kind: json["revocationType"]?.identifier.map { Known($0) },
            percentage: json["revocationPercentage"]?.int64)
    }

    /// A price below nothing, beyond any measure or without a currency is none.
    private static func price(in json: JSONObject) -> Money? {
        guard let thousandths = json["price"]?.int64, thousandths >= 0, let currency = json["currency"]?.identifier
        else { return nil }
        return Money(thousandths: thousandths, currency: currency)
    }

    private static func offer(in json: JSONObject) -> Offer? {
        guard let type = json["offerType"]?.int64 else { return nil }
        return Offer(
            type: type, identifier: json["offerIdentifier"]?.identifier,
            discount: json["offerDiscountType"]?.identifier, period: json["offerPeriod"]?.identifier)
    }
}
