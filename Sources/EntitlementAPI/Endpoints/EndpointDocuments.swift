package import EntitlementCore

/// Limits of what is said of endpoints.
package enum EndpointLimits {
    /// The longest address, in bytes.
    package static let url = 2048
    /// The longest description, in bytes.
    package static let description = 500
    /// The longest `Authorization`, in bytes.
    package static let authorization = 1024
    /// The longest for which an old secret may go on signing, in seconds.
    package static let keepOldSeconds: Int64 = 604_800
    /// How many types of messages one list may name.
    static let types = 2 * MessageType.allCases.count
}

/// An endpoint of webhooks that is to be made: the body of `POST /v1/webhook_endpoints`.
package struct EndpointRequest: CommandBody {
    package let url: String
    /// The types of messages; `nil` or none: all.
    package let types: [String]?
    /// `nil`: both.
    package let environment: StoreEnvironment?
    /// The bundle id of the only app that it is told of; `nil`: every app.
    package let app: String?
    /// `standard`, which is also meant by `nil`, or `revenuecat`.
    package let format: String?
    package let description: String?
    /// What is sent as `Authorization`; for `revenuecat` alone.
    package let authorizationHeader: String?
    /// What the body has beside that, and is ignored, such as a mistyped `environment`.
    package private(set) var unknownMembers: [String] = []

    package init(
        url: String, types: [String]? = nil, environment: StoreEnvironment? = nil, app: String? = nil,
        format: String? = nil, description: String? = nil, authorizationHeader: String? = nil
    ) {
        (self.url, self.types, self.environment, self.app) = (url, types, environment, app)
        (self.format, self.description, self.authorizationHeader) = (format, description, authorizationHeader)
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        url = try members.required(.url, members.text(.url, limit: EndpointLimits.url))
        types = try members.list(.types, of: String.self, "a type of message", limit: EndpointLimits.types)
        environment = try members.word(.environment, StoreEnvironment.self)
        app = try members.text(.app, limit: CommandLimits.bundleID)
        format = try members.text(.format, limit: 50)
        authorizationHeader = try members.text(.authorizationHeader, limit: EndpointLimits.authorization)
        description = try members.text(.description, limit: EndpointLimits.description, hasLines: true)
        unknownMembers = try decoder.members(besides: CodingKeys.allCases)
    }

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case url, types, environment, app, format, description
        case authorizationHeader = "authorization_header"
    }
}

/// An endpoint of webhooks.
package struct EndpointDocument: Codable, Hashable, Sendable, NamedDocument {
    package enum Status: String, Codable, Sendable, CaseIterable {
        case active
        case paused
    }

    /// How an endpoint fares.
    package enum Health: String, Codable, Sendable, CaseIterable {
        /// It took the last that was sent, or was sent nothing yet.
        case ok
        case failing
        /// Nothing is sent.
        case paused
    }

    package static let objectName = "webhook_endpoint"
    package private(set) var object = Self.objectName
    package let id: String
    /// `null` where the database has lost it; then nothing is sent.
    @Nullable package private(set) var url: String?
    /// Of messages; empty: all.
    package let types: [String]
    /// `null`: both.
    @Nullable package private(set) var environment: StoreEnvironment?
    /// `null`: every app.
    @Nullable package private(set) var app: String?
    package let format: String
    /// Whether an `Authorization` is sent along, which is never told.
    package let hasAuthorizationHeader: Bool
    @Nullable package private(set) var description: String?
    package let status: Status
    package let health: Health
    /// `ordered`, `unreachable` where it took nothing for three days, or `gone` where it answered that (410).
    @Nullable package private(set) var pausedBecause: String?
    /// Since when it took nothing; `null` where it took the last that was sent.
    @Nullable package private(set) var failingSince: Timestamp?
    /// Until when nothing is sent, because it asked for that; `null` where something is.
    @Nullable package private(set) var heldUntil: Timestamp?
    /// How many deliveries wait, and how many were given up.
    package let waiting: Int64
    package let failed: Int64
    package let createdAt: Timestamp
    /// The event that made it.
    package let position: Int64
    /// Told when it is made or rotated, and never again.
    package private(set) var secret: String?
    /// What somebody may want to look at who made or changed it.
    package let remarks: [String]?

    package init(
        _ endpoint: Endpoint, url: String?, failingSince: Timestamp?, heldUntil: Timestamp?, waiting: Int64,
        failed: Int64, secret: String? = nil, remarks: [String] = []
    ) {
        let terms = endpoint.terms
        id = endpoint.id
        types = terms.types
        format = terms.format
        hasAuthorizationHeader = terms.authorizationHash != nil
        status = endpoint.pause == nil ? .active : .paused
        health = endpoint.pause != nil ? .paused : failingSince == nil ? .ok : .failing
        self.waiting = waiting
        self.failed = failed
        createdAt = endpoint.createdAt
        position = endpoint.position
        self.secret = secret
        self.remarks = remarks.isEmpty ? nil : remarks
        _heldUntil = Nullable(wrappedValue: heldUntil)
        _url = Nullable(wrappedValue: url)
        _environment = Nullable(wrappedValue: terms.environment)
        _app = Nullable(wrappedValue: terms.bundleID)
        _description = Nullable(wrappedValue: terms.description)
        _failingSince = Nullable(wrappedValue: failingSince)
        _pausedBecause = Nullable(
            wrappedValue: endpoint.pause.map { pause in
                switch pause {
                case .ordered: "ordered"
                case .unreachable: "unreachable"
                case .gone: "gone"
                }
            })
    }

    /// The same with the address and the secret that are given.
    package func telling(url: String?, secret: String?) -> EndpointDocument {
        var document = self
        (document.url, document.secret) = (url, secret)
        return document
    }

    private enum CodingKeys: String, CodingKey {
        case object, id, url, types, environment, app, format, description, status, health, waiting, failed, position
        case secret, remarks
        case hasAuthorizationHeader = "has_authorization_header"
        case pausedBecause = "paused_because"
        case failingSince = "failing_since"
        case heldUntil = "held_until"
        case createdAt = "created_at"
    }
}

