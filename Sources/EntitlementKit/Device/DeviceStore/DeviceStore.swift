/// What the Kit needs of the device's store, and nothing more.
///
/// The adapter to StoreKit behind it holds no decisions; a simulated store stands in for it in tests. Every statement is
/// passed on as the store signed it, verified or not.
public protocol DeviceStore: Sendable {
    /// The app's own purchase (StoreKit's `AppTransaction.shared`); `nil` while the store cannot be reached.
    ///
    /// Asked for once in the life of a process, because the system may ask the person to sign in; again only where that
    /// is known to be wanted, or where it failed and is still needed.
    func appTransaction() async -> SignedStatement?
    /// What the store says is owned now (`Transaction.currentEntitlements`); may be empty when it should not be.
    func currentEntitlements() async -> [SignedStatement]
    /// Every transaction the store still shows (`Transaction.all`); it may omit finished and old ones.
    func allTransactions() async -> [SignedStatement]
    /// What was never finished (`Transaction.unfinished`).
    func unfinishedTransactions() async -> [SignedStatement]
    /// The renewal information of every known subscription group (`Product.SubscriptionInfo.status`).
    func subscriptionStatuses() async -> [SubscriptionStatement]
    /// Transactions as they come from now on (`Transaction.updates`): renewals, refunds, purchases on other devices, and
    /// what a parent approved. Each call is a stream of its own, which holds what comes from the call on.
    func updates() -> AsyncStream<SignedStatement>
    /// The status of a subscription whenever it changes from now on (`Product.SubscriptionInfo.Status.updates`), such as
    /// when auto-renewal is turned off in the system's settings. Each call is a stream of its own.
    func statusUpdates() -> AsyncStream<SubscriptionStatement>
    /// The products of those ids that are on sale here; what is unknown is left out.
    func products(_ ids: [String]) async throws -> [StoreProduct]
    /// Buys a product.
    ///
    /// - Throws: ``PurchaseError`` where it can tell what went wrong, such as ``PurchaseError/Reason/productNotFound`` for
    ///   what is not on sale here. A `URLError` reads as ``PurchaseError/Reason/network``, anything else as unknown.
    func purchase(_ productID: String, options: StorePurchaseOptions) async throws -> StorePurchaseResult
    /// Tells the store that a transaction needs no more; returns whether it had it unfinished, and was told.
    ///
    /// A store that is not ready, or has finished it before, finds nothing to finish; the two cannot be told apart, so it
    /// is asked again for a while.
    func finish(transactionID: String) async -> Bool
    /// Asks the store for everything again (`AppStore.sync`), also for the app's own purchase where what is kept of it bears no
    /// number (`AppTransaction.refresh`); the system may ask the person to sign in.
    ///
    /// - Throws: ``RestoreFailure/userCancelled`` where they do not; whatever else the store throws, as it is.
    func sync() async throws
    /// Whether this device may buy at all (`AppStore.canMakePayments`).
    func canMakePayments() async -> Bool
    /// The country of the store on this device (`Storefront.current`), in ISO 3166-1 alpha-3; `nil` while it is not known.
    func storefront() async -> String?
    /// Apple's tokens for a purchase outside of the store (`ExternalPurchaseCustomLink`), which go with the checkout that
    /// they are for; none where Apple gives none.
    func externalPurchaseTokens() async -> [ExternalLinkToken]
}

extension DeviceStore {
    /// Not known, so that no link to a page outside of the store is offered.
    public func storefront() async -> String? { nil }

    /// None.
    public func externalPurchaseTokens() async -> [ExternalLinkToken] { [] }
}

/// Something the store signed, and whether the device could verify it.
public struct SignedStatement: Sendable, Hashable {
    /// Why the device does not believe it; `nil`: it does.
    public let unverifiedReason: String?
    /// The compact JWS.
    public let jws: String

    /// Puts one together from its parts.
    public init(jws: String, unverifiedReason: String? = nil) {
        self.jws = jws
        self.unverifiedReason = unverifiedReason
    }
}

/// One subscription's latest transaction and its renewal information.
public struct SubscriptionStatement: Sendable, Hashable {
    /// The latest transaction.
    public let transaction: SignedStatement
    /// What the store says of its renewal.
    public let renewal: SignedStatement

    /// Puts one together from its parts.
    public init(transaction: SignedStatement, renewal: SignedStatement) {
        self.transaction = transaction
        self.renewal = renewal
    }
}

/// What the store says of a purchase it was asked for.
public enum StorePurchaseResult: Sendable, Hashable {
    case success(SignedStatement)
    /// Somebody has to approve it first; should they, it comes as an update.
    case pending
    case userCancelled
    /// A result that is newer than this adapter.
    case unknown
}
