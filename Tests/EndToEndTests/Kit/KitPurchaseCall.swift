import EntitlementKit
import Foundation
import Synchronization

/// What the store said to one call of the app's, to hold what the app was told against it.
final class KitPurchaseCall: Sendable {
    /// The store's word.
    enum Word: Sendable, Hashable {
        case bought(String)
        /// It handed over what the device could not verify.
        case unverified
        case pending
        case cancelled
        /// It threw an error of the network, and may have made the purchase.
        case networkLost
    }

    /// The call within which the store is asked.
    @TaskLocal static var current: KitPurchaseCall?

    private let heard = Mutex<Word?>(nil)

    /// `nil`: the store was not asked.
    var word: Word? { heard.withLock { $0 } }

    func hear(_ word: Word) { heard.withLock { $0 = word } }

    /// Whether the app may be told this of a product, by what the store said.
    func allows(_ outcome: PurchaseOutcome, of productID: String) -> Bool {
        switch (word, outcome) {
        case (.bought(let id), .success(let purchase)): purchase.transactionID == id
        case (.pending, .pending), (.cancelled, .userCancelled): true
        case (.networkLost, .success(let purchase)): purchase.productID == productID
        case (.networkLost, .failed(let error)): [.network, .verificationFailed].contains(error.reason)
        case (.unverified, .failed(let error)): error.reason == .verificationFailed
        // Whoever has what it gives is told so before the store is asked; which purchases that is, `PaidOnceTests` tells.
        case (nil, .failed(let error)): [.alreadyUnderWay, .alreadyOwned, .inBillingRetry].contains(error.reason)
        default: false
        }
    }
}
