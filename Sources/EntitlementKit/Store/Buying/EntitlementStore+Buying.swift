import AppStorePayloads
import EntitlementCore
import Foundation

extension EntitlementStore {
    // MARK: Buying

    /// Buys a product through the device's store.
    ///
    /// A purchase that succeeds is verified and in the published state when this returns, and on disk, unless the disk takes
    /// nothing: the person has paid all the same, so it is a success, ``syncEvents`` tells of the disk
    /// (``SyncEvent/Kind/storageFailed``), and it is not finished before it is on disk, so that the store shows it again. It never
    /// waits for the server, unless the app sells on the web as well: then it is asked for a few seconds whether the product was bought
    /// there. Where it cannot be asked the App Store sells all the same, unless ``WebCheckout/refusesUnknownOwnership`` says
    /// otherwise.
    public func purchase(
        _ productID: String, options: PurchaseOptions = PurchaseOptions()
    ) async -> PurchaseOutcome {
        await purchase(productID, via: .storeKit, options: options).outcome
    }

    /// Buys a product on the web, in the device's store, or on the web first.
    ///
    /// Nobody is charged twice: what is owned already, from either, or may still come from a page or a purchase that is
    /// unfinished, is told before a page or a sheet opens (``PurchaseError/Reason/alreadyOwned``,
    /// ``PurchaseError/Reason/inBillingRetry``, ``PurchaseError/Reason/checkoutUnfinished``,
    /// ``PurchaseError/Reason/purchasePending``). Where the server cannot be reached, what it told last counts; where it
    /// has never told this device anything of the customer, or nothing since a subscription of the web was to be renewed,
    /// nobody knows, and ``WebCheckout/refusesUnknownOwnership`` says whether the App Store's sheet opens then. A change of
    /// plan within one subscription group is the App Store's, and is let through to it, unless it was bought with another
    /// Apple account than the store shows; so is a product without end for somebody who subscribes in the App Store.
    ///
    /// - Parameters:
    ///   - productID: what is bought.
    ///   - channel: ``PurchaseChannel/webFirst`` goes on with the device's store where the product cannot be bought on the web;
    ///     ``PurchaseReport/webUnavailability`` says why.
    ///   - options: an offer or a quantity, which the App Store alone sells.
    public func purchase(
        _ productID: String, via channel: PurchaseChannel, options: PurchaseOptions = PurchaseOptions()
    ) async -> PurchaseReport {
        await ready()
        log(.info, .purchase, "buying \(name: productID)")
        let report = await buy(productID, channel, options)
        return PurchaseReport(
            outcome: logged(report.outcome, of: productID), channel: report.channel,
            webUnavailability: report.webUnavailability, webDetail: report.webDetail)
    }

    private func buy(
        _ productID: String, _ channel: PurchaseChannel, _ options: PurchaseOptions
    ) async -> PurchaseReport {
        let isOnWeb = channel != .storeKit
        let asked: PurchaseChannel = isOnWeb ? .web : .storeKit
        func failed(_ error: PurchaseError) -> PurchaseReport {
            PurchaseReport(outcome: .failed(error), channel: asked)
        }
        guard !isStopped else {
            return failed(PurchaseError(.unknown, of: productID, detail: "the store was stopped"))
        }
        guard options.quantity > 0 else {
            let detail = "a quantity of \(options.quantity) cannot be bought"
            return failed(PurchaseError(.invalidOffer, of: productID, detail: detail))
        }
        guard options.quantity == 1 || !runsForCatalogDuration(productID) else {
            let detail = "a quantity of \(options.quantity) would all run at the same time, and be paid for one period"
            return failed(PurchaseError(.invalidOffer, of: productID, detail: detail))
        }
        guard let begun = beginPurchase(of: productID, isOnWeb: isOnWeb) else {
            return failed(PurchaseError(.alreadyUnderWay, of: productID))
        }
        defer { endPurchase(begun, of: productID) }
        guard isOnWeb else {
            return PurchaseReport(outcome: await buyInStore(productID, options, begun), channel: .storeKit)
        }
        switch await buyOnWeb(productID, options) {
        case .ended(let outcome): return PurchaseReport(outcome: outcome, channel: .web)
        case .unavailable(let why, let detail):
            log(
                why.isMistake ? .error : .info, .purchase,
                "\(name: productID) cannot be bought on the web: \(word: why); \(said: withoutCustomer(detail))")
            guard channel == .webFirst else {
                let said = [why.rawValue, detail].filter { !$0.isEmpty }.joined(separator: "; ")
                let error = PurchaseError(.webUnavailable, of: productID, detail: said, webUnavailability: why)
                return PurchaseReport(outcome: .failed(error), channel: .web, webUnavailability: why, webDetail: detail)
            }
            if purchases[productID]?.number == begun.number { purchases[productID]?.isOnWeb = false }
            return PurchaseReport(
                outcome: await buyInStore(productID, options, begun), channel: .storeKit, webUnavailability: why,
                webDetail: detail)
        }
    }

