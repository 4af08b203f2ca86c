import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Service

/// Stripe's list of events, the newest first, by the page.
private final class StripeList: Sendable {
    private struct State {
        var events: [(id: String, created: Int64, type: String, body: String)] = []
        var faults: [Int: HostileServer.Reply] = [:]
        var asked = 0
        /// By Stripe's clock, as answers are dated; `nil`: they are not.
        var date: String?
        /// Whether each page leads to another, and that one back.
        var isEndless = false
    }

    private let state = Mutex(State())
    private let pageSize: Int

    init(pageSize: Int = 2) { self.pageSize = pageSize }

    func add(_ type: String, _ object: String, id: String, created: Int64, live: Bool = true) {
        let body = StripeBody.event(type, object, id: id, live: live, pending: 0, created: created)
        state.withLock { $0.events.append((id, created, type, body)) }
    }

    func addUnreadable(id: String, created: Int64) {
        state.withLock { $0.events.append((id, created, "invoice.paid", #"{"id":"\#(id)","object":"event"}"#)) }
    }

    /// Breaks off at this request, counted from now on.
    func fail(at request: Int, _ reply: HostileServer.Reply) {
        state.withLock { $0.faults[$0.asked + request] = reply }
    }

    func date(_ date: String) { state.withLock { $0.date = date } }
    func neverEnd() { state.withLock { $0.isEndless = true } }

    func reply(to request: HostileServer.Request) -> HostileServer.Reply {
        state.withLock { state in
            state.asked += 1
            if let fault = state.faults[state.asked] { return fault }
            let items = URLComponents(string: request.target)?.queryItems ?? []
            func value(_ name: String) -> String? { items.first { $0.name == name }?.value }
            // Nothing was sold before.
            guard request.target.hasPrefix("/v1/events") else {
                return .answer(200, #"{"object":"list","url":"/v1/x","has_more":false,"data":[]}"#)
            }
            let types = Set(items.filter { $0.name == "types[]" }.compactMap(\.value))
            guard request.target.hasPrefix("/v1/events?"), (1...20).contains(types.count),
                let start = value("created[gte]").flatMap({ Int64($0) }),
                let end = value("created[lt]").flatMap({ Int64($0) })
            else { return .answer(400, #"{"error":{"type":"invalid_request_error","message":"no"}}"#) }
            var listed = state.events.filter { types.contains($0.type) && (start..<end).contains($0.created) }
                .sorted { $0.created > $1.created }
            if let after = value("starting_after"), let index = listed.firstIndex(where: { $0.id == after }) {
                listed.removeSubrange(...index)
            }
            if state.isEndless { listed = [state.events[value("starting_after") == state.events[0].id ? 1 : 0]] }
            let page = listed.prefix(pageSize).map(\.body).joined(separator: ",")
            let hasMore = state.isEndless || listed.count > pageSize
            return .answer(
                200, headers: state.date.map { ["Date: \($0)"] } ?? [],
                #"{"object":"list","url":"/v1/events","has_more":\#(hasMore),"data":[\#(page)]}"#)
        }
    }
}

@Suite("Stripe's own list of events", .timeLimit(.minutes(5)))
struct StripeSweepTests {
    private static let day: Int64 = 86_400

    private static func make() async throws -> (StripeRig, StripeList, HostileServer, StripeSweep) {
        let list = StripeList()
        let server = try HostileServer { request, _ in list.reply(to: request) }
        let stripe = try await StripeRig.make(api: server.url)
        return (stripe, list, server, try #require(stripe.rig.stripeSweep))
    }

    private static func stream(_ stripe: StripeRig) async throws -> WireValue? {
        let list = try await stripe.rig.get("/v1/streams").json["items"]
        return (0..<(list?.count ?? 0)).compactMap { list?[$0] }.first {
            $0["source"] == .string("stripe") && $0["environment"] == .string("production")
        }
    }

    @Test("whatever never came is recorded, page by page and list by list; what came is one event still")
    func missing() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        for number in 1...5 {
            list.add(
                "invoice.paid", StripeBody.invoice("c-\(number)", subscription: "sub_\(number)"), id: "evt_\(number)",
                created: StripeRig.noon - Int64(number) * 60)
        }
        list.add(
            "refund.created", #"{"id":"re_1","object":"refund","amount":1,"created":1,"charge":"ch_1"}"#, id: "evt_r",
            created: StripeRig.noon - 29 * Self.day)
        let known = StripeBody.event(
            "invoice.paid", StripeBody.invoice("c-1", subscription: "sub_1"), id: "evt_1", created: StripeRig.noon - 60)
        #expect(try await stripe.deliver(known).status == 200)
        #expect(try await sweep.runOnce() == [StripeSweep.Report(read: 6, recorded: 5, refused: 0)])
        for number in 1...5 { #expect(try await stripe.access("c-\(number)") == ["web_checkout active"]) }
        let event = try await stripe.rig.get("/v1/events/4").json
        #expect(
            event["source"] == .string("stripe_api") && event["type"] == .string("refund.created"), "the oldest first")
        #expect(try await sweep.runOnce().first??.recorded == 0)
        #expect(try await stripe.head() == .int(8))
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.unsignedEvidence == 5 && summary.uncheckedSignatures == 0)
        let late = StripeBody.event(
            "invoice.paid", StripeBody.invoice("c-2", subscription: "sub_2"), id: "evt_2", created: StripeRig.noon - 120
        )
        #expect(try await stripe.deliver(late).json["duplicate"] == .bool(true))
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_stripe_swept_events_total{outcome="recorded"} 5"#))
    }

    @Test("a name in the list that contradicts the owner is counted and told, once for however many events")
    func contradiction() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        for (number, customer) in ["c-2", "c-1", "c-2"].enumerated() {
            list.add(
                "customer.subscription.updated", StripeBody.subscription(customer), id: "evt_s\(number)",
                created: StripeRig.noon - 50 + Int64(number))
        }
        #expect(try await sweep.runOnce() == [StripeSweep.Report(read: 3, recorded: 3, refused: 0)])
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        _ = try await sweep.runOnce()
        let metrics = try await stripe.rig.get("/metrics").text
        #expect(metrics.contains("rightful_ownership_conflicts_total 1\n"))
        #expect(stripe.rig.log.lines.count { $0.contains("a purchase on the web names two customers") } == 1)
    }

    @Test("a sweep that breaks off keeps what it has, says so, and goes on there")
    func resumed() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        list.add("invoice.paid", StripeBody.invoice("c-1"), id: "evt_1", created: StripeRig.noon - 20 * Self.day)
        list.fail(at: 200, .reset)
        await #expect(throws: (any Error).self) { try await sweep.runOnce() }
        let failed = try await Self.stream(stripe)
        #expect(failed?["sweep"]?["state"] == .string("failed") && failed?["sweep"]?["completed_at"] == .null)
        #expect(
            failed?["sweep"]?["completed_until"] == .null && failed?["app"] == .null, "what is older is not known yet")
        #expect(failed?["sweep"]?["gap"]?["from"] == .null && failed?["sweep"]?["gap"]?["until"] != .null)
        let standing = try await WebSweepRegister(pool: stripe.rig.pool, holder: "test").standings().first
        #expect(standing?.eventsUntil != nil)
        #expect(try await stripe.head() == .int(3), "the oldest first, so what was read stays")
        let before = server.requests.count
        #expect(try await sweep.runOnce().first??.recorded == 0)
        #expect(server.requests.count - before < 120, "what was completed is not read again")
        let done = try await Self.stream(stripe)
        #expect(done?["sweep"]?["state"] == .string("idle") && done?["sweep"]?["last_error"] == .null)
        #expect(done?["sweep"]?["completed_until"] == .string(ServiceRig.noon) && done?["sweep"]?["gap"] == .null)
    }

    @Test("what cannot be read, or is of the other environment, is counted and holds nothing up")
    func refused() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        list.add("invoice.paid", StripeBody.invoice("c-1"), id: "evt_1", created: StripeRig.noon - 60)
        list.addUnreadable(id: "evt_2", created: StripeRig.noon - 50)
        list.add(
            "invoice.paid", StripeBody.invoice("c-3", live: false), id: "evt_3", created: StripeRig.noon - 40,
            live: false)
        #expect(try await sweep.runOnce() == [StripeSweep.Report(read: 3, recorded: 1, refused: 2)])
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
        #expect(try await stripe.access("c-3", "sandbox") == [])
    }

    @Test("what the log has lost before it was noted how far the list was read is read again")
    func lost() async throws {
        let (stripe, list, server, _) = try await Self.make()
        defer { server.stop() }
        list.add("invoice.paid", StripeBody.invoice("c-1"), id: "evt_1", created: StripeRig.noon - 60)
        let (pool, lists) = (stripe.rig.pool, stripe.rig.stripeIngestion)
        let log = try await LosingLog(stripe.rig)
        let ingestion = StripeIngestion(
            Array(lists.clients.prefix(1)), reader: lists.reader, metrics: lists.metrics, logger: lists.logger,
            now: lists.now
        ) { try await log.append($0) }
        let sweep = StripeSweep(ingestion, register: WebSweepRegister(pool: pool, holder: "test")) { client in
            StripeImport(
                lists, client,
                register: WebImportRegister(
                    pool: pool, environment: .production, ownerMetadata: nil, holder: "test"),
                intervals: .impatient)
        }
        let error = await #expect(throws: LedgerError.self) { try await sweep.runOnce() }
        #expect(error?.code == .invalid)
        let standing = try #require(try await WebSweepRegister(pool: pool, holder: "other").standings().first)
        let until = try #require(standing.eventsUntil)
        #expect(until < stripe.rig.clock.now && !standing.isHeld)
        log.stop()
        #expect(try await sweep.runOnce().first??.recorded == 1)
        #expect(try await stripe.access("c-1") == ["web_checkout active"])
    }

    @Test("where this machine's clock is ahead, what comes until it is set right is read all the same")
    func clockAhead() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        func set(_ date: String, minutes: Int64, ahead: Int64) throws {
            list.date(date)
            stripe.rig.clock.now = try instant(ServiceRig.noon).adding(milliseconds: (minutes + ahead) * 60_000)
        }
        try set("Fri, 20 Nov 2026 12:00:00 GMT", minutes: 0, ahead: 120)
        _ = try await sweep.runOnce()
        #expect(try await Self.stream(stripe)?["sweep"]?["completed_until"] == .string(ServiceRig.noon))
        list.add("invoice.paid", StripeBody.invoice("c-1"), id: "evt_1", created: StripeRig.noon + 600)
        try set("Fri, 20 Nov 2026 12:20:00 GMT", minutes: 20, ahead: 120)
        #expect(try await sweep.runOnce().first??.recorded == 1)
        list.add(
            "invoice.paid", StripeBody.invoice("c-2", subscription: "sub_2"), id: "evt_2",
            created: StripeRig.noon + 1800)
        try set("Fri, 20 Nov 2026 12:40:00 GMT", minutes: 40, ahead: 0)
        #expect(try await sweep.runOnce().first??.recorded == 1)
    }

    @Test("a list that leads in a circle is not followed for long")
    func circle() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        for number in 1...2 {
            list.add(
                "invoice.paid", StripeBody.invoice("c-\(number)", subscription: "sub_\(number)"), id: "evt_\(number)",
                created: StripeRig.noon - 60)
        }
        list.neverEnd()
        await #expect(throws: (any Error).self) { try await sweep.runOnce() }
        #expect(server.requests.count < 10)
        #expect(try await stripe.head() == .int(4))
        #expect(try await Self.stream(stripe)?["sweep"]?["state"] == .string("failed"))
    }

