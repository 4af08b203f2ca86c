import AppStorePayloads
import EntitlementCore
import Foundation

// Whether somebody would pay twice for one thing.
extension EntitlementStore {
    /// A purchase that is under way.
    struct PurchaseUnderWay {
        /// Tells it from others of the same product.
        let number: Int
        /// In milliseconds of uptime.
        let begun: Int64
        /// The same as an instant.
        let beganAt: Timestamp
        /// The transactions that were known then.
        let known: Set<String>
        /// Who was logged in; `nil`: nobody.
        let buyer: CustomerID?
        var isOnWeb: Bool
        /// Whether this purchase has already asked the server and the store what the customer owns.
        var hasLooked = false
        /// The transactions of the product that came since and may be this purchase.
        var came: Set<String> = []

        /// Notes a transaction of the product that was not known before.
        ///
        /// The store delivers what is bought. Its lists may come late, and hold what was bought long ago.
        mutating func note(_ transaction: DeviceTransaction, isDelivered: Bool) {
            guard isDelivered || transaction.payload.purchaseDate >= beganAt else { return }
            came.insert(transaction.payload.transactionID)
        }
    }

    /// How long a purchase may take before the same product can be bought once more, in milliseconds.
    private static let purchasePatience: Int64 = 300_000

    /// Notes that a product is being bought; `nil` where it is already, or, on the web, something that gives the same.
    ///
    /// A button that is pressed twice; but a call of the store that never returns ends no purchase for good.
    func beginPurchase(of productID: String, isOnWeb: Bool) -> PurchaseUnderWay? {
        let given = Set(entitlements(of: productID))
        for (id, other) in purchases where uptime - other.begun < Self.purchasePatience {
            if id == productID { return nil }
            if isOnWeb || other.isOnWeb, !given.isDisjoint(with: entitlements(of: id)) { return nil }
        }
        purchaseCount += 1
        let begun = PurchaseUnderWay(
            number: purchaseCount, begun: uptime, beganAt: now, known: Set(ledger.book.transactions.keys),
            buyer: ledger.identified, isOnWeb: isOnWeb)
        purchases[productID] = begun
        return begun
    }

    func endPurchase(_ purchase: PurchaseUnderWay, of productID: String) {
        if purchases[productID]?.number == purchase.number { purchases[productID] = nil }
    }

    /// What a product gives, by whoever knows of it.
    func entitlements(of productID: String) -> [String] {
        if let known = ledger.catalog.product(productID) { return known.entitlements }
        if let sold = shelf?.shelf.rows[productID] { return sold.entitlements }
        return configuration.bundledCatalog.first { $0.productID == productID }?.entitlements ?? []
    }

    /// Whether what is bought of a product runs for as long as the catalog says, by whoever knows of it.
    func runsForCatalogDuration(_ productID: String) -> Bool {
        if let known = ledger.catalog.product(productID) { return known.duration != nil }
        return configuration.bundledCatalog.first { $0.productID == productID }?.duration != nil
    }

    // MARK: Looking first

    /// The longest that server and store are asked before something is sold, in case it was bought elsewhere: on the web,
    /// which needs the server, and in the store, which does not.
    private static let (webPatience, sheetPatience) = (Duration.seconds(8), Duration.seconds(4))

    /// Asks what the customer holds now, before a product is sold; returns why the server has not told, `nil`: it has.
    func lookAgain(before productID: String) async -> WebUnavailability? {
        purchases[productID]?.hasLooked = true
        let isOnWeb = purchases[productID]?.isOnWeb ?? false
        let answered: Void? = await bounded(isOnWeb ? Self.webPatience : Self.sheetPatience) {
            async let answer: Void = self.askAndWait()
            await self.readStore()
            await answer
        }
        return answered == nil ? .unreachable : unansweredSince
    }

