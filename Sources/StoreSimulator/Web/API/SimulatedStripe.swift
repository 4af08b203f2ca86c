import Foundation
import SeededRandom
import Synchronization

/// One mode of a simulated Stripe account: its API, as far as a ledger asks it, and what its customers do.
///
/// It checks the key of each request, answers in the version that is asked for, keeps what was answered under an idempotency
/// key, and does as badly as it is told to.
package final class SimulatedStripe: Sendable {
    /// A request, as far as it matters.
    package struct Request: Sendable {
        package let method: String
        /// Percent-decoded, from `v1` on.
        package let path: [String]
        package let query: [(name: String, value: String)]
        package let authorization: String?
        package var version: String?
        package var idempotencyKey: String?
        package let body: [UInt8]

        package init(
            method: String, path: [String], query: [(name: String, value: String)] = [], authorization: String?,
            version: String? = nil, idempotencyKey: String? = nil, body: [UInt8] = []
        ) {
            (self.method, self.path, self.query, self.body) = (method, path, query, body)
            (self.authorization, self.version, self.idempotencyKey) = (authorization, version, idempotencyKey)
        }
    }

    package struct Response: Sendable, Equatable {
        package var status: Int
        package var headers: [String: String] = [:]
        package var body: [UInt8] = []
        /// Half of it is sent, and then the connection is reset.
        package var isReset = false
    }

    /// What goes wrong with the next request.
    package enum Fault: Sendable, Equatable {
        /// It is refused before anything is done; and after how many seconds to come again.
        case status(Int, retryAfter: Int? = nil)
        /// It is done, and answered 500, also to whoever asks again under the same idempotency key.
        case crashed
        /// Half of the answer.
        case truncated
        /// It is done, and in the middle of the answer the connection is reset.
        case reset
        /// A good answer after so many milliseconds.
        case slow(milliseconds: Int)
        /// A page in the place of an answer, as of something that stands between.
        case page
    }

    struct Saved: Sendable {
        let request: [UInt8]
        let response: Response
        let until: Int64
    }

    struct State: Sendable {
        var teller: WebStoryteller
        var faults: [Fault] = []
        /// What goes wrong with every request about an id or a kind, and, under no name, with all.
        var lasting: [String?: Fault] = [:]
        var faultShare = 0
        var random = SplitMix64(seed: 0)
        /// The paths that were answered, as they were asked for.
        var asked: [String] = []
        var saved: [String: Saved] = [:]
        var requests: Int64 = 0
        var pageLimit = 100
        /// The instants of the last requests, and whether more than the account's limit is refused.
        var recent: [Int64] = []
        var holdsLimits = false
        /// Which customer each session of the portal is of, and where it leads back to.
        var portals: [String: (customer: String, returnURL: String?)] = [:]
        /// Whose card is refused from now on, by subscription.
        var badCards: Set<String> = []
        /// What is due of subscriptions, and when.
        var due: [String: StripeDue] = [:]
        /// The seeds of the stories that were told.
        var told: Set<UInt64> = []
        /// Where webhooks go, by the last endpoint that was made.
        var webhookURL: String?
    }

    package let environment: SimulatedStoreEnvironment
    let shop: [SimulatedWebPrice]
    private let key: String
    /// Where the pages for people are, without a slash at the end.
    let pages: @Sendable () -> String
    let now: @Sendable () -> Int64
    let state: Mutex<State>

    /// How long what was answered is kept under an idempotency key, in milliseconds.
    static let savedFor = Span.day
    /// How many requests a second are answered, where the limit is held.
    static func limit(_ environment: SimulatedStoreEnvironment) -> Int { environment == .production ? 100 : 25 }

    /// - Parameters:
    ///   - key: the secret key of the account.
    ///   - lives: what happened before; what is later than the clock is not seen yet.
    ///   - pages: where the pages for people are served.
    ///   - now: the account's clock, in milliseconds since 1970.
    package init(
        _ environment: SimulatedStoreEnvironment, key: String, lives: [WebLife] = [],
        shop: [SimulatedWebPrice] = SimulatedShop.all,
        seed: UInt64 = 0, pages: @escaping @Sendable () -> String = { "https://checkout.example" },
        now: @escaping @Sendable () -> Int64
    ) {
        (self.environment, self.key, self.shop, self.pages, self.now) = (environment, key, shop, pages, now)
        var teller = WebStoryteller(environment, seed: seed)
        for life in lives where life.environment == environment { teller.books.merge(life.books) }
        state = Mutex(State(teller: teller))
    }

    // MARK: - For tests

    /// Lets the next requests go wrong, one after the other.
    package func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Lets every request go wrong from now on, or those alone whose path has a word; `nil` for no more.
    package func failAlways(_ fault: Fault?, about word: String? = nil) { state.withLock { $0.lasting[word] = fault } }

    /// Nothing goes wrong any more.
    package func heal() { state.withLock { ($0.faults, $0.lasting, $0.faultShare) = ([], [:], 0) } }

    /// Lets something go wrong with so many requests in a hundred, as a seed has it.
    package func failAtRandom(percent: Int, seed: UInt64) {
        state.withLock { ($0.faultShare, $0.random) = (percent, SplitMix64(seed: seed)) }
    }

    /// Refuses more than the account's limit in a second.
    package func holdLimits() { state.withLock { $0.holdsLimits = true } }

    /// Lets a page hold at most so much.
    package func limitPages(to count: Int) { state.withLock { $0.pageLimit = count } }

    /// The paths that were answered, in order.
    package var asked: [String] { state.withLock { $0.asked } }

    /// What happened so far, the oldest first.
    package func events(after count: Int = 0) -> [StripeEventEntry] {
        let now = now()
        return state.withLock { Array($0.teller.books.events.dropFirst(count)) }.filter { $0.created <= now }
    }

    /// Tells a story that began before the account did, once: its ids are those of its seed, whoever begins the account anew.
    package func tell(asOf seed: UInt64, _ story: (inout WebStoryteller) -> Void) {
        state.withLock { state in
            guard state.told.insert(seed).inserted else { return }
            state.teller.tell(asOf: seed, story)
        }
    }

    /// Where webhooks go, by the last endpoint that was made.
    package var webhookURL: String? { state.withLock { $0.webhookURL } }

    /// The truth about what was bought here.
    package var record: WebRecord { state.withLock { $0.teller.record } }

    // MARK: - Requests

    /// Answers one request.
    package func answer(_ request: Request) async throws -> Response {
        let fault = nextFault(request)
        if case .slow(let milliseconds) = fault { try await Task.sleep(for: .milliseconds(milliseconds)) }
        var response = answer(request, fault)
        response.headers["Request-Id"] = state.withLock { state in
            state.requests += 1
            return "req_\(state.requests)"
        }
        response.headers["Content-Type"] = response.headers["Content-Type"] ?? "application/json"
        response.isReset = fault == .reset
        if fault == .truncated { response.body.removeLast(response.body.count / 2) }
        return response
    }

    private func nextFault(_ request: Request) -> Fault? {
        state.withLock { state in
            if !state.faults.isEmpty { return state.faults.removeFirst() }
            for word in request.path { if let fault = state.lasting[word] { return fault } }
            if let fault = state.lasting[nil] { return fault }
            guard state.faultShare > 0, state.random.chance(state.faultShare) else { return nil }
            return state.random.pick([
                .status(429, retryAfter: 1), .status(500), .status(503), .page, .truncated, .reset,
                .slow(milliseconds: 500),
            ])
        }
    }

    private func answer(_ request: Request, _ fault: Fault?) -> Response {
        if case .status(let status, let retryAfter) = fault { return Self.refusal(status, retryAfter) }
        if fault == .page {
            return Response(
                status: 502, headers: ["Content-Type": "text/html"],
                body: Array("<html><h1>Bad gateway</h1></html>".utf8))
        }
        guard request.authorization == "Bearer \(key)" else {
            return Self.error(401, "Invalid API Key provided.", type: "authentication_error")
        }
        guard request.path.first == "v1" else { return Self.error(404, "Unrecognized request URL.") }
        var shape = StripeShape.recent
        if let version = request.version {
            guard let known = StripeShape(version: version) else {
                return Self.error(400, "Invalid Stripe API version: \(version)")
            }
            shape = known
        }
        let instant = now()
        return state.withLock { state in
            if state.holdsLimits {
                state.recent = state.recent.filter { $0 > instant - Span.second }
                guard state.recent.count < Self.limit(environment) else { return Self.refusal(429, nil) }
                state.recent.append(instant)
            }
            state.asked.append("\(request.method) /\(request.path.joined(separator: "/"))")
            let path = Array(request.path.dropFirst())
            guard request.method != "GET" else {
                let library = StripeLibrary(
                    state.teller.books, isLive: environment == .production, now: instant, shape: shape,
                    pageLimit: state.pageLimit, shop: shop)
                return Self.response(library.get(path, request.query))
            }
            return once(request, &state, at: instant) { state in
                let answer = post(request.method, path, StripeForm(request.body), &state, shape, at: instant)
                return fault == .crashed ? Self.refusal(500, nil) : Self.response(answer)
            }
        }
    }

    /// Does something once under one idempotency key.
    private func once(
        _ request: Request, _ state: inout State, at instant: Int64, _ work: (inout State) -> Response
    ) -> Response {
        guard let key = request.idempotencyKey, request.method == "POST" else { return work(&state) }
        guard key.utf8.count <= 255 else { return Self.error(400, "An idempotency key has at most 255 characters.") }
        let fingerprint = Array(request.path.joined(separator: "/").utf8) + [0] + request.body
        if let saved = state.saved[key], saved.until > instant {
            guard saved.request == fingerprint else {
                return Self.error(
                    400,
                    "Keys for idempotent requests can only be used with the same parameters they were first used with.",
                    type: "idempotency_error")
            }
            var response = saved.response
            response.headers["Idempotent-Replayed"] = "true"
            return response
        }
        let response = work(&state)
        // What was not understood was not begun.
        if response.status != 400 {
            state.saved[key] = Saved(request: fingerprint, response: response, until: instant + Self.savedFor)
        }
        return response
    }

    private static func response(_ answer: StripeLibrary.Answer) -> Response {
        Response(status: answer.status, body: answer.document.json)
    }

    static func error(_ status: Int, _ message: String, type: String = "invalid_request_error") -> Response {
        response(StripeLibrary.error(status, message, type: type))
    }

    private static func refusal(_ status: Int, _ retryAfter: Int?) -> Response {
        let kind = status == 429 ? "rate_limit_error" : "api_error"
        var response = error(
            status, "Simulated error \(status).", type: status < 500 && status != 429 ? "invalid_request_error" : kind)
        response.headers["Retry-After"] = retryAfter.map { "\($0)" }
        if status == 409 || status == 429 || status >= 500 { response.headers["Stripe-Should-Retry"] = "true" }
        return response
    }
}
