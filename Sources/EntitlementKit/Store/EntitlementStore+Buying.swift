import AppStorePayloads
import EntitlementCore
import Foundation

extension EntitlementStore {
    // MARK: Buying

    /// Buys a product through the device's store.
    ///
    /// A purchase that succeeds is verified, on disk and in the published state when this returns; it never waits for
    /// the server.
    public func purchase(
        _ productID: String, options: PurchaseOptions = PurchaseOptions()
    ) async -> PurchaseOutcome {
        await ready()
        log(.info, .purchase, "buying \(name: productID)")
        return logged(await buy(productID, options), of: productID)
    }

    private func buy(_ productID: String, _ options: PurchaseOptions) async -> PurchaseOutcome {
        guard options.quantity > 0 else {
            let detail = "a quantity of \(options.quantity) cannot be bought"
            return .failed(PurchaseError(.invalidOffer, of: productID, detail: detail))
        }
        guard await store.canMakePayments() else { return .failed(PurchaseError(.notAllowed, of: productID)) }
        // A button that is pressed twice; but a call of the store that never returns ends no purchase for good.
        if let begun = purchases[productID], uptime - begun < Self.purchasePatience {
            return .failed(PurchaseError(.alreadyUnderWay, of: productID))
        }
        let begun = uptime
        purchases[productID] = begun
        defer { if purchases[productID] == begun { purchases[productID] = nil } }
        do {
            // The store signs it into the transaction, so that it is the customer's on every device at once.
            let accountToken = await appAccountToken()
            let offer = try await signedOffer(options.offer, productID, accountToken)
            let stated = StorePurchaseOptions(
                appAccountToken: accountToken, quantity: options.quantity, offer: offer)
            return await taken(.success(try await store.purchase(productID, options: stated)), of: productID)
        } catch {
            return await taken(.failure(error), of: productID)
        }
    }

    /// How long a purchase may take before the same product can be bought once more, in milliseconds.
    private static let purchasePatience: Int64 = 300_000

    /// The longest that the app's server is waited for to sign an offer.
    private static let signingPatience = Duration.seconds(20)

    private func signedOffer(
        _ choice: OfferChoice?, _ productID: String, _ accountToken: UUID?
    ) async throws -> StoreOffer? {
        switch choice {
        case nil: return nil
        case .winBack(let id): return .winBack(id)
        case .promotional(let id):
            guard let signer = configuration.offerSigner else {
                throw PurchaseError(.invalidOffer, detail: "a promotional offer needs configuration.offerSigner")
            }
            let request = PromotionalOfferRequest(
                productID: productID, offerID: id, customerID: ledger.identified, appAccountToken: accountToken)
            let signature = await bounded(Self.signingPatience) { () -> Result<PromotionalOfferSignature, any Error> in
                do { return .success(try await signer(request)) } catch { return .failure(error) }
            }
            switch signature {
            case .success(let signature): return .promotional(id, signature)
            case .failure(let error as URLError): throw error
            case .failure(let error): throw PurchaseError(.invalidOffer, underlying: error)
            case nil: throw PurchaseError(.network, detail: "nobody signed the offer in time")
            }
        }
    }

    // MARK: What was bought elsewhere in the app

    /// Takes what became of a purchase that something else than ``purchase(_:options:)`` has made, such as one of
    /// StoreKit's own views; it counts as one of this store's.
    @discardableResult
    public func take(
        _ result: Result<StorePurchaseResult, any Error>, of productID: String
    ) async -> PurchaseOutcome {
        await ready()
        return logged(await taken(result, of: productID), of: productID)
    }

    /// Takes what the store says of a subscription, wherever the app came by it.
    public func take(_ status: SubscriptionStatement) async {
        await ready()
        await receive(StoreReading(origin: .status, subscriptions: [status]))
    }

    private func taken(
        _ result: Result<StorePurchaseResult, any Error>, of productID: String
    ) async -> PurchaseOutcome {
        switch result {
        case .success(.success(let statement)): return await bought(statement, productID)
        case .success(.pending): return .pending
        case .success(.userCancelled): return .userCancelled
        case .success(.unknown):
            return .failed(PurchaseError(.unknown, of: productID, detail: "the store's answer is newer than this app"))
        case .failure(let thrown):
            let error = PurchaseError(thrown, of: productID)
            guard [.network, .unknown].contains(error.reason) else { return .failed(error) }
            // Whatever the store called it: a product that it does not show is not on sale here.
            if error.reason == .unknown, let shown = try? await store.products([productID]), shown.isEmpty {
                return .failed(PurchaseError(.productNotFound, of: productID, underlying: error.underlying))
            }
            return await madeAllTheSame(productID, error)
        }
    }

