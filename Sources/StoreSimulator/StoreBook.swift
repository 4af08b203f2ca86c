/// Who buys: one Apple account, and the login the app passed along.
package struct StoreAccount: Sendable, Hashable {
    /// The environment the account buys in.
    package var environment: SimulatedStoreEnvironment
    /// The app's own account token; nil where the app passed none.
    package var appAccountToken: String?
    /// The store's id of this Apple account in this app; nil in old statements.
    package var appTransactionID: String?

    /// An account.
    package init(_ environment: SimulatedStoreEnvironment, appAccountToken: String?, appTransactionID: String?) {
        self.environment = environment
        self.appAccountToken = appAccountToken
        self.appTransactionID = appTransactionID
    }

    /// The customer whom this account's purchases belong to, unless somebody links or claims them.
    package var customerID: String? {
        appAccountToken?.lowercased() ?? appTransactionID.map { "apple:\($0)" }
    }

    /// The customer as a key of the record; nil for purchases that are nobody's.
    package var customer: CustomerKey? { customerID.map { CustomerKey(environment, $0) } }
}

/// An offer a payment was made under.
package struct SimulatedStoreOffer: Sendable, Hashable {
    /// 1 introductory, 2 promotional, 3 offer code, 4 win-back.
    package let type: Int64
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO` or `PAY_UP_FRONT`.
    package let discount: String
    /// The offer's id; introductory offers have none.
    package let identifier: String?
    /// How long the payment lasts instead of the product's own period.
    package let period: String?

    /// A week for free.
    package static let freeTrial = SimulatedStoreOffer(type: 1, discount: "FREE_TRIAL", identifier: nil, period: "P1W")
    /// Three months, paid at once.
    package static let payUpFront = SimulatedStoreOffer(
        type: 1, discount: "PAY_UP_FRONT", identifier: nil, period: "P3M")
    /// A cheaper period for somebody who is subscribed or was.
    package static let promotional = SimulatedStoreOffer(
        type: 2, discount: "PAY_AS_YOU_GO", identifier: "spring", period: nil)
    /// A code that was redeemed.
    package static let offerCode = SimulatedStoreOffer(
        type: 3, discount: "FREE_TRIAL", identifier: "friends", period: "P2W")
    /// An offer to somebody who left.
    package static let winBack = SimulatedStoreOffer(
        type: 4, discount: "PAY_AS_YOU_GO", identifier: "come.back", period: nil)
}

/// What the store knows of one original transaction: the material of its statements.
struct StoreBook: Sendable {
    let key: SimulatedOriginalKey
    /// Who buys, as the store knows it now.
    var account: StoreAccount
    let isFamilyShared: Bool
    let originalPurchaseDate: Int64
    var payments: [Payment] = []
    /// Nil for one-time purchases.
    var renewal: RenewalStanding?
    /// Statements about one original are signed in distinct milliseconds, as long as a story does not ask for a tie.
    var lastSignedDate = Int64.min

    /// The payment that runs, or ran last.
    var last: Payment {
        guard let payment = payments.last else {
            preconditionFailure("\(key.originalTransactionID) was never paid for")
        }
        return payment
    }
}

/// One transaction as the store has it.
struct Payment: Sendable {
    /// Its place among the payments of its original, from 0.
    let number: Int
    let transactionID: String
    let webOrderLineItemID: String?
    let product: SimulatedStoreProduct
    let purchaseDate: Int64
    /// The instant from which it counts: later than the purchase date where the store charged early.
    let begin: Int64
    var expiresDate: Int64?
    /// `PURCHASE` or `RENEWAL`; nil where the store keeps silent.
    let reason: String?
    var appAccountToken: String?
    var appTransactionID: String?
    let offer: SimulatedStoreOffer?
    let price: StorePrice
    /// Its chapter in the record; nil for a payment nobody was ever told of.
    var chapter: Int?
    var revocation: Revocation?
    var isUpgraded = false

    /// Of some payments the store states no price: those of long ago.
    var statesPrice: Bool { transactionID.utf8.reduce(0) { $0 + Int($1) } % 11 > 0 }

    struct Revocation: Sendable {
        let date: Int64
        let reason: Int64
        let type: String
        let percentage: Int64?
    }
}

/// What the store knows of a subscription's future.
struct RenewalStanding: Sendable {
    var autoRenews = true
    var renewsAs: String
    var isInBillingRetry = false
    var graceEnd: Int64?
    var expirationIntent: Int64?
    var priceIncrease: Int64?
    /// Whether a billing problem of the present period was stated before.
    var hasFailed = false
}
