package import EntitlementCore

/// How a customer's entitlements read over time: the answer of `GET /v1/customers/{id}/timeline`.
package struct TimelineDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Entitlement: Codable, Hashable, Sendable {
        package let id: String
        /// Ordered, disjoint, and without gaps from the first `from`.
        package let intervals: [Interval]

        package init(_ timeline: EntitlementTimeline, policy: AccessPolicy) {
            id = timeline.entitlementID
            intervals = timeline.intervals.map { Interval($0, policy: policy) }
        }
    }

    package struct Interval: Codable, Hashable, Sendable {
        package let from: Timestamp
        @Nullable package private(set) var until: Timestamp?
        package let state: EntitlementState
        package let givesAccess: Bool
        @Nullable package private(set) var productID: String?
        package let source: EntitlementOrigin
        @Nullable package private(set) var originalTransactionID: String?
        package let positions: [Int64]

        package init(_ reading: Reading, policy: AccessPolicy) {
            from = reading.start
            state = reading.state
            givesAccess = policy.givesAccess(reading.state)
            source = reading.source
            positions = reading.positions
            _until = Nullable(wrappedValue: reading.end == .endless ? nil : reading.end)
            _productID = Nullable(wrappedValue: reading.productID)
            _originalTransactionID = Nullable(wrappedValue: reading.originalTransactionID)
        }

        private enum CodingKeys: String, CodingKey {
            case from, until, state, source, positions
            case givesAccess = "gives_access"
            case productID = "product_id"
            case originalTransactionID = "original_transaction_id"
        }
    }

    package static let objectName = "timeline"
    package private(set) var object = Self.objectName
    package let customerID: String
    package let environment: StoreEnvironment
    package let knownAt: Int64
    package let foldVersion: Int
    package let entitlements: [Entitlement]

    package init(
        customerID: String, environment: StoreEnvironment, knownAt: Int64, entitlements: [Entitlement]
    ) {
        self.customerID = customerID
        self.environment = environment
        self.knownAt = knownAt
        foldVersion = OriginalState.foldVersion
        self.entitlements = entitlements
    }

    private enum CodingKeys: String, CodingKey {
        case object, environment, entitlements
        case customerID = "customer_id"
        case knownAt = "known_at"
        case foldVersion = "fold_version"
    }
}
