import EntitlementCore

/// What an event shows of a purchase: the members that all events about purchases have.
struct PurchaseView: Hashable, Sendable {
    let productID: String
    var entitlementIDs: [String]
    let periodType: EventPeriodType
    let store: PurchaseStore
    /// The bundle id; `nil` of what no app sold.
    let appID: String?
    let transactionID: String
    let originalTransactionID: String
    let purchasedAt: Timestamp
    /// Until when it gives access without a break, as far as is known, or gave it: what `expires_date` of the document is the
    /// second of; `nil` for what does not end, and for what gives nothing.
    var expiresAt: Timestamp?
    let isFamilyShare: Bool
    let offerCode: String?
    /// What was paid; `nil` where nobody stated it.
    let price: Money?
    /// How much of that went back.
    var refund: Money?

    /// What it was paid with, as far as one transaction names it.
    var payment: Payment {
        Payment(originalTransactionID: originalTransactionID, transactionIDs: [transactionID], productID: productID)
    }

    /// The same as an instant.
    var end: Timestamp { expiresAt ?? .endless }
}

/// RevenueCat's `period_type` of events.
package enum EventPeriodType: String, Codable, Hashable, Sendable, CaseIterable {
    case trial = "TRIAL"
    case intro = "INTRO"
    case normal = "NORMAL"
    /// It was granted.
    case promotional = "PROMOTIONAL"
}

/// RevenueCat's `cancel_reason` and `expiration_reason`.
package enum EndReason: String, Codable, Hashable, Sendable, CaseIterable {
    /// Somebody turned renewing off.
    case unsubscribe = "UNSUBSCRIBE"
    case billingError = "BILLING_ERROR"
    /// A grant was taken back.
    case developerInitiated = "DEVELOPER_INITIATED"
    /// Whoever bought it did not agree to a higher price.
    case priceIncrease = "PRICE_INCREASE"
    /// It was refunded.
    case customerSupport = "CUSTOMER_SUPPORT"
    /// Nobody said.
    case unknown = "UNKNOWN"

    /// Apple's `expirationIntent`, of what does not renew.
    init(intent: Int64?) {
        switch intent {
        case nil, 1: self = .unsubscribe
        case 2: self = .billingError
        case 3: self = .priceIncrease
        default: self = .unknown
        }
    }
}

/// What names a purchase as long as it lives: a subscription through all its periods, a one-time purchase, a grant.
struct PurchaseKey: Hashable, Comparable, Sendable {
    /// The original transaction, or the grant.
    let source: String
    /// What of it, where there may be several: an item, or a product.
    let part: String

    var text: String { part.isEmpty ? source : "\(source)/\(part)" }

    static func < (left: PurchaseKey, right: PurchaseKey) -> Bool {
        (left.source, left.part) < (right.source, right.part)
    }
}

/// A customer's purchase at one moment.
struct PurchaseStanding: Sendable {
    enum Kind: Hashable, Sendable {
        case subscription
        case oneTime
        case grant
    }

    let kind: Kind
    /// Of a subscription its latest period.
    private(set) var view: PurchaseView
    /// By their products, of a subscription that changed them.
    private(set) var views: [String: PurchaseView]
    /// Whether it gives access, to whatever its product gives.
    private(set) var isOpen: Bool
    /// The catalog gives it no time at all, as with coins.
    let givesNothing: Bool
    /// The transactions of the latest period.
    let transactionIDs: Set<String>
    /// Those of all periods up to it.
    let knownIDs: Set<String>
    /// Those of periods that are known and follow it.
    let aheadIDs: Set<String>
    /// The latest period is the one that the subscription began with.
    let isFirst: Bool
    let followsTrial: Bool
    /// When the latest period runs out by itself.
    let expiry: Timestamp
    /// Until when it gives access with its grace period, ahead or under way; `nil` without one.
    private(set) var graceEnd: Timestamp?
    /// When it was first said that the charge failed; `nil` where it did not, or that is solved.
    private(set) var failedAt: Timestamp?
    /// Whether the store goes on trying.
    private(set) var isCollecting: Bool
    private(set) var isUnsubscribed: Bool
    /// What it renews as; `nil` where nobody said.
    private(set) var nextProductID: String?
    /// It was taken back, since when.
    let withdrawnAt: Timestamp?
    let isRefunded: Bool
    /// The period that would have followed, where it was paid for and its money went back before it begins.
    let refundedAhead: PurchaseView?
    /// Why it does not renew.
    private(set) var cancelReason: EndReason
    /// Why it ended, or would.
    private(set) var endReason: EndReason
    /// What it gives by itself, where another item of its row gives more.
    private(set) var own: (isOpen: Bool, end: Timestamp)?

    /// Whether it is the one that its row shows.
    var isShown: Bool { own == nil }

    /// Until when it gave access, or, where that is taken back, was to give it; of what gives none when it was bought.
    private var ranUntil: Timestamp {
        if givesNothing { return view.purchasedAt }
        let end = own?.end ?? view.end
        return withdrawnAt == nil ? end : max(end, expiry)
    }

    /// Whether it is told of, where nothing was told yet, at an instant.
    ///
    /// It was paid for, though it is over: what its money does is told, too. Nobody pays for a grant.
    func isTellable(at instant: Timestamp) -> Bool {
        if own?.isOpen ?? isOpen { return true }
        return kind != .grant && withdrawnAt == nil
            && instant < ranUntil.adding(milliseconds: PurchaseCourse.lateness)
    }

    /// Takes over what a row shows of access and renewing; what was paid stays its own.
    mutating func stand(as shown: PurchaseStanding) {
        own = (isOpen, view.end)
        view.expiresAt = shown.view.expiresAt
        views[view.productID] = view
        (isOpen, graceEnd, failedAt) = (shown.isOpen, shown.graceEnd, shown.failedAt)
        (isCollecting, isUnsubscribed) = (shown.isCollecting, shown.isUnsubscribed)
        (nextProductID, cancelReason, endReason) = (shown.nextProductID, shown.cancelReason, shown.endReason)
    }

    /// It changes to no other product.
    mutating func stay() { nextProductID = view.productID }

    /// What the latest period was paid with.
    var payment: Payment {
        Payment(
            originalTransactionID: view.originalTransactionID, transactionIDs: transactionIDs,
            productID: view.productID)
    }

    /// How much of its money went back.
    var moneyBack: MoneyBack { MoneyBack(isRefunded: isRefunded, amount: view.refund) }
}
