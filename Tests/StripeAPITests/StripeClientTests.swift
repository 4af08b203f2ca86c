import EntitlementCore
import Foundation
import OutgoingHTTP
import StripePayloads
import Synchronization
import TestSupport
import Testing

@testable import StripeAPI

/// A client whose server answers from a list, by a clock that only its pauses move.
private final class ClientRig: Sendable {
    static let start = Timestamp(milliseconds: Int64(1_795_176_000_000))
    static let key = "rk_test_4eC39HqLyjWDarjtT1zdp7dc"

    enum Step: Sendable {
        case answer(Int, [String: String] = [:], String = "{}")
        case fail(URLError.Code)
    }

    private struct State {
        var steps: [Step]
        var requests: [OutgoingRequest] = []
        var pauses: [Duration] = []
        var now = ClientRig.start
    }

    private let state: Mutex<State>

    init(_ steps: [Step]) { state = Mutex(State(steps: steps)) }

    var requests: [OutgoingRequest] { state.withLock(\.requests) }
    var pauses: [Duration] { state.withLock(\.pauses) }

    private struct Transport: OutgoingTransport {
        let rig: ClientRig

        func send(_ request: OutgoingRequest) async throws -> OutgoingAnswer {
            let step = rig.state.withLock { state in
                state.requests.append(request)
                return state.steps.count > 1 ? state.steps.removeFirst() : state.steps[0]
            }
            switch step {
            case .answer(let status, let headers, let body):
                return OutgoingAnswer(status: status, headers: headers, body: Array(body.utf8))
            case .fail(let code): throw URLError(code)
            }
        }
    }

    var client: StripeClient {
        get throws {
            StripeClient(
                try #require(StripeKey(Self.key)), transport: Transport(rig: self),
                surroundings: .init(
                    now: { self.state.withLock(\.now) },
                    sleep: { pause in
                        self.state.withLock { state in
                            state.pauses.append(pause)
                            state.now = state.now.adding(milliseconds: Int64(pause / .milliseconds(1)))
                        }
                    }, fraction: { 0.5 }))
        }
    }

    /// Why a request failed.
    func failure(_ request: StripeRequest = .get("/v1/subscriptions/sub_1")) async throws -> StripeAPIError {
        let client = try client
        return try #require(await #expect(throws: StripeAPIError.self) { try await client.send(request) })
    }
}

@Suite("The client of Stripe's API", .timeLimit(.minutes(1)))
struct StripeClientTests {
    private static func error(_ type: String, _ message: String = "No such thing", code: String = "x") -> String {
        #"{"error":{"type":"\#(type)","code":"\#(code)","message":"\#(message)"}}"#
    }

    private static let missing = error("invalid_request_error", code: "resource_missing")

