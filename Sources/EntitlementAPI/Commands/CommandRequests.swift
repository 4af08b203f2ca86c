package import EntitlementCore

/// Limits of what commands say.
package enum CommandLimits {
    /// The longest id of the store's, in bytes; the payloads are read with the same.
    package static let storeID = 512
    /// The longest bundle id, in bytes.
    package static let bundleID = 255
    /// The longest reason, in bytes.
    package static let reason = 1000
    /// The longest name of whoever orders something, in bytes.
    package static let actor = 255
    /// The longest id of a grant, in bytes.
    package static let grantID = 100
}

/// Whose identity, or which customer, becomes the addressed customer's: the body of `…/actions/link`.
package struct LinkRequest: AlternativeBody {
    package static let alternatives = [
        BodyAlternative("LinkToAccountToken", ["app_account_token", "reason"]),
        BodyAlternative("LinkToAppTransaction", ["app_transaction_id", "reason"]),
        BodyAlternative("LinkToCustomer", ["customer_id", "reason"]),
        BodyAlternative("LinkUndo", ["undo", "reason"]),
    ]

    package enum Target: Hashable, Sendable {
        /// By its default customer.
        case accountToken(CustomerID)
        /// By its default customer.
        case appTransaction(CustomerID)
        case customer(CustomerID)
        /// Takes back the link at this position.
        case undo(Int64)
    }

    package let target: Target
    /// Why; kept with the event.
    package let reason: String?
    package let environment: StoreEnvironment?

    package init(_ target: Target, reason: String? = nil, environment: StoreEnvironment? = nil) {
        self.target = target
        self.reason = reason
        self.environment = environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        var targets: [(key: CodingKeys, target: Target)] = []
        if let token = try members.customer(.accountToken) { targets.append((.accountToken, .accountToken(token))) }
        if let transaction = try members.appTransaction(.appTransaction) {
            targets.append((.appTransaction, .appTransaction(transaction)))
        }
        if let customer = try members.customer(.customer) { targets.append((.customer, .customer(customer))) }
        if let position = try members.position(.undo) { targets.append((.undo, .undo(position))) }
        guard let first = targets.first else {
            throw CommandBodyError(
                path: "", reason: "must have one of: app_account_token, app_transaction_id, customer_id, undo")
        }
        if let second = targets.dropFirst().first {
            throw members.refusal(second.key, "may not stand beside \(first.key.rawValue); send one alone")
        }
        target = first.target
        reason = try members.text(.reason, limit: CommandLimits.reason, hasLines: true)
        environment = try members.word(.environment, StoreEnvironment.self)
    }

    package func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        switch target {
        case .accountToken(let token): try members.encode(token.value, forKey: .accountToken)
        case .appTransaction(let transaction):
            try members.encode(transaction.appTransactionID, forKey: .appTransaction)
        case .customer(let customer): try members.encode(customer.value, forKey: .customer)
        case .undo(let position): try members.encode(position, forKey: .undo)
        }
        try members.encodeIfPresent(reason, forKey: .reason)
        try members.encodeIfPresent(environment, forKey: .environment)
    }

    private enum CodingKeys: String, CodingKey {
        case undo, reason, environment
        case accountToken = "app_account_token"
        case appTransaction = "app_transaction_id"
        case customer = "customer_id"
    }
}

/// Which original transaction goes to whom: the body of `…/actions/transfer`.
package struct TransferRequest: AlternativeBody {
    package static let alternatives = [
        BodyAlternative("TransferMove", ["original_transaction_id", "to", "reason"]),
        BodyAlternative("TransferUndo", ["undo", "reason"]),
    ]

    package enum Change: Hashable, Sendable {
        case move(originalTransactionID: String, to: CustomerID)
        /// Takes back the transfer at this position.
        case undo(Int64)
    }

    package let change: Change
    /// Whether to answer what would be, and record nothing.
    package let isDryRun: Bool
    /// Why; kept with the event.
    package let reason: String?
    package let environment: StoreEnvironment?

    package init(
        _ change: Change, isDryRun: Bool = false, reason: String? = nil, environment: StoreEnvironment? = nil
    ) {
        self.change = change
        self.isDryRun = isDryRun
        self.reason = reason
        self.environment = environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        let original = try members.text(.original, limit: CommandLimits.storeID)
        let receiver = try members.customer(.to)
        reason = try members.text(.reason, limit: CommandLimits.reason, hasLines: true)
        if let position = try members.position(.undo) {
            let others = [(CodingKeys.original, original != nil), (.to, receiver != nil)]
            for (key, isThere) in others where isThere {
                throw members.refusal(key, "may not stand beside undo; send one alone")
            }
            change = .undo(position)
        } else {
            guard original != nil || receiver != nil else {
                throw CommandBodyError(path: "", reason: "must have original_transaction_id and to, or undo")
            }
            change = .move(
                originalTransactionID: try members.required(.original, original),
                to: try members.required(.to, receiver))
        }
        isDryRun = try members.value(.dryRun, Bool.self, "true or false") ?? false
        environment = try members.word(.environment, StoreEnvironment.self)
    }

    package func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        switch change {
        case .move(let original, let receiver):
            try members.encode(original, forKey: .original)
            try members.encode(receiver.value, forKey: .to)
        case .undo(let position): try members.encode(position, forKey: .undo)
        }
        if isDryRun { try members.encode(true, forKey: .dryRun) }
        try members.encodeIfPresent(reason, forKey: .reason)
        try members.encodeIfPresent(environment, forKey: .environment)
    }

    private enum CodingKeys: String, CodingKey {
        case to, undo, reason, environment
        case original = "original_transaction_id"
        case dryRun = "dry_run"
    }
}

/// An entitlement given without a purchase: the body of `…/actions/grant`.
package struct GrantRequest: CommandBody {
    package let entitlement: String
    /// `nil` for a grant without end.
    package let until: Timestamp?
    package let reason: String
    package let environment: StoreEnvironment?
    /// What the body has beside that, and is ignored, such as a mistyped `until`: without one, a grant has no end.
    package private(set) var unknownMembers: [String] = []

    package init(entitlement: String, until: Timestamp?, reason: String, environment: StoreEnvironment? = nil) {
        self.entitlement = entitlement
        self.until = until
        self.reason = reason
        self.environment = environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        entitlement = try members.required(
            .entitlement, members.text(.entitlement, limit: CatalogDocument.entitlementIDLimit))
        until = try members.timestamp(.until)
        reason = try members.required(
            .reason, members.text(.reason, limit: CommandLimits.reason, hasLines: true))
        environment = try members.word(.environment, StoreEnvironment.self)
        unknownMembers = try decoder.members(besides: CodingKeys.allCases)
    }

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case entitlement, until, reason, environment
    }
}

/// A grant taken back: the body of `…/actions/revoke_grant`.
package struct RevokeGrantRequest: CommandBody {
    package let grantID: String
    package let reason: String
    package let environment: StoreEnvironment?

    package init(grantID: String, reason: String, environment: StoreEnvironment? = nil) {
        self.grantID = grantID
        self.reason = reason
        self.environment = environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        grantID = try members.required(.grantID, members.text(.grantID, limit: CommandLimits.grantID))
        reason = try members.required(
            .reason, members.text(.reason, limit: CommandLimits.reason, hasLines: true))
        environment = try members.word(.environment, StoreEnvironment.self)
    }

    private enum CodingKeys: String, CodingKey {
        case reason, environment
        case grantID = "grant_id"
    }
}
