package import EntitlementCore

/// What the ledger and the store say of one original transaction, before and after the store was asked: the answer of
/// `POST /v1/subscriptions/{original_transaction_id}/actions/check`.
package struct StoreCheckDocument: Codable, Hashable, Sendable, NamedDocument {
    /// What the store says now.
    package struct StoreWord: Codable, Hashable, Sendable {
        /// `null` for a one-time purchase from the App Store, for a number that this version does not know, and for what was
        /// not paid on the web.
        @Nullable package private(set) var state: EntitlementState?
        /// Apple's own number; `null` for a one-time purchase.
        @Nullable package private(set) var status: Int?
        /// Stripe's own word for a subscription; `null` of anything else.
        @Nullable package private(set) var stripeStatus: String?
        /// Of the latest purchase.
        package let productID: String
        package let transactionID: String
        @Nullable package private(set) var expiresAt: Timestamp?
        @Nullable package private(set) var revokedAt: Timestamp?
        @Nullable package private(set) var willRenew: Bool?
        @Nullable package private(set) var graceEndsAt: Timestamp?
        /// How many transactions of this original the store told of.
        package let transactions: Int

        package init(status: Int?, latest: TransactionFact, renewal: RenewalFact?, transactions: Int) {
            productID = latest.productID
            transactionID = latest.transactionID
            self.transactions = transactions
            _state = Nullable(wrappedValue: status.flatMap { Self.states[$0] })
            _status = Nullable(wrappedValue: status)
            _stripeStatus = Nullable(wrappedValue: nil)
            _expiresAt = Nullable(wrappedValue: latest.expiresDate)
            _revokedAt = Nullable(wrappedValue: latest.revocation?.date)
            _willRenew = Nullable(wrappedValue: renewal?.autoRenews)
            _graceEndsAt = Nullable(wrappedValue: renewal?.graceEnd)
        }

        /// What Stripe says.
        ///
        /// - Parameter state: how the ledger would read it if it knew nothing else.
        package init(
            state: EntitlementState?, stripeStatus: String?, productID: String, transactionID: String,
            expiresAt: Timestamp?, revokedAt: Timestamp?, willRenew: Bool?, graceEndsAt: Timestamp?, transactions: Int
        ) {
            self.productID = productID
            self.transactionID = transactionID
            self.transactions = transactions
            _state = Nullable(wrappedValue: state)
            _status = Nullable(wrappedValue: nil)
            _stripeStatus = Nullable(wrappedValue: stripeStatus)
            _expiresAt = Nullable(wrappedValue: expiresAt)
            _revokedAt = Nullable(wrappedValue: revokedAt)
            _willRenew = Nullable(wrappedValue: willRenew)
            _graceEndsAt = Nullable(wrappedValue: graceEndsAt)
        }

        /// Source: Apple, "status".
        private static let states: [Int: EntitlementState] = [
            1: .active, 2: .expired, 3: .inBillingRetry, 4: .inGracePeriod, 5: .revoked,
        ]

        private enum CodingKeys: String, CodingKey {
            case state, status, transactions
            case stripeStatus = "stripe_status"
            case productID = "product_id"
            case transactionID = "transaction_id"
            case expiresAt = "expires_at"
            case revokedAt = "revoked_at"
            case willRenew = "will_renew"
            case graceEndsAt = "grace_ends_at"
        }
    }

    /// What both knew when the check began.
    package struct Before: Codable, Hashable, Sendable {
        /// `null` where the ledger knew nothing of it.
        @Nullable package private(set) var ledger: SubscriptionDocument?
        /// `null` where the store knows nothing of it.
        @Nullable package private(set) var store: StoreWord?

        package init(ledger: SubscriptionDocument?, store: StoreWord?) {
            _ledger = Nullable(wrappedValue: ledger)
            _store = Nullable(wrappedValue: store)
        }
    }

    /// What the ledger knows now.
    package struct After: Codable, Hashable, Sendable {
        @Nullable package private(set) var ledger: SubscriptionDocument?

        package init(ledger: SubscriptionDocument?) { _ledger = Nullable(wrappedValue: ledger) }
    }

    /// An event that the check appended; also of other purchases of the same Apple account.
    package struct Recorded: Codable, Hashable, Sendable {
        package let position: Int64
        package let originalTransactionID: String

        package init(position: Int64, originalTransactionID: String) {
            self.position = position
            self.originalTransactionID = originalTransactionID
        }

        private enum CodingKeys: String, CodingKey {
            case position
            case originalTransactionID = "original_transaction_id"
        }
    }

    package static let objectName = "store_check"
    package private(set) var object = Self.objectName
    package let originalTransactionID: String
    /// `null` for what was bought on the web, which is of no app.
    @Nullable package private(set) var app: String?
    package let environment: StoreEnvironment
    package let checkedAt: Timestamp
    package let before: Before
    package let recorded: [Recorded]
    package let after: After
    /// Whether the ledger now reads as the store says; `null` where the store states no state.
    @Nullable package private(set) var agrees: Bool?
    /// How many statements of the answer were not believed.
    package let refused: Int

    package init(
        originalTransactionID: String, app: String?, environment: StoreEnvironment, checkedAt: Timestamp,
        before: Before, recorded: [Recorded], after: After, refused: Int
    ) {
        self.originalTransactionID = originalTransactionID
        _app = Nullable(wrappedValue: app)
        self.environment = environment
        self.checkedAt = checkedAt
        self.before = before
        self.recorded = recorded
        self.after = after
        self.refused = refused
        _agrees = Nullable(wrappedValue: before.store?.state.map { $0 == after.ledger?.state })
    }

    private enum CodingKeys: String, CodingKey {
        case object, app, environment, before, recorded, after, agrees, refused
        case originalTransactionID = "original_transaction_id"
        case checkedAt = "checked_at"
    }
}

/// Which store is to be asked: the body of `POST /v1/subscriptions/{original_transaction_id}/actions/check`, which may be left
/// out.
package struct StoreCheckRequest: CommandBody {
    /// The app's bundle id; `nil`: as the ledger knows, else the only one.
    package let app: String?
    /// `nil`: the credential's own, else production.
    package let environment: StoreEnvironment?

    package init(app: String? = nil, environment: StoreEnvironment? = nil) {
        self.app = app
        self.environment = environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        app = try members.text(.app, limit: CommandLimits.bundleID)
        environment = try members.word(.environment, StoreEnvironment.self)
    }

    private enum CodingKeys: String, CodingKey {
        case app, environment
    }
}