    private func buyInStore(
        _ productID: String, _ options: PurchaseOptions, _ begun: PurchaseUnderWay
    ) async -> PurchaseOutcome {
        guard await store.canMakePayments() else { return .failed(PurchaseError(.notAllowed, of: productID)) }
        if !options.evenIfOwned {
            // Where nothing is sold but here, what is known here is all there is.
            let mayBeElsewhere = server != nil && (configuration.webCheckout != nil || !checkouts.isEmpty)
            if mayBeElsewhere, purchases[productID]?.hasLooked != true { _ = await lookAgain(before: productID) }
            if let error = await obstacle(to: productID, isOnWeb: false) { return .failed(error) }
            if isOwnershipUnknown {
                let detail = """
                    the server has not answered about this customer on this device yet, or not since a subscription of \
                    the web was to be renewed, and cannot be asked now
                    """
                return .failed(PurchaseError(.ownershipUnknown, of: productID, detail: detail))
            }
        }
        do {
            // The store signs it into the transaction, so that it is the customer's on every device at once.
            let accountToken = await appAccountToken()
            let offer = try await signedOffer(options.offer, productID, accountToken)
            if accountToken == nil, ledger.identified != nil { logMissingAccountToken(productID) }
            let stated = StorePurchaseOptions(
                appAccountToken: accountToken, quantity: options.quantity, offer: offer)
            await finishWhatWasBought(productID)
            if accountToken == nil { await noteBegun(productID, by: begun.buyer) }
            // What was looked at, and what is signed, is of whom it was to be sold to.
            guard ledger.identified == begun.buyer else { return .failed(Self.changed(productID)) }
            return await taken(.success(try await store.purchase(productID, options: stated)), of: productID, begun)
        } catch {
            return await taken(.failure(error), of: productID, begun)
        }
    }

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
                productID: productID, offerID: id, customerID: ledger.identified?.value, appAccountToken: accountToken)
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

    /// - Parameter begun: the purchase that this came of; `nil` where something else than this store has made it.
    private func taken(
        _ result: Result<StorePurchaseResult, any Error>, of productID: String, _ begun: PurchaseUnderWay? = nil
    ) async -> PurchaseOutcome {
        switch result {
        case .success(.success(let statement)): return await bought(statement, productID, begun)
        case .success(.pending):
            await keepPending(productID)
            await noteTaken(productID)
            return .pending
        case .success(.userCancelled):
            await noteTaken(productID)
            return .userCancelled
        case .success(.unknown):
            return .failed(PurchaseError(.unknown, of: productID, detail: "the store's answer is newer than this app"))
        case .failure(let thrown):
            let error = PurchaseError(thrown, of: productID)
            guard [.network, .unknown].contains(error.reason) else { return .failed(error) }
            // Whatever the store called it: a product that it does not show is not on sale here.
            if error.reason == .unknown, await isSold(productID) == false {
                return .failed(PurchaseError(.productNotFound, of: productID, underlying: error.underlying))
            }
            return await madeAllTheSame(productID, error, begun)
        }
    }

    /// Remembers who buys what will not say so itself, before it is bought: the process may end meanwhile.
    private func noteBegun(_ productID: String, by buyer: CustomerID?) async {
        guard let buyer else { return }
        ledger.noteBegun(productID, by: buyer, at: now)
        disk.note(.identity)
        _ = await persist()
    }

    /// The same of what something else than this store has begun, and which may still come: the store calls it cancelled where a
    /// bank's app comes in between.
    private func noteTaken(_ productID: String) async {
        guard purchases[productID] == nil, ledger.accountToken == nil else { return }
        await noteBegun(productID, by: ledger.identified)
    }

    /// Remembers what waits for somebody's approval: it must not be paid on the web meanwhile.
    private func keepPending(_ productID: String) async {
        guard let customerID = ledger.customerID else { return }
        checkouts.wait(for: PendingPurchase(customerID: customerID, productID: productID, beganAt: now))
        disk.note(.checkouts)
        _ = await persist()
    }

    /// The longest that the store is looked at after it threw in the middle of a purchase.
    private static let afterthought = Duration.seconds(3)

    /// Whether the store shows a product; `nil` where it does not say.
    private func isSold(_ productID: String) async -> Bool? {
        let adapter = store
        return await bounded(Self.afterthought) { try? await adapter.products([productID]) }?.map { !$0.isEmpty }
    }

    /// A store that loses its connection in the middle of a purchase throws, and may have made it.
    private func madeAllTheSame(
        _ productID: String, _ error: PurchaseError, _ begun: PurchaseUnderWay?
    ) async -> PurchaseOutcome {
        let (known, adapter) = (Set(ledger.book.transactions.keys), store)
        let unfinished = await bounded(Self.afterthought) { await adapter.unfinishedTransactions() } ?? []
        func isBought(_ transaction: DeviceTransaction) -> Bool {
            let payload = transaction.payload
            return payload.productID == productID && payload.revocation == nil
                && !ledger.bearsAnotherToken(transaction)
        }
        let shown = unfinished.first { statement in
            (try? DeviceTransaction(statement)).map { isBought($0) && !known.contains($0.payload.transactionID) }
                ?? false
        }
        if let shown { return await bought(shown, productID, begun) }
        // It may have come before the store threw, and be finished with already.
        let came = purchases[productID]?.came ?? []
        let made = came.compactMap { ledger.book.transactions[$0] }.filter(isBought).max {
            $0.payload.purchaseDate < $1.payload.purchaseDate
        }
        return made.map { success($0) } ?? .failed(error)
    }

    private func success(_ transaction: DeviceTransaction) -> PurchaseOutcome {
        .success(
            Purchase(
                transactionID: transaction.payload.transactionID,
                originalTransactionID: transaction.payload.originalTransactionID,
                productID: transaction.payload.productID, entitlements: entitlements))
    }

    private func bought(
        _ statement: SignedStatement, _ productID: String, _ begun: PurchaseUnderWay?
    ) async -> PurchaseOutcome {
        if let reason = statement.unverifiedReason {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: reason))
            return .failed(PurchaseError(.verificationFailed, of: productID, detail: reason))
        }
        var wasBoughtBefore = false
        if let transaction = try? DeviceTransaction(statement) {
            wasBoughtBefore = self.wasBoughtBefore(transaction, productID)
            // It has to be known before it is shown, and is on disk with it. Of what was bought before, nobody knows who was
            // logged in then.
            // A sheet may be open for so long that somebody else has begun to buy the same.
            let buyer = (begun ?? purchases[productID]).map(\.buyer) ?? ledger.identified
            if !wasBoughtBefore, ledger.noteBought(transaction, by: buyer) { disk.note(.identity) }
        }
        let reading = StoreReading(origin: .delivery, transactions: [statement])
        guard let transaction = await receive(reading).first else {
            let detail = "the store signed something that is no transaction of this app"
            return .failed(PurchaseError(.verificationFailed, of: productID, detail: detail))
        }
        if wasBoughtBefore, let error = whyNotSold(transaction, productID) {
            // What keeps it from being finished may be over.
            wake()
            return .failed(error)
        }
        return success(transaction)
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
        switch state.kind {
        case .live, .offline(_, .syncOff): break
        case .offline(_, let reason): failures.append(.server(reason))
        // It has asked for patience, or nobody is known whom it could be asked about.
        case .loading: if server != nil { failures.append(.server(.notYetAsked)) }
        }
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
