package import EntitlementCore

/// That a customer's answer has become another: the data of a webhook `entitlements.changed`.
package struct EntitlementsChangeDocument: Codable, Hashable, Sendable {
    /// Why it has.
    package struct Cause: Codable, Hashable, Sendable {
        package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            case event
            case catalog
            /// Nothing was recorded: something began or ran out.
            case time
        }

        package let kind: Kind
        package let positions: [Int64]
        /// Of time alone.
        package let at: Timestamp?

        package init(kind: Kind, positions: [Int64], at: Timestamp?) {
            self.kind = kind
            self.positions = positions
            self.at = at
        }
    }

    package let customerID: String
    /// The id of the endpoint, whose sequence it is.
    package let endpoint: String
    package let environment: StoreEnvironment
    /// 1, 2, 3… for each customer, environment and endpoint.
    package let sequence: Int64
    /// The position that `after` rests on.
    package let position: Int64
    package let cause: Cause
    /// As in ``EntitlementsDocument``.
    package let before: [EntitlementDocument]
    /// As in ``EntitlementsDocument``.
    package let after: [EntitlementDocument]
    /// Whether it is the last that is told of the customer, who was forgotten; left out where it is not.
    package let forgotten: Bool?

    private enum CodingKeys: String, CodingKey {
        case endpoint, environment, sequence, position, cause, before, after, forgotten
        case customerID = "customer_id"
    }
}

/// That somebody claims what is somebody else's: the data of a webhook `ownership.conflict`.
package struct ConflictDocument: Codable, Hashable, Sendable {
    package let position: Int64
    package let environment: StoreEnvironment?
    /// Who claims it; left out where they were forgotten.
    package let customerID: String?
    package let originalTransactionID: String?

    package init(_ event: EventDocument, claimant: String?) {
        position = event.position
        environment = event.environment
        customerID = claimant
        originalTransactionID = event.originalTransactionID
    }

    private enum CodingKeys: String, CodingKey {
        case position, environment
        case customerID = "customer_id"
        case originalTransactionID = "original_transaction_id"
    }
}

/// Something to try an endpoint with: the data of a webhook `test`.
package struct EndpointTestDocument: Codable, Hashable, Sendable {
    /// The id of the endpoint.
    package let endpoint: String

    package init(endpoint: String) { self.endpoint = endpoint }
}
