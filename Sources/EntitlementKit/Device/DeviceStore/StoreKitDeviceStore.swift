#if canImport(StoreKit)
import Foundation
public import StoreKit

/// The device's store as StoreKit 2 shows it; it passes everything on and decides nothing.
///
/// Needs nothing newer than iOS 16, macOS 13, tvOS 16, watchOS 9 and visionOS 1.
public struct StoreKitDeviceStore: DeviceStore {
    /// How a product is bought, and where the store asks the person to confirm it.
    ///
    /// On visionOS there is only `Product.purchase(confirmIn:options:)` or SwiftUI's `PurchaseAction`; elsewhere Apple
    /// recommends them for apps of several scenes. Only the app knows its scenes, so it says how:
    ///
    ///     StoreKitDeviceStore { product, options in try await product.purchase(confirmIn: scene, options: options) }
    public typealias PurchaseMethod =
        @Sendable (_ product: Product, _ options: Set<Product.PurchaseOption>) async throws -> Product.PurchaseResult

    private let purchaseMethod: PurchaseMethod
    private let unfinished = UnfinishedLookup<Transaction> { ids in
        var found: [String: Transaction] = [:]
        for await result in Transaction.unfinished {
            // Who asks for it goes by the server's verdict, so the device's own does not matter here.
            let transaction = result.unsafePayloadValue
            let id = String(transaction.id)
            if ids.contains(id) { found[id] = transaction }
            if found.count == ids.count { break }
        }
        return found
    }

    /// A store that buys as the app says.
    public init(purchaseMethod: @escaping PurchaseMethod) {
        self.purchaseMethod = purchaseMethod
    }

    #if !os(visionOS)
    /// A store that buys with `Product.purchase(options:)`, which visionOS does not have.
    public init() {
        self.init { product, options in try await product.purchase(options: options) }
    }
    #endif

    /// `AppTransaction.shared`; `nil` when that throws: no network, or nobody signed in to the App Store.
    public func appTransaction() async -> SignedStatement? {
        guard let result = try? await AppTransaction.shared else { return nil }
        return SignedStatement(result)
    }

    /// `Transaction.currentEntitlements`, in the store's order.
    public func currentEntitlements() async -> [SignedStatement] {
        await Self.statements(of: Transaction.currentEntitlements)
    }

    /// `Transaction.all`, in the store's order.
    public func allTransactions() async -> [SignedStatement] {
        await Self.statements(of: Transaction.all)
    }

    /// `Transaction.unfinished`, in the store's order.
    public func unfinishedTransactions() async -> [SignedStatement] {
        await Self.statements(of: Transaction.unfinished)
    }

    /// `Product.SubscriptionInfo.status(for:)` of every subscription group that `Transaction.all` names, by group id.
    ///
    /// A group whose status cannot be had now is left out.
    public func subscriptionStatuses() async -> [SubscriptionStatement] {
        var groups: Set<String> = []
        for await result in Transaction.all {
            // An unverified name is only asked for; what the store answers is signed again.
            if let group = result.unsafePayloadValue.subscriptionGroupID { groups.insert(group) }
        }
        var statements: [SubscriptionStatement] = []
        for group in groups.sorted() {
            guard let statuses = try? await Product.SubscriptionInfo.status(for: group) else { continue }
            statements += statuses.map { SubscriptionStatement($0) }
        }
        return statements
    }

    /// `Transaction.updates`, listened to from this call on and held until read; it ends when the reader goes away.
    ///
    /// Nothing is dropped, because the store would show it again no sooner than at the next launch.
    public func updates() -> AsyncStream<SignedStatement> {
        let (stream, continuation) = AsyncStream.makeStream(of: SignedStatement.self)
        // Made here, not in the task, which starts some time after this call returned. Apple does not say when listening
        // begins; what is missed all the same is among the unfinished.
        let iterator = Transaction.updates.makeAsyncIterator()
        let listening = Task {
            var iterator = iterator
            while let result = await iterator.next() { continuation.yield(SignedStatement(result)) }
            continuation.finish()
        }
        continuation.onTermination = { _ in listening.cancel() }
        return stream
    }

    /// `Product.SubscriptionInfo.Status.updates`, like ``updates()``.
    public func statusUpdates() -> AsyncStream<SubscriptionStatement> {
        let (stream, continuation) = AsyncStream.makeStream(of: SubscriptionStatement.self)
        let iterator = Product.SubscriptionInfo.Status.updates.makeAsyncIterator()
        let listening = Task {
            var iterator = iterator
            while let status = await iterator.next() { continuation.yield(SubscriptionStatement(status)) }
            continuation.finish()
        }
        continuation.onTermination = { _ in listening.cancel() }
        return stream
    }

