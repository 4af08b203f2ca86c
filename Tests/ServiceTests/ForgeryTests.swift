import AppStoreServer
import EntitlementCore
import HTTPServer
import OpenSSLCrypto
import StoreSimulator
import Testing

@testable import Service

@Suite("Who pays for forgeries", .serialized, .timeLimit(.minutes(5)))
struct ForgeryTests {
    private static let start = ContinuousClock.now
    private static let forger = "192.0.2.66"

    /// A service in which an address may waste 60 checks of signatures, and one more each second.
    private static func rig() async throws -> ServiceRig {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 1, burst: 60)
        return try await ServiceRig.make(
            limits: limits, trustedProxies: [NetworkRange("10.0.0.0/8")].compactMap { $0 })
    }

    private static func post(
        _ signedPayload: String, to rig: ServiceRig, from peer: String, forwardedFor client: String? = nil,
        at instant: ContinuousClock.Instant = start
    ) async throws -> HTTPResponse {
        let head = HTTPRequestHead(
            method: "POST", target: "/v1/notifications/appstore",
            headers: client.map { [("X-Forwarded-For", $0)] } ?? [], remoteAddress: peer, receivedAt: instant)
        return await rig.application.handle(
            try HTTPRequest(head: head, body: SimulatedAuthority.requestBody(signedPayload)))
    }

    /// A purchase that nobody has notified of yet.
    private static func genuine(_ number: Int, _ rig: ServiceRig) throws -> String {
        var purchase = Purchase()
        purchase.uuid = "3838df56-31ab-4e2d-9f44-\(100_000_000_000 + number)"
        return try purchase.signed(by: rig.store)
    }

    /// The store's public certificates around what its key did not sign, each time under another header.
    private static func forgery(_ rig: ServiceRig) throws -> String {
        let store = rig.store
        let forger = try SimulatedAuthority(
            root: SimulatedAuthority().root, intermediate: store.intermediate, leaf: store.leaf,
            leafKey: .generate(.p256))
        return try Purchase().signed(by: forger)
    }

    @Test("certificates that nobody knows are examined until the address has spent its share, and then refused")
    func strangers() async throws {
        let rig = try await Self.rig()
        var verdicts: [String] = []
        for _ in 0..<5 {
            let payload = try Purchase().signed(by: SimulatedAuthority())
            verdicts.append(try await Self.post(payload, to: rig, from: Self.forger).verdict)
        }
        let (refused, limited) = ("401 untrusted_signature", "429 rate_limited")
        #expect(verdicts == [refused, refused, refused, limited, limited])
        let last = try await Self.post("a.b.c", to: rig, from: Self.forger)
        #expect(last.verdict == limited)
        #expect(last.header("Retry-After") == "1")
        #expect(try await Self.post(Self.genuine(0, rig), to: rig, from: "192.0.2.1").status == 200)
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains("rightful_rate_limited_total{kind=\"address\"} 3\n"))
        #expect(metrics.contains(#"rightful_notification_verdicts_total{verdict="rate_limited"} 3"#))
    }

    @Test("the store's certificates under ever new headers cost the address a signature each")
    func borrowedCertificates() async throws {
        let rig = try await Self.rig()
        #expect(try await Self.post(Self.genuine(0, rig), to: rig, from: "192.0.2.1").status == 200)
        for number in 0..<60 {
            let answer = try await Self.post(Self.forgery(rig), to: rig, from: Self.forger)
            #expect(answer.verdict == "401 untrusted_signature", "\(number)")
        }
        #expect(try await Self.post(Self.forgery(rig), to: rig, from: Self.forger).verdict == "429 rate_limited")
        let later = Self.start + .seconds(2)
        let answer = try await Self.post(Self.forgery(rig), to: rig, from: Self.forger, at: later)
        #expect(answer.verdict == "401 untrusted_signature", "the share grows again")
    }

    @Test("the store gets through from the very address of a forger, as behind a proxy that nobody has configured")
    func sharedAddress() async throws {
        let rig = try await Self.rig()
        #expect(try await Self.post(Self.genuine(0, rig), to: rig, from: Self.forger).status == 200)
        for number in 1...200 {
            let forged =
                number.isMultiple(of: 2) ? try Self.forgery(rig) : try Purchase().signed(by: SimulatedAuthority())
            _ = try await Self.post(forged, to: rig, from: Self.forger)
            guard number.isMultiple(of: 20) else { continue }
            #expect(
                try await Self.post(forged, to: rig, from: Self.forger).verdict == "429 rate_limited" || number < 60)
            #expect(try await Self.post(Self.genuine(number, rig), to: rig, from: Self.forger).status == 200)
        }
    }

    @Test("a service that was just started knows the store's certificates, so a forger keeps nothing of it out")
    func restarted() async throws {
        let rig = try await Self.rig()
        #expect(try await Self.post(Self.genuine(0, rig), to: rig, from: "192.0.2.1").status == 200)
        let apps = [
            AppBinding(bundleID: ServiceRig.bundleID, appAppleID: ServiceRig.appAppleID, environments: [.production])
        ]
        let now = try instant(ServiceRig.noon)
        for isTold in [false, true] {
            let jws = try JWSVerifier(trusting: TrustAnchors([rig.store.root.certificate]))
            if isTold { try await jws.recognizeSigners(of: rig.context.reader, now: now) }
            // What a sender may do whose address has spent its share.
            var work = SignatureWork(allowance: 0)
            let verified = try? NotificationVerifier(jws: jws, apps: apps).verify(
                signedPayload: Array(Self.genuine(1, rig).utf8), now: now, work: &work)
            #expect((verified != nil) == isTold)
        }
    }

    @Test("behind a trusted proxy each client is charged for its own forgeries")
    func proxies() async throws {
        let rig = try await Self.rig()
        let stranger = try SimulatedAuthority()
        func post(_ payload: String, as client: String) async throws -> String {
            try await Self.post(payload, to: rig, from: "10.0.0.1", forwardedFor: client).verdict
        }
        let forged = try Purchase().signed(by: stranger)
        for _ in 0..<3 { #expect(try await post(forged, as: Self.forger) == "401 untrusted_signature") }
        #expect(try await post(forged, as: Self.forger) == "429 rate_limited")
        #expect(try await post(forged, as: "192.0.2.7") == "401 untrusted_signature")
        // Nothing of the store's is known yet.
        #expect(try await post(Self.genuine(0, rig), as: "192.0.2.8") == "200 -")
    }

    @Test("however many genuine notifications come, they cost nothing")
    func genuineIsFree() async throws {
        let rig = try await Self.rig()
        for number in 0..<100 {
            #expect(try await Self.post(Self.genuine(number, rig), to: rig, from: "192.0.2.1").status == 200)
        }
        let standing = rig.application.admission.rateLimiter.standing(
            of: .forgeries(ClientAddress(try #require(IPAddress("192.0.2.1")))), at: Self.start)
        #expect(standing.tokens == 60)
    }

    @Test("what devices post is priced by what it costs: a posting is not examined further once the share is spent")
    func reconcile() async throws {
        let rig = try await Self.rig()
        let key = try await rig.publishableKey()
        func post(_ statements: [String], key: String) async throws -> HTTPResponse {
            let list = statements.map { "\"\($0)\"" }.joined(separator: ",")
            return try await rig.send(
                "POST", "/v1/customers/c/reconcile", key: key,
                body: Array(#"{"app":"\#(ServiceRig.bundleID)","signed_transactions":[\#(list)]}"#.utf8))
        }
        let stranger = try SimulatedAuthority()
        let forged = try stranger.sign(HeldTransaction().payload)
        let one = try await post([forged], key: key)
        #expect(one.status == 200)
        #expect(one.text.contains("untrusted_signature"))
        let many = try await post(Array(repeating: forged, count: 20), key: key)
        #expect(many.verdict == "429 rate_limited")
        // The store's certificates are known from here on, and so are welcome from whoever has spent the share.
        #expect(try await rig.notify(Purchase()).verdict == "429 rate_limited", "at the same address, as yet unknown")
        #expect(try await Self.post(Self.genuine(0, rig), to: rig, from: "192.0.2.1").status == 200)
        #expect(try await post([rig.store.sign(HeldTransaction().payload)], key: key).status == 200)
        let server = try await post(Array(repeating: forged, count: 20), key: rig.admin)
        #expect(server.status == 200, "a server answers for its own")
    }
}
