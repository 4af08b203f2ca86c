import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: while a clock is far ahead, and while sending is off", .timeLimit(.minutes(1)))
struct WebhookSendingTests {
    private static let types = #","types":["entitlements.changed"]"#
    private static let grant = #"{"entitlement":"premium","until":"2026-12-20T12:00:00Z","reason":"a free month"}"#

    @Test("once a clock that was ahead is right again, receivers of both formats are told what is so")
    func clockAhead() async throws {
        let rig = try await ServiceRig.make()
        let (standard, revenueCat) = (try Receiver(), try Receiver())
        _ = try await rig.endpoint(standard, Self.types)
        _ = try await rig.endpoint(revenueCat, #","format":"revenuecat""#)
        func wait(_ what: Comment, _ count: Int) async throws {
            try await standard.wait(what) { $0.count == count }
            try await revenueCat.wait(what) { $0.count == count }
        }
        let noon = rig.clock.now
        try await rig.telling {
            _ = try await rig.command("grant", "c-1", Self.grant)
            try await wait("the grant", 1)
            rig.clock.now = noon.adding(milliseconds: 200 * Timestamp.millisecondsPerDay)
            try await wait("its end", 2)
            rig.clock.now = noon.adding(milliseconds: 60_000)
            try await wait("that it has not ended", 3)
            let now = try await rig.get("/v1/customers/c-1/entitlements").json["entitlements"]
            let last = try #require(standard.messages.last)
            #expect(now?[0]?["gives_access"] == .bool(true) && last.data["after"] == now)
            #expect(last.data["before"] == standard.messages[1].data["after"])
            #expect(last.data["cause"]?["kind"] == .string("time"))
            // What is learned from then on is read at its time.
            _ = try await rig.command("grant", "c-1", Self.grant.replacing("premium", with: "plus"))
            try await wait("another grant", 4)
            rig.wait(seconds: 1)
            let then = try await rig.get("/v1/customers/c-1/entitlements").json["entitlements"]
            #expect(standard.messages.last?.data["after"] == then)
        }
        #expect(standard.messages.map { $0.data["sequence"] } == [.int(1), .int(2), .int(3), .int(4)])
        #expect(
            revenueCat.messages.map(\.type) == [
                "NON_RENEWING_PURCHASE", "EXPIRATION", "SUBSCRIPTION_EXTENDED", "NON_RENEWING_PURCHASE",
            ])
    }

    @Test("old messages are kept in the first minute after a start, and while the clock is ahead by itself")
    func kept() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(try await rig.endpoint(receiver, Self.types)))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            try await receiver.wait("the grant") { $0.count == 1 }
            while try await rig.get(path).json["waiting"] != .int(0) { try await Task.sleep(for: .milliseconds(5)) }
        }
        let now = rig.clock.now
        let later = now.adding(milliseconds: DeliveryList.retention + 3_600_000)
        var intervals = WebhookDispatcher.Intervals()
        intervals.prune = .milliseconds(5)
        rig.clock.now = later
        try await rig.pruning(intervals) { try await Task.sleep(for: .milliseconds(300)) }
        #expect(try await rig.messages() == 1, "a wrong clock has a minute to be set")
        intervals.settle = .zero
        rig.clock.now = now
        try await rig.pruning(intervals) {
            rig.clock.now = later
            while !rig.log.lines.contains(where: { $0.contains("the clock went ahead") }) {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        #expect(try await rig.messages() == 1, "the clock went ahead under it")
        try await rig.pruning(intervals) {
            while try await rig.messages() > 0 { try await Task.sleep(for: .milliseconds(5)) }
        }
    }

    @Test("a clock that went ahead is believed once it is back, or has stayed there for a day")
    func belief() {
        let (wall, own) = (Timestamp(milliseconds: Int64(1_790_000_000_000)), ContinuousClock.now)
        var time = BelievedTime(wall, at: own)
        func believes(_ clock: Int64, after seconds: Int64) -> Bool {
            time.believes(wall.adding(milliseconds: clock * 1000), at: own + .seconds(seconds))
        }
        let day: Int64 = 86_400
        #expect(believes(3660, after: 3600) && !believes(300 * day, after: 7200))
        #expect(believes(10_800, after: 10_800) && believes(10_000, after: 10_900))
        #expect(!believes(11_000 + day, after: 11_000) && !believes(11_000 + 2 * day, after: 11_000 + day - 1))
        #expect(believes(11_000 + 2 * day, after: 11_000 + day) && believes(11_060 + 2 * day, after: 11_060 + day))
    }

    @Test("while sending is off what there is to tell waits, and it is sent once that is on")
    func off() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(try await rig.endpoint(receiver, Self.types)))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        let endpoints = EndpointRegister(pool: rig.pool, writer: rig.ledger.writer)
        let silent = WebhookWork(
            projector: WebhookProjector(
                pool: rig.pool, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift, show: WebhookWork.show),
            notices: StreamNotices(pool: rig.pool), streams: rig.application.monitoring.streams,
            dispatcher: rig.dispatcher(WebhookDispatcher.Intervals(), now: rig.context.now), endpoints: endpoints,
            appended: Doorbell(), sends: false, metrics: rig.context.metrics, logger: rig.context.logger,
            now: rig.context.now)
        let work = Task { await silent.run() }
        while try await rig.get(path).json["waiting"] != .int(1) { try await Task.sleep(for: .milliseconds(5)) }
        // A sender looks five times a second.
        try await Task.sleep(for: .milliseconds(600))
        work.cancel()
        await work.value
        #expect(receiver.requests.isEmpty)
        let delivery = try await rig.get(path + "/deliveries").json["items"]?[0]
        #expect(delivery?["state"] == .string("waiting") && delivery?["attempts"] == .int(0))
        try await rig.telling { try await receiver.wait("the grant") { $0.count == 1 } }
    }
}

extension ServiceRig {
    fileprivate func dispatcher(
        _ intervals: WebhookDispatcher.Intervals, now: @escaping @Sendable () -> Timestamp
    ) -> WebhookDispatcher {
        WebhookDispatcher(
            register: DeliveryRegister(pool: pool), list: DeliveryList(pool: pool),
            endpoints: EndpointRegister(pool: pool, writer: ledger.writer), reader: context.reader,
            transport: WebhookDispatcher.transport(allowsPrivate: true), allowsPrivate: true,
            metrics: context.metrics, logger: context.logger, intervals: intervals, now: now)
    }

    /// Lets go of what is old while the body runs, which begins once the clock was read.
    fileprivate func pruning(
        _ intervals: WebhookDispatcher.Intervals, _ body: () async throws -> Void
    ) async throws {
        let isRead = Tally(0)
        let dispatcher = self.dispatcher(intervals) { [clock] in
            let instant = clock.now
            isRead.put(1)
            return instant
        }
        let work = Task { await dispatcher.run(sends: false) }
        while !isRead.isUp { try await Task.sleep(for: .milliseconds(1)) }
        do {
            try await body()
        } catch {
            work.cancel()
            await work.value
            throw error
        }
        work.cancel()
        await work.value
    }

    fileprivate func messages() async throws -> Int64 {
        try await pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_message").row(0).int(0)
        }
    }
}
