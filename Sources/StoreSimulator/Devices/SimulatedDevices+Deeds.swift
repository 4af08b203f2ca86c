// What people and the store do; each deed says which devices hear of it by themselves.
extension SimulatedDevices {
    /// Somebody buys on a device, and the app asked for it.
    ///
    /// What is owned already is handed over again. The other devices of the account are told.
    package mutating func purchase(
        _ productID: String, token: String?, on device: Int
    ) throws -> (result: PurchaseResult, updates: [DeviceUpdate]) {
        guard !devices[device].isOffline else { return (.offline, []) }
        guard !devices[device].asksToBuy else {
            requests.append(Request(device: device, productID: productID, token: token))
            return (.pending, [])
        }
        let payment = pay(productID, token: token, account: payer(device))
        let updates = try announce(payment).filter { $0.device != device }
        return (.success(try statement(payment, for: device)), updates)
    }

    /// A parent agrees to a request; every device of the account is told, the asking one too.
    package mutating func approve(_ request: Request) throws -> [DeviceUpdate] {
        requests.removeAll { $0 == request }
        return try announce(
            pay(request.productID, token: request.token, account: payer(request.device)))
    }

    /// A parent does not agree: nobody is told.
    package mutating func decline(_ request: Request) { requests.removeAll { $0 == request } }

    /// Somebody redeems an offer code outside the app, which so passes no login.
    package mutating func redeem(_ productID: String, account: Int) throws -> [DeviceUpdate] {
        try announce(pay(productID, token: nil, account: account, offer: .offerCode))
    }

    /// A family member shares a purchase of theirs, which passes no login; every device of the account is told.
    package mutating func share(_ productID: String, with account: Int) throws -> [DeviceUpdate] {
        let product = storyteller.world.product(productID)
        // Whoever has it already gets nothing by it.
        guard sibling(of: product, account: account) == nil else { return [] }
        let key =
            product.kind == .autoRenewable
            ? storyteller.subscribe(accounts[account], to: productID, at: now, familyShared: true)
            : storyteller.buy(accounts[account], productID, at: now, familyShared: true)
        originals[account, default: []].append(key)
        return try announce(PaymentKey(original: key, number: 0))
    }

    /// The next payment of a subscription: charged when the present one ended, early where it still runs, and now after
    /// a billing problem.
    package mutating func renew(_ key: SimulatedOriginalKey) throws -> [DeviceUpdate] {
        let hasFailed = storyteller.book(key).renewal?.hasFailed ?? false
        storyteller.renew(key, purchasedAt: hasFailed ? now : min(now, storyteller.expiry(key) ?? now))
        return try announceLast(key)
    }

    /// A renewal could not be charged; devices learn it from the statuses alone.
    package mutating func failToRenew(_ key: SimulatedOriginalKey, graceDays: Int64?) {
        let end = max(storyteller.expiry(key) ?? now, now)
        storyteller.failToRenew(key, at: now, graceEnd: graceDays.map { end + $0 * Span.day })
    }

    /// Auto-renewal is turned on or off; devices learn it from the statuses alone.
    package mutating func setAutoRenew(_ key: SimulatedOriginalKey, _ isOn: Bool) {
        storyteller.setAutoRenew(key, isOn, at: now)
    }

    /// A subscription that was not renewed is over.
    package mutating func expire(_ key: SimulatedOriginalKey) { storyteller.expire(key, "VOLUNTARY", at: now) }

    /// The last payment is refunded, and every device is told.
    ///
    /// - Parameter prorated: the part paid back, in thousandths of a percent; nil for all of it.
    package mutating func refund(_ key: SimulatedOriginalKey, prorated: Int64? = nil) throws -> [DeviceUpdate] {
        storyteller.refund(key, at: now, prorated: prorated)
        return try announceLast(key)
    }

    /// Whoever shares a purchase leaves the family, or the member does: every device of the member is told.
    package mutating func endSharing(_ key: SimulatedOriginalKey) throws -> [DeviceUpdate] {
        storyteller.endSharing(key, at: now)
        return try announceLast(key)
    }

    /// Whether a family member pays for it.
    package func isShared(_ key: SimulatedOriginalKey) -> Bool { storyteller.book(key).isFamilyShared }

    /// A refund is taken back, and every device is told.
    package mutating func reverseRefund(_ key: SimulatedOriginalKey) throws -> [DeviceUpdate] {
        storyteller.reverseRefund(key, at: now)
        return try announceLast(key)
    }

    // MARK: - What stands in the books

    /// The original transactions of an account, in the order in which they were bought.
    package func originals(account: Int) -> [SimulatedOriginalKey] { originals[account] ?? [] }

    /// The original transaction of an account's latest purchase of a product.
    package func original(of productID: String, account: Int) -> SimulatedOriginalKey? {
        originals(account: account).last { key in
            storyteller.book(key).payments.contains { $0.product.id == productID }
        }
    }

