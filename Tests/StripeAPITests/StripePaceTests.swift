import EntitlementCore
import Foundation
import OutgoingHTTP
import Synchronization
import Testing

@testable import StripeAPI

/// A client whose server is well, by a true clock; ten requests a second, and ten at once.
private final class PaceRig: OutgoingTransport {
    private let log = Mutex<[String]>([])

    /// What was sent, in its order.
    var sent: [String] { log.withLock { $0 } }

    func send(_ request: OutgoingRequest) async throws -> OutgoingAnswer {
        log.withLock { $0.append(request.url.path) }
        return OutgoingAnswer(status: 200, body: Array("{}".utf8))
    }

    func client() throws -> StripeClient {
        StripeClient(
            try #require(StripeKey("rk_test_1")), transport: self,
            surroundings: .init(
                now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
                sleep: { try await Task.sleep(for: $0) }, fraction: { 0 }))
    }

    /// Asks for something many times at once.
    func flood(_ client: StripeClient, _ name: String, _ count: Int, within limit: Duration) -> [Task<Bool, Never>] {
        (0..<count).map { _ in
            Task { (try? await client.send(.get("/v1/\(name)"), within: limit)) != nil }
        }
    }

    /// Waits until this many were sent.
    func wait(forSent count: Int) async throws {
        while sent.count < count { try await Task.sleep(for: .milliseconds(5)) }
    }
}

@Suite("How the requests to Stripe are spread and shared", .timeLimit(.minutes(2)))
struct StripePaceTests {
    @Test("what was asked for in vain takes no turn: after a flood the next request is sent")
    func flood() async throws {
        let rig = PaceRig()
        let client = try rig.client()
        var count = 0
        for task in rig.flood(client, "flood", 400, within: .seconds(1)) where await task.value { count += 1 }
        #expect(count >= 10 && count < 400, "some come in time, and not all can: \(count)")
        #expect(rig.sent.count == count, "whatever is sent is waited for")
        _ = try await client.send(.get("/v1/next"), within: .seconds(2))
    }

    @Test("however much is asked for, all turns are used")
    func sustained() async throws {
        let rig = PaceRig()
        let client = try rig.client()
        let clock = ContinuousClock()
        let start = clock.now
        // Three times as much as there is, until a good deal was sent.
        let task = Task {
            while !Task.isCancelled {
                for _ in 0..<3 { _ = rig.flood(client, "flood", 1, within: .seconds(1)) }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        try await rig.wait(forSent: 60)
        task.cancel()
        // Ten at once, and the others a tenth of a second each.
        #expect(start.duration(to: clock.now) >= .milliseconds(4500), "no more than may be")
    }

    @Test("whoever gives up leaves the turn to others")
    func cancelled() async throws {
        let rig = PaceRig()
        let client = try rig.client()
        let gone = rig.flood(client, "gone", 100, within: .seconds(60))
        try await rig.wait(forSent: 10)
        for task in gone { task.cancel() }
        for task in gone { _ = await task.value }
        _ = try await client.send(.get("/v1/next"), within: .seconds(2))
        #expect(rig.sent.last == "/v1/next")
    }

    @Test(
        "a flood of one kind keeps no other from its share",
        arguments: [
            (StripePace.Share.customers, StripePace.Share.webhooks), (.customers, .background),
            (.webhooks, .customers), (.background, .customers), (.background, .webhooks),
        ])
    func shares(flooding: StripePace.Share, other: StripePace.Share) async throws {
        let rig = PaceRig()
        let client = try rig.client()
        let flood = rig.flood(client.taking(flooding), "flood", 100, within: .seconds(60))
        try await rig.wait(forSent: 12)
        let before = rig.sent.count
        for _ in 0..<2 { _ = try await client.taking(other).send(.get("/v1/other"), within: .seconds(30)) }
        let last = try #require(rig.sent.lastIndex(of: "/v1/other"))
        #expect(last - before <= 8, "\(last - before) came before")
        for task in flood { task.cancel() }
    }

    @Test("clients that share a pace send no more requests than one client would")
    func shared() async throws {
        let rig = PaceRig()
        let pace = StripePace(.sandbox)
        let start = Timestamp(milliseconds: Int64(1_795_176_000_000))
        let pauses = Mutex<[Duration]>([])
        for _ in 0..<12 {
            let client = StripeClient(
                try #require(StripeKey("rk_test_1")), transport: rig, pace: pace,
                surroundings: .init(
                    now: { start }, sleep: { pause in pauses.withLock { $0.append(pause) } }, fraction: { 0 }))
            _ = try await client.send(.get("/v1/x"))
        }
        #expect(pauses.withLock { $0 } == [.milliseconds(100), .milliseconds(200)])
    }
}
