import AppStoreServer
import EntitlementCore
import Foundation
import HTTPServer
import OpenSSLCrypto
import StoreSimulator
import Synchronization
import Testing

@Suite("When the App Store Server API does not answer as it should", .timeLimit(.minutes(2)))
struct StoreAPIFailureTests {
    private static func rig(_ faults: SimulatedStoreAPI.Fault...) throws -> StoreAPIRig {
        let rig = try StoreAPIRig()
        for notification in StoreLife.random(seed: 1, customers: 2).notifications { try rig.store.send(notification) }
        for fault in faults { rig.store.fail(fault) }
        return rig
    }

    private static var call: StoreAPICall<NotificationPage> {
        get throws {
            try .notifications(
                from: Timestamp(milliseconds: StoreAPIRig.start - 86_400_000),
                until: Timestamp(milliseconds: StoreAPIRig.start))
        }
    }

    @Test(
        "what passes is asked again, with growing pauses, and the answer comes",
        arguments: [
            SimulatedStoreAPI.Fault.status(500, code: 5_000_001), .status(503), .status(404, code: 4_040_002),
            .status(429, code: 4_290_000), .truncated,
        ])
    func passing(fault: SimulatedStoreAPI.Fault) async throws {
        let rig = try Self.rig(fault, fault, fault)
        _ = try await rig.client.send(Self.call, in: .production)
        #expect(rig.clock.pauses == [.milliseconds(375), .milliseconds(750), .milliseconds(1500)])
        await rig.stop()
    }

    @Test("a simulated store that holds its limits says when it answers again, and then does")
    func hourlyLimit() async throws {
        let rig = try Self.rig()
        rig.store.holdLimits(["notification_history": 3])
        for _ in 0..<3 {
            _ = try await rig.client.send(Self.call, in: .production)
            rig.clock.pass(.seconds(60))
        }
        let again = StoreAPIRig.start + 3_600_000
        let error = await #expect(throws: StoreAPIError.self) { try await rig.client.send(Self.call, in: .production) }
        #expect(error?.kind == .limited(until: Timestamp(milliseconds: again)) && error?.code == 4_290_000)
        #expect(rig.store.count(of: "notification_history") == 3, "what is refused is not counted")
        rig.clock.set(again)
        _ = try await rig.client.send(Self.call, in: .production)
        #expect(rig.clock.milliseconds == again)
        // The next has its turn when the second is an hour old, for which there is time.
        _ = try await rig.client.send(Self.call, in: .production)
        #expect(rig.clock.milliseconds >= again + 60_000)
        await rig.stop()
    }

    @Test("a simulated store that reports what became of a test notification says nothing before it was tried")
    func testOutcome() async throws {
        let rig = try Self.rig()
        rig.store.reportAttempts()
        let token = try await rig.client.send(.testNotification, in: .production).token
        let early = await #expect(throws: StoreAPIError.self) {
            try await rig.client.send(.testNotificationStatus(token), in: .production)
        }
        #expect(early?.kind == .notFound)
        rig.store.note(.noResponse, of: try #require(rig.store.newestTest))
        let item = try await rig.client.send(.testNotificationStatus(token), in: .production)
        #expect(item.sendAttempts?.compactMap(\.result) == ["NO_RESPONSE"])
        await rig.stop()
    }