    @Test("a request bears the key and the version, and is sent as Stripe takes it")
    func headers() async throws {
        let rig = ClientRig([.answer(200, [:], #"{"id":"sub_1"}"#)])
        let body = try await rig.client.answer(to: .invoiceOfPayment("pi_1"))
        #expect(body == Array(#"{"id":"sub_1"}"#.utf8))
        let request = try #require(rig.requests.first)
        #expect(request.method == "GET" && request.body == nil)
        #expect(
            request.url.absoluteString
                == "https://api.stripe.com/v1/invoice_payments?payment%5Btype%5D=payment_intent"
                + "&payment%5Bpayment_intent%5D=pi_1&expand%5B%5D=data.invoice&limit=100")
        let headers = Dictionary(request.headers.map { ($0.name, $0.value) }) { first, _ in first }
        #expect(headers["Authorization"] == "Bearer \(ClientRig.key)")
        #expect(headers["Stripe-Version"] == "2026-07-29.dahlia" && headers["Idempotency-Key"] == nil)
    }

    @Test("what makes something is a form under one idempotency key, however often it is sent")
    func post() async throws {
        let rig = ClientRig([.fail(.networkConnectionLost), .answer(500), .answer(200)])
        let form = [StripeRequest.Field("line_items[0][price]", "price_1"), .init("metadata[a b]", "Zoë & co")]
        _ = try await rig.client.send(.post("/v1/checkout/sessions", form, idempotencyKey: "k-1"))
        #expect(rig.requests.count == 3)
        for request in rig.requests {
            let body = String(decoding: request.body ?? [], as: UTF8.self)
            #expect(body == "line_items%5B0%5D%5Bprice%5D=price_1&metadata%5Ba%20b%5D=Zo%C3%AB%20%26%20co")
            #expect(request.headers.contains { $0 == ("Idempotency-Key", "k-1") })
            #expect(request.headers.contains { $0 == ("Content-Type", "application/x-www-form-urlencoded") })
        }
    }

    @Test("what passes is sent again with growing pauses, four times at most, and what does not pass once")
    func attempts() async throws {
        let passing: [ClientRig.Step] = [
            .answer(500), .answer(503), .answer(409), .answer(429), .answer(408), .fail(.timedOut),
            .fail(.networkConnectionLost), .answer(404, [:], "<html>"), .answer(400, [:], "<html>"),
            .answer(403, [:], "<html>blocked</html>"),
            .answer(400, ["Stripe-Should-Retry": "true"], Self.missing),
        ]
        for step in passing {
            let rig = ClientRig([step])
            _ = try await rig.failure()
            #expect(rig.requests.count == 4, "\(step)")
            #expect(rig.pauses == [.milliseconds(375), .milliseconds(750), .milliseconds(1500)], "\(step)")
        }
        let lasting: [(ClientRig.Step, StripeAPIError.Kind)] = [
            (.answer(401, [:], Self.error("invalid_request_error")), .unauthorized),
            (.answer(403, [:], Self.error("invalid_request_error")), .forbidden),
            // Somebody's maintenance page: not ours to follow, and over some day.
            (.answer(302), .unavailable),
            (.answer(400, [:], Self.error("invalid_request_error")), .refused),
            (.answer(402, [:], Self.error("card_error")), .refused), (.answer(404, [:], Self.missing), .notFound),
            (.answer(500, ["Stripe-Should-Retry": "false"]), .unavailable),
        ]
        for (step, kind) in lasting {
            let rig = ClientRig([step])
            #expect(try await rig.failure().kind == kind)
            #expect(rig.requests.count == 1, "\(step)")
        }
    }

    @Test("Retry-After is waited for where there is time, and else told")
    func retryAfter() async throws {
        let short = ClientRig([.answer(429, ["Retry-After": "7"]), .answer(200)])
        _ = try await short.client.send(.get("/v1/events"))
        #expect(short.pauses == [.seconds(7)])
        let long = ClientRig([.answer(429, ["Retry-After": "600"], Self.error("rate_limit_error"))])
        let error = try await long.failure()
        #expect(error.kind == .limited(until: ClientRig.start.adding(milliseconds: 600_000)))
        #expect(long.requests.count == 1 && long.pauses.isEmpty)
        let blocked = ClientRig([.answer(429, ["Retry-After": "600"]), .answer(200)])
        let client = try blocked.client
        for _ in 0..<3 {
            let error = await #expect(throws: StripeAPIError.self) { try await client.send(.get("/v1/events")) }
            #expect(error?.kind == .limited(until: ClientRig.start.adding(milliseconds: 600_000)))
        }
        #expect(blocked.requests.count == 1, "nothing is sent before")
        _ = try await client.send(.get("/v1/events"), within: .seconds(900))
        #expect(blocked.requests.count == 2 && blocked.pauses == [.seconds(600)])
        for nonsense in ["-1", "soon", "99999999999999999999"] {
            let rig = ClientRig([.answer(429, ["Retry-After": nonsense])])
            #expect(try await rig.failure().kind == .limited(until: nil))
        }
    }

    @Test("only Stripe itself says that there is no such thing")
    func missing() async throws {
        #expect(try await ClientRig([.answer(404, [:], Self.missing)]).client.answer(to: .refund("re_1")) == nil)
        let gateway = ClientRig([.answer(404, [:], "<html>not here</html>")])
        await #expect(throws: StripeAPIError.self) { try await gateway.client.answer(to: .refund("re_1")) }
    }

    @Test("an error says what happened and what to do, without ids, and never quotes the key")
    func errors() async throws {
        let echo = Self.error(
            "invalid_request_error", "Invalid API Key provided: \(ClientRig.key)\\u001b[2J", code: ClientRig.key)
        let rig = ClientRig([.answer(401, ["Request-Id": "req_1 \(ClientRig.key)"], echo)])
        let error = try await rig.failure(.get("/v1/subscriptions/sub_1?expand[]=customer"))
        let text = "\(error) \(String(reflecting: error))"
        #expect(!text.contains(ClientRig.key) && !text.contains("sub_1") && !text.contains("\u{1B}"), "\(text)")
        #expect(text.contains("GET /v1/subscriptions/…") && text.contains("secret_key_path") && text.contains("req_1"))
        let key = try #require(StripeKey(ClientRig.key))
        var dumped = ""
        dump(key, to: &dumped)
        dump(try rig.client, to: &dumped)
        #expect(!"\(key) \(String(reflecting: key)) \(dumped)".contains(ClientRig.key))
    }

    @Test("what is no key of Stripe's is none, and a key is of one environment")
    func keys() {
        for text in [
            "", "sk_live", "pk_live_1", "whsec_1", "rk_test_a b", "rk_test_" + String(repeating: "a", count: 600),
        ] {
            #expect(StripeKey(text) == nil, "\(text)")
        }
        #expect(StripeKey("sk_live_1")?.environment == .production && StripeKey("rk_test_1")?.environment == .sandbox)
    }

    @Test("the requests of one process are spread over time")
    func pace() async throws {
        let rig = ClientRig([.answer(200)])
        let client = try rig.client
        for _ in 0..<30 { _ = try await client.send(.get("/v1/events")) }
        #expect(rig.pauses == Array(repeating: .milliseconds(100), count: 20), "ten at once, and ten a second")
    }

    @Test("over a socket every way of not answering ends in time, and is told")
    func hostile() async throws {
        var retry = StripeRetry()
        retry.attempts = 2
        for reply in [HostileServer.Reply.reset, .drip, .silence, .cut("{"), .endless] {
            let server = try HostileServer { _, _ in reply }
            defer { server.stop() }
            let client = StripeClient(
                try #require(StripeKey(ClientRig.key)), base: server.url,
                // Long enough for a busy machine to see the request.
                transport: OutgoingSession(timeout: 3, answerLimit: 1 << 20), retry: retry,
                surroundings: .init(
                    now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
                    sleep: { try await Task.sleep(for: $0) }, fraction: { 0 }))
            let start = ContinuousClock.now
            let error = await #expect(throws: StripeAPIError.self) {
                try await client.send(.get("/v1/events"), within: .seconds(20))
            }
            #expect(error?.kind == .unavailable, "\(reply) \(String(describing: error))")
            #expect(start.duration(to: .now) < .seconds(25) && server.requests.count >= 2, "\(reply)")
        }
    }

    @Test("the deadline of all attempts ends one that is under way, and so does whoever gives up")
    func deadline() async throws {
        let server = try HostileServer { _, _ in .silence }
        defer { server.stop() }
        let client = StripeClient(
            try #require(StripeKey(ClientRig.key)), base: server.url,
            surroundings: .init(
                now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
                sleep: { try await Task.sleep(for: $0) }, fraction: { 0 }))
        let start = ContinuousClock.now
        await #expect(throws: StripeAPIError.self) {
            try await client.send(.get("/v1/events"), within: .milliseconds(300))
        }
        let task = Task { try await client.send(.get("/v1/events")) }
        while server.requests.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        let error = await #expect(throws: StripeAPIError.self) { try await task.value }
        #expect(error?.kind == .outOfTime)
        #expect(start.duration(to: .now) < .seconds(15))
    }
}
