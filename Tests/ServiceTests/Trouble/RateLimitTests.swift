import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Service

@Suite("Rate limits", .serialized, .timeLimit(.minutes(5)))
struct RateLimitTests {
    private static let start = ContinuousClock.now
    private static let limit = RateLimit(perSecond: 4, burst: 3)

    @Test("a bucket gives its burst at once, then as much as flows in, and says how long to wait")
    func bucket() {
        var bucket = TokenBucket(at: Self.start)
        for _ in 0..<3 { #expect(bucket.take(Self.limit, at: Self.start) == nil) }
        #expect(bucket.take(Self.limit, at: Self.start) == .milliseconds(250))
        #expect(bucket.take(Self.limit, at: Self.start + .milliseconds(200)) == .milliseconds(50))
        #expect(bucket.take(Self.limit, at: Self.start + .milliseconds(250)) == nil)
        #expect(bucket.take(Self.limit, at: Self.start + .milliseconds(499)) == .milliseconds(1))
        let later = Self.start + .seconds(3600)
        #expect(bucket.isFull(at: later))
        for _ in 0..<3 { #expect(bucket.take(Self.limit, at: later) == nil) }
        #expect(bucket.take(Self.limit, at: later) != nil, "a pause fills it up to the burst and no further")
        #expect(bucket.take(Self.limit, at: Self.start) != nil, "an earlier instant gives nothing")
        bucket.putBack(Self.limit)
        #expect(bucket.take(Self.limit, at: later) == nil)
    }

    @Test("many tokens at once take as many as there are, and wait for the rest")
    func severalTokens() {
        var bucket = TokenBucket(at: Self.start)
        #expect(bucket.take(Self.limit, 2, at: Self.start) == nil)
        #expect(bucket.take(Self.limit, 2, at: Self.start) == .milliseconds(250), "one is left, two are wanted")
        #expect(bucket.take(Self.limit, at: Self.start) == nil)
        let limiter = RateLimiter(RateLimits())
        let key = RateLimiter.Subject.publishableKey(id: "k")
        #expect(
            limiter.take(key, .max, at: Self.start) == nil,
            "more than a burst counts as a burst, or it could never pass")
        #expect(limiter.take(key, at: Self.start) != nil)
    }

    @Test("what was done already is charged in full, up to a debt of a burst")
    func debt() {
        var bucket = TokenBucket(at: Self.start)
        #expect(bucket.standing(Self.limit, at: Self.start) == (3, .zero))
        bucket.charge(Self.limit, 2, at: Self.start)
        #expect(bucket.standing(Self.limit, at: Self.start) == (1, .zero))
        bucket.charge(Self.limit, 3, at: Self.start)
        #expect(bucket.standing(Self.limit, at: Self.start) == (-2, .milliseconds(750)))
        for _ in 0..<100 { bucket.charge(Self.limit, 1000, at: Self.start) }
        #expect(bucket.standing(Self.limit, at: Self.start) == (-3, .seconds(1)))
        #expect(bucket.standing(Self.limit, at: Self.start + .seconds(1)) == (1, .zero))
        #expect(bucket.take(Self.limit, at: Self.start + .seconds(1)) == nil)
        #expect(bucket.take(Self.limit, at: Self.start + .seconds(1)) == .milliseconds(250))
    }

    @Test("a request that arrived earlier but is counted later is not refused because of those in between")
    func lateLook() {
        var limits = RateLimits()
        limits.secretKey = RateLimit(perSecond: 10, burst: 20)
        let limiter = RateLimiter(limits)
        let key = RateLimiter.Subject.secretKey(id: "k")
        #expect(limiter.take(key, at: Self.start + .seconds(5)) == nil)
        #expect(limiter.take(key, at: Self.start) == nil, "it waited five seconds for its turn")
        for _ in 0..<18 { #expect(limiter.take(key, at: Self.start) == nil) }
        #expect(limiter.take(key, at: Self.start) == .milliseconds(100), "the limit itself stands")
    }

    @Test("signatures count: what a device posts in bulk costs its address as much as many requests")
    func signatures() async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 1, burst: 10)
        let rig = try await ServiceRig.make(limits: limits)
        let key = try await rig.publishableKey()
        func post(_ count: Int, key: String) async throws -> String {
            let list = Array(repeating: #""x""#, count: count).joined(separator: ",")
            return try await rig.send(
                "POST", "/v1/customers/c/reconcile", key: key,
                body: Array(#"{"app":"\#(ServiceRig.bundleID)","signed_transactions":[\#(list)]}"#.utf8)
            ).verdict
        }
        #expect(try await post(24, key: key) == "200 -", "costs one")
        #expect(try await post(175, key: key) == "200 -", "costs eight")
        #expect(try await post(50, key: key) == "429 rate_limited")
        #expect(try await post(500, key: rig.admin) == "200 -", "a server's own key is not held to that")
    }

    @Test("over any stretch of time no more passes than burst and flow allow, and no less", arguments: 1...20)
    func flow(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let limit = RateLimit(perSecond: Int64(1 + random.next() % 50), burst: Int64(random.next() % 20 + 1))
        var bucket = TokenBucket(at: Self.start)
        var (now, passed) = (Duration.zero, Int64(0))
        for _ in 0..<5000 {
            now += .microseconds(random.next() % 40_000)
            if bucket.take(limit, at: Self.start + now) == nil { passed += 1 }
            let most = Double(limit.burst) + now / .seconds(1) * Double(limit.perSecond)
            #expect(Double(passed) <= most + 0.001, "seed \(seed)")
        }
    }

    @Test("the table keeps its size, lets everybody new pass, and forgets the fullest first")
    func boundedTable() {
        var table = BucketTable<Int>(capacity: 8)
        for _ in 0..<3 { _ = table.take(-1, Self.limit, at: Self.start) }
        for _ in 0..<2 { _ = table.take(-2, Self.limit, at: Self.start) }
        for owner in 0..<1000 {
            #expect(table.take(owner, Self.limit, at: Self.start) == nil)
            #expect(table.buckets.count <= 8)
        }
        #expect(table.take(-1, Self.limit, at: Self.start) != nil, "who is over the limit is not forgotten")
        #expect(table.take(-2, Self.limit, at: Self.start) == nil)
        #expect(table.take(-2, Self.limit, at: Self.start) != nil)
        let full = Self.start + .seconds(1)
        _ = table.take(2000, Self.limit, at: full)
        for owner in 2001..<2008 { _ = table.take(owner, Self.limit, at: full) }
        #expect(table.buckets.count <= 8 && table.buckets[-1] == nil, "by then its bucket was full again")
    }

    // MARK: - Through the service

    private static func rig(
        address: Int64 = 1_000_000, key: Int64 = 1_000_000, publishable: Int64 = 1_000_000,
        keyLifetime: Duration = .seconds(5)
    ) async throws -> ServiceRig {
        var limits = Application.Limits()
        limits.keyLifetime = keyLifetime
        limits.rates.address = RateLimit(perSecond: 1, burst: address)
        limits.rates.secretKey = RateLimit(perSecond: 1, burst: key)
        limits.rates.publishableKey = RateLimit(perSecond: 1, burst: publishable)
        return try await ServiceRig.make(
            limits: limits, trustedProxies: [NetworkRange("10.0.0.0/8")].compactMap { $0 })
    }

    private static func send(
        _ rig: ServiceRig, key: String?, _ target: String = "/v1/ledger", method: String = "GET",
        peer: String = "192.0.2.1", forwarded: String? = nil, at instant: ContinuousClock.Instant = start
    ) async throws -> HTTPResponse {
        let headers =
            (key.map { [("Authorization", "Bearer " + $0)] } ?? [])
            + (forwarded.map { [("X-Forwarded-For", $0)] } ?? [])
        let head = HTTPRequestHead(
            method: method, target: target, headers: headers, remoteAddress: peer, receivedAt: instant)
        return await rig.application.handle(try HTTPRequest(head: head))
    }

    @Test("whoever fails to authenticate is soon told to wait, and holders of secret keys beside them are not")
    func strangers() async throws {
        let rig = try await Self.rig(address: 2, keyLifetime: .zero)
        #expect(try await Self.send(rig, key: rig.admin).status == 200)
        for key in ["rightful_sk_wrong", "rightful_sk_wrong", nil, "rc_wrong"] {
            #expect(try await Self.send(rig, key: key).verdict == "401 unauthenticated")
        }
        for key in ["rightful_sk_wrong", nil, "rc_wrong", "rightful_pk_wrong", "wrong"] {
            let refused = try await Self.send(rig, key: key, at: Self.start + .milliseconds(100))
            #expect(refused.verdict == "429 rate_limited")
            #expect(refused.header("Retry-After") == "1")
            #expect(try refused.json["retryable"] == .bool(true))
        }
        #expect(try await Self.send(rig, key: rig.admin).status == 200, "a known key, though no longer remembered")
        #expect(try await Self.send(rig, key: "rightful_sk_wrong", peer: "192.0.2.2").verdict == "401 unauthenticated")
        let later = Self.start + .seconds(1)
        #expect(try await Self.send(rig, key: "rightful_sk_wrong", at: later).verdict == "401 unauthenticated")
        #expect(try await rig.get("/metrics").text.contains("rightful_rate_limited_total{kind=\"address\"} 5\n"))
    }

    @Test("a server whose address its devices have used up is let in, also when its key is new here")
    func sharedAddress() async throws {
        let rig = try await Self.rig(address: 1)
        _ = try await Self.send(rig, key: nil)
        #expect(try await Self.send(rig, key: "rightful_pk_wrong").verdict == "429 rate_limited")
        for number in 0..<3 {
            let secret = try await rig.keys.create(name: "k\(number)", scopes: [.admin]).secret
            #expect(try await Self.send(rig, key: secret).status == 200)
        }
    }

    @Test("secret keys seen for the first time take nothing from their address, and revoked ones do")
    func newKeys() async throws {
        let rig = try await Self.rig(address: 1, keyLifetime: .zero)
        for number in 0..<3 {
            let (key, secret) = try await rig.keys.create(name: "k\(number)", scopes: [.admin])
            #expect(try await Self.send(rig, key: secret).status == 200)
            guard number == 2 else { continue }
            #expect(try await rig.keys.revoke(key.id))
            #expect(try await Self.send(rig, key: secret).verdict == "401 unauthenticated")
            #expect(try await Self.send(rig, key: secret).verdict == "429 rate_limited")
        }
    }

    @Test("an outage costs nobody anything")
    func outage() async throws {
        let rig = try await Self.rig(address: 1)
        await rig.pool.close()
        for _ in 0..<3 { #expect(try await Self.send(rig, key: "rightful_sk_any").verdict == "503 unavailable") }
    }

    @Test("a secret key has a limit of its own, wherever it is used from")
    func secretKeys() async throws {
        let rig = try await Self.rig(key: 2)
        let key = try await rig.keys.create(name: "k", scopes: [.admin]).secret
        for (peer, verdict) in [("192.0.2.1", "200 -"), ("192.0.2.2", "200 -"), ("192.0.2.3", "429 rate_limited")] {
            #expect(try await Self.send(rig, key: key, peer: peer).verdict == verdict)
        }
        #expect(try await Self.send(rig, key: rig.admin).status == 200)
        #expect(try await rig.get("/metrics").text.contains("rightful_rate_limited_total{kind=\"key\"} 1\n"))
    }

    @Test("a publishable key is held to the client's address and to its own limit, a token to the address")
    func devices() async throws {
        let rig = try await Self.rig(address: 2, publishable: 3)
        let key = try await rig.keys.create(
            name: "app", scopes: [], isPublishable: true, environment: .production, bundleID: "com.example.app"
        ).secret
        let asked = try await Self.send(rig, key: rig.admin, "/v1/customers/c-1/tokens", method: "POST")
        guard case .string(let token) = try asked.json["token"] else {
            Issue.record("\(asked.text)")
            return
        }
        let table = [
            (key, "192.0.2.1", "403 forbidden"), (key, "192.0.2.1", "403 forbidden"),
            (key, "192.0.2.1", "429 rate_limited"), (token, "192.0.2.1", "429 rate_limited"),
            (token, "192.0.2.2", "403 forbidden"), (key, "192.0.2.2", "403 forbidden"),
            (key, "192.0.2.3", "429 rate_limited"), (token, "2001:db8::1", "403 forbidden"),
            (token, "2001:db8::2", "403 forbidden"), (token, "2001:db8::3", "429 rate_limited"),
            (token, "2001:db8:0:1::3", "403 forbidden"),
        ]
        for (index, (key, peer, verdict)) in table.enumerated() {
            #expect(try await Self.send(rig, key: key, peer: peer).verdict == verdict, "row \(index)")
        }
    }

    @Test("behind a trusted proxy clients are told apart, and a made-up header tells nobody apart")
    func proxies() async throws {
        let rig = try await Self.rig(address: 1)
        for (peer, forwarded, verdict) in [
            ("10.0.0.1", "192.0.2.1", "401 unauthenticated"), ("10.0.0.1", "192.0.2.2", "401 unauthenticated"),
            ("10.0.0.1", "192.0.2.1", "429 rate_limited"), ("10.0.0.1", "9.9.9.9, 192.0.2.2", "429 rate_limited"),
            ("192.0.2.3", "7.7.7.7", "401 unauthenticated"), ("192.0.2.3", "7.7.7.8", "429 rate_limited"),
        ] {
            let answer = try await Self.send(rig, key: nil, peer: peer, forwarded: forwarded)
            #expect(answer.verdict == verdict, "\(peer) \(forwarded)")
        }
    }

    @Test("the store and the probes are never told to wait")
    func openRoutes() async throws {
        let rig = try await Self.rig(address: 1)
        _ = try await Self.send(rig, key: nil)
        #expect(try await Self.send(rig, key: nil).verdict == "429 rate_limited")
        for route in Route.all where route.access == .open {
            for _ in 0..<3 {
                let answer = try await Self.send(rig, key: nil, route.template, method: route.method)
                #expect(answer.status != 429, "\(route.template)")
            }
        }
    }
}