/// An endpoint that is told nothing any more.
package struct EndpointRemovalDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "webhook_endpoint"
    package private(set) var object = Self.objectName
    package let id: String
    package private(set) var deleted = true
    package let position: Int64

    package init(id: String, position: Int64) { (self.id, self.position) = (id, position) }
}

/// How much is sent again.
package struct RedeliveryDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "redelivery"
    package private(set) var object = Self.objectName
    package let endpoint: String
    package let deliveries: Int
    /// Whether there is more than is taken at once.
    package let hasMore: Bool
    /// What to send as `after` for the rest; `null` where nothing is left.
    @Nullable package private(set) var nextAfter: Int64?

    package init(endpoint: String, deliveries: Int, nextAfter: Int64?) {
        (self.endpoint, self.deliveries, hasMore) = (endpoint, deliveries, nextAfter != nil)
        _nextAfter = Nullable(wrappedValue: nextAfter)
    }

    private enum CodingKeys: String, CodingKey {
        case object, endpoint, deliveries
        case hasMore = "has_more"
        case nextAfter = "next_after"
    }
}

/// One message to one endpoint, and what came of it.
package struct DeliveryDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "webhook_delivery"
    package private(set) var object = Self.objectName
    /// The `webhook-id` it is sent with; `null` once the customer was forgotten.
    @Nullable package private(set) var id: String?
    /// What `after` takes to go on behind it.
    package let number: Int64
    /// `waiting`, `delivered`, `failed` (given up), or `withdrawn`: the customer was forgotten.
    package let state: String
    @Nullable package private(set) var type: String?
    @Nullable package private(set) var position: Int64?
    @Nullable package private(set) var at: Timestamp?
    @Nullable package private(set) var environment: StoreEnvironment?
    @Nullable package private(set) var customerID: String?
    @Nullable package private(set) var sequence: Int64?
    package let attempts: Int64
    @Nullable package private(set) var firstAttemptAt: Timestamp?
    @Nullable package private(set) var lastAttemptAt: Timestamp?
    /// `null` where none is to be, another message of the same customer comes first, or the endpoint is paused.
    @Nullable package private(set) var nextAttemptAt: Timestamp?
    /// The HTTP status of the last answer.
    @Nullable package private(set) var status: Int64?
    /// Why the last attempt failed.
    @Nullable package private(set) var failure: String?

    package struct Attempts: Sendable {
        package let count: Int64
        package let firstAt: Timestamp?
        package let lastAt: Timestamp?
        package let nextAt: Timestamp?
        package let status: Int64?
        package let failure: String?

        package init(
            count: Int64, firstAt: Timestamp?, lastAt: Timestamp?, nextAt: Timestamp?, status: Int64?, failure: String?
        ) {
            (self.count, self.firstAt, self.lastAt, self.nextAt) = (count, firstAt, lastAt, nextAt)
            (self.status, self.failure) = (status, failure)
        }
    }

    package init(
        id: String?, number: Int64, state: String, type: String?, position: Int64?, at: Timestamp?,
        environment: StoreEnvironment?, customerID: String?, sequence: Int64?, attempts: Attempts
    ) {
        (self.number, self.state) = (number, state)
        _id = Nullable(wrappedValue: id)
        self.attempts = attempts.count
        _type = Nullable(wrappedValue: type)
        _position = Nullable(wrappedValue: position)
        _at = Nullable(wrappedValue: at)
        _environment = Nullable(wrappedValue: environment)
        _customerID = Nullable(wrappedValue: customerID)
        _sequence = Nullable(wrappedValue: sequence)
        _firstAttemptAt = Nullable(wrappedValue: attempts.firstAt)
        _lastAttemptAt = Nullable(wrappedValue: attempts.lastAt)
        _nextAttemptAt = Nullable(wrappedValue: attempts.nextAt)
        _status = Nullable(wrappedValue: attempts.status)
        _failure = Nullable(wrappedValue: attempts.failure)
    }

    private enum CodingKeys: String, CodingKey {
        case object, id, number, state, type, position, at, environment, sequence, attempts, status, failure
        case customerID = "customer_id"
        case firstAttemptAt = "first_attempt_at"
        case lastAttemptAt = "last_attempt_at"
        case nextAttemptAt = "next_attempt_at"
    }
}
