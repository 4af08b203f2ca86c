public import Foundation

/// One named right of a customer, and how it reads.
public struct Entitlement: Sendable, Hashable, Identifiable {
    /// How it reads; new states may come, so it is no enumeration.
    public struct State: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Access is given: within what was paid for.
        public static let active = State(rawValue: "active")
        /// The charge failed, and the store keeps access open meanwhile.
        public static let inGracePeriod = State(rawValue: "in_grace_period")
        /// The charge failed, and the store retries it without keeping access open.
        public static let inBillingRetry = State(rawValue: "in_billing_retry")
        /// It ran out.
        public static let expired = State(rawValue: "expired")
        /// It was refunded, is disputed, or family sharing ended.
        public static let revoked = State(rawValue: "revoked")
        /// It would give access, but neither server nor store confirmed it for longer than
        /// ``EntitlementConfiguration/offlineBound``, or nobody has signed it (``EntitlementConfiguration/passKeys``).
        public static let unconfirmed = State(rawValue: "unconfirmed")
    }

    /// Where it comes from; new sources may come, so it is no enumeration.
    public struct Source: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Bought in the store.
        public static let appStore = Source(rawValue: "app_store")
        /// Bought outside of the store.
        public static let webCheckout = Source(rawValue: "web_checkout")
        /// Given by hand.
        public static let grant = Source(rawValue: "grant")
    }

    /// How the customer came by it; new ways may come, so it is no enumeration.
    public struct Ownership: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Bought by the customer.
        public static let purchased = Ownership(rawValue: "purchased")
        /// Bought by somebody in the family.
        public static let familyShared = Ownership(rawValue: "family_shared")
    }

    /// Why access ended; new reasons may come, so it is no enumeration.
    public struct ExpirationReason: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The customer turned auto-renewal off, or what was subscribed to on the web was cancelled, by them or by you.
        public static let cancelled = ExpirationReason(rawValue: "cancelled")
        /// The charge failed, for good or until it succeeds.
        public static let billingError = ExpirationReason(rawValue: "billing_error")
        /// The customer did not agree to a higher price.
        public static let priceIncrease = ExpirationReason(rawValue: "price_increase")
        /// The product was not on sale any more when it was to be renewed.
        public static let productUnavailable = ExpirationReason(rawValue: "product_unavailable")
        /// The subscription, which was bought on the web, is paused.
        public static let paused = ExpirationReason(rawValue: "paused")
        /// The payment, which was made on the web, is disputed, or the dispute was lost; nobody has given the money back.
        public static let disputed = ExpirationReason(rawValue: "disputed")
        /// It was refunded.
        public static let refunded = ExpirationReason(rawValue: "refunded")
        /// Whoever shares it in the family does so no more, or has it no more.
        public static let familyRevoked = ExpirationReason(rawValue: "family_revoked")
        /// What took its place does not give this.
        public static let replaced = ExpirationReason(rawValue: "replaced")
        /// It is another customer's now.
        public static let ownedByAnother = ExpirationReason(rawValue: "owned_by_another")
        /// What was given by hand was taken back.
        public static let grantRevoked = ExpirationReason(rawValue: "grant_revoked")
        /// It ran out, and nobody has told why it was not renewed, if it could be.
        public static let ranOut = ExpirationReason(rawValue: "ran_out")
    }

    /// What it is called.
    public let id: String
    /// Whether it gives access at that instant.
    public let givesAccess: Bool
    /// How it reads.
    public let state: State
    /// Since when access has been given, or not, without a break.
    public let since: Date
    /// Until when, as far as known; `nil`: without end.
    public let until: Date?
    /// `nil` for what was given by hand.
    public let productID: String?
    /// Where it comes from.
    public let source: Source
    /// `nil` for what was given by hand, or is not known.
    public let ownership: Ownership?
    /// The original transaction it rests on; on the web the payment provider's id of the subscription (`sub_…`) or of the payment
    /// (`pi_…`).
    ///
    /// `nil` for what was given by hand, or is not known.
    public let originalTransactionID: String?
    /// `nil` where nothing renews, or nothing is known.
    public let willRenew: Bool?
    /// The offer the present period was bought under.
    public let offer: PurchaseOffer?
    /// Why access ended; `nil` while it is given, and where only the server's reading of it is known.
    public let expirationReason: ExpirationReason?
    /// When the subscription, or the product, was first bought, as far as known; `nil` for what was given by hand.
    public let originalPurchaseDate: Date?

    /// What else gives it and is charged for again, beside the purchase that is shown: the customer pays for it as well.
    ///
    /// Such as an App Store subscription after an upgrade on the web, or a web subscription beside what was bought for good. Each
    /// ends only where it was bought: in the system's settings, or on the page of ``EntitlementStore/managementURL(returningTo:)``.
    /// Empty where only the server's reading of it is known.
    public let alsoRenews: [RenewingPurchase]

    /// Whether access is given by a free trial.
    public var isInTrial: Bool { givesAccess && (offer?.isTrial ?? false) }

    /// Until when the store keeps access open while it retries the charge; `nil` outside of a grace period, and where the
    /// store did not say.
    public var gracePeriodEndDate: Date? { state == .inGracePeriod ? until : nil }

    /// Puts one together from its parts.
    public init(
        id: String, givesAccess: Bool, state: State, since: Date, until: Date?, productID: String?, source: Source,
        ownership: Ownership? = nil, originalTransactionID: String? = nil, willRenew: Bool? = nil,
        offer: PurchaseOffer? = nil, expirationReason: ExpirationReason? = nil, originalPurchaseDate: Date? = nil,
        alsoRenews: [RenewingPurchase] = []
    ) {
        self.id = id
        self.givesAccess = givesAccess
        self.state = state
        self.since = since
        self.until = until
        self.productID = productID
        self.source = source
        self.ownership = ownership
        self.originalTransactionID = originalTransactionID
        self.willRenew = willRenew
        self.offer = offer
        self.expirationReason = expirationReason
        self.originalPurchaseDate = originalPurchaseDate
        self.alsoRenews = alsoRenews
    }
}

/// A subscription that is charged for again by itself, perhaps for the last time.
public struct RenewingPurchase: Sendable, Hashable, Identifiable {
    /// What it is called.
    public var id: String { originalTransactionID }

    /// Where it was bought, and can be ended.
    public let source: Entitlement.Source
    /// The product.
    public let productID: String?
    /// The original transaction; on the web the payment provider's id of the subscription (`sub_…`).
    public let originalTransactionID: String
    /// Until when it is paid for, or its charge is tried again; `nil`: without end.
    public let until: Date?

    /// Puts one together from its parts.
    public init(source: Entitlement.Source, productID: String?, originalTransactionID: String, until: Date?) {
        self.source = source
        self.productID = productID
        self.originalTransactionID = originalTransactionID
        self.until = until
    }
}
