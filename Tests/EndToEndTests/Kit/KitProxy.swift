import EntitlementAPI
import EntitlementCore
import EntitlementKit
import Foundation
import Synchronization

/// The way from one device to the server, and everything that can happen on it.
final class KitProxy: Sendable {
    /// What becomes of a request.
    enum Weather: Sendable, Hashable {
        case fair
        /// No answer, and the server never heard of it.
        case down
        /// The server did what was asked, and the answer got lost.
        case answerLost
        /// The server did nothing, and says so.
        case refusing(status: Int, retryAfter: Int?)
        /// The request waits until the weather changes.
        case stuck
    }

    /// What went over the network, in requests and in bytes of their bodies.
    struct Traffic: Hashable {
        var requests = 0
        var sent = 0
        var received = 0
    }

    /// How the server words its answers.
    enum Dialect: CaseIterable, Sendable, Hashable {
        case present
        /// With members and words that this Kit does not know.
        case later
        /// So much later that the facts cannot be read: only the answer counts.
        case muchLater
    }

    private struct State {
        var weather = Weather.fair
        var dialect = Dialect.present
        var waiting: [CheckedContinuation<Void, Never>] = []
        var requestCount = 0
        var traffic = Traffic()
        var answers: [ReconciliationDocument] = []
        var heard: [String] = []
        var finishable: Set<String> = []
        var posted: [String: Int] = [:]
    }

    private let upstream: HTTPEntitlementServer
    private let clock: WorldClock
    private let state = Mutex(State())

    init(_ service: KitService) {
        upstream = HTTPEntitlementServer(baseURL: service.url, publishableKey: service.publishableKey, timeout: 60)
        clock = service.clock
    }

