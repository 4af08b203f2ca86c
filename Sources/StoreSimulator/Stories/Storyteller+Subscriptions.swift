import SeededRandom

// Subscriptions: bought, renewed, changed, left and taken up again.
extension Storyteller {
    /// A first subscription in a group.
    ///
    /// - Parameters:
    ///   - familyShared: whether it comes from a family member's purchase.
    ///   - statesReason: whether the payment says that it is a purchase.
    ///   - hasLineItem: whether the payments of this original carry a `webOrderLineItemId`.
    ///   - announced: false for a purchase of which no notification ever told; the record then begins later.
    ///   - originalTransactionID: an id used elsewhere, for the other environment's namesake.
    /// - Returns: the original transaction to tell more about.
    @discardableResult
    package mutating func subscribe(
        _ account: StoreAccount, to productID: String, at instant: Int64, offer: SimulatedStoreOffer? = nil,
        familyShared: Bool = false, statesReason: Bool = true, hasLineItem: Bool = true, announced: Bool = true,
        originalTransactionID: String? = nil, signedAt: Int64? = nil
    ) -> SimulatedOriginalKey {
        let key = SimulatedOriginalKey(account.environment, originalTransactionID ?? newID())
        var book = StoreBook(
            key: key, account: account, isFamilyShared: familyShared, originalPurchaseDate: instant)
        book.renewal = RenewalStanding(renewsAs: productID)
        books[key] = book
        pay(
            key,
            Terms(
                product: world.product(productID), purchaseDate: instant, begin: instant, offer: offer,
                reason: spoken("PURCHASE", statesReason), token: account.appAccountToken, hasLineItem: hasLineItem,
                announced: announced, transactionID: key.originalTransactionID))
        guard announced else { return key }
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("SUBSCRIBED", "INITIAL_BUY", about: key, signed: signed)
        return key
    }

    /// The next payment of a subscription: on time, charged early, late, or after a billing problem.
    ///
    /// - Parameters:
    ///   - purchasedAt: the purchase date; the end of the present period where nil.
    ///   - token: another login that the payment bears from now on.
    package mutating func renew(
        _ key: SimulatedOriginalKey, purchasedAt: Int64? = nil, token: String? = nil, statesReason: Bool = true,
        offer: SimulatedStoreOffer? = nil, signedAt: Int64? = nil
    ) {
        let before = book(key)
        let end = before.last.expiresDate ?? before.last.begin
        let purchased = purchasedAt ?? end
        let product = world.product(before.renewal?.renewsAs ?? before.last.product.id)
        let recovers = before.renewal?.hasFailed ?? false
        // Silence about the reason means a renewal only while the product stays the same.
        let isPlain = product.id == before.last.product.id || purchased >= end
        pay(
            key,
            Terms(
                product: product, purchaseDate: purchased, begin: max(purchased, end), offer: offer,
                reason: spoken("RENEWAL", statesReason || !isPlain, mayBeSilent: isPlain),
                token: token ?? before.last.appAccountToken,
                hasLineItem: before.last.webOrderLineItemID != nil))
        let signed = stamp(key, action: purchased, signedAt: signedAt)
        notify("DID_RENEW", recovers ? "BILLING_RECOVERY" : nil, about: key, signed: signed)
    }

    /// An upgrade or a crossgrade of the same length: a purchase in the same original that starts at once.
    package mutating func change(
        _ key: SimulatedOriginalKey, to productID: String, at instant: Int64, statesReason: Bool = true,
        offer: SimulatedStoreOffer? = nil, signedAt: Int64? = nil
    ) {
        let before = book(key)
        let product = world.product(productID)
        let isUpgrade = product.level < before.last.product.level || product.period != before.last.product.period
        books[key]?.payments[before.last.number].isUpgraded = true
        books[key]?.renewal?.renewsAs = productID
        pay(
            key,
            Terms(
                product: product, purchaseDate: instant, begin: instant, offer: offer,
                reason: spoken("PURCHASE", statesReason), token: before.last.appAccountToken,
                hasLineItem: before.last.webOrderLineItemID != nil))
        let signed = stamp(key, action: instant, signedAt: signedAt)
        let type = offer == nil ? "DID_CHANGE_RENEWAL_PREF" : "OFFER_REDEEMED"
        notify(type, isUpgrade ? "UPGRADE" : nil, about: key, signed: signed)
    }

    /// A subscription that lapsed, or is in billing retry, is bought again in the same original.
    package mutating func resubscribe(
        _ key: SimulatedOriginalKey, to productID: String? = nil, at instant: Int64, offer: SimulatedStoreOffer? = nil,
        token: String? = nil, signedAt: Int64? = nil
    ) {
        let before = book(key)
        let productID = productID ?? before.last.product.id
        books[key]?.renewal?.renewsAs = productID
        pay(
            key,
            Terms(
                product: world.product(productID), purchaseDate: instant, begin: instant, offer: offer,
                reason: spoken("PURCHASE", true), token: token ?? before.last.appAccountToken,
                hasLineItem: before.last.webOrderLineItemID != nil))
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("SUBSCRIBED", "RESUBSCRIBE", about: key, signed: signed)
    }

