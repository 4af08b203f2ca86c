import EntitlementCore
import Ledger
import Synchronization

/// Refuses what comes faster than it may.
///
/// Each subject has a bucket of `burst` tokens that fills up at `perSecond`; a request takes one, and more for many
/// signatures. Memory is bounded: when there are too many buckets, the full ones go, which are as good as none, then those
/// that would be full soonest.
final class RateLimiter: Sendable {
    /// Whose requests are counted together.
    enum Subject: Sendable, Hashable {
        case address(ClientAddress)
        /// What an address sends as a secret key and is not known to be one; apart from its devices, so that they do not
        /// keep out a server that shares it.
        case secretKeyGuesses(ClientAddress)
        /// What verifying signatures from an address has cost in vain, a token for each check; apart from its requests, so
        /// that forgers do not keep out devices that share the address.
        case forgeries(ClientAddress)
        case secretKey(id: String)
        case publishableKey(id: String)
        /// What devices say again of an original transaction, a token for each byte that the log keeps of it.
        case repetitions(OriginalKey)
        /// Pages of Stripe's that a customer's devices have opened, without a secret key: one phone must not take the turns
        /// of a whole shop.
        case pages(CustomerID, StoreEnvironment)
    }

    /// What a page costs, in seconds: six can be opened at once, then three in a minute.
    static let secondsOfPage: Int64 = 20

    /// The most buckets kept.
    static let capacity = 100_000

    private let limits: RateLimits
    private let table: Mutex<BucketTable<Subject>>

    init(_ limits: RateLimits, capacity: Int = RateLimiter.capacity) {
        self.limits = limits
        table = Mutex(BucketTable(capacity: capacity))
    }

    /// Takes tokens; when there are too few, returns how long it will be until there are enough.
    func take(_ subject: Subject, _ count: Int64 = 1, at now: ContinuousClock.Instant) -> Duration? {
        let limit = limit(of: subject)
        return table.withLock { $0.take(subject, limit, min(count, limit.burst), at: now) }
    }

    /// Takes tokens for what has been done already, as many as that cost: where there are too few, the bucket is in debt,
    /// of a burst at most, and gives nothing until that is paid off.
    func charge(_ subject: Subject, _ count: Int64, at now: ContinuousClock.Instant) {
        guard count > 0 else { return }
        let limit = limit(of: subject)
        table.withLock { $0.charge(subject, limit, count, at: now) }
    }

    /// How many tokens there are, and how long it will be until there is one.
    func standing(of subject: Subject, at now: ContinuousClock.Instant) -> (tokens: Int64, wait: Duration) {
        let limit = limit(of: subject)
        return table.withLock { $0.standing(of: subject, limit, at: now) }
    }

    /// Puts a token back that was taken by mistake.
    func putBack(_ subject: Subject) {
        let limit = limit(of: subject)
        table.withLock { $0.putBack(subject, limit) }
    }

    private func limit(of subject: Subject) -> RateLimit {
        switch subject {
        case .address, .secretKeyGuesses, .forgeries: limits.address
        case .secretKey: limits.secretKey
        case .publishableKey: limits.publishableKey
        case .repetitions: limits.repetitions
        case .pages: limits.pages
        }
    }
}

/// A bucket of tokens, of which nothing is kept but the instant at which it will be full.
///
/// What is missing from it follows from that, because it fills up evenly (the generic cell rate algorithm).
struct TokenBucket: Sendable, Hashable {
    private(set) var fullAt: ContinuousClock.Instant

    /// A full one.
    init(at now: ContinuousClock.Instant) { fullAt = now }

    func isFull(at now: ContinuousClock.Instant) -> Bool { fullAt <= now }

    /// Takes tokens; when there are too few, returns how long it will be until there are enough.
    mutating func take(_ limit: RateLimit, _ count: Int64 = 1, at now: ContinuousClock.Instant) -> Duration? {
        let after = max(fullAt, now) + limit.interval * count
        let wait = now.duration(to: after) - limit.interval * limit.burst
        guard wait <= .zero else { return wait }
        fullAt = after
        return nil
    }

    /// Takes tokens, whether or not there are so many, up to a debt of a burst.
    mutating func charge(_ limit: RateLimit, _ count: Int64, at now: ContinuousClock.Instant) {
        let most = 2 * limit.burst
        fullAt = min(max(fullAt, now) + limit.interval * min(count, most), now + limit.interval * most)
    }

    /// How many tokens there are, and how long it will be until there is one.
    func standing(_ limit: RateLimit, at now: ContinuousClock.Instant) -> (tokens: Int64, wait: Duration) {
        let full = limit.interval * limit.burst
        let missing = max(.zero, now.duration(to: fullAt))
        return (Int64((full - missing) / limit.interval), max(.zero, missing + limit.interval - full))
    }

    mutating func putBack(_ limit: RateLimit) { fullAt -= limit.interval }
}

/// Buckets by their owners, never more than a fixed number.
struct BucketTable<Owner: Hashable & Sendable>: Sendable {
    private(set) var buckets: [Owner: TokenBucket] = [:]
    private let capacity: Int
    /// The latest instant at which somebody took something.
    private var latest: ContinuousClock.Instant?

    init(capacity: Int) { self.capacity = capacity }

    mutating func take(
        _ owner: Owner, _ limit: RateLimit, _ count: Int64 = 1, at now: ContinuousClock.Instant
    ) -> Duration? {
        let now = advance(to: now, for: owner)
        return buckets[owner, default: TokenBucket(at: now)].take(limit, count, at: now)
    }

    mutating func charge(_ owner: Owner, _ limit: RateLimit, _ count: Int64, at now: ContinuousClock.Instant) {
        let now = advance(to: now, for: owner)
        buckets[owner, default: TokenBucket(at: now)].charge(limit, count, at: now)
    }

    func standing(
        of owner: Owner, _ limit: RateLimit, at now: ContinuousClock.Instant
    ) -> (tokens: Int64, wait: Duration) {
        let now = max(now, latest ?? now)
        return (buckets[owner] ?? TokenBucket(at: now)).standing(limit, at: now)
    }

    /// The present, and room for whoever takes something at it.
    ///
    /// Under load a request may be looked at seconds after it arrived, and after others that arrived later: by its own
    /// clock the bucket would not have filled up since they took from it.
    private mutating func advance(to now: ContinuousClock.Instant, for owner: Owner) -> ContinuousClock.Instant {
        let now = max(now, latest ?? now)
        latest = now
        if buckets[owner] == nil, buckets.count >= capacity { makeRoom(at: now) }
        return now
    }

    mutating func putBack(_ owner: Owner, _ limit: RateLimit) { buckets[owner]?.putBack(limit) }

    /// A quarter at least, because looking at all of them takes a while.
    private mutating func makeRoom(at now: ContinuousClock.Instant) {
        buckets = buckets.filter { !$0.value.isFull(at: now) }
        let kept = capacity * 3 / 4
        guard buckets.count > kept else { return }
        let latest = buckets.sorted { $0.value.fullAt > $1.value.fullAt }.prefix(kept)
        buckets = Dictionary(uniqueKeysWithValues: latest.map { ($0.key, $0.value) })
    }
}

extension RateLimit {
    /// Between two requests at the full rate.
    fileprivate var interval: Duration { .seconds(1) / perSecond }
}
