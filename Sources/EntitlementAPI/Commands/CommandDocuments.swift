package import EntitlementCore

/// The answer of `…/actions/link`.
package struct LinkDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "link"
    package private(set) var object = Self.objectName
    package let position: Int64
    package let environment: StoreEnvironment
    /// Whose the linked one is from now on.
    package let customerID: String
    /// The customer id that is an alias now; an identity's default customer, where an identity was linked.
    package let linked: String
    /// Whose it was before; `null` where it was nobody else's.
    @Nullable package private(set) var untilNow: String?
    /// What a person should look at; `nil` and left out where there is nothing.
    package let remarks: [String]?

    package init(
        position: Int64, environment: StoreEnvironment, customerID: String, linked: String, untilNow: String?,
        remarks: [String]? = nil
    ) {
        self.position = position
        self.environment = environment
        self.customerID = customerID
        self.linked = linked
        self.remarks = remarks
        _untilNow = Nullable(wrappedValue: untilNow)
    }

    private enum CodingKeys: String, CodingKey {
        case object, position, environment, linked, remarks
        case customerID = "customer_id"
        case untilNow = "until_now"
    }
}

/// The answer of `…/actions/transfer`.
package struct TransferDocument: Codable, Hashable, Sendable, NamedDocument {
    /// A customer, before and after.
    package struct Side: Codable, Hashable, Sendable {
        package let customerID: String
        /// As in ``EntitlementsDocument``.
        package let before: [EntitlementDocument]
        /// As in ``EntitlementsDocument``.
        package let after: [EntitlementDocument]

        package init(customerID: String, before: [EntitlementDocument], after: [EntitlementDocument]) {
            self.customerID = customerID
            self.before = before
            self.after = after
        }

        private enum CodingKeys: String, CodingKey {
            case before, after
            case customerID = "customer_id"
        }
    }

    package static let objectName = "transfer"
    package private(set) var object = Self.objectName
    /// `null` for a dry run.
    @Nullable package private(set) var position: Int64?
    package let dryRun: Bool
    package let environment: StoreEnvironment
    package let originalTransactionID: String
    /// `null` where it was nobody's, or somebody's who was forgotten.
    @Nullable package private(set) var from: Side?
    /// `null` where it is nobody's again.
    @Nullable package private(set) var to: Side?
    /// Whose other periods of it go along, or come back: there only where somebody else than the two has any.
    package let others: [Side]?

    /// An answer to what was recorded at a position; to a dry run, where there is none.
    package init(
        position: Int64?, environment: StoreEnvironment, originalTransactionID: String, from: Side?, to: Side?,
        others: [Side] = []
    ) {
        self.others = others.isEmpty ? nil : others
        dryRun = position == nil
        self.environment = environment
        self.originalTransactionID = originalTransactionID
        _from = Nullable(wrappedValue: from)
        _to = Nullable(wrappedValue: to)
        _position = Nullable(wrappedValue: position)
    }

    private enum CodingKeys: String, CodingKey {
        case object, position, environment, from, to, others
        case dryRun = "dry_run"
        case originalTransactionID = "original_transaction_id"
    }
}

/// The answer of `…/actions/grant`.
package struct GrantDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "grant"
    package private(set) var object = Self.objectName
    package let position: Int64
    package let environment: StoreEnvironment
    package let grantID: String
    package let customerID: String
    package let entitlement: String
    /// `null` for a grant without end.
    @Nullable package private(set) var until: Timestamp?
    package let reason: String
    /// What a person should look at; `nil` and left out where there is nothing.
    package let remarks: [String]?

    package init(
        position: Int64, environment: StoreEnvironment, grantID: String, customerID: String, entitlement: String,
        until: Timestamp?, reason: String, remarks: [String]? = nil
    ) {
        self.position = position
        self.environment = environment
        self.grantID = grantID
        self.customerID = customerID
        self.entitlement = entitlement
        self.reason = reason
        self.remarks = remarks
        _until = Nullable(wrappedValue: until)
    }

    private enum CodingKeys: String, CodingKey {
        case object, position, environment, entitlement, until, reason, remarks
        case grantID = "grant_id"
        case customerID = "customer_id"
    }
}

/// The answer of `…/actions/revoke_grant`.
package struct GrantRevocationDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "grant_revocation"
    package private(set) var object = Self.objectName
    package let position: Int64
    package let environment: StoreEnvironment
    package let grantID: String
    package let customerID: String
    package let reason: String

    package init(
        position: Int64, environment: StoreEnvironment, grantID: String, customerID: String, reason: String
    ) {
        self.position = position
        self.environment = environment
        self.grantID = grantID
        self.customerID = customerID
        self.reason = reason
    }

    private enum CodingKeys: String, CodingKey {
        case object, position, environment, reason
        case grantID = "grant_id"
        case customerID = "customer_id"
    }
}
