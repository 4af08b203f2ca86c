import EntitlementAPI
public import Foundation

/// What proves to the server who the customer is; your own server obtains it (`POST /v1/customers/{id}/tokens`).
public struct CustomerToken: Sendable, Hashable {
    /// As the server made it.
    public let value: String
    /// Until when it is good; `nil`: until it is refused.
    public let expiresAt: Date?
    /// What the customer's purchases are signed with; `nil`: their id, where that is a UUID.
    public let appAccountToken: UUID?

    /// Puts one together from its parts.
    public init(_ value: String, expiresAt: Date? = nil, appAccountToken: UUID? = nil) {
        self.value = value
        self.expiresAt = expiresAt
        self.appAccountToken = appAccountToken
    }
}

extension CustomerToken: Decodable {
    /// Reads the server's answer, as your own server may hand it on.
    public init(from decoder: any Decoder) throws {
        let answer = try WireValue(from: decoder)
        guard let value = answer["token"]?.text else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "there is no token in it"))
        }
        self.init(
            value, expiresAt: answer["expires_at"]?.instant?.date,
            appAccountToken: answer["app_account_token"]?.text.flatMap { UUID(uuidString: $0) })
    }
}

/// Whose token is needed, and for which environment.
public struct CustomerTokenRequest: Sendable, Hashable {
    /// Whom the app said the customer is.
    public let customerID: String
    /// The store's environment the app runs in, as the server knows it (`production` or `sandbox`), for `environment` of
    /// `POST /v1/customers/{id}/tokens`; `nil` while it is not known.
    public let environment: String?

    /// Puts one together from its parts.
    public init(customerID: String, environment: String?) {
        self.customerID = customerID
        self.environment = environment
    }
}

/// The present customer's token, and how it is come by.
struct TokenState: Identifiable {
    /// How long the app is not asked again after it had no token that the server takes, in milliseconds; the last one from then on.
    static let delays: [Int64] = [30_000, 300_000, 3_600_000]
    /// How many new tokens in a row may be refused before it is waited.
    static let rejectionLimit = 2

    /// Another one at each login.
    let id = UUID()
    private(set) var current: CustomerToken?
    /// The app is being asked.
    var fetch: Task<CustomerToken?, Never>?
    private var rejections = 0
    private var failures = 0
    /// The app is not asked before this, in milliseconds of uptime.
    private(set) var notBefore: Int64 = 0

    init(_ token: CustomerToken? = nil) { current = token }

    /// The app had one, or not.
    ///
    /// - Parameter isGood: whether the present one may be used further where it had none.
    mutating func fetched(_ token: CustomerToken?, keepingCurrent isGood: Bool, uptime: Int64) {
        fetch = nil
        if token != nil || !isGood { current = token }
        if token == nil { wait(uptime: uptime) }
    }

    /// Whether neither app nor server said no since the last token that was taken.
    var isUntroubled: Bool { rejections == 0 && failures == 0 }

    /// The server took it.
    mutating func accepted(_ value: String) { if value == current?.value { (rejections, failures) = (0, 0) } }

    /// The server did not take it; returns whether the app may be asked for another one at once.
    mutating func rejected(uptime: Int64) -> Bool {
        current = nil
        rejections += 1
        guard rejections > Self.rejectionLimit else { return true }
        rejections = 0
        wait(uptime: uptime)
        return false
    }

    private mutating func wait(uptime: Int64) {
        notBefore = uptime + Self.delays[min(failures, Self.delays.count - 1)]
        failures += 1
    }

    /// The app came to the front, or the network returned: what failed may succeed now.
    mutating func wake() { notBefore = 0 }
}
