package import EntitlementCore

/// What a pass states: the claims of a signed token (RFC 7519) that anybody verifies without asking the service.
///
/// It never outlives what it states: it expires with the first of its entitlements that ends, and after its `ttl` at the
/// latest. What was true when it was issued may be withdrawn meanwhile (a refund, a transfer); so the `ttl` is how long
/// a verifier believes what the ledger may already know better.
package struct PassDocument: Codable, Hashable, Sendable {
    /// An entitlement that gives access.
    package struct Entitlement: Codable, Hashable, Sendable {
        package let id: String
        /// As it was at the time of issue; it may turn into another that gives access too.
        package let state: EntitlementState
        /// When access ends; `nil`: without end, as far as known.
        @Nullable package private(set) var until: Timestamp?
        /// `nil` for a grant.
        @Nullable package private(set) var productID: String?
        package let source: EntitlementOrigin

        private enum CodingKeys: String, CodingKey {
            case id, state, until, source
            case productID = "product_id"
        }
    }

    /// The issuer of every pass.
    package static let issuer = "rightful"
    /// How long a pass may live, in seconds, whatever it states.
    package static let ttlRange: ClosedRange<Int64> = 60...2_592_000
    /// A day.
    package static let defaultTTL = Duration.seconds(86_400)

    package let issuer: String
    package let customerID: String
    /// The bundle id of the app it was issued to.
    package let audience: String
    package let environment: StoreEnvironment
    /// Only what gives access, in the order of their ids.
    ///
    /// None at all is legitimate: then that is what the pass states.
    package let entitlements: [Entitlement]
    /// The position it rests on.
    package let position: Int64
    package let foldVersion: Int
    /// Whole seconds since 1970.
    package let issuedAt: Int64
    /// Whole seconds since 1970; from this second on the pass states nothing.
    package let expiresAt: Int64

    /// Takes what gives access at `now`.
    ///
    /// - Parameters:
    ///   - audience: the bundle id of the app it is issued to.
    ///   - answers: what the customer holds, read at `now`.
    ///   - position: the one the answers rest on.
    ///   - ttl: how long the pass may live; cut to whole seconds and the upper end of `ttlRange`.
    package init(
        customer: CustomerID, audience: String, environment: StoreEnvironment, answers: [EntitlementAnswer],
        position: Int64, now: Timestamp, ttl: Duration
    ) {
        let issuedAt = now.wholeSeconds
        // A pass counts in whole seconds: what ends within the present one could only be stated for too long.
        let stated = answers.filter { $0.givesAccess && ($0.until.map { $0.wholeSeconds > issuedAt } ?? true) }
        let longest = issuedAt + max(0, min(ttl.components.seconds, Self.ttlRange.upperBound))
        issuer = Self.issuer
        customerID = customer.value
        self.audience = audience
        self.environment = environment
        entitlements = stated.map { answer in
            Entitlement(
                id: answer.entitlementID, state: answer.state, until: answer.until,
                productID: answer.reading.productID, source: answer.reading.source)
        }
        self.position = position
        foldVersion = OriginalState.foldVersion
        self.issuedAt = issuedAt
        expiresAt = stated.compactMap { $0.until?.wholeSeconds }.reduce(longest, min)
    }

    private enum CodingKeys: String, CodingKey {
        case environment, entitlements, position
        case issuer = "iss"
        case customerID = "sub"
        case audience = "aud"
        case foldVersion = "fold_version"
        case issuedAt = "iat"
        case expiresAt = "exp"
    }
}

/// The public keys that passes are verified with, as a JSON Web Key Set (RFC 7517).
package struct PassKeySetDocument: Codable, Hashable, Sendable {
    /// One key on P-256, for ES256 signatures.
    package struct Key: Codable, Hashable, Sendable {
        package let kty: String
        package let crv: String
        /// 32 bytes in base64url without padding, like `y`.
        package let x: String
        package let y: String
        /// What the header of a pass names its key by.
        package let kid: String
        package let alg: String
        package let use: String

        package init(keyID: String, x: String, y: String) {
            (kty, crv, alg, use) = ("EC", "P-256", "ES256", "sig")
            (kid, self.x, self.y) = (keyID, x, y)
        }
    }

    package let keys: [Key]

    package init(keys: [Key]) { self.keys = keys }
}

extension Timestamp {
    /// Seconds since 1970, rounded down.
    fileprivate var wholeSeconds: Int64 {
        let (quotient, remainder) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