    /// Why the server's last answer is not the last word; `nil`: it is.
    private var unansweredSince: WebUnavailability? {
        switch connection {
        case .live, .failed(.unproven): nil
        case .notYetAsked, .failed(.unreachable): .unreachable
        case .failed: .serverFailed
        }
    }

    /// Whether neither this device nor the server can say now what the customer bought on the web, and the app sells nothing then.
    ///
    /// Who asks without a proof is told nothing of that; an app without a token provider has no better one. In Xcode there is no
    /// server to ask.
    var isOwnershipUnknown: Bool {
        guard configuration.webCheckout?.refusesUnknownOwnership == true, server != nil,
            ledger.environment == nil || ledger.storeEnvironment != nil
        else { return false }
        guard unansweredSince != nil || connection == .failed(.unproven) else { return false }
        let hasHeard = ledger.memory.map { $0.isProven || configuration.tokenProvider == nil } ?? false
        return !hasHeard || !unknownWebRenewals.isEmpty
    }

    private var unknownWebRenewals: Set<String> { fold.unknownWebRenewals(at: now, bound: bound) }

    private var fold: DeviceFold { DeviceFold(ledger, leeway: configuration.renewalLeeway.milliseconds) }

    // MARK: What is owned

    /// Something that the customer pays, or has paid, for.
    private struct Held {
        let entitlementID: String
        let givesAccess: Bool
        /// Its charge failed or is late, and may succeed without anybody doing anything: not where it is left unpaid.
        let isInBillingRetry: Bool
        let isFromAppStore: Bool
        let productID: String?
        let originalTransactionID: String?
        /// Whether the store sells the same again and again, such as a consumable.
        let isRepeatable: Bool
        /// Whether it has an end, and nothing goes on being charged for it but what the customer ends in the App Store.
        let endsBesideAnother: Bool
    }

    /// Each of these entitlements from each source by itself: what is shown of several hides the others.
    ///
    /// What was given by hand costs nobody anything.
    private func held(_ entitlementIDs: [String]) -> [Held] {
        let fold = fold
        let (facts, prolonged) = (fold.facts(at: now, bound: bound), fold.prolonged(at: now, bound: bound))
        var held: [Held] = []
        for (id, state) in facts.originals {
            var alone = facts
            (alone.originals, alone.grants) = ([id: state], [])
            let kinds = state.transactions.compactMap(\.fact.kind)
            // What goes on beyond its end has run out by the facts alone.
            let beyond = prolonged.filter { $0.originalTransactionID == id }.flatMap { $0.answers(at: now) }
            for answer in alone.answers(at: now) + beyond where entitlementIDs.contains(answer.entitlementID) {
                held.append(
                    Held(
                        entitlementID: answer.entitlementID, givesAccess: answer.givesAccess,
                        isInBillingRetry: answer.state == .inBillingRetry
                            && state.web?.statement(at: now)?.status != .known(.unpaid),
                        isFromAppStore: state.web == nil,
                        productID: answer.reading.productID, originalTransactionID: id,
                        isRepeatable: kinds.contains { [.known(.consumable), .known(.nonRenewing)].contains($0) },
                        endsBesideAnother: state.web == nil
                            ? answer.reading.isSubscription || answer.until != nil
                            : answer.until != nil && !facts.isCharged(answer.reading, at: now)))
            }
        }
        // Where the facts are not at hand.
        for shown in fold.entitlements(at: now, bound: bound) where entitlementIDs.contains(shown.id) {
            let isTold = held.contains {
                $0.entitlementID == shown.id && ($0.givesAccess || $0.isInBillingRetry || !shown.givesAccess)
            }
            guard shown.source != .grant, !isTold else { continue }
            held.append(
                Held(
                    entitlementID: shown.id, givesAccess: shown.givesAccess || shown.state == .unconfirmed,
                    isInBillingRetry: shown.state == .inBillingRetry, isFromAppStore: shown.source == .appStore,
                    productID: shown.productID, originalTransactionID: shown.originalTransactionID, isRepeatable: false,
                    endsBesideAnother: shown.until != nil && (shown.source == .appStore || shown.willRenew == false)))
        }
        return held
    }

