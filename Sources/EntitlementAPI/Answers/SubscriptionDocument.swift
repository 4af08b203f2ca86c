package import EntitlementCore

/// One original transaction: the answer of `GET /v1/subscriptions/{original_transaction_id}`.
package struct SubscriptionDocument: Codable, Hashable, Sendable, NamedDocument {
    /// A stretch that one transaction pays for.
    package struct Period: Codable, Hashable, Sendable {
        package let productID: String
        /// All ids under which the store speaks of it.
        package let transactionIDs: [String]
        package let startsAt: Timestamp
        /// When access under it ends; `null` for what does not run out.
        @Nullable package private(set) var endsAt: Timestamp?
        /// When it would run out by itself.
        @Nullable package private(set) var expiresAt: Timestamp?
        @Nullable package private(set) var endedBy: EndWord?
        @Nullable package private(set) var revokedAt: Timestamp?
        /// Whether only a part of what was paid for it was given back.
        package let isRefundedInPart: Bool
        package let ownership: OwnershipWord
        @Nullable package private(set) var offer: OfferDocument?
        /// Whose it is at `at`; `null` when nobody has claimed it, or the customer was erased.
        @Nullable package private(set) var customerID: String?
        package let positions: [Int64]
        /// A device says that a revocation is gone which the store stated: the store is to be asked.
        package let needsStoreCheck: Bool

        package init(_ period: EntitlementCore.Period, customerID: String?) {
            productID = period.fact.productID
            transactionIDs = period.transactionIDs
            startsAt = period.start
            ownership = period.fact.ownership == .known(.familyShared) ? .familyShared : .purchased
            positions = period.positions
            needsStoreCheck = period.needsStoreCheck
            isRefundedInPart = period.isRefundedInPart
            _endsAt = Nullable(wrappedValue: period.end == .endless ? nil : period.end)
            _expiresAt = Nullable(wrappedValue: period.expiry == .endless ? nil : period.expiry)
            _endedBy = Nullable(wrappedValue: EndWord(period))
            _revokedAt = Nullable(wrappedValue: period.revokedAt)
            _offer = Nullable(wrappedValue: period.fact.offer.map { OfferDocument($0) })
            _customerID = Nullable(wrappedValue: customerID)
        }

        private enum CodingKeys: String, CodingKey {
            case ownership, offer, positions
            case productID = "product_id"
            case transactionIDs = "transaction_ids"
            case startsAt = "starts_at"
            case endsAt = "ends_at"
            case expiresAt = "expires_at"
            case endedBy = "ended_by"
            case revokedAt = "revoked_at"
            case isRefundedInPart = "refunded_in_part"
            case customerID = "customer_id"
            case needsStoreCheck = "needs_store_check"
        }
    }

    /// Something that was bought and has no period, such as coins, which are used up.
    package struct Purchase: Codable, Hashable, Sendable {
        package let productID: String
        package let transactionID: String
        package let purchasedAt: Timestamp
        @Nullable package private(set) var revokedAt: Timestamp?
        /// Whether only a part of what was paid for it was given back.
        package let isRefundedInPart: Bool
        package let ownership: OwnershipWord
        /// Whose it is at `at`; `null` when nobody has claimed it, or the customer was erased.
        @Nullable package private(set) var customerID: String?

        package init(_ fact: TransactionFact, customerID: String?) {
            productID = fact.productID
            transactionID = fact.transactionID
            purchasedAt = fact.purchaseDate
            isRefundedInPart = fact.revocation?.isPart ?? false
            ownership = fact.ownership == .known(.familyShared) ? .familyShared : .purchased
            _revokedAt = Nullable(wrappedValue: fact.revocation?.date)
            _customerID = Nullable(wrappedValue: customerID)
        }

        private enum CodingKeys: String, CodingKey {
            case ownership
            case productID = "product_id"
            case transactionID = "transaction_id"
            case purchasedAt = "purchased_at"
            case revokedAt = "revoked_at"
            case isRefundedInPart = "refunded_in_part"
            case customerID = "customer_id"
        }
    }

    /// What ends a period.
    package enum EndWord: String, Codable, Hashable, Sendable, CaseIterable {
        case expiry
        /// A later purchase of the same original transaction.
        case superseded
        /// An upgrade that has not been seen itself.
        case upgradedElsewhere = "upgraded_elsewhere"
        case revocation
        /// The subscription was ended before its time.
        case cancellation

        /// `nil` for a period that does not end.
        package init?(_ period: EntitlementCore.Period) {
            switch period.ending {
            case .ranOut: if period.end == .endless { return nil } else { self = .expiry }
            case .superseded: self = .superseded
            case .upgradedElsewhere: self = .upgradedElsewhere
            case .revoked: self = .revocation
            case .cancelled: self = .cancellation
            }
        }
    }

    /// How it reads at the instant asked about.
    package struct Standing: Hashable, Sendable {
        package var state: EntitlementState
        package var productID: String
        package var willRenew: Bool?
        /// Another product as which it is to be renewed; `nil` where it is to stay the same.
        package var renewsAs: String?
        package var awaitsConsent = false
        package var isPaused = false

        package init(state: EntitlementState, productID: String, willRenew: Bool?) {
            self.state = state
            self.productID = productID
            self.willRenew = willRenew
        }
    }

    package static let objectName = "subscription"
    package private(set) var object = Self.objectName
    package let originalTransactionID: String
    package let environment: StoreEnvironment
    package let at: Timestamp
    package let knownAt: Int64
    package let foldVersion: Int
    /// `null` before the first period, and for what grants nothing.
    @Nullable package private(set) var state: EntitlementState?
    @Nullable package private(set) var productID: String?
    @Nullable package private(set) var willRenew: Bool?
    /// Another product as which it is to be renewed; `null` where it is to stay the same, and where it is not renewed.
    @Nullable package private(set) var renewsAs: String?
    /// It is renewed only once the customer agrees to a higher price.
    package let awaitsConsent: Bool
    /// On the web: nothing is charged until its collection goes on.
    package let isPaused: Bool
    package let claimed: Bool
    package let periods: [Period]
    /// What was bought and has no period: the catalog does not say for how long it runs, or another one leaves nothing of it.
    package let withoutPeriod: [Purchase]

    package init(
        originalTransactionID: String, environment: StoreEnvironment, at: Timestamp, knownAt: Int64,
        standing: Standing?, isClaimed: Bool, periods: [Period], withoutPeriod: [Purchase]
    ) {
        self.originalTransactionID = originalTransactionID
        self.environment = environment
        self.at = at
        self.knownAt = knownAt
        foldVersion = OriginalState.foldVersion
        claimed = isClaimed
        self.periods = periods
        self.withoutPeriod = withoutPeriod
        _state = Nullable(wrappedValue: standing?.state)
        _productID = Nullable(wrappedValue: standing?.productID)
        _willRenew = Nullable(wrappedValue: standing?.willRenew)
        _renewsAs = Nullable(wrappedValue: standing?.renewsAs)
        awaitsConsent = standing?.awaitsConsent ?? false
        isPaused = standing?.isPaused ?? false
    }

    private enum CodingKeys: String, CodingKey {
        case object, environment, at, state, claimed, periods
        case originalTransactionID = "original_transaction_id"
        case knownAt = "known_at"
        case foldVersion = "fold_version"
        case productID = "product_id"
        case willRenew = "will_renew"
        case renewsAs = "renews_as"
        case awaitsConsent = "awaits_consent"
        case isPaused = "paused"
        case withoutPeriod = "without_period"
    }
}
