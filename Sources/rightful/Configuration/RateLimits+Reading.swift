import Service

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
