package import EntitlementCore

/// Differences between device, ledger and store: the answer of `GET /v1/drift`.
package struct DriftListDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Item: Codable, Hashable, Sendable, NamedDocument {
        /// What somebody held, or believed to hold, of a product.
        package struct Holding: Codable, Hashable, Sendable {
            package let state: EntitlementState
            /// `null`: without end, or not said.
            @Nullable package private(set) var until: Timestamp?

            package init(_ state: EntitlementState, until: Timestamp?) {
                self.state = state
                _until = Nullable(wrappedValue: until)
            }
        }

        package struct Resolution: Codable, Hashable, Sendable {
            package let at: Timestamp
            /// Of the event that resolved it.
            package let position: Int64
            package let by: DriftEnd

            package init(at: Timestamp, position: Int64, by: DriftEnd) {
                self.at = at
                self.position = position
                self.by = by
            }
        }

        package static let objectName = "drift"
        package private(set) var object = Self.objectName
        /// Of the event that found it.
        package let position: Int64
        package let environment: StoreEnvironment
        package let between: DriftComparison
        package let `class`: DriftClass
        /// `null` for somebody who was forgotten, and where nobody is named.
        @Nullable package private(set) var customerID: String?
        @Nullable package private(set) var productID: String?
        @Nullable package private(set) var originalTransactionID: String?
        /// Left out where nothing tells it.
        package let app: String?
        package let foundAt: Timestamp
        /// What the device said; `null` where store and ledger were compared.
        @Nullable package private(set) var claimed: Holding?
        /// What the ledger knew then; `null` where that was nothing.
        @Nullable package private(set) var actual: Holding?
        package let explanation: String
        /// `null` while it is open.
        @Nullable package private(set) var resolved: Resolution?

        /// - Parameter report: what the device said, and what the ledger knew.
        package init(
            position: Int64, environment: StoreEnvironment, between: DriftComparison, cause: DriftCause,
            customerID: String?, productID: String?, originalTransactionID: String?, app: String?, foundAt: Timestamp,
            report: DriftFact?, resolved: Resolution?
        ) {
            self.position = position
            self.environment = environment
            self.between = between
            self.class = cause.driftClass
            self.app = app
            self.foundAt = foundAt
            explanation = cause.sentence
            _customerID = Nullable(wrappedValue: customerID)
            _productID = Nullable(wrappedValue: productID)
            _originalTransactionID = Nullable(wrappedValue: originalTransactionID)
            _claimed = Nullable(wrappedValue: report.map { Holding($0.claimed, until: $0.claimedUntil) })
            _actual = Nullable(
                wrappedValue: report.flatMap { report in
                    report.actual.map { Holding($0, until: report.actualUntil) }
                })
            _resolved = Nullable(wrappedValue: resolved)
        }

        private enum CodingKeys: String, CodingKey {
            case object, position, environment, between, `class`, app, claimed, actual, explanation, resolved
            case customerID = "customer_id"
            case productID = "product_id"
            case originalTransactionID = "original_transaction_id"
            case foundAt = "found_at"
        }
    }

    package static let objectName = "list"
    package private(set) var object = Self.objectName
    package let items: [Item]
    package let hasMore: Bool
    /// What to send as `after` for the next page.
    package let nextAfter: Int64
    /// How many of the environment are open and unexplained.
    package let unexplained: Int64
    /// Of these, how many were not compared, because more is known of the customer than is.
    package let notCompared: Int64
    /// Up to which event the log was gone through.
    package let readTo: Int64

    package init(
        items: [Item], hasMore: Bool, nextAfter: Int64, unexplained: Int64, notCompared: Int64, readTo: Int64
    ) {
        self.items = items
        self.hasMore = hasMore
        self.nextAfter = nextAfter
        self.unexplained = unexplained
        self.notCompared = notCompared
        self.readTo = readTo
    }

    private enum CodingKeys: String, CodingKey {
        case object, items, unexplained
        case hasMore = "has_more"
        case nextAfter = "next_after"
        case notCompared = "not_compared"
        case readTo = "read_to"
    }
}