    /// The longest that the store is looked at after it threw in the middle of a purchase.
    private static let afterthought = Duration.seconds(3)

    /// A store that loses its connection in the middle of a purchase throws, and may have made it.
    private func madeAllTheSame(_ productID: String, _ error: PurchaseError) async -> PurchaseOutcome {
        let known = Set(ledger.book.transactions.keys)
        let adapter = store
        let unfinished = await bounded(Self.afterthought) { await adapter.unfinishedTransactions() } ?? []
        let bought = unfinished.first { statement in
            guard let payload = try? DeviceTransaction(statement).payload else { return false }
            return payload.productID == productID && payload.revocation == nil && !known.contains(payload.transactionID)
        }
        guard let bought else { return .failed(error) }
        return await self.bought(bought, productID)
    }

    private func bought(_ statement: SignedStatement, _ productID: String) async -> PurchaseOutcome {
        if let reason = statement.unverifiedReason {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: reason))
            return .failed(PurchaseError(.verificationFailed, of: productID, detail: reason))
        }
        let reading = StoreReading(origin: .delivery, transactions: [statement])
        guard let transaction = await receive(reading).first else {
            let detail = "the store signed something that is no transaction of this app"
            return .failed(PurchaseError(.verificationFailed, of: productID, detail: detail))
        }
        return .success(
            Purchase(
                transactionID: transaction.payload.transactionID,
                originalTransactionID: transaction.payload.originalTransactionID,
                productID: transaction.payload.productID, entitlements: entitlements))
    }

    private func logged(_ outcome: PurchaseOutcome, of productID: String) -> PurchaseOutcome {
        switch outcome {
        case .success: log(.info, .purchase, "bought \(name: productID)")
        case .pending: log(.info, .purchase, "\(name: productID) waits for approval")
        case .userCancelled: log(.info, .purchase, "the person did not buy \(name: productID)")
        case .failed(let error):
            if let underlying = error.underlying {
                log(.error, .purchase, "\(name: productID): \(word: error.reason), \(error: underlying)")
            } else {
                log(.error, .purchase, "\(name: productID): \(word: error.reason)")
            }
        }
        return outcome
    }

    // MARK: Looking around

    /// The products of ``EntitlementConfiguration/productIDs``, in that order, with everywhere they can be bought.
    public func products() async -> [EntitlementProduct] {
        await ready()
        let ids = configuration.productIDs
        async let onSale = store.products(ids)
        async let mayBuy = store.canMakePayments()
        async let webPrices = configuration.webCheckout?.prices(for: ids)
        let sold = Dictionary(((try? await onSale) ?? []).map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        let (canBuy, prices) = (await mayBuy, await webPrices)
        let catalog = ledger.catalog
        return ids.map { id in
            EntitlementProduct(
                id: id, displayName: sold[id]?.displayName, entitlements: catalog.product(id)?.entitlements ?? [],
                storeKitAvailable: sold[id] != nil && canBuy, storeKitPrice: sold[id]?.displayPrice,
                webPrice: prices?[id], storeProduct: sold[id])
        }
    }

    // MARK: Restoring

    /// Brings everything to this device, also what was bought on others and outside of the store; call it from a button,
    /// since the store may ask the person to sign in.
    ///
    /// Whatever fails, what the store shows and the server knows is brought, and the outcome says what failed.
    @discardableResult
    public func restoreEntitlements() async -> RestoreOutcome {
        await ready()
        let store = store
        let synced = await bounded(Self.signInPatience) { () -> RestoreFailure? in
            do {
                try await store.sync()
                return nil
            } catch let failure as RestoreFailure {
                return failure
            } catch {
                return .store(error)
            }
        }
        var failures = [synced ?? .storeTookTooLong].compactMap(\.self)
        askForApp(againAfter: 0)
        let state = await refresh()
        if case .offline(_, let reason) = state.kind, reason != .syncOff { failures.append(.server(reason)) }
        for failure in failures { logFailure(failure) }
        return RestoreOutcome(entitlements: state, failures: failures)
    }

    /// How long a person may take to sign in to the store.
    private static let signInPatience = Duration.seconds(180)

    private func logFailure(_ failure: RestoreFailure) {
        switch failure {
        case .userCancelled: log(.info, .purchase, "restoring: the person did not sign in")
        case .store(let error): log(.error, .purchase, "restoring: the store failed, \(error: error)")
        case .storeTookTooLong: log(.error, .purchase, "restoring: the store did not answer in time")
        case .server(let reason): log(.error, .purchase, "restoring: no answer of the server, \(word: reason)")
        }
    }
}
