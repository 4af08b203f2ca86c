/// How many requests a second somebody may send, and how many at once after a pause.
package struct RateLimit: Sendable, Hashable {
    package let perSecond: Int64
    package let burst: Int64

    /// The greatest of either.
    package static let greatest: Int64 = 1_000_000_000

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
    /// Of one secret key: about what the fastest route reaches, since such a key is held by the operator's own servers.
    package var secretKey = RateLimit(perSecond: 100_000, burst: 200_000)
    /// Of one publishable key, which all devices of an app share.
    package var publishableKey = RateLimit(perSecond: 2000, burst: 20_000)

    /// Bytes of what devices say again of one original transaction: about 250 KiB a day.
    package var repetitions = RateLimit(perSecond: 3, burst: 1 << 18)

    /// Seconds of what a customer's devices ask Stripe for: see `RateLimiter.secondsOfPage`.
    package var pages = RateLimit(perSecond: 1, burst: 120)

    package init() {}
}
