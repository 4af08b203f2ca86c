import Foundation

/// Why there is no purchase: the reason, the product, and what the system said.
///
/// Two are equal in all but what the system said, which cannot be compared.
public struct PurchaseError: Error, Sendable, CustomStringConvertible {
    /// Why; new reasons may come, so it is no enumeration.
    public struct Reason: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Nothing with this id is on sale here.
        public static let productNotFound = Reason(rawValue: "product_not_found")
        /// The store says it was bought, and the device cannot believe it: nothing was granted, nothing finished, and it
        /// comes again at the next launch.
        public static let verificationFailed = Reason(rawValue: "verification_failed")
        /// The person, or this device, is not allowed to buy anything.
        public static let notAllowed = Reason(rawValue: "not_allowed")
        /// The person may not have the offer; without it the product can be bought.
        public static let ineligibleForOffer = Reason(rawValue: "ineligible_for_offer")
        /// The store does not take the offer or the quantity as it was given, or nobody could sign the offer.
        ///
        /// So it is with more than one of a product to which the catalog gives a duration: all of them would run at
        /// the same time, and be paid for one period.
        public static let invalidOffer = Reason(rawValue: "invalid_offer")
        /// The store could not be reached.
        public static let network = Reason(rawValue: "network")
        /// This product is being bought already.
        public static let alreadyUnderWay = Reason(rawValue: "already_under_way")
        /// It, or all that it gives, is owned already, from the App Store or the web, or goes on being charged for on the
        /// web: nothing was opened, and nobody charged.
        ///
        /// What gives more than what is owned is sold, and so is in the App Store what has no end where all that is
        /// owned has one: a subscription of the App Store, or what is not charged for again. See
        /// ``Entitlement/alsoRenews`` for what the customer then pays beside it until they end that.
        /// ``PurchaseOptions/evenIfOwned`` buys it all the same. A change of plan belongs where the present one was
        /// bought.
        public static let alreadyOwned = Reason(rawValue: "already_owned")
        /// What it gives was bought before, and its charge failed and is being tried again: it may come back by itself, so the
        /// payment is to be put right where it was bought.
        public static let inBillingRetry = Reason(rawValue: "in_billing_retry")
        /// A page of the web checkout for it, or for another product that gives some of the same, is unfinished and may still
        /// be paid.
        ///
        /// ``PurchaseError/unfinishedCheckout`` says for which product, and whether it says that it was paid. Buy that product
        /// on the web to come back to the page, or call ``EntitlementStore/abandonCheckout(of:)`` with this error's product when
        /// the customer does not want it any more.
        public static let checkoutUnfinished = Reason(rawValue: "checkout_unfinished")
        /// The app sells on the web and refuses unknown ownership (``WebCheckout/refusesUnknownOwnership``), and nobody can
        /// say now what was bought there: the server has never answered this device about this customer, or not since what
        /// they have from the web was to be renewed (``EntitlementConfiguration/renewalLeeway`` ago), and cannot be reached.
        ///
        /// Whoever subscribed on the web would be charged once more. It can be bought when the server has answered.
        /// ``PurchaseOptions/evenIfOwned`` buys it all the same, for a customer who says that they have bought nothing on the
        /// web.
        public static let ownershipUnknown = Reason(rawValue: "ownership_unknown")
        /// The App Store has a purchase of it under way, which waits for somebody's approval or could not be verified yet.
        public static let purchasePending = Reason(rawValue: "purchase_pending")
        /// It cannot be done on the web now; ``PurchaseError/webUnavailability`` says why.
        public static let webUnavailable = Reason(rawValue: "web_unavailable")
        /// The store handed over an earlier purchase in the place of a new one, which gives nothing any more or was granted
        /// already: nobody was charged.
        ///
        /// So the App Store does as long as an earlier purchase of the product is not finished, which it is only when the server
        /// holds it. The server is being asked again; the product can be bought once it has answered.
        public static let notSoldAgain = Reason(rawValue: "not_sold_again")
        /// The store handed over what another customer has bought with this Apple account, and what this one does not hold:
        /// nobody was charged.
        ///
        /// What an Apple account owns the App Store sells to nobody else who uses it. Whoever bought it can log in; to whom it
        /// belongs your server decides.
        public static let ownedByAnother = Reason(rawValue: "owned_by_another")
        /// Somebody else logged in, or the customer logged out, before anything was opened.
        public static let customerChanged = Reason(rawValue: "customer_changed")
        /// Anything else, such as a result of the store that this version does not know; should it be a purchase, it
        /// comes as an update.
        public static let unknown = Reason(rawValue: "unknown")
    }

    /// Why.
    public let reason: Reason
    /// What was to be bought; ``EntitlementStore`` always fills it in.
    public let productID: String?
    /// More about it, for people who read logs; empty where there is nothing more to say.
    public let detail: String
    /// What StoreKit or the network threw; `nil` where nothing was thrown.
    public let underlying: (any Error)?
    /// The page that stands in the way, of this product or another; `nil` for every other reason than
    /// ``Reason/checkoutUnfinished``.
    public let unfinishedCheckout: UnfinishedCheckout?
    /// Why it cannot be done on the web; `nil` for every other reason than ``Reason/webUnavailable``.
    public let webUnavailability: WebUnavailability?

    /// Puts one together from its parts; an adapter to a store need not name the product.
    public init(
        _ reason: Reason, of productID: String? = nil, detail: String = "", underlying: (any Error)? = nil,
        unfinishedCheckout: UnfinishedCheckout? = nil, webUnavailability: WebUnavailability? = nil
    ) {
        self.reason = reason
        self.productID = productID
        self.detail = detail
        self.underlying = underlying
        self.unfinishedCheckout = unfinishedCheckout
        self.webUnavailability = webUnavailability
    }

    /// Reads what a store threw when a product was to be bought.
    init(_ error: any Error, of productID: String) {
        switch error {
        case let error as PurchaseError:
            self.init(
                error.reason, of: productID, detail: error.detail, underlying: error.underlying,
                unfinishedCheckout: error.unfinishedCheckout, webUnavailability: error.webUnavailability)
        case let error as URLError: self.init(.network, of: productID, underlying: error)
        default: self.init(.unknown, of: productID, underlying: error)
        }
    }

    /// A sentence for people who read logs.
    public var description: String {
        let said = [detail, underlying.map { "\($0)" } ?? ""].filter { !$0.isEmpty }.joined(separator: "; ")
        let what = productID.map { "\($0) was not bought" } ?? "it was not done"
        return "\(what) (\(reason.rawValue))" + (said.isEmpty ? "" : ": \(said)")
    }
}

extension PurchaseError: Hashable {
    /// Compares all but ``underlying``.
    public static func == (left: PurchaseError, right: PurchaseError) -> Bool {
        (left.reason, left.productID, left.detail, left.unfinishedCheckout, left.webUnavailability)
            == (right.reason, right.productID, right.detail, right.unfinishedCheckout, right.webUnavailability)
    }

    /// Takes all but ``underlying``.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(reason)
        hasher.combine(productID)
        hasher.combine(detail)
        hasher.combine(unfinishedCheckout)
        hasher.combine(webUnavailability)
    }
}