    @Test("what lasts is given up after eight seconds, and told with status and code")
    func lasting() async throws {
        let fault = SimulatedStoreAPI.Fault.status(500, code: 5_000_000)
        let rig = try Self.rig(fault, fault, fault, fault, fault, fault)
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production)
        }
        #expect(error?.status == 500 && error?.code == 5_000_000 && rig.clock.pauses.count == 4)
        await rig.stop()
    }

    @Test(
        "Retry-After is an instant in milliseconds, and waited for; beyond the deadline it is told and not waited for")
    func retryAfter() async throws {
        let rig = try Self.rig(
            .status(429, code: 4_290_000, retryAfter: StoreAPIRig.start + 60_000),
            .status(429, code: 4_290_000, retryAfter: StoreAPIRig.start + 3_600_000))
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production)
        }
        #expect(rig.clock.pauses == [.milliseconds(60_250)])
        #expect(error?.kind == .limited(until: Timestamp(milliseconds: StoreAPIRig.start + 3_600_000)))
        #expect(error.map { "\($0)".contains("2026-09-21T") } == true, "\(String(describing: error))")
        await rig.stop()
    }

    @Test("when the store wants to be asked again is remembered for everybody, for an hour at most, and told")
    func remembered() async throws {
        let quota = RememberingQuota()
        let rig = try StoreAPIRig(quota: quota)
        // Far ahead by mistake.
        rig.store.fail(.status(429, code: 4_290_000, retryAfter: StoreAPIRig.start + 86_400_000))
        for _ in 0..<3 {
            let error = await #expect(throws: StoreAPIError.self) {
                _ = try await rig.client.send(Self.call, in: .production)
            }
            #expect(error?.kind == .limited(until: Timestamp(milliseconds: StoreAPIRig.start + 3_600_000)))
            #expect(error.map { "\($0)".contains("2026-09-21T") } == true, "\(String(describing: error))")
        }
        #expect(rig.store.count(of: "failed") == 1 && rig.store.count(of: "notification_history") == 0)
        #expect(quota.blocked.withLock { $0 } == .seconds(3600))
        await rig.stop()
    }

    @Test("how long a request is sent again is its caller's choice, and its pauses grow to half a minute")
    func persistence() async throws {
        let rig = try Self.rig()
        rig.store.failAlways(.status(503))
        await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(
                Self.call, in: .production, within: .seconds(600), persistence: .seconds(300))
        }
        let total = rig.clock.pauses.reduce(.zero, +)
        #expect(total > .seconds(250) && total <= .seconds(300), "\(rig.clock.pauses)")
        #expect(rig.clock.pauses.max() == .milliseconds(22_500))
        await rig.stop()
    }

    @Test("tokens are dated by this machine's clock, and a refusal names the clock that is wrong")
    func clocks() async throws {
        let present = Int64(Date().timeIntervalSince1970 * 1000)
        let good = try StoreAPIRig(databaseAhead: 3_600_000)
        good.clock.set(present)
        _ = try await good.client.send(.testNotification, in: .production)
        await good.stop()
        for (rig, words) in [
            (try StoreAPIRig(wrongKey: true, databaseAhead: 3_600_000), "The database's clock is 3600 s ahead of"),
            (try StoreAPIRig(wrongKey: true, databaseAhead: -3_600_000), "The database's clock is 3600 s behind"),
            (try StoreAPIRig(clockAhead: 7_200_000), "This machine's clock, by which requests are dated, is 7"),
        ] {
            rig.clock.set(present)
            let error = await #expect(throws: StoreAPIError.self) {
                _ = try await rig.client.send(.testNotification, in: .production)
            }
            #expect(error.map { "\($0)".contains(words) } == true, "\(String(describing: error))")
            await rig.stop()
        }
        let right = try StoreAPIRig(wrongKey: true)
        right.clock.set(Int64(Date().timeIntervalSince1970 * 1000))
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await right.client.send(.testNotification, in: .production)
        }
        #expect(error.map { "\($0)".contains("database") } == false, "\(String(describing: error))")
        await right.stop()
    }

    @Test(
        "that the store does not know a transaction is what Apple's definite numbers say, and no other 404",
        arguments: [
            (nil, false), (4_040_001, true), (4_040_002, false), (4_040_003, false), (4_040_004, false),
            (4_040_005, true), (4_040_006, false), (4_040_010, true), (4_999_999, false),
        ] as [(Int64?, Bool)])
    func unknown(code: Int64?, isUnknown: Bool) async throws {
        let rig = try StoreAPIRig()
        rig.store.failAlways(.status(404, code: code))
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(.transaction("7"), in: .production)
        }
        #expect(error?.kind == .notFound && error?.isUnknownTransaction == isUnknown)
        await rig.stop()
    }

    @Test("what will not pass is asked once: a refusal, an unknown code, credentials that are wrong")
    func final() async throws {
        let rig = try Self.rig(.status(400, code: 4_000_006), .status(400, code: 4_999_999))
        var error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production)
        }
        #expect(error?.kind == .refused && error?.code == 4_000_006)
        error = await #expect(throws: StoreAPIError.self) { _ = try await rig.client.send(Self.call, in: .production) }
        #expect(error?.code == 4_999_999, "carried as it is")
        #expect(rig.clock.pauses.isEmpty)
        await rig.stop()

        for wrong in [
            try StoreAPIRig(wrongKey: true), try StoreAPIRig(bundleID: "com.example.other"),
            // Dated ahead of the store by more than the minute that every token is dated back.
            try StoreAPIRig(clockAhead: 61_000),
        ] {
            let error = await #expect(throws: StoreAPIError.self) {
                _ = try await wrong.client.send(Self.call, in: .production)
            }
            #expect(error?.kind == .unauthorized)
            #expect(error.map { "\($0)".contains("issuer_id, key_id and private_key_path") } == true)
            #expect(wrong.clock.pauses.isEmpty)
            await wrong.stop()
        }
        // A clock that is a little ahead is no reason to be refused.
        let ahead = try StoreAPIRig(clockAhead: 59_000)
        _ = try await ahead.client.send(.testNotification, in: .production)
        await ahead.stop()
    }

    @Test("nobody there, and a server that does not answer in time, are told in words, with the host and without ids")
    func unreachable() async throws {
        let rig = try Self.rig()
        await rig.stop()
        var error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production)
        }
        #expect(error?.kind == .unavailable && error?.status == nil)
        #expect(
            error.map { "\($0)".contains("127.0.0.1") && !"\($0)".contains("inApps") } == true,
            "\(String(describing: error))")
        #expect(rig.clock.pauses.count == 4)

        let slow = try StoreAPIRig(timeout: 1)
        slow.store.fail(.slow(milliseconds: 3000))
        error = await #expect(throws: StoreAPIError.self) {
            _ = try await slow.client.send(.testNotification, in: .production)
        }
        #expect(error?.kind == .unavailable, "it may have been sent: a second one would be another")
        #expect(
            slow.clock.pauses.isEmpty && error.map { "\($0)".contains("time was up") } == true,
            "\(String(describing: error))")
        await slow.stop()
    }

    @Test("a redirection is not followed: the token is for one server")
    func redirection() async throws {
        let elsewhere = try Self.rig()
        let server = HTTPServer(configuration: HTTPServerConfiguration(port: 0)) { _ in
            HTTPResponse(status: 302, headers: [("Location", "http://127.0.0.1:9/")], body: [])
        }
        try server.start()
        let url = try #require(URL(string: "http://127.0.0.1:\(server.boundPort ?? 0)"))
        let response = try await StoreAPISession().send(
            Self.call.request, to: url.appending(path: "x"), token: "t", within: .seconds(30))
        #expect(response.status == 302)
        await server.stop(graceSeconds: 0)
        await elsewhere.stop()
    }

    @Test("an attempt takes no longer than what is left of the caller's time, and none is made without any")
    func callersTime() async throws {
        let rig = try StoreAPIRig(timeout: 60)
        rig.store.fail(.slow(milliseconds: 50_000))
        let start = ContinuousClock.now
        var error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production, within: .milliseconds(300))
        }
        #expect(error?.kind == .unavailable && start.duration(to: .now) < .seconds(30))
        error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production, within: .zero)
        }
        #expect(error?.kind == .outOfTime && rig.store.count(of: "notification_history") <= 1)
        await rig.stop()
    }

    @Test("without a turn under the store's limits nothing is sent")
    func quota() async throws {
        let rig = try StoreAPIRig(quota: UsedUpQuota())
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(Self.call, in: .production)
        }
        #expect(error?.kind == .limited(until: nil) && rig.store.count(of: "notification_history") == 0)
        await rig.stop()
    }

    @Test("what is spread so is never more than the store allows in a second, and half of it in the long run")
    func pace() {
        for limit in StoreAPILimit.allCases {
            for environment in StoreEnvironment.allCases {
                let (pace, allowed) = (StoreAPIPace(limit, in: environment), limit.perSecond(in: environment))
                // All that a pause has saved, and what comes free in the second after it.
                let most = pace.burst + (1000 / pace.interval).rounded(.down)
                #expect(most <= max(1, allowed), "\(limit) \(environment)")
                #expect(1000 / pace.interval == allowed * StoreAPIPace.share)
            }
        }
    }
}