    /// The next renewal is to be for another product: a downgrade, or with the present product: it is called off.
    package mutating func planRenewal(
        _ key: SimulatedOriginalKey, as productID: String, at instant: Int64, signedAt: Int64? = nil
    ) {
        let isReverted = productID == book(key).last.product.id
        books[key]?.renewal?.renewsAs = productID
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("DID_CHANGE_RENEWAL_PREF", isReverted ? nil : "DOWNGRADE", about: key, signed: signed)
    }

    /// Auto-renewal is turned on or off.
    package mutating func setAutoRenew(
        _ key: SimulatedOriginalKey, _ isOn: Bool, at instant: Int64, signedAt: Int64? = nil
    ) {
        books[key]?.renewal?.autoRenews = isOn
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify(
            "DID_CHANGE_RENEWAL_STATUS", isOn ? "AUTO_RENEW_ENABLED" : "AUTO_RENEW_DISABLED", about: key,
            signed: signed)
    }

    /// The developer gives away days: the running period ends later.
    package mutating func extend(
        _ key: SimulatedOriginalKey, byDays days: Int64, at instant: Int64, signedAt: Int64? = nil
    ) {
        let last = book(key).last
        guard let expiresDate = last.expiresDate, instant < expiresDate else {
            preconditionFailure("only a period that still runs can be extended")
        }
        let end = expiresDate + days * Span.day
        books[key]?.payments[last.number].expiresDate = end
        if let chapter = last.chapter { record.extend(key, chapter: chapter, to: end) }
        let signed = stamp(key, action: instant, signedAt: signedAt)
        notify("RENEWAL_EXTENDED", about: key, signed: signed)
    }

    /// The old transaction is signed again as upgraded, though nobody is ever told of the upgrade.
    ///
    /// All that is then known is that the period had ended when this was signed.
    package mutating func stateUpgraded(_ key: SimulatedOriginalKey, at instant: Int64, signedAt: Int64? = nil) {
        let last = book(key).last
        books[key]?.payments[last.number].isUpgraded = true
        let signed = stamp(key, action: instant, signedAt: signedAt)
        if let chapter = last.chapter {
            record.rewrite(
                key, chapter: chapter, from: signed, as: [Record.Stage(from: signed, condition: .expired)])
        }
        notify("REFUND_DECLINED", about: key, signed: signed)
    }
}

extension Storyteller {
    /// What is paid, and how the store writes it down.
    struct Terms {
        let product: SimulatedStoreProduct
        let purchaseDate: Int64
        let begin: Int64
        var offer: SimulatedStoreOffer?
        let reason: String?
        let token: String?
        var hasLineItem = true
        var announced = true
        var transactionID: String?
    }

    /// Writes a payment into the store's books and opens its chapter in the record.
    mutating func pay(_ key: SimulatedOriginalKey, _ terms: Terms) {
        let product = terms.product
        let length = terms.offer?.period.flatMap(SimulatedCalendarDuration.init(iso8601:)) ?? product.period
        let expiresDate =
            product.kind == .autoRenewable
            ? length.map { SimulatedCalendar.adding($0, to: terms.begin) } : nil
        let paid: Record.Paid =
            switch product.kind {
            case .autoRenewable: expiresDate.map(Record.Paid.until) ?? .forever
            case .nonConsumable: .forever
            case .consumable, .nonRenewing: .catalogDuration
            }
        var owner = book(key).account
        owner.appAccountToken = terms.token
        let price = StorePrice(of: product, offer: terms.offer, original: key.originalTransactionID)
        var payment = Payment(
            number: book(key).payments.count, transactionID: terms.transactionID ?? newID(),
            webOrderLineItemID: terms.hasLineItem && product.kind == .autoRenewable ? newID() : nil,
            product: product, purchaseDate: terms.purchaseDate, begin: terms.begin, expiresDate: expiresDate,
            reason: terms.reason, appAccountToken: terms.token,
            appTransactionID: book(key).account.appTransactionID, offer: terms.offer, price: price, chapter: nil)
        payment.chapter =
            terms.announced
            ? record.open(
                key, owner: owner.customerID, productID: product.id, begin: terms.begin, paid: paid,
                isOneTime: product.kind != .autoRenewable, isFamilyShared: book(key).isFamilyShared,
                isTrial: terms.offer?.discount == "FREE_TRIAL", reason: terms.reason,
                charge: Record.Charge(
                    at: terms.purchaseDate, amount: payment.statesPrice ? price.amount : nil, currency: price.currency))
            : nil
        books[key]?.payments.append(payment)
        // A payment settles whatever was wrong before.
        if let renewal = book(key).renewal { books[key]?.renewal = RenewalStanding(renewsAs: renewal.renewsAs) }
    }

    /// The reason as stated, or silence.
    mutating func spoken(_ reason: String, _ isStated: Bool, mayBeSilent: Bool = true) -> String? {
        if mayBeSilent, random.chance(quirks.missingReason) { return nil }
        return isStated ? reason : nil
    }
}
