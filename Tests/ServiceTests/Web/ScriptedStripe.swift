import EntitlementAPI
import EntitlementCore
import Foundation
import OutgoingHTTP
import StripeAPI
import Synchronization
import TestSupport
import Testing

@testable import Service

/// Stripe's API as far as a checkout needs it, in this process.
final class ScriptedStripe: OutgoingTransport {
    struct Asked: Sendable {
        let method: String
        /// Path and query, percent-decoded.
        let target: String
        let headers: [String: String]
        /// The form, decoded.
        let form: [String: String]
    }

    private struct State {
        var asked: [Asked] = []
        var answers: [String: OutgoingAnswer] = [:]
        /// The first answer to each idempotency key.
        var kept: [String: OutgoingAnswer] = [:]
        var sessions = 0
        /// What became of sessions, by their ids, as `GET` tells: `open` where nothing is said.
        var became: [String: String] = [:]
        /// What becomes of sessions just when they are to be closed.
        var becomesOnExpiry: [String: String] = [:]
        var fault: OutgoingAnswer?
        /// Ids of customers that Stripe does not know.
        var deleted: Set<String> = []
        /// How many of the next requests that make something are answered so, also when they are sent again.
        var postsToFail: (count: Int, status: Int) = (0, 0)
        /// Seconds since 1970, as Stripe has it.
        var now = StripeRig.noon
    }

    private let state = Mutex(State())
    let environment: StoreEnvironment

    init(_ environment: StoreEnvironment = .production) { self.environment = environment }

    var asked: [Asked] { state.withLock(\.asked) }
    var posted: [Asked] { asked.filter { $0.method == "POST" } }

    /// Lets every request be answered so; `nil` for no more.
    func fail(_ status: Int?, _ body: String = "", headers: [String: String] = [:]) {
        state.withLock {
            $0.fault = status.map { OutgoingAnswer(status: $0, headers: headers, body: Array(body.utf8)) }
        }
    }

    /// Lets the next requests that make something fail, as is then told to whoever sends them again.
    func failPosts(count: Int, status: Int) { state.withLock { $0.postsToFail = (count, status) } }

    func pass(seconds: Int64) { state.withLock { $0.now += seconds } }

    func answer(_ path: String, _ body: String) {
        state.withLock { $0.answers[path] = OutgoingAnswer(status: 200, body: Array(body.utf8)) }
    }

    /// Says what became of a session: its members beside id and mode.
    func settle(_ session: String, as members: String) { state.withLock { $0.became[session] = members } }

    func settleOnExpiry(_ session: String, as members: String) {
        state.withLock { $0.becomesOnExpiry[session] = members }
    }

    /// The sessions that were closed for others, by their ids.
    var expired: [String] {
        posted.compactMap { asked in
            let path = asked.target.split(separator: "/")
            return path.last == "expire" ? String(path[path.count - 2]) : nil
        }
    }

    /// How often a page was asked for.
    var pages: [Asked] { posted.filter { !$0.target.hasSuffix("/expire") } }

    func delete(customer: String) { _ = state.withLock { $0.deleted.insert(customer) } }

    /// A shop that asks it, with a clock of the test.
    func shop(_ clock: TestClock) throws -> StripeShop {
        let key = try #require(StripeKey(environment == .production ? "rk_live_1" : "rk_test_1"))
        return StripeShop(
            client: StripeClient(
                key, transport: self,
                surroundings: .init(now: { clock.now }, sleep: { _ in }, fraction: { 0.5 })),
            successURL: "https://example.com/thanks?session={CHECKOUT_SESSION_ID}",
            cancelURL: "https://example.com/plans")
    }

    func send(_ request: OutgoingRequest) async throws -> OutgoingAnswer {
        let target = request.url.absoluteString.dropFirst("https://api.stripe.com".count)
        var form: [String: String] = [:]
        for pair in String(decoding: request.body ?? [], as: UTF8.self).split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = try #require(parts.first?.removingPercentEncoding)
            #expect(
                form.updateValue(try #require(parts.last?.removingPercentEncoding), forKey: name) == nil,
                "\(name) twice")
        }
        let asked = Asked(
            method: request.method, target: try #require(String(target).removingPercentEncoding),
            headers: Dictionary(request.headers.map { ($0.name, $0.value) }) { first, _ in first }, form: form)
        return state.withLock { state in
            state.asked.append(asked)
            if let fault = state.fault { return fault }
            if let told = Self.tell(asked, environment, &state) { return told }
            guard request.method == "POST" else {
                return state.answers[asked.target] ?? Self.error(404, "resource_missing", "No such object")
            }
            let key = asked.headers["Idempotency-Key"] ?? ""
            if let kept = state.kept[key] { return kept }
            var answer = Self.make(asked, environment, &state)
            if state.postsToFail.count > 0 {
                state.postsToFail.count -= 1
                answer = OutgoingAnswer(status: state.postsToFail.status, body: [])
            }
            state.kept[key] = answer
            return answer
        }
    }

    /// What became of a session, or what becomes of one that is closed.
    private static func tell(
        _ asked: Asked, _ environment: StoreEnvironment, _ state: inout State
    ) -> OutgoingAnswer? {
        let path = asked.target.prefix { $0 != "?" }.split(separator: "/").map(String.init)
        guard path.count >= 4, path[1] == "checkout", path[3].hasPrefix("cs_") else { return nil }
        let open = #""status":"open","payment_status":"unpaid""#
        if path.last == "expire" {
            if let settled = state.becomesOnExpiry.removeValue(forKey: path[3]) { state.became[path[3]] = settled }
            let became = state.became[path[3]] ?? open
            guard became == open else { return error(400, "resource_missing", "Only open sessions can be expired.") }
            state.became[path[3]] = #""status":"expired","payment_status":"unpaid""#
        }
        let body =
            #"{"id":"\#(path[3])","object":"checkout.session","livemode":\#(environment == .production),\#(state.became[path[3]] ?? open)}"#
        return OutgoingAnswer(status: 200, body: Array(body.utf8))
    }

    private static func make(
        _ asked: Asked, _ environment: StoreEnvironment, _ state: inout State
    ) -> OutgoingAnswer {
        if let customer = asked.form["customer"], state.deleted.contains(customer) {
            return error(400, "resource_missing", "No such customer: '\(customer)'", param: "customer")
        }
        if asked.form["line_items[0][price]"] == "price_gone" {
            return error(400, "resource_missing", "No such price: 'price_gone'", param: "line_items[0][price]")
        }
        state.sessions += 1
        let isLive = environment == .production
        let body =
            asked.target == "/v1/billing_portal/sessions"
            ? #"{"id":"bps_\#(state.sessions)","object":"billing_portal.session","livemode":\#(isLive),"url":"https://billing.stripe.com/p/\#(state.sessions)"}"#
            : #"{"id":"cs_\#(state.sessions)","object":"checkout.session","livemode":\#(isLive),"expires_at":\#(state.now + 86_400),"url":"https://checkout.stripe.com/c/pay/cs_\#(state.sessions)"}"#
        return OutgoingAnswer(status: 200, body: Array(body.utf8))
    }

    private static func error(_ status: Int, _ code: String, _ message: String, param: String? = nil) -> OutgoingAnswer
    {
        let param = param.map { #","param":"\#($0)""# } ?? ""
        return OutgoingAnswer(
            status: status,
            body: Array(
                #"{"error":{"type":"invalid_request_error","code":"\#(code)","message":"\#(message)"\#(param)}}"#.utf8))
    }
}
