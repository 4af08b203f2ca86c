package import EntitlementCore

/// What became of one posted transaction.
package struct TransactionResult: Codable, Hashable, Sendable {
    package enum Status: String, Codable, Hashable, Sendable, CaseIterable {
        /// It is an event now.
        case recorded
        /// The log held it before.
        case known
        /// It leaves no fact; `code` says why.
        case refused
        /// It is in the log, and not this customer's; `reason` says why.
        case conflict
    }

    /// `null` where it could not be read, or not be believed.
    @Nullable package private(set) var transactionID: String?
    package let status: Status
    /// A code as in ``ProblemDocument``; left out where all is well.
    package let code: String?
    /// Of a conflict: why it is somebody else's, as one of ``ConflictReason``'s words.
    package let reason: String?
    /// A sentence for people; left out where all is well.
    package let detail: String?

    package init(
        transactionID: String?, status: Status, code: String? = nil, reason: ConflictReason? = nil,
        detail: String? = nil
    ) {
        self.status = status
        self.code = code
        self.reason = reason?.rawValue
        self.detail = detail
        _transactionID = Nullable(wrappedValue: transactionID)
    }

    private enum CodingKeys: String, CodingKey {
        case status, code, reason, detail
        case transactionID = "transaction_id"
    }
}

/// What became of one posted piece of renewal information.
package struct RenewalResult: Codable, Hashable, Sendable {
    package enum Status: String, Codable, Hashable, Sendable, CaseIterable {
        /// It is an event now.
        case recorded
        /// The log held it before.
        case known
        /// It leaves no fact; `code` says why.
        case refused
    }

    /// `null` where it could not be read, or not be believed.
    @Nullable package private(set) var originalTransactionID: String?
    package let status: Status
    /// A code as in ``ProblemDocument``; left out where all is well.
    package let code: String?
    /// A sentence for people; left out where all is well.
    package let detail: String?

    package init(originalTransactionID: String?, status: Status, code: String? = nil, detail: String? = nil) {
        self.status = status
        self.code = code
        self.detail = detail
        _originalTransactionID = Nullable(wrappedValue: originalTransactionID)
    }

    private enum CodingKeys: String, CodingKey {
        case status, code, detail
        case originalTransactionID = "original_transaction_id"
    }
}

/// What became of the posted app transaction.
package struct AppTransactionResult: Codable, Hashable, Sendable {
    package enum Status: String, Codable, Hashable, Sendable, CaseIterable {
        case accepted
        /// It proves nothing; `code` says why.
        case refused
    }

    package let status: Status
    /// A code as in ``ProblemDocument``; left out where all is well.
    package let code: String?
    /// A sentence for people; left out where all is well.
    package let detail: String?

    package init(status: Status, code: String? = nil, detail: String? = nil) {
        self.status = status
        self.code = code
        self.detail = detail
    }
}

/// A claim that is not so: what the device holds of a product, and what the ledger does.
package struct DriftDocument: Codable, Hashable, Sendable {
    package let productID: String
    package let claimed: EntitlementState
    /// Left out where the device named no end.
    package let claimedUntil: Timestamp?
    /// `null` where the ledger knows of nothing.
    @Nullable package private(set) var actual: EntitlementState?
    /// Left out where it is without end, or the ledger knows of nothing.
    package let actualUntil: Timestamp?
    /// A sentence for people.
    package let explanation: String

    package init(
        productID: String, claimed: EntitlementState, claimedUntil: Timestamp?, actual: EntitlementState?,
        actualUntil: Timestamp?, explanation: String
    ) {
        self.productID = productID
        self.claimed = claimed
        self.claimedUntil = claimedUntil
        self.actualUntil = actualUntil
        self.explanation = explanation
        _actual = Nullable(wrappedValue: actual)
    }

    private enum CodingKeys: String, CodingKey {
        case claimed, actual, explanation
        case productID = "product_id"
        case claimedUntil = "claimed_until"
        case actualUntil = "actual_until"
    }
}