    /// Why a product is not to be sold to this customer, by what is known now; `nil`: nothing is in the way.
    ///
    /// - Parameter isOnWeb: whether a page would be opened, rather than the store's sheet.
    func obstacle(to productID: String, isOnWeb: Bool) async -> PurchaseError? {
        let given = entitlements(of: productID)
        var paidFor: [Held] = []
        for held in held(given) where held.givesAccess || held.isInBillingRetry {
            if !isOnWeb, held.isFromAppStore, await isOfThisStore(held, before: productID) {
                guard let isStoresOwn = await isStoresOwnMatter(productID, held) else {
                    let detail = "the App Store did not say whether this is a change of plan within one group"
                    return PurchaseError(.network, of: productID, detail: detail)
                }
                if isStoresOwn { continue }
            }
            paidFor.append(held)
        }
        if let error = owned(productID, given, by: paidFor) {
            // A subscriber may want what has no end, and end the subscription then.
            let isOutlived = paidFor.allSatisfy { $0.endsBesideAnother && $0.productID != productID }
            guard !isOnWeb, isOutlived, await isSoldForGood(productID) else { return error }
        }
        if let error = chargedOnWeb(productID, given, besides: paidFor) { return error }
        let begun = unfinishedCheckouts(overlapping: productID, given).first {
            !(isOnWeb && $0.productID == productID && (isReusable($0) || isAskedAgain($0)))
        }
        if let begun { return unfinished(begun, keepsFrom: productID) }
        return isOnWeb ? await pendingInStore(productID, given) : nil
    }

    /// Whether something is of the Apple account that the store is signed in to; the store is read where it has not shown it yet.
    private func isOfThisStore(_ held: Held, before productID: String) async -> Bool {
        guard let original = held.originalTransactionID else { return true }
        if ledger.isOfThisStore(original, showing: shownPurchases) { return true }
        guard purchases[productID]?.hasLooked == false else { return false }
        purchases[productID]?.hasLooked = true
        _ = await bounded(Self.sheetPatience) { await self.readStore() }
        return ledger.isOfThisStore(original, showing: shownPurchases)
    }

    /// A product is owned that is held itself, or all that it gives; one that gives more than what is held is worth buying.
    private func owned(_ productID: String, _ given: [String], by paidFor: [Held]) -> PurchaseError? {
        func covers(_ held: [Held]) -> Bool {
            !held.isEmpty
                && (held.contains { $0.productID == productID }
                    || Set(held.map(\.entitlementID)).isSuperset(of: given))
        }
        guard covers(paidFor) else { return nil }
        let open = paidFor.filter(\.givesAccess)
        let isOwned = covers(open)
        let said = (isOwned ? open : paidFor.filter(\.isInBillingRetry)).map { held in
            let source = held.isFromAppStore ? "the App Store" : "the web"
            return "\(held.entitlementID) is held from \(source) by \(held.productID ?? "another product")"
        }
        let detail = Array(Set(said)).sorted().joined(separator: ", ")
        return PurchaseError(isOwned ? .alreadyOwned : .inBillingRetry, of: productID, detail: detail)
    }