    /// `Product.products(for:)`, in the store's order.
    public func products(_ ids: [String]) async throws -> [StoreProduct] {
        var products: [StoreProduct] = []
        for product in try await Product.products(for: ids) { products.append(await StoreProduct(product)) }
        return products
    }

    /// StoreKit's own product of that id, for whatever this library does not offer; `nil` where it is not on sale here.
    ///
    /// What is bought with it becomes part of the published state by itself. Pass
    /// ``EntitlementStore/appAccountToken()`` on, where somebody is logged in.
    public func product(_ id: String) async throws -> Product? { try await Product.products(for: [id]).first }

    /// Buys with the purchase method, under the options that StoreKit has for what is stated.
    ///
    /// Throws a ``PurchaseError`` for every error of StoreKit that has a name, and what else StoreKit throws as it is.
    public func purchase(_ productID: String, options: StorePurchaseOptions) async throws -> StorePurchaseResult {
        do {
            guard let product = try await Product.products(for: [productID]).first else {
                throw PurchaseError(.productNotFound)
            }
            let stated = try Self.options(options, of: product)
            return try StorePurchaseResult.read(.success(try await purchaseMethod(product, stated))).get()
        } catch {
            return try StorePurchaseResult.read(.failure(error)).get()
        }
    }

    private static func options(
        _ options: StorePurchaseOptions, of product: Product
    ) throws -> Set<Product.PurchaseOption> {
        var stated: Set<Product.PurchaseOption> = []
        if let token = options.appAccountToken { stated.insert(.appAccountToken(token)) }
        if options.quantity != 1 { stated.insert(.quantity(options.quantity)) }
        switch options.offer {
        case nil: break
        case .promotional(let id, let signed):
            stated.insert(
                .promotionalOffer(
                    offerID: id, keyID: signed.keyID, nonce: signed.nonce, signature: signed.signature,
                    timestamp: signed.timestamp))
        case .winBack(let id):
            guard let option = winBackOption(id, of: product) else {
                let detail = "this product has no win-back offer \(id), or this system knows none"
                throw PurchaseError(.invalidOffer, detail: detail)
            }
            stated.insert(option)
        }
        return stated
    }

    private static func winBackOption(_ id: String, of product: Product) -> Product.PurchaseOption? {
        if #available(iOS 18.0, macOS 15.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *) {
            return product.subscription?.winBackOffers.first { $0.id == id }.map { .winBackOffer($0) }
        }
        return nil
    }

    /// `Transaction.finish()` of the transaction with that id; false where `Transaction.unfinished` does not show it.
    ///
    /// StoreKit finishes a transaction's object, not its id, so the object is looked up, together with others that are asked
    /// for at the same time. Objects kept from before would not outlive a restart.
    public func finish(transactionID: String) async -> Bool {
        guard let transaction = await unfinished.find(transactionID) else { return false }
        await transaction.finish()
        return true
    }

    /// `AppStore.sync()`, and `AppTransaction.refresh()` where what is kept of the app's own purchase bears no number, as on
    /// systems of before; only for a person who asked for it, because the system may ask them to sign in.
    public func sync() async throws {
        do {
            try await AppStore.sync()
        } catch StoreKitError.userCancelled {
            throw RestoreFailure.userCancelled
        }
        let kept = await appTransaction().flatMap { try? DeviceAppTransaction($0) }
        if kept?.customerID == nil { _ = try? await AppTransaction.refresh() }
    }

    /// `AppStore.canMakePayments`.
    public func canMakePayments() async -> Bool {
        AppStore.canMakePayments
    }

    /// `Storefront.current`.
    public func storefront() async -> String? { await Storefront.current?.countryCode }

    /// What `ExternalPurchaseCustomLink` has of each kind of token, where the app and the customer are eligible for it.
    public func externalPurchaseTokens() async -> [ExternalLinkToken] {
        if #available(iOS 18.1, macOS 15.1, tvOS 18.1, watchOS 11.1, visionOS 2.1, *) {
            return await Self.linkTokens()
        }
        return []
    }

    @available(iOS 18.1, macOS 15.1, tvOS 18.1, watchOS 11.1, visionOS 2.1, *)
    private static func linkTokens() async -> [ExternalLinkToken] {
        guard await ExternalPurchaseCustomLink.isEligible else { return [] }
        var tokens: [ExternalLinkToken] = []
        // For new customers and old ones (European Union), and for whoever follows a link (Japan).
        for type: String in ["ACQUISITION", "SERVICES", "LINK_OUT"] {
            // Each is refused where it does not apply.
            guard let token = try? await ExternalPurchaseCustomLink.token(for: type) else { continue }
            tokens.append(ExternalLinkToken(type: type, value: token.value))
        }
        return tokens
    }

    private static func statements(of transactions: Transaction.Transactions) async -> [SignedStatement] {
        var statements: [SignedStatement] = []
        for await result in transactions { statements.append(SignedStatement(result)) }
        return statements
    }
}
#endif