    /// The ids of the payments of an original, in order.
    package func transactionIDs(of key: SimulatedOriginalKey) -> [String] {
        storyteller.book(key).payments.map(\.transactionID)
    }

    /// Whether a transaction paid for a consumable.
    package func isConsumable(_ transactionID: String) -> Bool {
        originals.values.joined().contains { key in
            storyteller.book(key).payments.contains {
                $0.transactionID == transactionID && $0.product.kind == .consumable
            }
        }
    }

    /// Whether a transaction's money went back.
    package func isRefunded(transaction id: String) -> Bool {
        payment(id).map { $0.payment.revocation != nil } ?? false
    }

    /// Whether an app that forgot a transaction might miss it at an instant: the last one of a subscription, what was bought
    /// for good, and what a consumable still gives.
    package func isNeeded(_ id: String, at instant: Int64) -> Bool {
        guard let (key, payment) = payment(id) else { return false }
        switch payment.product.kind {
        case .autoRenewable: return storyteller.book(key).last.transactionID == id
        case .nonConsumable, .nonRenewing: return true
        case .consumable:
            let mapping = storyteller.world.mappings.first { $0.productID == payment.product.id }
            guard let duration = mapping?.duration.flatMap({ SimulatedCalendarDuration(iso8601: $0) }) else {
                return false
            }
            return SimulatedCalendar.adding(duration, to: payment.purchaseDate) > instant
        }
    }

    private func payment(_ id: String) -> (key: SimulatedOriginalKey, payment: Payment)? {
        for key in originals.values.joined() {
            if let payment = storyteller.book(key).payments.first(where: { $0.transactionID == id }) {
                return (key, payment)
            }
        }
        return nil
    }

    /// Whether an original renews at all.
    package func isSubscription(_ key: SimulatedOriginalKey) -> Bool { storyteller.book(key).renewal != nil }

    /// Whether the last payment's money went back.
    package func isRefunded(_ key: SimulatedOriginalKey) -> Bool { storyteller.book(key).last.revocation != nil }

    /// Whether the store would charge for the next period by now, at most a day early.
    package func mayRenew(_ key: SimulatedOriginalKey) -> Bool {
        (storyteller.expiry(key) ?? .max) - Span.day <= now && !isRefunded(key)
    }

    /// Whether the last payment of a subscription is over.
    package func hasRunOut(_ key: SimulatedOriginalKey) -> Bool { (storyteller.expiry(key) ?? .max) <= now }

    // MARK: - Paying

    /// A payment in the account's subscription of the same group, or an original of its own.
    private mutating func pay(
        _ productID: String, token: String?, account: Int, offer: SimulatedStoreOffer? = nil
    ) -> PaymentKey {
        let product = storyteller.world.product(productID)
        if let key = sibling(of: product, account: account) {
            let last = storyteller.book(key).last
            let isHeld = last.revocation == nil && (last.expiresDate ?? .max) > now
            if isHeld, last.product.id == productID { return PaymentKey(original: key, number: last.number) }
            if product.kind == .autoRenewable {
                if isHeld {
                    storyteller.change(key, to: productID, at: now, offer: offer)
                } else {
                    storyteller.resubscribe(key, to: productID, at: now, offer: offer, token: token)
                }
                return PaymentKey(original: key, number: storyteller.book(key).last.number)
            }
        }
        var buyer = accounts[account]
        buyer.appAccountToken = token
        let key =
            product.kind == .autoRenewable
            ? storyteller.subscribe(buyer, to: productID, at: now, offer: offer)
            : storyteller.buy(buyer, productID, at: now)
        originals[account, default: []].append(key)
        return PaymentKey(original: key, number: 0)
    }

    /// What the account has in the product's group, or of a product that is bought once.
    private func sibling(of product: SimulatedStoreProduct, account: Int) -> SimulatedOriginalKey? {
        originals(account: account).last { key in
            let held = storyteller.book(key).last.product
            return switch product.kind {
            case .autoRenewable: held.groupID == product.groupID
            case .nonConsumable: held.id == product.id && storyteller.book(key).last.revocation == nil
            case .consumable, .nonRenewing: false
            }
        }
    }

    private mutating func announceLast(_ key: SimulatedOriginalKey) throws -> [DeviceUpdate] {
        try announce(PaymentKey(original: key, number: storyteller.book(key).last.number))
    }

    /// The payment is new, or says something new: no device of the account has finished that.
    private mutating func announce(_ payment: PaymentKey) throws -> [DeviceUpdate] {
        guard let account = originals.first(where: { $0.value.contains(payment.original) })?.key else {
            preconditionFailure("\(payment.original.originalTransactionID) belongs to no account")
        }
        var updates: [DeviceUpdate] = []
        for number in devices.indices where payer(number) == account {
            change(number) { device in
                if !device.unfinished.contains(payment) { device.unfinished.append(payment) }
            }
            updates.append(DeviceUpdate(device: number, statement: try statement(payment, for: number)))
        }
        return updates
    }
}