    /// What goes on being charged for on the web would be paid beside the same, though it gives nothing now, as while it is
    /// paused, or after one of its charges was refunded.
    private func chargedOnWeb(_ productID: String, _ given: [String], besides paidFor: [Held]) -> PurchaseError? {
        // Of what was to be renewed since it has answered, nobody knows whether it goes on.
        let unknown = unansweredSince == nil ? [] : unknownWebRenewals
        var facts = fold.facts(at: now, bound: bound)
        facts.originals = facts.originals.filter { $0.value.web != nil && !unknown.contains($0.key) }
        let obstacle = ledger.catalog.product(productID).flatMap { facts.obstacle(toSelling: $0, at: now) }
        let isItself = if case .charged? = obstacle { true } else { false }
        let charged = Set(facts.productsChargedOnWeb(at: now).flatMap(entitlements(of:)))
        let isAllPaidFor = charged.union(paidFor.map(\.entitlementID)).isSuperset(of: given)
        guard isItself || isAllPaidFor && !charged.isDisjoint(with: given) else { return nil }
        return PurchaseError(
            .alreadyOwned, of: productID, detail: "it, or what it gives, goes on being charged for on the web")
    }

    /// A page that may still be paid keeps the customer from buying a product.
    func unfinished(_ begun: Checkout, keepsFrom productID: String) -> PurchaseError {
        let detail =
            begun.state == .open
            ? "a page for \(begun.productID) was left and may still be paid"
            : "a page for \(begun.productID) says that it was paid, and the server has not told of it yet"
        return PurchaseError(
            .checkoutUnfinished, of: productID, detail: detail, unfinishedCheckout: UnfinishedCheckout(begun))
    }

    /// The longest that the store is asked about products.
    private static let productPatience = Duration.seconds(3)

    /// Whether the store by itself charges nobody twice; `nil`: it could not be asked.
    ///
    /// So it is for the same product, unless it is sold again and again, and for a change within one
    /// subscription group. What is held may no longer be on sale, and then only what the store has signed tells its group.
    private func isStoresOwnMatter(_ productID: String, _ held: Held) async -> Bool? {
        guard let heldProduct = held.productID else { return false }
        if heldProduct == productID { return !held.isRepeatable }
        var groups: [String: String] = [:]
        for transaction in ledger.book.transactions.values {
            if let group = transaction.subscriptionGroup { groups[transaction.payload.productID] = group }
        }
        let unknown = [productID, heldProduct].filter { groups[$0] == nil }
        if !unknown.isEmpty {
            let adapter = store
            let products = await bounded(Self.productPatience) { try? await adapter.products(unknown) }
            guard let products = products ?? nil else { return nil }
            for product in products { groups[product.id] = product.subscription?.groupID }
        }
        return groups[productID].map { $0 == groups[heldProduct] } ?? false
    }

    /// Whether the store sells a product once, and what it gives has no end; not where the store does not say.
    private func isSoldForGood(_ productID: String) async -> Bool {
        guard !runsForCatalogDuration(productID) else { return false }
        let adapter = store
        let products = await bounded(Self.productPatience) { (try? await adapter.products([productID])) ?? [] }
        guard let product = products?.first(where: { $0.id == productID }) else { return false }
        return product.kind == .nonConsumable
    }

    /// What the store has under way and the device cannot count yet.
    private func pendingInStore(_ productID: String, _ given: [String]) async -> PurchaseError? {
        func overlaps(_ other: String) -> Bool {
            other == productID || !Set(given).isDisjoint(with: entitlements(of: other))
        }
        let waiting = checkouts.pending.first { $0.customerID == ledger.customerID && overlaps($0.productID) }
        if let waiting {
            return PurchaseError(
                .purchasePending, of: productID, detail: "\(waiting.productID) waits for somebody's approval")
        }
        let adapter = store
        let unfinished = await bounded(Self.productPatience) { await adapter.unfinishedTransactions() } ?? []
        let unverified = unfinished.contains { statement in
            guard statement.unverifiedReason != nil,
                let payload = try? DeviceTransaction(SignedStatement(jws: statement.jws)).payload
            else { return false }
            return payload.bundleID == configuration.bundleID && payload.revocation == nil
                && payload.expiresDate.map { $0 > now } ?? true && overlaps(payload.productID)
        }
        guard unverified else { return nil }
        return PurchaseError(
            .purchasePending, of: productID, detail: "the store shows a purchase that could not be verified yet")
    }
}
