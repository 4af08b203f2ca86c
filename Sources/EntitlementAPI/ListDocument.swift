package import EntitlementCore

/// A page of something that is ordered.
package struct ListDocument<Item: Codable & Hashable & Sendable>: Codable, Hashable, Sendable, NamedDocument {
    package static var objectName: String { "list" }
    package private(set) var object = Self.objectName
    package let items: [Item]
    package let hasMore: Bool
    /// What to send as `after` for the next page; `null` where there are no pages.
    @Nullable package private(set) var nextAfter: Int64?

    package init(items: [Item], hasMore: Bool, nextAfter: Int64?) {
        self.items = items
        self.hasMore = hasMore
        _nextAfter = Nullable(wrappedValue: nextAfter)
    }

    private enum CodingKeys: String, CodingKey {
        case object, items
        case hasMore = "has_more"
        case nextAfter = "next_after"
    }
}

/// A customer, and the original transaction through which they were found.
package struct CustomerMatchDocument: Codable, Hashable, Sendable {
    package let customerID: String
    package let environment: StoreEnvironment
    package let originalTransactionID: String

    package init(customerID: String, environment: StoreEnvironment, originalTransactionID: String) {
        self.customerID = customerID
        self.environment = environment
        self.originalTransactionID = originalTransactionID
    }

    private enum CodingKeys: String, CodingKey {
        case environment
        case customerID = "customer_id"
        case originalTransactionID = "original_transaction_id"
    }
}

/// The end of the log: the answer of `GET /v1/ledger`.
package struct LedgerDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Projection: Codable, Hashable, Sendable {
        package let name: String
        package let checkpoint: Int64
        package let version: Int64

        package init(name: String, checkpoint: Int64, version: Int64) {
            self.name = name
            self.checkpoint = checkpoint
            self.version = version
        }
    }

    package static let objectName = "ledger"
    package private(set) var object = Self.objectName
    package let position: Int64
    package let hash: String
    package let foldVersion: Int
    /// The ledger's own id.
    package let ledgerID: String?
    package let projections: [Projection]

    package init(position: Int64, hash: String, ledgerID: String? = nil, projections: [Projection]) {
        self.ledgerID = ledgerID
        self.position = position
        self.hash = hash
        foldVersion = OriginalState.foldVersion
        self.projections = projections
    }

    private enum CodingKeys: String, CodingKey {
        case object, position, hash, projections
        case foldVersion = "fold_version"
        case ledgerID = "ledger_id"
    }
}

/// Where a notification stands: the answer to its sender.
package struct NotificationReceipt: Codable, Hashable, Sendable {
    package let position: Int64
    package let duplicate: Bool

    package init(position: Int64, isDuplicate: Bool) {
        self.position = position
        duplicate = isDuplicate
    }
}

/// What went wrong, as RFC 9457 says it.
package struct ProblemDocument: Codable, Hashable, Sendable {
    package let type: String
    package let title: String
    package let status: Int
    /// Never changes its meaning; what programs look at.
    package let code: String
    package let detail: String
    /// The parameter, header field or member that is at fault; left out where none is.
    package let param: String?
    /// Whether the same request may succeed later.
    package let retryable: Bool
    package let requestID: String

    package init(
        code: String, title: String, status: Int, detail: String, param: String?, isRetryable: Bool, requestID: String
    ) {
        type = "urn:rightful:problem:" + code
        self.title = title
        self.status = status
        self.code = code
        self.detail = detail
        self.param = param
        retryable = isRetryable
        self.requestID = requestID
    }

    private enum CodingKeys: String, CodingKey {
        case type, title, status, code, detail, param, retryable
        case requestID = "request_id"
    }
}
