package import EntitlementCore

/// Some days that a subscriber is to be given: the body of `…/actions/extend`.
package struct ExtensionRequest: CommandBody {
    package let days: Int64
    package let reasonCode: ExtensionReason
    /// Why, in people's words; kept with the event.
    package let reason: String
    /// Whether to answer what would be, and send nothing.
    package let isDryRun: Bool
    /// Also where the store extended it within the last 24 hours.
    package let again: Bool
    /// `nil`: the credential's own, else production.
    package let environment: StoreEnvironment?

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        days = try members.required(
            .days, members.wholeNumber(.days, in: RenewalExtension.dayRange, "a number of days"))
        reasonCode = try members.required(.reasonCode, members.word(.reasonCode, ExtensionReason.self))
        reason = try members.required(
            .reason, members.text(.reason, limit: CommandLimits.reason, hasLines: true))
        isDryRun = try members.value(.isDryRun, Bool.self, "true or false") ?? false
        again = try members.value(.again, Bool.self, "true or false") ?? false
        environment = try members.word(.environment, StoreEnvironment.self)
    }

    private enum CodingKeys: String, CodingKey {
        case days, reason, again, environment
        case reasonCode = "reason_code"
        case isDryRun = "dry_run"
    }
}

/// What moving a renewal date comes to: the answer of `…/actions/extend`.
package struct ExtensionDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "renewal_extension"
    package private(set) var object = Self.objectName
    package let originalTransactionID: String
    package let app: String
    package let environment: StoreEnvironment
    package let productID: String
    /// Whose it is, who is given the days; `null` where it is nobody's.
    @Nullable package var customerID: String?
    package let days: Int64
    package let reasonCode: ExtensionReason
    /// When it ran out before.
    package let expiresAt: Timestamp
    /// So many days later.
    package let wouldExpireAt: Timestamp
    /// How often it was extended within 365 days, as far as known; the store does it twice.
    package let extendedWithinYear: Int
    /// Why it will be refused, as far as can be told.
    package var doubts: [String]
    /// The event of an extension of which nobody knows whether the store was asked.
    @Nullable package private(set) var unsettled: Int64?
    /// The event that says what was asked; `null` where nothing was sent.
    @Nullable package var position: Int64?
    /// The event that says what the store answered.
    @Nullable package var settledPosition: Int64?
    /// When it runs out now, as the store says.
    @Nullable package var extendedUntil: Timestamp?

    package init(
        originalTransactionID: String, app: String, environment: StoreEnvironment, productID: String,
        customerID: String?, days: Int64, reasonCode: ExtensionReason, expiresAt: Timestamp,
        wouldExpireAt: Timestamp, extendedWithinYear: Int, doubts: [String], unsettled: Int64?
    ) {
        self.originalTransactionID = originalTransactionID
        self.app = app
        self.environment = environment
        self.productID = productID
        _customerID = Nullable(wrappedValue: customerID)
        self.days = days
        self.reasonCode = reasonCode
        self.expiresAt = expiresAt
        self.wouldExpireAt = wouldExpireAt
        self.extendedWithinYear = extendedWithinYear
        self.doubts = doubts
        _unsettled = Nullable(wrappedValue: unsettled)
        _position = Nullable(wrappedValue: nil)
        _settledPosition = Nullable(wrappedValue: nil)
        _extendedUntil = Nullable(wrappedValue: nil)
    }

    private enum CodingKeys: String, CodingKey {
        case object, app, environment, days, doubts, unsettled, position
        case originalTransactionID = "original_transaction_id"
        case productID = "product_id"
        case customerID = "customer_id"
        case reasonCode = "reason_code"
        case expiresAt = "expires_at"
        case wouldExpireAt = "would_expire_at"
        case extendedWithinYear = "extended_within_year"
        case settledPosition = "settled_position"
        case extendedUntil = "extended_until"
    }
}
