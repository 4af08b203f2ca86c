public import Foundation

/// What the customer holds at an instant: the published state of an ``EntitlementStore``.
public struct Entitlements: Sendable, Hashable {
    /// How far a state can be relied on.
    ///
    /// A later major version may add cases; write `default:` where you switch over it.
    public enum Kind: Sendable, Hashable {
        /// Nothing has been read yet, not even the disk: neither open nor close a door on it.
        case loading
        /// The server has answered, and this rests on its log up to a position.
        case live(position: Int64)
        /// Computed on the device from what was known last; `asOf` is when the server answered last, `nil`: never.
        case offline(asOf: Date?, reason: OfflineReason)
    }

    /// Why the device computed a state by itself; new reasons may come, so it is no enumeration.
    public struct OfflineReason: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The server has not been asked yet since the app was launched.
        public static let notYetAsked = OfflineReason(rawValue: "not_yet_asked")
        /// The server could not be reached.
        public static let unreachable = OfflineReason(rawValue: "unreachable")
        /// The server could be reached and had no usable answer.
        public static let refused = OfflineReason(rawValue: "refused")
        /// The server answered, and nothing proves whose device this is: it told what was posted, and no more.
        public static let unproven = OfflineReason(rawValue: "unproven")
        /// Sync is off.
        public static let syncOff = OfflineReason(rawValue: "sync_off")
        /// An ``EntitlementReader`` has read it, which asks nobody.
        public static let readOnly = OfflineReason(rawValue: "read_only")
    }

    /// How far it can be relied on.
    public let kind: Kind
    /// Whose entitlements these are; `nil` while nobody is known.
    public let customerID: String?
    /// The store's environment they are of, such as `Sandbox` in TestFlight; `nil` while it is not known.
    public let environment: StoreEnvironmentName?
    /// The instant for which they were read.
    public let at: Date
    /// In the order of their ids; lapsed ones included.
    public let all: [Entitlement]

    /// Puts one together from its parts.
    public init(
        kind: Kind, customerID: String? = nil, environment: StoreEnvironmentName? = nil, at: Date,
        all: [Entitlement] = []
    ) {
        self.kind = kind
        self.customerID = customerID
        self.environment = environment
        self.at = at
        self.all = all
    }

    /// Before anything has been read.
    public static let loading = Entitlements(kind: .loading, at: Date(timeIntervalSince1970: 0))

    /// The entitlement of that id; `nil` where it was never held.
    public subscript(id: String) -> Entitlement? { all.first { $0.id == id } }

    /// Whether the entitlement of that id gives access.
    public func givesAccess(to id: String) -> Bool { self[id]?.givesAccess ?? false }

    /// Whether the server stands behind it.
    public var isLive: Bool {
        if case .live = kind { true } else { false }
    }
}

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
        /// It was refunded, or family sharing ended.
        public static let revoked = State(rawValue: "revoked")
        /// It would give access, but neither server nor store confirmed it for longer than
        /// ``EntitlementConfiguration/offlineBound``.
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
    /// The original transaction it rests on; `nil` for what was not bought in the store.
    public let originalTransactionID: String?
    /// `nil` where nothing renews, or nothing is known.
    public let willRenew: Bool?
    /// The offer the present period was bought under.
    public let offer: PurchaseOffer?

    /// Puts one together from its parts.
    public init(
        id: String, givesAccess: Bool, state: State, since: Date, until: Date?, productID: String?, source: Source,
        ownership: Ownership? = nil, originalTransactionID: String? = nil, willRenew: Bool? = nil,
        offer: PurchaseOffer? = nil
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
    }
}
