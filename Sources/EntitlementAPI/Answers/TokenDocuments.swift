package import EntitlementCore

/// What a customer's token is to be like: the body of `POST /v1/customers/{id}/tokens`, which may be left out.
package struct CustomerTokenRequestDocument: CommandBody {
    /// How long a token may live, in seconds.
    package static let lifetimes: ClosedRange<Int64> = 60...86_400
    /// How long it lives unless that is said, in seconds.
    package static let usualLifetime: Int64 = 3600

    /// In seconds; `nil`: the usual.
    package let expiresIn: Int64?
    /// `nil`: the credential's own, else production.
    package let environment: StoreEnvironment?

    package init(expiresIn: Int64? = nil, environment: StoreEnvironment? = nil) {
        self.expiresIn = expiresIn
        self.environment = environment
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        expiresIn = try members.wholeNumber(.expiresIn, in: Self.lifetimes, "a whole number of seconds")
        environment = try members.word(.environment, StoreEnvironment.self)
    }

    private enum CodingKeys: String, CodingKey {
        case environment
        case expiresIn = "expires_in"
    }
}

/// A token for a device: the answer of `POST /v1/customers/{id}/tokens`.
package struct CustomerTokenDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "customer_token"
    package private(set) var object = Self.objectName
    package let token: String
    package let customerID: String
    package let environment: StoreEnvironment
    package let expiresAt: Timestamp
    /// The UUID that this customer's purchases are to bear.
    package let accountToken: String

    package init(
        token: String, customerID: String, environment: StoreEnvironment, expiresAt: Timestamp, accountToken: String
    ) {
        self.token = token
        self.customerID = customerID
        self.environment = environment
        self.expiresAt = expiresAt
        self.accountToken = accountToken
    }

    private enum CodingKeys: String, CodingKey {
        case object, token, environment
        case customerID = "customer_id"
        case expiresAt = "expires_at"
        case accountToken = "app_account_token"
    }
}
