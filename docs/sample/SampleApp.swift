import EntitlementKit
import Foundation
import SwiftUI

/// A shop on one screen: what is sold, what is held, and everything that can become of a purchase.
@main
struct SampleApp: App {
    // Made when the app is launched, before any view: it listens to the store from here on.
    private let store = EntitlementStore(
        configuration: EntitlementConfiguration(
            bundleID: "com.example.app", productIDs: ["com.example.pro.monthly", "com.example.pro.yearly"],
            webCheckout: WebCheckout(
                successURL: URL(string: "https://app.example.com/paid"),
                cancelURL: URL(string: "https://app.example.com/shop")
            ) { page in await Browser.show(page.url) }),
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

/// Shows the page for paying.
enum Browser {
    /// A sheet or the system's browser, which only your app knows; where it has none, the App Store sells instead.
    ///
    /// What leads back to the app goes to `store.handle(_:)`, from `onOpenURL`.
    static func show(_ url: URL) async -> CheckoutReturn { .notOpened }
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
    /// What they chose while a page for paying is open that they have left.
    @State private var wantedInstead: EntitlementProduct?

    var body: some View {
        VStack {
            if let held { Text(welcome(held)) }
            if let products {
                ForEach(products) { product in
                    let isOnSale = product.storeKitAvailable || product.webPrice != nil
                    Button(label(product)) { buy(product) }.disabled(isBusy || !isOnSale)
                }
            } else {
                ProgressView()
            }
            Button("Restore purchases") { restore() }.disabled(isBusy)
            Text(message)
            if let wantedInstead {
                Button("Close that page, and buy \(wantedInstead.displayName ?? "this")") {
                    buy(wantedInstead, insteadOfOpenPages: true)
                }
            }
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
        case .disputed?: "Your bank says that you dispute the payment. Please write to us."
        case .paused?: "Your subscription is paused."
        case .cancelled?: "Welcome back!"
        default: "Your subscription is over."
        }
    }

    private let names = ["com.example.pro.yearly": "Pro, for a year"]

    private func label(_ product: EntitlementProduct) -> String {
        // What is sold on the web alone has no name in the App Store.
        let name = product.displayName ?? names[product.id] ?? product.id
        let price = "\(name), \(product.webPrice ?? product.appStorePrice ?? "")"
        guard let subscription = product.storeProduct?.subscription else { return price }
        if let offer = subscription.winBackOffersForThisCustomer.first { return "\(price), now \(offer.displayPrice)" }
        guard let offer = subscription.offerForThisCustomer else { return price }
        return offer.isTrial ? "Try it for nothing, then \(price)" : "\(price), first \(offer.displayPrice)"
    }

    private func buy(_ product: EntitlementProduct, insteadOfOpenPages isInstead: Bool = false) {
        guard let store else { return }
        // The store applies an introductory offer by itself.
        let winBack = product.storeProduct?.subscription?.winBackOffersForThisCustomer.first?.id
        let options = PurchaseOptions(offer: winBack.map { .winBack($0) })
        isBusy = true
        Task {
            if isInstead { await store.abandonCheckout(of: product.id) }
            // What was bought shows by itself: the gate opens.
            let report = await store.purchase(product.id, via: .webFirst, options: options)
            message = explain(report.outcome)
            wantedInstead = nil
            if case .failed(let error) = report.outcome, error.unfinishedCheckout?.isCompleted == false {
                wantedInstead = product
            }
            isBusy = false
        }
    }

    private func explain(_ outcome: PurchaseOutcome) -> String {
        switch outcome {
        case .success: "Thank you!"
        case .pending: "It waits for approval or for your payment, and opens by itself then."
        case .userCancelled: ""
        case .failed(let error):
            switch error.reason {
            case .network: "The App Store cannot be reached. Please try again."
            case .notAllowed: "This device is not allowed to buy anything."
            case .productNotFound: "This is not on sale in your country."
            case .ineligibleForOffer, .invalidOffer: "This offer is not for you, or over."
            case .alreadyUnderWay: "It is being bought already."
            case .alreadyOwned: "You have that already, and were charged nothing."
            case .inBillingRetry:
                "Your last payment failed, and is tried again. Please look at your card where you bought it."
            case .ownershipUnknown: "We cannot see now whether you bought it on the web. Please try again in a while."
            case .purchasePending: "Somebody has yet to approve it, or it is still being verified."
            case .checkoutUnfinished where error.unfinishedCheckout?.isCompleted == true:
                "Your payment is under way, and it opens by itself."
            case .checkoutUnfinished: "A page for paying is still open."
            case .notSoldAgain: "An earlier purchase is still being settled, and you were charged nothing. Please try again in a while."
            case .ownedByAnother: "It was bought by another customer with this Apple account, and you were charged nothing."
            case .webUnavailable: "The page for paying cannot be opened now. Please try again."
            case .customerChanged: "Somebody else has logged in. Please try again."
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
