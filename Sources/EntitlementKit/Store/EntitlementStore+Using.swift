import AppStorePayloads
import EntitlementAPI
import EntitlementCore
public import Foundation

extension EntitlementStore {
    // MARK: Buying

    /// Buys a product through the device's store.
    ///
    /// A purchase that succeeds is verified, on disk and in the published state when this returns; it never waits for
    /// the server.
    public func purchase(_ productID: String) async -> PurchaseOutcome {
        await ready()
        guard await store.canMakePayments() else { return .failed(.notAllowed) }
        // A button that is pressed twice; but a call of the store that never returns ends no purchase for good.
        if let begun = purchases[productID], uptime - begun < Self.purchasePatience {
            return .failed(.alreadyUnderWay)
        }
        let begun = uptime
        purchases[productID] = begun
        defer { if purchases[productID] == begun { purchases[productID] = nil } }
        // The store signs it into the transaction, so that it is the customer's on every device at once.
        let accountToken = await appAccountToken()
        do {
            switch try await store.purchase(productID, appAccountToken: accountToken) {
            case .success(let statement): return await bought(statement)
            case .pending: return .pending
            case .userCancelled: return .userCancelled
            case .unknown: return .unknown
            }
        } catch let error as PurchaseError {
            switch error {
            case .productNotFound: return .productNotFound
            case .verificationFailed(let reason): return .unverified(reason: reason)
            case .userCancelled: return .userCancelled
            case .pending: return .pending
            case .notAllowed, .ineligibleForOffer, .invalidOffer, .alreadyUnderWay: return .failed(error)
            case .network, .unknown: return await madeAllTheSame(productID, error)
            }
        } catch let error as URLError {
            return await madeAllTheSame(productID, .network("\(error)"))
        } catch {
            // Whatever the store called it: a product that it does not show is not on sale here.
            if let shown = try? await store.products([productID]), shown.isEmpty { return .productNotFound }
            return await madeAllTheSame(productID, .unknown("\(error)"))
        }
    }

    /// How long a purchase may take before the same product can be bought once more, in milliseconds.
    private static let purchasePatience: Int64 = 300_000

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
        return await self.bought(bought)
    }

    /// The same as ``purchase(_:)``, by the name that stands beside a web checkout.
    public func purchaseViaStoreKit(_ productID: String) async -> PurchaseOutcome { await purchase(productID) }

    private func bought(_ statement: SignedStatement) async -> PurchaseOutcome {
        if let reason = statement.unverifiedReason {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: reason))
            return .unverified(reason: reason)
        }
        let reading = StoreReading(origin: .delivery, transactions: [statement])
        guard let transaction = await receive(reading).first else {
            return .unverified(reason: "the store signed something that is no transaction of this app")
        }
        return .success(
            Purchase(
                transactionID: transaction.payload.transactionID,
                originalTransactionID: transaction.payload.originalTransactionID,
                productID: transaction.payload.productID, entitlements: entitlements))
    }

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

    // MARK: Reading

    /// Reads the store and asks the server; returns when the answer came, or the attempt failed.
    @discardableResult
    public func refresh() async -> Entitlements {
        await ready()
        await loadAgain()
        await loadChanges()
        // Normally both are told in one request; a store that takes its time does not keep the server from being asked.
        let asked = now
        let reading = Task { await readStore() }
        _ = await bounded(Self.storeLead) { await reading.value }
        wake()
        await askAndWait()
        await reading.value
        passing.check(asked)
        publish()
        return entitlements
    }

    /// How long the server is not asked yet because the store may say something new.
    private static let storeLead = Duration.milliseconds(900)

    /// Brings everything to this device, also what was bought on others and outside of the store; call it from a button,
    /// since the store may ask the person to sign in.
    @discardableResult
    public func restoreEntitlements() async -> Entitlements {
        await ready()
        // Whatever became of it, what the store shows and the server knows is brought.
        let store = store
        _ = await bounded(Self.signInPatience) { try? await store.sync() }
        askForApp(againAfter: 0)
        return await refresh()
    }

    /// How long a person may take to sign in to the store.
    private static let signInPatience = Duration.seconds(180)

    /// Every purchase and renewal of the customer that is known, the newest first.
    public func history() async -> [PurchaseRecord] {
        await ready()
        return ledger.history()
    }

    /// The server's last answer about the customer in signed form, a JSON Web Token; `nil` where there is none.
    ///
    /// It is for those who verify it by themselves, such as another of your services, and states until when it holds.
    public func pass() async -> String? {
        await ready()
        return ledger.memory?.answer.pass
    }

    // MARK: Life of the app

    /// How often store and server are asked at most because the app came to the front, in milliseconds.
    private static let foregroundInterval: Int64 = 10_000

    /// How long the app's own purchase is not asked for again where it did not come, in milliseconds: the system may have
    /// asked the person to sign in.
    private static let appInterval: Int64 = 60_000

    /// Call it when the app comes to the front: what rests is tried again, and the truth is asked for.
    ///
    /// However often it is called, that is done every ten seconds at most, and once more after the last call.
    public func applicationWillEnterForeground() async {
        await ready()
        if let last = foregroundAt, uptime - last < Self.foregroundInterval {
            return schedule(&foregroundTimer, due: last + Self.foregroundInterval) { store in
                store.foregroundTimer = nil
                await store.applicationWillEnterForeground()
            }
        }
        foregroundAt = uptime
        await loadAgain()
        await loadChanges()
        if ledger.customerID == nil { askForApp(againAfter: Self.appInterval) }
        wake()
        ask()
        await readStore()
    }

    /// What rests is tried again, and the truth is asked for, because the network returned.
    ///
    /// On Apple's systems a store that was made with a server's URL notices that by itself.
    public func networkDidReturn() async {
        await ready()
        if ledger.customerID == nil { askForApp(againAfter: Self.appInterval) }
        wake()
        ask()
    }

    // MARK: Identity

    /// Says who the customer is, after they logged in.
    ///
    /// Before it, the customer is whoever has this copy of the app, by the store's account. What was bought then comes along
    /// with the first answer to their token, unless the app's configuration on the server leaves that link to your own
    /// server; until the server has answered, the device goes on giving it.
    ///
    /// - Parameters:
    ///   - customerID: your own id for them; where it is a UUID, purchases are signed with it.
    ///   - token: a customer token that your server obtained, which proves to the ledger who they are; without one
    ///     ``EntitlementConfiguration/tokenProvider`` is asked.
    ///   - appAccountToken: what purchases are signed with where `customerID` is no UUID; your server is told it with
    ///     every token.
    /// - Returns: `false` for what no customer can be called: empty, longer than 256 bytes, or with control characters.
    @discardableResult
    public func identify(customerID: String, token: String? = nil, appAccountToken: UUID? = nil) async -> Bool {
        guard let id = CustomerID(customerID)?.value else { return false }
        await ready()
        tokens = TokenState(token.map { CustomerToken($0, appAccountToken: appAccountToken) })
        await setCustomer(id, appAccountToken)
        return true
    }

    /// Goes back to whoever has this copy of the app.
    public func signOut() async {
        await ready()
        tokens = TokenState()
        await setCustomer(nil, nil)
    }

    private func setCustomer(_ id: String?, _ accountToken: UUID?) async {
        let before = ledger.customerID
        if ledger.identified != id { ledger.issuedAccountToken = nil }
        ledger.identified = id
        if let accountToken { ledger.issuedAccountToken = accountToken }
        disk.note(.identity)
        if ledger.customerID != before { connection = .notYetAsked }
        gate.askAgain()
        publish()
        _ = await persist()
        resend()
        ask()
    }
}
