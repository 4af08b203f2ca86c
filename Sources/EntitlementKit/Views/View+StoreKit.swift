#if canImport(SwiftUI) && canImport(StoreKit)
import StoreKit
import SwiftUI

extension View {
    /// Lets StoreKit's views buy in the customer's name, and takes what they have bought.
    @ViewBuilder
    func handingPurchases(to store: EntitlementStore) -> some View {
        if #available(iOS 17.0, macOS 14.0, tvOS 17.0, watchOS 10.0, visionOS 1.0, *) {
            inAppPurchaseOptions { _ in await store.purchaseOptions() }
                .onInAppPurchaseCompletion { product, result in await store.take(result, of: product) }
        } else {
            self
        }
    }
}
#endif
