import SeededRandom

// Purchases that never renew, and everything the store sends that changes nothing.
extension Storyteller {
    /// A consumable, a non-consumable or a season is bought, or shared by a family member.
    @discardableResult
    package mutating func buy(
        _ account: StoreAccount, _ productID: String, at instant: Int64, familyShared: Bool = false,
        originalTransactionID: String? = nil, signedAt: Int64? = nil
    ) -> SimulatedOriginalKey {
        let key = SimulatedOriginalKey(account.environment, originalTransactionID ?? newID())
        books[key] = StoreBook(
            key: key, account: account, isFamilyShared: familyShared, originalPurchaseDate: instant)
        pay(
            key,
            Terms(
                product: world.product(productID), purchaseDate: instant, begin: instant,
                reason: spoken("PURCHASE", true), token: account.appAccountToken,
                transactionID: key.originalTransactionID))
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("ONE_TIME_CHARGE", about: key, signed: signed)
        return key
    }

    /// The store states again what it knows of a payment: the type is a label and nothing has changed.
    ///
    /// - Parameter underNewID: whether the payment is stated under another transaction id of the same line item.
    /// - Returns: the id under which it was stated.
    @discardableResult
    package mutating func restate(
        _ key: SimulatedOriginalKey, payment: Int? = nil, as type: String = "REFUND_DECLINED", subtype: String? = nil,
        underNewID: Bool = false, at instant: Int64, signedAt: Int64? = nil
    ) -> String {
        let number = payment ?? book(key).last.number
        let id = underNewID ? newID() : book(key).payments[number].transactionID
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify(type, subtype, about: key, payment: number, signed: signed, transactionID: id)
        return id
    }

    /// The store asks how much of a purchase was used, because somebody wants the money back.
    package mutating func requestConsumption(_ key: SimulatedOriginalKey, at instant: Int64, signedAt: Int64? = nil) {
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify(
            "CONSUMPTION_REQUEST", about: key, signed: signed,
            data: ["consumptionRequestReason": .string("UNINTENDED_PURCHASE")])
    }

    /// A price goes up; with or without consent, access is not touched.
    package mutating func announcePrice(
        _ key: SimulatedOriginalKey, accepted: Bool, at instant: Int64, signedAt: Int64? = nil
    ) {
        books[key]?.renewal?.priceIncrease = accepted ? 1 : 0
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("PRICE_INCREASE", accepted ? "ACCEPTED" : "PENDING", about: key, signed: signed)
    }

    /// A notification of a type and subtype that nobody knows yet, with ordinary statements inside.
    package mutating func sayTheUnheardOf(_ key: SimulatedOriginalKey, at instant: Int64) {
        restate(key, as: "SUBSCRIPTION_TELEPORTED", subtype: "SIDEWAYS", at: instant)
    }

    /// A test notification: `data` without statements.
    package mutating func sendTest(_ environment: SimulatedStoreEnvironment, at instant: Int64) {
        send("TEST", environment, at: instant, member: "data", .object(dataObject(environment)))
    }

    /// The end of an extension for many subscribers: a summary and nothing else.
    package mutating func summariseExtension(_ environment: SimulatedStoreEnvironment, at instant: Int64) {
        var summary = dataObject(environment)
        summary["bundleVersion"] = nil
        summary["productId"] = .string(StoreWorld.ProductID.proMonthly)
        summary["requestIdentifier"] = .string(random.uuid())
        summary["storefrontCountryCodes"] = .array([.string("USA"), .string("DEU")])
        summary["succeededCount"] = .integer(1_204)
        summary["failedCount"] = .integer(3)
        send("RENEWAL_EXTENSION", subtype: "SUMMARY", environment, at: instant, member: "summary", .object(summary))
    }

    /// A token for purchases outside the store, to be reported and otherwise of no concern.
    package mutating func sendExternalPurchaseToken(_ environment: SimulatedStoreEnvironment, at instant: Int64) {
        let prefix = environment == .sandbox ? "SANDBOX_" : ""
        let token: [String: PayloadValue] = [
            "externalPurchaseId": .string(prefix + random.uuid()),
            "tokenCreationDate": .integer(instant),
            "tokenType": .string("SERVICES"),
            "appAppleId": .integer(world.appAppleID),
            "bundleId": .string(world.bundleID),
        ]
        send(
            "EXTERNAL_PURCHASE_TOKEN", subtype: "CREATED", environment, at: instant,
            member: "externalPurchaseToken", .object(token))
    }

    /// A guardian withdraws consent: a notice about the app, not about a purchase.
    package mutating func rescindConsent(_ account: StoreAccount, at instant: Int64) {
        var appData = dataObject(account.environment)
        appData["bundleVersion"] = nil
        var app: [String: PayloadValue] = [
            "receiptType": .string(account.environment.payloadName),
            "bundleId": .string(world.bundleID),
            "applicationVersion": .string("42"),
            "receiptCreationDate": .integer(instant),
            "originalPurchaseDate": .integer(world.start),
            "originalApplicationVersion": .string("1"),
        ]
        if account.environment == .production { app["appAppleId"] = .integer(world.appAppleID) }
        app["appTransactionId"] = account.appTransactionID.map(PayloadValue.string)
        send("RESCIND_CONSENT", account.environment, at: instant, member: "appData", .object(appData), app: app)
    }

    private mutating func send(
        _ type: String, subtype: String? = nil, _ environment: SimulatedStoreEnvironment, at instant: Int64,
        member: String,
        _ content: PayloadValue, app: [String: PayloadValue]? = nil
    ) {
        notifications.append(
            StoreNotification(
                environment: environment, originalTransactionID: nil, signedDate: instant,
                payload: envelope(type, subtype, signed: instant).merging([member: content]) { _, new in new },
                transaction: nil, renewal: nil, appTransaction: app))
    }
}