    @Test("one process reads at a time; what one left that was killed is taken up when it is silent")
    func leased() async throws {
        let (stripe, _, server, sweep) = try await Self.make()
        defer { server.stop() }
        let other = WebSweepRegister(pool: stripe.rig.pool, holder: "other")
        _ = try #require(try await other.begin(.production, now: stripe.rig.clock.now))
        #expect(try await sweep.runOnce() == [nil] && server.requests.isEmpty)
        let owner = try await stripe.rig.database.owner()
        _ = try await owner.run { connection in
            try connection.query("UPDATE web_stream SET heartbeat_at = heartbeat_at - interval '31 seconds'")
        }
        #expect(try await sweep.runOnce() == [StripeSweep.Report()])
    }

    @Test("a stream from which nothing comes is silent until a webhook comes, be its event known")
    func silence() async throws {
        let (stripe, list, server, sweep) = try await Self.make()
        defer { server.stop() }
        list.add("invoice.paid", StripeBody.invoice("c-1"), id: "evt_1", created: StripeRig.noon - 7200)
        _ = try await sweep.runOnce()
        _ = try await stripe.rig.application.stripe.lookups?.round()
        #expect(try await Self.stream(stripe)?["silent"] == .bool(true))
        let late = StripeBody.event(
            "invoice.paid", StripeBody.invoice("c-1"), id: "evt_1", created: StripeRig.noon - 7200)
        #expect(try await stripe.deliver(late).json["duplicate"] == .bool(true))
        let heard = try await Self.stream(stripe)
        #expect(heard?["silent"] == .bool(false) && heard?["last_heard_at"] == .string(ServiceRig.noon))
    }
}
