import Foundation
import Synchronization
import Testing

@testable import StoreSimulator

/// A clock that is set by hand.
private final class HandClock: Sendable {
    private let instant: Mutex<Int64>

    init(_ instant: Int64) { self.instant = Mutex(instant) }

    var now: Int64 { instant.withLock { $0 } }

    func advance(_ milliseconds: Int64) { instant.withLock { $0 += milliseconds } }
}

/// A simulated account, and whoever asks it.
private struct Account {
    static let key = "sk_test_simulated"
    private let clock: HandClock
    let stripe: SimulatedStripe

    init(_ life: WebLife? = nil, at instant: Int64 = SimulatedCalendar.instant(2026, 3, 1)) {
        let clock = HandClock(instant)
        self.clock = clock
        stripe = SimulatedStripe(
            life?.environment ?? .sandbox, key: Self.key, lives: life.map { [$0] } ?? [], seed: 9, now: { clock.now })
    }

    func advance(_ milliseconds: Int64) { clock.advance(milliseconds) }

    func get(_ path: String, _ query: [(String, String)] = [], version: String? = nil) async throws -> Answered {
        try await send("GET", path, query, version: version)
    }

    func post(_ path: String, _ form: String, idempotencyKey: String? = nil) async throws -> Answered {
        try await send("POST", path, form: form, idempotencyKey: idempotencyKey)
    }

    func send(
        _ method: String, _ path: String, _ query: [(String, String)] = [], form: String = "",
        key: String = Account.key, version: String? = nil, idempotencyKey: String? = nil
    ) async throws -> Answered {
        let answer = try await stripe.answer(
            SimulatedStripe.Request(
                method: method, path: ("v1/" + path).split(separator: "/").map(String.init),
                query: query.map { (name: $0.0, value: $0.1) }, authorization: "Bearer \(key)", version: version,
                idempotencyKey: idempotencyKey, body: Array(form.utf8)))
        return Answered(answer)
    }
}

private struct Answered {
    let status: Int
    let headers: [String: String]
    let body: [UInt8]

    init(_ response: SimulatedStripe.Response) {
        (status, headers, body) = (response.status, response.headers, response.body)
    }

    var json: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]) ?? [:]
    }

    var error: [String: Any] { json["error"] as? [String: Any] ?? [:] }
    var ids: [String] { (json["data"] as? [[String: Any]] ?? []).compactMap { $0["id"] as? String } }
    var hasMore: Bool { json["has_more"] as? Bool ?? false }
    var id: String { json["id"] as? String ?? "" }
}

@Suite("The simulated Stripe's API")
struct SimulatedStripeTests {
    private let sale =
        "mode=subscription&line_items[0][price]=price_pro_month&line_items[0][quantity]=1"
        + "&success_url=https%3A%2F%2Fapp.example%2Fdone%3Fs%3D%7BCHECKOUT_SESSION_ID%7D"
        + "&metadata[rightful_customer_id]=c-1&subscription_data[metadata][rightful_customer_id]=c-1"
        + "&client_reference_id=c-1"

