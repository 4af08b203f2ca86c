#if canImport(StoreKit)
public import StoreKit

// What StoreKit's own views, the App Store and the rest of the app have bought or been told, each in one call.
extension EntitlementStore {
    /// Takes what became of a purchase in one of StoreKit's views, such as `SubscriptionStoreView`.
    ///
    ///     .onInAppPurchaseCompletion { product, result in await store.take(result, of: product) }
    ///
    /// SwiftUI's modifier `entitlementStore(_:)` does it for all views below.
    @discardableResult
    public func take(_ result: Result<Product.PurchaseResult, any Error>, of product: Product) async -> PurchaseOutcome
    {
        await take(StorePurchaseResult.read(result), of: product.id)
    }

    /// Takes a transaction that StoreKit has handed to the app.
    @discardableResult
    public func take(_ transaction: VerificationResult<Transaction>) async -> PurchaseOutcome {
        await take(
            .success(.success(SignedStatement(transaction))), of: transaction.unsafePayloadValue.productID)
    }

    /// Takes a subscription's status that StoreKit has handed to the app, such as from `subscriptionStatusTask`.
    ///
    /// `Product.SubscriptionInfo.Status.updates` is listened to anyway.
    public func take(_ status: Product.SubscriptionInfo.Status) async {
        await take(SubscriptionStatement(status))
    }

    /// What StoreKit's views are to buy with, for the purchase to be the customer's on every device at once.
    ///
    ///     .inAppPurchaseOptions { _ in await store.purchaseOptions() }
    public func purchaseOptions() async -> Set<Product.PurchaseOption> {
        guard let token = await appAccountToken() else { return [] }
        return [.appAccountToken(token)]
    }

    #if os(iOS) || os(macOS)
    /// Buys what somebody chose in the App Store, with the offer they saw there.
    ///
    ///     for await intent in PurchaseIntent.intents { await store.purchase(intent) }
    ///
    /// - Parameters:
    ///   - intent: as the App Store handed it over.
    ///   - options: as for any purchase, such as ``PurchaseOptions/evenIfOwned`` after the customer was told what they
    ///     own; its offer, where it names one, is taken in place of the one they saw.
    @available(iOS 16.4, macOS 14.4, *)
    @discardableResult
    public func purchase(
        _ intent: PurchaseIntent, options: PurchaseOptions = PurchaseOptions()
    ) async -> PurchaseOutcome {
        var options = options
        options.offer = options.offer ?? Self.offer(of: intent)
        return await purchase(intent.product.id, options: options)
    }

    @available(iOS 16.4, macOS 14.4, *)
    private static func offer(of intent: PurchaseIntent) -> OfferChoice? {
        if #available(iOS 18.0, macOS 15.0, *) {
            guard let offer = intent.offer, let id = offer.id else { return nil }
            if offer.type == .winBack { return .winBack(id) }
            if offer.type == .promotional { return .promotional(id) }
        }
        return nil
    }
    #endif
}
#endif