    var weather: Weather {
        get { state.withLock { $0.weather } }
        set {
            let waiting = state.withLock { state in
                state.weather = newValue
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    /// How answers are worded from now on.
    var dialect: Dialect {
        get { state.withLock { $0.dialect } }
        set { state.withLock { $0.dialect = newValue } }
    }

    /// How many requests were made, whatever became of them.
    var requestCount: Int { state.withLock { $0.requestCount } }

    /// What was answered so far.
    var traffic: Traffic { state.withLock { $0.traffic } }

    /// The answers that reached the device.
    var answers: [ReconciliationDocument] { state.withLock { $0.answers } }

    /// The last answers that reached the device, each with what was asked, for people who read failures.
    var heard: [String] { state.withLock { $0.heard.suffix(4) } }

    private static func summary(_ request: Data, _ token: String?, _ answer: ReconciliationDocument) -> String {
        let request = try? WireJSON.decode(ReconcileRequest.self, from: Array(request))
        let held = answer.entitlements.map { "\($0.id) \($0.givesAccess)" }
        let facts = answer.facts?.facts.map { "\($0.originals.count) originals" } ?? "no facts"
        return "asked with token: \(token != nil), app transaction: \(request?.appTransaction != nil), "
            + "\(request?.signedTransactions.count ?? 0) transactions, \(request?.claims.count ?? 0) claims; answered: "
            + "\(answer.customerID) in \(answer.environment) at \(answer.position) by \(answer.proof.rawValue): "
            + "\(held), \(facts)"
    }

    /// How often each signed statement was posted to the server.
    var posted: [String: Int] { state.withLock { $0.posted } }

    /// Whether an answer that reached the device let it finish a transaction.
    func lists(_ transactionID: String) -> Bool { state.withLock { $0.finishable.contains(transactionID) } }

    fileprivate func reconcile(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse
    {
        state.withLock { $0.requestCount += 1 }
        return try await pass {
            try await forward(customerID, token, body)
        } answer: { response in
            guard response.status == 200 else { return response }
            let answer = try WireJSON.decode(ReconciliationDocument.self, from: Array(response.body))
            let summary = Self.summary(body, token, answer)
            state.withLock { state in
                state.answers.append(answer)
                state.heard.append(summary)
                state.finishable.formUnion(answer.finish)
            }
            return EntitlementServerResponse(
                status: 200, retryAfter: nil, body: try dialect.translate(response.body))
        }
    }

    /// A request to the server that is about selling on the web.
    fileprivate func sell(
        _ send: @Sendable (HTTPEntitlementServer) async throws -> EntitlementServerResponse
    ) async throws -> EntitlementServerResponse {
        try await pass {
            try await send(upstream)
        } answer: {
            $0
        }
    }

    /// A request goes through the weather.
    private func pass(
        _ send: () async throws -> EntitlementServerResponse,
        answer: (EntitlementServerResponse) throws -> EntitlementServerResponse
    ) async throws -> EntitlementServerResponse {
        while weather == .stuck {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.weather == .stuck { state.waiting.append(continuation) }
                    return state.weather != .stuck
                }
                if isOver { continuation.resume() }
            }
        }
        switch weather {
        case .down, .stuck:
            throw URLError(.notConnectedToInternet)
        case .refusing(let status, let retryAfter):
            return EntitlementServerResponse(status: status, retryAfter: retryAfter, body: Data("{}".utf8))
        case .answerLost:
            _ = try await clock.holding { try await send() }
            throw URLError(.networkConnectionLost)
        case .fair:
            return try answer(try await clock.holding { try await send() })
        }
    }

    private func forward(_ customerID: String, _ token: String?, _ body: Data) async throws -> EntitlementServerResponse
    {
        let request = try JSONSerialization.jsonObject(with: body) as? [String: Any]
        let posted = request?["signed_transactions"] as? [String] ?? []
        state.withLock { state in
            for statement in posted { state.posted[statement, default: 0] += 1 }
        }
        let response = try await upstream.reconcile(customerID: customerID, token: token, body: body)
        state.withLock { state in
            state.traffic.requests += 1
            state.traffic.sent += body.count
            state.traffic.received += response.body.count
        }
        return response
    }
}

/// The way to the server, as one launch sees it.
struct KitConnection: EntitlementServer {
    let process: KitProcess
    let proxy: KitProxy

    func reconcile(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        try await process.call("reconcile") {
            try await proxy.reconcile(customerID: customerID, token: token, body: body)
        }
    }

    func products(environment: String) async throws -> EntitlementServerResponse {
        try await process.call("products of the server") {
            try await proxy.sell { try await $0.products(environment: environment) }
        }
    }

    func checkout(
        customerID: String, token: String?, idempotencyKey: String, body: Data
    ) async throws -> EntitlementServerResponse {
        try await process.call("checkout") {
            try await proxy.sell {
                try await $0.checkout(
                    customerID: customerID, token: token, idempotencyKey: idempotencyKey, body: body)
            }
        }
    }

    func portal(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        try await process.call("portal") {
            try await proxy.sell { try await $0.portal(customerID: customerID, token: token, body: body) }
        }
    }
}

extension KitProxy.Dialect {
    /// An answer as a server of that version words it.
    func translate(_ body: Data) throws -> Data {
        guard self != .present else { return body }
        let answer = try WireJSON.decode(WireValue.self, from: Array(body))
        guard case .object(var members) = Self.adding(to: answer) else { return body }
        members["drift"] = .array([.object(["product_id": .string("x"), "claimed": .string("floating")]), .int(7)])
        if case .array(let timelines)? = members["timeline"] {
            members["timeline"] = .array(timelines + [.string("nonsense")])
        }
        members["mood"] = .object(["deep": .array([.int(1), .null])])
        if self == .muchLater {
            members["facts"] = .object(["encoded": .string("AAAA"), "identities": .object([:]), "key": .int(2)])
            members["fold_version"] = .int(1000)
        }
        return Data(try WireJSON.encode(WireValue.object(members)))
    }

    /// The same with a member more in each object, and another reason for each entitlement.
    private static func adding(to value: WireValue) -> WireValue {
        switch value {
        case .object(var members):
            // What is signed, or stands for itself, is not this server's to change.
            for (name, member) in members where !["facts", "pass"].contains(name) { members[name] = adding(to: member) }
            if case .object(var reason)? = members["reason"] {
                reason["code"] = .string("a_kinder_reason")
                members["reason"] = .object(reason)
            }
            members["colour"] = .string("blue")
            return .object(members)
        case .array(let entries): return .array(entries.map(adding))
        default: return value
        }
    }
}
