#if canImport(StoreKit)
public import Foundation
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
            statements += statuses.map { status in
                SubscriptionStatement(
                    transaction: SignedStatement(status.transaction), renewal: SignedStatement(status.renewalInfo))
            }
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

    /// Buys with the purchase method, stating `Product.PurchaseOption.appAccountToken(_:)` if there is one.
    ///
    /// Throws a ``PurchaseError`` for every error of StoreKit that has a name, and what else StoreKit throws as it is.
    public func purchase(_ productID: String, appAccountToken: UUID?) async throws -> StorePurchaseResult {
        do {
            guard let product = try await Product.products(for: [productID]).first else {
                throw PurchaseError.productNotFound
            }
            let options = Set(appAccountToken.map { [Product.PurchaseOption.appAccountToken($0)] } ?? [])
            switch try await purchaseMethod(product, options) {
            case .success(let result): return .success(SignedStatement(result))
            case .userCancelled: return .userCancelled
            case .pending: return .pending
            @unknown default: return .unknown
            }
        } catch let error as StoreKitError {
            throw PurchaseError(error)
        } catch let error as Product.PurchaseError {
            throw PurchaseError(error)
        }
    }

    /// `Transaction.finish()` of the transaction with that id; false where `Transaction.unfinished` does not show it.
    ///
    /// StoreKit finishes a transaction's object, not its id, so the object is looked up: one pass over what is
    /// unfinished, which is seldom more than a few. Objects kept from before would not outlive a restart.
    public func finish(transactionID: String) async -> Bool {
        for await result in Transaction.unfinished {
            // Who asks for it goes by the server's verdict, so the device's own does not matter here.
            let transaction = result.unsafePayloadValue
            guard String(transaction.id) == transactionID else { continue }
            await transaction.finish()
            return true
        }
        return false
    }

    /// `AppStore.sync()`; only for a person who asked for it, because the system may ask them to sign in.
    public func sync() async throws {
        try await AppStore.sync()
    }

    /// `AppStore.canMakePayments`.
    public func canMakePayments() async -> Bool {
        AppStore.canMakePayments
    }

    private static func statements(of transactions: Transaction.Transactions) async -> [SignedStatement] {
        var statements: [SignedStatement] = []
        for await result in transactions { statements.append(SignedStatement(result)) }
        return statements
    }
}

// Three times the same, because StoreKit declares `jwsRepresentation` once for each type it signs.
extension SignedStatement {
    fileprivate init(_ result: VerificationResult<Transaction>) {
        self.init(jws: result.jwsRepresentation, unverifiedReason: result.reason)
    }

    fileprivate init(_ result: VerificationResult<AppTransaction>) {
        self.init(jws: result.jwsRepresentation, unverifiedReason: result.reason)
    }

    fileprivate init(_ result: VerificationResult<Product.SubscriptionInfo.RenewalInfo>) {
        self.init(jws: result.jwsRepresentation, unverifiedReason: result.reason)
    }
}

extension PurchaseError {
    fileprivate init(_ error: StoreKitError) {
        switch error {
        case .userCancelled: self = .userCancelled
        case .networkError(let error): self = .network(String(describing: error))
        case .notAvailableInStorefront: self = .productNotFound
        default: self = .unknown(String(describing: error))
        }
    }

    fileprivate init(_ error: Product.PurchaseError) {
        switch error {
        case .productUnavailable: self = .productNotFound
        case .purchaseNotAllowed: self = .notAllowed
        case .ineligibleForOffer: self = .ineligibleForOffer
        case .invalidOfferIdentifier, .invalidOfferPrice, .invalidOfferSignature, .missingOfferParameters:
            self = .invalidOffer(String(describing: error))
        default: self = .unknown(String(describing: error))
        }
    }
}

extension StoreProduct {
    fileprivate init(_ product: Product) async {
        self.init(
            id: product.id, displayName: product.displayName, displayPrice: product.displayPrice,
            description: product.description, kind: PurchaseKind(product.type), price: product.price,
            currencyCode: product.priceFormatStyle.currencyCode)
        guard let info = product.subscription else { return }
        subscription = Subscription(
            groupID: info.subscriptionGroupID, period: SubscriptionPeriod(info.subscriptionPeriod),
            introductoryOffer: info.introductoryOffer.map { SubscriptionOffer($0) },
            isEligibleForIntroductoryOffer: await info.isEligibleForIntroOffer,
            promotionalOffers: info.promotionalOffers.map { SubscriptionOffer($0) })
    }
}

extension PurchaseKind {
    fileprivate init?(_ type: Product.ProductType) {
        switch type {
        case .consumable: self = .consumable
        case .nonConsumable: self = .nonConsumable
        case .autoRenewable: self = .autoRenewable
        case .nonRenewable: self = .nonRenewing
        default: return nil
        }
    }
}

extension SubscriptionPeriod {
    fileprivate init(_ period: Product.SubscriptionPeriod) {
        let unit: Unit =
            switch period.unit {
            case .day: .day
            case .week: .week
            case .month: .month
            case .year: .year
            @unknown default: .day
            }
        self.init(period.value, unit)
    }
}

extension SubscriptionOffer {
    fileprivate init(_ offer: Product.SubscriptionOffer) {
        let discount =
            switch offer.paymentMode {
            case .freeTrial: "free_trial"
            case .payAsYouGo: "pay_as_you_go"
            case .payUpFront: "pay_up_front"
            default: "unknown"
            }
        self.init(
            id: offer.id, discount: discount, price: offer.price, displayPrice: offer.displayPrice,
            period: SubscriptionPeriod(offer.period), periodCount: offer.periodCount)
    }
}

extension VerificationResult {
    /// Why StoreKit could not verify it; `nil`: it could.
    fileprivate var reason: String? {
        switch self {
        case .verified: nil
        case .unverified(_, let error): String(describing: error)
        }
    }
}
#endif
