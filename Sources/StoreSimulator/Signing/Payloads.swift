import SeededRandom

// What the store writes: the unsigned payloads, made from its books.
extension Storyteller {
    /// The outer fields that every notification has.
    mutating func envelope(_ type: String, _ subtype: String?, signed: Int64) -> [String: PayloadValue] {
        var fields: [String: PayloadValue] = [
            "notificationType": .string(type),
            "notificationUUID": .string(random.uuid()),
            "version": .string("2.0"),
            "signedDate": .integer(signed),
        ]
        fields["subtype"] = subtype.map(PayloadValue.string)
        addUnknownFields(to: &fields)
        return fields
    }

    /// The `data` object without the signed statements.
    func dataObject(_ environment: SimulatedStoreEnvironment) -> [String: PayloadValue] {
        var data: [String: PayloadValue] = [
            "environment": .string(environment.payloadName),
            "bundleId": .string(world.bundleID),
            "bundleVersion": .string("42"),
        ]
        if environment == .production { data["appAppleId"] = .integer(world.appAppleID) }
        return data
    }

    /// A transaction as it stands in the books.
    mutating func transactionPayload(
        _ book: StoreBook, _ payment: Payment, signed: Int64, transactionID: String? = nil
    ) -> [String: PayloadValue] {
        var fields: [String: PayloadValue] = [
            "transactionId": .string(transactionID ?? payment.transactionID),
            "originalTransactionId": .string(book.key.originalTransactionID),
            "bundleId": .string(world.bundleID),
            "productId": .string(payment.product.id),
            "purchaseDate": moment(payment.purchaseDate),
            "originalPurchaseDate": moment(book.originalPurchaseDate),
            "quantity": .integer(1),
            "type": .string(payment.product.kind.rawValue),
            "inAppOwnershipType": .string(book.isFamilyShared ? "FAMILY_SHARED" : "PURCHASED"),
            "environment": .string(book.key.environment.payloadName),
            "storefront": .string(payment.price.storefront),
            "storefrontId": .string(payment.price.storefrontID),
        ]
        if payment.statesPrice {
            fields["currency"] = .string(payment.price.currency)
            fields["price"] = .integer(payment.price.amount)
        }
        fields["webOrderLineItemId"] = payment.webOrderLineItemID.map(PayloadValue.string)
        fields["subscriptionGroupIdentifier"] = payment.product.groupID.map(PayloadValue.string)
        if let expiresDate = payment.expiresDate { fields["expiresDate"] = moment(expiresDate) }
        fields["transactionReason"] = payment.reason.map(PayloadValue.string)
        fields["appTransactionId"] = payment.appTransactionID.map(PayloadValue.string)
        if let token = payment.appAccountToken { fields["appAccountToken"] = spelled(token) }
        if let offer = payment.offer {
            fields["offerType"] = .integer(offer.type)
            fields["offerDiscountType"] = .string(offer.discount)
            fields["offerIdentifier"] = offer.identifier.map(PayloadValue.string)
            fields["offerPeriod"] = offer.period.map(PayloadValue.string)
        }
        if let revocation = payment.revocation {
            fields["revocationDate"] = moment(revocation.date)
            fields["revocationReason"] = .integer(revocation.reason)
            fields["revocationType"] = .string(revocation.type)
            fields["revocationPercentage"] = revocation.percentage.map(PayloadValue.integer)
        }
        // The store states this field only where it is true.
        if payment.isUpgraded { fields["isUpgraded"] = .boolean(true) }
        addSignedDate(signed, to: &fields)
        addUnknownFields(to: &fields)
        return fields
    }

    /// The renewal information as it stands in the books; nil for one-time purchases.
    mutating func renewalPayload(_ book: StoreBook, signed: Int64) -> [String: PayloadValue]? {
        guard let renewal = book.renewal else { return nil }
        let last = book.last
        var fields: [String: PayloadValue] = [
            "originalTransactionId": .string(book.key.originalTransactionID),
            "productId": .string(last.product.id),
            "autoRenewProductId": .string(renewal.renewsAs),
            "autoRenewStatus": .integer(renewal.autoRenews ? 1 : 0),
            "isInBillingRetryPeriod": .boolean(renewal.isInBillingRetry),
            "environment": .string(book.key.environment.payloadName),
            "recentSubscriptionStartDate": moment(book.originalPurchaseDate),
            "currency": .string("USD"),
            "renewalPrice": .integer(world.product(renewal.renewsAs).price),
        ]
        if renewal.autoRenews, let expiresDate = last.expiresDate { fields["renewalDate"] = moment(expiresDate) }
        if let graceEnd = renewal.graceEnd { fields["gracePeriodExpiresDate"] = moment(graceEnd) }
        fields["expirationIntent"] = renewal.expirationIntent.map(PayloadValue.integer)
        fields["priceIncreaseStatus"] = renewal.priceIncrease.map(PayloadValue.integer)
        fields["appTransactionId"] = last.appTransactionID.map(PayloadValue.string)
        if let token = last.appAccountToken { fields["appAccountToken"] = spelled(token) }
        addSignedDate(signed, to: &fields)
        addUnknownFields(to: &fields)
        return fields
    }

    /// The store's own status, as of the signed date: 1 active, 2 expired, 3 retry, 4 grace, 5 revoked.
    func statusCode(_ book: StoreBook, at signed: Int64) -> Int64? {
        guard let renewal = book.renewal else { return nil }
        if book.last.revocation != nil { return 5 }
        if let expiresDate = book.last.expiresDate, signed < expiresDate { return 1 }
        if let graceEnd = renewal.graceEnd, signed < graceEnd { return 4 }
        return renewal.isInBillingRetry ? 3 : 2
    }

    /// A timestamp, now and then with a fraction that a reader has to drop.
    mutating func moment(_ milliseconds: Int64) -> PayloadValue {
        guard random.chance(quirks.fractionalMilliseconds) else { return .integer(milliseconds) }
        return .fraction(Double(milliseconds) + random.pick([0.25, 0.5, 0.75]))
    }

    private mutating func spelled(_ token: String) -> PayloadValue {
        .string(random.chance(quirks.upperCaseToken) ? token.uppercased() : token)
    }

    private mutating func addSignedDate(_ signed: Int64, to fields: inout [String: PayloadValue]) {
        if !random.chance(quirks.missingSignedDate) { fields["signedDate"] = .integer(signed) }
    }

    private mutating func addUnknownFields(to fields: inout [String: PayloadValue]) {
        guard random.chance(quirks.unknownFields) else { return }
        fields["loyaltyTier"] = .object(["level": .integer(7), "name": .string("Überflieger 🚀"), "since": .null])
        fields["experiments"] = .array([.string("a"), .fraction(0.5), .boolean(false)])
    }
}