    @Test("a signature is the one that is published")
    func signature() {
        let body = Array(#"{"id":"evt_test_1","object":"event","type":"invoice.paid"}"#.utf8)
        let header = StripeSigner.header(body, secrets: ["whsec_test_secret"], at: 1_700_000_000_000)
        #expect(
            header.hasPrefix(
                "t=1700000000,v1=3e3e661992c26c45d9105cbea450acc1a34f8c6dbafbd891f858c6fd9054fe3e,v0="))
        let rolled = StripeSigner.header(body, secrets: ["whsec_old", "whsec_new"], at: 1_763_750_400_000)
        #expect(
            rolled.hasPrefix(
                "t=1763750400,v1=28719165ba4776d145b05ce2561d33fb3e45cb265de3e8f8026403bda688e8e8,"
                    + "v1=0321c681e4b22d2d7b04e003bf029f61f6d87e4bfc0fad98763627f9528eeab8,"))
    }

    @Test("events are listed newest first, by type and date, for thirty days, page by page in both directions")
    func events() async throws {
        let life = WebLife.random(seed: 3, customers: ["c-1", "c-2", "c-3"])
        func recent(_ instant: Int64) -> [StripeEventEntry] {
            life.events.filter { $0.created <= instant && $0.created > instant - 30 * Span.day }
        }
        // When most is going on.
        let busiest = life.events.map(\.created).max { recent($0).count < recent($1).count }
        let instant = try #require(busiest) + 500
        let account = Account(life, at: instant)
        let recent = recent(instant)
        try #require(recent.count > 12)
        var seen: [String] = []
        var after: String?
        repeat {
            let page = try await account.get(
                "events", [("limit", "7")] + (after.map { [("starting_after", $0)] } ?? []))
            #expect(page.status == 200 && page.ids.count <= 7)
            seen += page.ids
            after = page.hasMore ? page.ids.last : nil
        } while after != nil
        #expect(Set(seen) == Set(recent.map(\.id)) && seen.count == recent.count)
        #expect(try await account.get("events").ids == Array(seen.prefix(10)))
        let before = try await account.get("events", [("ending_before", seen[9]), ("limit", "4")])
        #expect(before.ids == Array(seen[5..<9]) && before.hasMore)
        let first = try await account.get("events", [("ending_before", seen[3]), ("limit", "4")])
        #expect(first.ids == Array(seen[..<3]) && !first.hasMore)
        let paid = try await account.get(
            "events", [("types[]", "invoice.paid"), ("types[]", "refund.created"), ("limit", "100")])
        #expect(
            paid.ids
                == seen.filter { id in
                    recent.contains { $0.id == id && ["invoice.paid", "refund.created"].contains($0.type) }
                })
        let bound = recent[recent.count / 2].created / 1000
        let since = try await account.get("events", [("created[gte]", "\(bound)"), ("limit", "100")])
        #expect(Set(since.ids) == Set(recent.filter { $0.created / 1000 >= bound }.suffix(100).map(\.id)))
        #expect(
            try await account.get("events", [("starting_after", "evt_nobody")]).error["code"] as? String
                == "resource_missing")
        #expect(try await account.get("events", [("limit", "101")]).status == 400)
        #expect(try await account.get("events", [("colour", "red")]).error["code"] as? String == "parameter_unknown")
        let old = try #require(life.events.first)
        account.advance(31 * Span.day)
        #expect(try await account.get("events/\(old.id)").status == 404)
    }

    @Test("objects are read as they are by now, in the version asked for; events as they were made")
    func shapes() async throws {
        let account = Account()
        let session = try await account.post("checkout/sessions", sale)
        let next = try #require(account.stripe.pay(session.id, by: .card))
        #expect(next == "https://app.example/done?s=\(session.id)")
        account.advance(10 * Span.second)
        let id = try #require(try await account.get("subscriptions").ids.first)
        let recent = try await account.get("subscriptions/\(id)")
        #expect(recent.json["current_period_end"] == nil && recent.json["status"] as? String == "active")
        let early = try await account.get("subscriptions/\(id)", version: "2024-06-20")
        #expect(early.json["current_period_end"] as? Int != nil)
        #expect((early.json["metadata"] as? [String: Any])?["rightful_customer_id"] as? String == "c-1")
        let event = try #require(
            try await account.get("events", [("type", "invoice.paid")], version: "2024-06-20").ids.first)
        let listed = try await account.get("events/\(event)", version: "2024-06-20")
        #expect(listed.json["api_version"] as? String == "2026-07-29.dahlia")
        #expect(try await account.get("subscriptions/\(id)", version: "yesterday").status == 400)
        account.stripe.act(.cancelNow, on: id)
        #expect(
            try await account.get("subscriptions").ids.isEmpty, "what is over is listed only where all are asked for")
        #expect(try await account.get("subscriptions", [("status", "all")]).ids == [id])
    }

    @Test("while a bank takes its time its payment can be read, and is under way")
    func bank() async throws {
        let account = Account()
        let sale =
            "mode=payment&line_items[0][price]=price_lifetime&line_items[0][quantity]=1"
            + "&success_url=https%3A%2F%2Fapp.example%2Fdone&payment_intent_data[metadata][rightful_customer_id]=c-1"
        let session = try await account.post("checkout/sessions", sale)
        _ = try #require(account.stripe.pay(session.id, by: .bank))
        account.advance(2 * Span.second)
        let paid = try await account.get("checkout/sessions/\(session.id)", [("expand[]", "payment_intent")])
        let expanded = try #require(paid.json["payment_intent"] as? [String: Any])
        #expect(paid.json["payment_status"] as? String == "unpaid" && expanded["status"] as? String == "processing")
        let id = try #require(expanded["id"] as? String)
        let underWay = try await account.get("payment_intents/\(id)")
        #expect(underWay.status == 200 && underWay.json["status"] as? String == "processing")
        #expect(underWay.json["amount_received"] as? Int == 0 && underWay.json["latest_charge"] is NSNull)
        account.advance(30 * Span.second)
        let arrived = try await account.get("payment_intents/\(id)")
        #expect(arrived.json["status"] as? String == "succeeded" && arrived.json["latest_charge"] is String)
        #expect(arrived.json["created"] as? Int == underWay.json["created"] as? Int)
    }

    @Test("a session is made once under one key, and nothing else under the same")
    func idempotency() async throws {
        let account = Account()
        let first = try await account.post("checkout/sessions", sale, idempotencyKey: "k")
        let again = try await account.post("checkout/sessions", sale, idempotencyKey: "k")
        #expect(first.status == 200 && again.body == first.body && again.headers["Idempotent-Replayed"] == "true")
        let other = try await account.post("checkout/sessions", sale + "&locale=de", idempotencyKey: "k")
        #expect(other.status == 400 && other.error["type"] as? String == "idempotency_error")
        #expect(try await account.get("checkout/sessions").ids == [first.id])
        account.advance(25 * Span.hour)
        #expect(try await account.post("checkout/sessions", sale, idempotencyKey: "k").id != first.id)
        account.stripe.fail(.crashed)
        let crashed = try await account.post("checkout/sessions", sale, idempotencyKey: "c")
        let replayed = try await account.post("checkout/sessions", sale, idempotencyKey: "c")
        #expect(crashed.status == 500 && replayed.status == 500 && replayed.headers["Idempotent-Replayed"] == "true")
        account.stripe.fail(.status(503, retryAfter: 2))
        let refused = try await account.post("checkout/sessions", sale, idempotencyKey: "r")
        #expect(refused.status == 503 && refused.headers["Retry-After"] == "2")
        #expect(refused.headers["Stripe-Should-Retry"] == "true")
        #expect(try await account.post("checkout/sessions", sale, idempotencyKey: "r").status == 200)
    }

    @Test(
        "a session that could not be sold is refused with its parameter",
        arguments: [
            ("mode=subscription", "mode=payment", "line_items"),
            ("price_pro_month", "price_nobody", "line_items[0][price]"),
            ("success_url=", "success=", "success"), ("client_reference_id=c-1", "customer=cus_nobody", "customer"),
            ("mode=subscription", "mode=setup", "mode"), ("&client", "&expires_at=5&client", "expires_at"),
        ])
    func refusals(part: String, replacement: String, parameter: String) async throws {
        let answer = try await Account().post("checkout/sessions", sale.replacing(part, with: replacement))
        #expect(answer.status == 400 && answer.error["param"] as? String == parameter, "\(answer.json)")
    }

    @Test("without the key nothing is told, and nobody is told it back")
    func key() async throws {
        let answer = try await Account().send("GET", "events", key: "sk_test_other")
        #expect(answer.status == 401 && answer.error["type"] as? String == "authentication_error")
        #expect(!String(decoding: answer.body, as: UTF8.self).contains("sk_test"))
    }

    @Test("it fails in each way that it is told to: limits, outages, other customers' pages, half an answer")
    func faults() async throws {
        let account = Account()
        account.stripe.fail(.status(429), .page, .truncated)
        #expect(try await account.get("events").status == 429)
        #expect(try await account.get("events").headers["Content-Type"] == "text/html")
        #expect(try await account.get("events").json.isEmpty)
        #expect(try await account.get("events").status == 200)
        account.stripe.holdLimits()
        var statuses: [Int] = []
        for _ in 0..<30 { statuses.append(try await account.get("events").status) }
        #expect(statuses.count { $0 == 200 } == 25 && statuses.suffix(5).allSatisfy { $0 == 429 })
        account.advance(1001)
        #expect(try await account.get("events").status == 200)
    }

    @Test("a subscription lives on as time passes: renewed, refused, cancelled at last")
    func time() async throws {
        let account = Account()
        let session = try await account.post("checkout/sessions", sale)
        _ = account.stripe.pay(session.id, by: .cardOnce)
        #expect(account.stripe.pay(session.id, by: .card) == nil, "it is paid")
        let id = try #require(
            account.stripe.events().lazy.compactMap { event -> String? in
                if case .subscription(let subscription) = event.object { subscription.id } else { nil }
            }.first)
        account.advance(31 * Span.day + 2 * Span.hour)
        account.stripe.tick()
        #expect(try await account.get("subscriptions/\(id)").json["status"] as? String == "past_due")
        account.stripe.act(.mendCard, on: id)
        account.stripe.tick()
        account.advance(2 * Span.second)
        #expect(try await account.get("subscriptions/\(id)").json["status"] as? String == "active")
        account.stripe.act(.breakCard, on: id)
        account.advance(60 * Span.day)
        account.stripe.tick()
        #expect(try await account.get("subscriptions/\(id)").json["status"] as? String == "canceled")
        let types = Set(account.stripe.events().map(\.type))
        #expect(types.isSuperset(of: ["invoice.paid", "invoice.payment_failed", "customer.subscription.deleted"]))
    }
}
