import EntitlementKit
import Foundation
import SwiftUI

/// A shop on one screen: what is sold, what is held, and everything that can become of a purchase.
@main
struct SampleApp: App {
    // Made when the app is launched, before any view: it listens to the store from here on.
    private let store = EntitlementStore(
        configuration: EntitlementConfiguration(
            bundleID: "com.example.app", productIDs: ["com.example.pro.monthly", "com.example.pro.yearly"]),
        serverURL: URL(string: "https://rightful.example.com")!, publishableKey: "rightful_pk_…")

    var body: some Scene {
        WindowGroup {
            Text("Everything that Pro has.")
                .requiresEntitlement("premium") { held in
                    Paywall(held: held)
                }
                .entitlementStore(store)
        }
    }
}

/// What is shown to whoever does not hold it: prices, offers, and what became of the last attempt to buy.
struct Paywall: View {
    /// What they held before; `nil`: nothing.
    let held: Entitlement?

    @Environment(\.entitlementStore) private var store
    @Environment(\.entitlements) private var entitlements
    @State private var products: [EntitlementProduct]?
    @State private var message = ""
    @State private var isBusy = false

    var body: some View {
        VStack {
            if let held { Text(welcome(held)) }
            if let products {
                ForEach(products) { product in
                    Button(label(product)) { buy(product) }.disabled(isBusy || !product.storeKitAvailable)
                }
            } else {
                ProgressView()
            }
            Button("Restore purchases") { restore() }.disabled(isBusy)
            Text(message)
            if case .offline(_, let reason) = entitlements.kind, reason == .unreachable {
                Text("There is no connection; what you bought works all the same.")
            }
        }
        .task { products = await store?.products() }
    }

    private func welcome(_ held: Entitlement) -> String {
        switch held.expirationReason {
        case .billingError?: "Your card was declined. Please look at your payment in the system's settings."
        case .refunded?: "You were given your money back."
        case .cancelled?: "Welcome back!"
        default: "Your subscription is over."
        }
    }

    private func label(_ product: EntitlementProduct) -> String {
        let price = "\(product.displayName ?? product.id), \(product.appStorePrice ?? "")"
        guard let subscription = product.storeProduct?.subscription else { return price }
        if let offer = subscription.winBackOffersForThisCustomer.first { return "\(price), now \(offer.displayPrice)" }
        guard let offer = subscription.offerForThisCustomer else { return price }
        return offer.isTrial ? "Try it for nothing, then \(price)" : "\(price), first \(offer.displayPrice)"
    }

    private func buy(_ product: EntitlementProduct) {
        guard let store else { return }
        // The store applies an introductory offer by itself.
        let winBack = product.storeProduct?.subscription?.winBackOffersForThisCustomer.first?.id
        let options = PurchaseOptions(offer: winBack.map { .winBack($0) })
        isBusy = true
        Task {
            // What was bought shows by itself: the gate opens.
            message = explain(await store.purchase(product.id, options: options))
            isBusy = false
        }
    }

    private func explain(_ outcome: PurchaseOutcome) -> String {
        switch outcome {
        case .success: "Thank you!"
        case .pending: "It waits for approval, and opens by itself once it is given."
        case .userCancelled: ""
        case .failed(let error):
            switch error.reason {
            case .network: "The App Store cannot be reached. Please try again."
            case .notAllowed: "This device is not allowed to buy anything."
            case .productNotFound: "This is not on sale in your country."
            case .ineligibleForOffer, .invalidOffer: "This offer is not for you, or over."
            case .alreadyUnderWay: "It is being bought already."
            case .verificationFailed: "The purchase could not be verified. Please start the app again."
            default: "Something went wrong. Should you have been charged, it opens by itself."
            }
        }
    }

    private func restore() {
        guard let store else { return }
        isBusy = true
        Task {
            let outcome = await store.restoreEntitlements()
            message =
                switch outcome.failures.first {
                case nil: outcome.entitlements.all.isEmpty ? "There is nothing to restore." : "Everything is restored."
                case .userCancelled?: ""
                case .store?, .storeTookTooLong?: "The App Store cannot be reached. Please try again."
                case .server?: "What you bought elsewhere comes when there is a connection."
                }
            isBusy = false
        }
    }
}
