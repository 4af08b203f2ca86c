/// How many requests a second somebody may send, and how many at once after a pause.
package struct RateLimit: Sendable, Hashable {
    package let perSecond: Int64
    package let burst: Int64

    /// The greatest of either.
    static let greatest: Int64 = 1_000_000_000

    /// Takes numbers from 1 to a thousand million.
    package init(perSecond: Int64, burst: Int64) {
        self.perSecond = min(max(perSecond, 1), Self.greatest)
        self.burst = min(max(burst, 1), Self.greatest)
    }
}

/// The limits of everybody who sends requests.
package struct RateLimits: Sendable, Hashable {
    /// Of a client address, for what is not sent with a secret key.
    package var address = RateLimit(perSecond: 50, burst: 1000)
    /// Of one secret key.
    package var secretKey = RateLimit(perSecond: 5000, burst: 20_000)
    /// Of one publishable key, which all devices of an app share.
    package var publishableKey = RateLimit(perSecond: 2000, burst: 20_000)

    package init() {}
}

extension RateLimits {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let members = try node.members(["address_per_second", "address_burst", "key_per_second", "key_burst"])
        func limit(_ subject: String, _ preset: RateLimit) throws(ConfigurationError) -> RateLimit {
            RateLimit(
                perSecond: try members["\(subject)_per_second"]?.rate() ?? preset.perSecond,
                burst: try members["\(subject)_burst"]?.rate() ?? preset.burst)
        }
        self.init()
        address = try limit("address", address)
        secretKey = try limit("key", secretKey)
        publishableKey = try limit("key", publishableKey)
    }

    /// As the log shows it.
    var summary: String {
        [("client address", address), ("secret key", secretKey), ("publishable key", publishableKey)]
            .map { "\($0) \($1.perSecond)/s, burst \($1.burst)" }.joined(separator: "; ")
    }
}

extension ConfigurationNode {
    fileprivate func rate() throws(ConfigurationError) -> Int64 {
        let number = try positiveInteger()
        guard number <= RateLimit.greatest else { throw error("must be at most \(RateLimit.greatest)") }
        return number
    }
}
