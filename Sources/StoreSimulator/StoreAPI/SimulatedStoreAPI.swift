import Foundation
package import OpenSSLCrypto
import SeededRandom
import Synchronization

/// The App Store Server API of the simulated store, as far as a ledger asks it.
///
/// It checks the token of each request as the store does, turns pages of twenty, counts requests against the store's
/// limits, and does as badly as it is told to.
package final class SimulatedStoreAPI: Sendable {
    /// A request, as far as it matters.
    package struct Request: Sendable {
        package let method: String
        /// Percent-decoded.
        package let path: [String]
        package let query: [(name: String, value: String)]
        package let authorization: String?
        package let body: [UInt8]

        package init(
            method: String, path: [String], query: [(name: String, value: String)] = [], authorization: String?,
            body: [UInt8] = []
        ) {
            self.method = method
            self.path = path
            self.query = query
            self.authorization = authorization
            self.body = body
        }

        func queried(_ name: String) -> String? { query.first { $0.name == name }?.value }
    }

    package struct Response: Sendable {
        package var status: Int
        package var headers: [(String, String)] = []
        package var body: [UInt8] = []
    }

    /// What goes wrong with the next request.
    package enum Fault: Sendable, Equatable {
        /// An error with Apple's number, or none; and when to come again, in milliseconds since 1970.
        case status(Int, code: Int64? = nil, retryAfter: Int64? = nil)
        /// Half of the answer.
        case truncated
        /// A good answer in which every signature is wrong.
        case forged
        /// A good answer whose first item is without its `signedPayload`.
        case unsigned
        /// A good answer after so many milliseconds.
        case slow(milliseconds: Int)
    }

    /// Who may ask.
    package struct Access: Sendable {
        package let issuerID: String
        package let keyID: String
        package let key: PublicKey

        package init(issuerID: String, keyID: String, key: PublicKey) {
            self.issuerID = issuerID
            self.keyID = keyID
            self.key = key
        }
    }

    struct State: Sendable {
        var archives: [SimulatedStoreEnvironment: StoreArchive] = [:]
        var faults: [Fault] = []
        /// What goes wrong with every request about an id, and, under no id, with all others.
        var lasting: [String?: Fault] = [:]
        /// Of how many requests in a hundred something goes wrong at random, beside `faults`.
        var faultShare = 0
        var random = SplitMix64(seed: 0)
        /// How long each answer takes, in milliseconds.
        var delay = 0
        /// The instants at which each kind of request was answered, in milliseconds.
        var asked: [String: [Int64]] = [:]
        var tests: [String: String] = [:]
        var testsAsked = 0
        var newestTest: String?
        /// Whether it is said what became of deliveries; else all succeed.
        var reportsAttempts = false
        /// What was sent and is to be delivered by whoever takes it.
        var undelivered: [String] = []
        /// Whether more than the store's limits is refused, and what they are in an hour where they are not the store's own.
        var holdsLimits = false
        var hourlyLimits: [String: Int] = [:]
        /// While a window or a page of it is asked for that holds one of these instants, the answer is an error.
        var badInstants: [Int64] = []
        /// Whether the history is empty, as in an outage of the store.
        var listsNothing = false
        /// What was told of each transaction, in order.
        var consumption: [String: [[UInt8]]] = [:]
        var accountTokens: [String: String] = [:]
        var extensions: [String: [Extension]] = [:]
        /// How often each page of the history was given.
        var pages: [String: Int] = [:]
        /// Requests that have no answer yet, and the most there ever were.
        var (inFlight, mostInFlight) = (0, 0)
        /// How many requests have to be there before any is answered.
        var gathered = 0
    }

    package let authority: SimulatedAuthority
    let world: StoreWorld
    private let access: Access
    let environment: SimulatedStoreEnvironment
    let now: @Sendable () -> Int64
    let wallClock: @Sendable () -> Int64
    let state = Mutex(State())

    /// - Parameters:
    ///   - environment: whose server it is.
    ///   - now: the store's clock, in milliseconds since 1970.
    ///   - wallClock: that of whoever asks, by which tokens and limits are judged, where the store's own is another.
    package init(
        authority: SimulatedAuthority, world: StoreWorld, access: Access, environment: SimulatedStoreEnvironment,
        now: @escaping @Sendable () -> Int64, wallClock: (@Sendable () -> Int64)? = nil
    ) {
        self.authority = authority
        self.world = world
        self.access = access
        self.environment = environment
        self.now = now
        self.wallClock = wallClock ?? now
    }

    /// Signs a notification and remembers it, as the store does before it tries to deliver it.
    ///
    /// - Parameter instant: when it is sent, in milliseconds since 1970; else when it was signed.
    /// - Returns: the `signedPayload`.
    @discardableResult
    package func send(_ notification: StoreNotification, at instant: Int64? = nil) throws -> String {
        let transaction = try notification.transaction.map { try authority.sign(.object($0)) }
        let renewal = try notification.renewal.map { try authority.sign(.object($0)) }
        var inner: [String: PayloadValue] = [:]
        inner["signedTransactionInfo"] = transaction.map { .string($0) }
        inner["signedRenewalInfo"] = renewal.map { .string($0) }
        if let app = notification.appTransaction {
            inner["signedAppTransactionInfo"] = .string(try authority.sign(.object(app)))
        }
        let payload = try authority.sign(notification, inner: inner)
        state.withLock { state in
            state.archives[notification.environment, default: StoreArchive()]
                .keep(
                    notification, at: instant ?? notification.signedDate, payload: payload, transaction: transaction,
                    renewal: renewal)
            if state.reportsAttempts { state.undelivered.append(payload) }
        }
        return payload
    }

    /// Remembers a notification that was signed before.
    ///
    /// - Parameters:
    ///   - payload: its `signedPayload`, with the signed statements inside.
    ///   - instant: when it was sent, in milliseconds since 1970; else when it was signed.
    package func resend(_ notification: StoreNotification, payload: String, at instant: Int64? = nil) {
        let members = payload.split(separator: ".").dropFirst().first.flatMap { Self.members(String($0)) }
        let data = members?["data"] as? [String: Any]
        state.withLock { state in
            state.archives[notification.environment, default: StoreArchive()]
                .keep(
                    notification, at: instant ?? notification.signedDate, payload: payload,
                    transaction: data?["signedTransactionInfo"] as? String,
                    renewal: data?["signedRenewalInfo"] as? String)
        }
    }

    /// Signs a notification about a transaction and remembers it, as the store does before it tries to deliver it.
    ///
    /// - Returns: the `signedPayload`.
    @discardableResult
    package func send(
        _ type: String, uuid: String, _ transaction: [String: PayloadValue], _ renewal: [String: PayloadValue]? = nil
    ) throws -> String {
        try send(
            notification(
                transaction, renewal,
                [
                    "notificationType": .string(type), "notificationUUID": .string(uuid), "version": .string("2.0"),
                    "signedDate": .integer(now()), "data": .object(appData),
                ]), at: now())
    }

    /// Remembers statements of which no notification ever told.
    package func remember(
        _ transaction: [String: PayloadValue], _ renewal: [String: PayloadValue]? = nil
    ) throws {
        try remember(notification(transaction, renewal, [:]))
    }

    /// Remembers what a notification states, as if it had never been sent.
    package func remember(_ notification: StoreNotification) throws {
        try state.withLock { state in
            state.archives[environment, default: StoreArchive()]
                .keep(
                    notification, at: notification.signedDate, payload: nil,
                    transaction: try notification.transaction.map { try authority.sign(.object($0)) },
                    renewal: try notification.renewal.map { try authority.sign(.object($0)) })
        }
    }

    private func notification(
        _ transaction: [String: PayloadValue], _ renewal: [String: PayloadValue]?, _ payload: [String: PayloadValue]
    ) -> StoreNotification {
        var signedDate = now()
        if case .integer(let date)? = transaction["signedDate"] { signedDate = date }
        var original: String?
        if case .string(let id)? = transaction["originalTransactionId"] { original = id }
        return StoreNotification(
            environment: environment, originalTransactionID: original, signedDate: signedDate, payload: payload,
            transaction: transaction, renewal: renewal, appTransaction: nil, testimony: nil)
    }

    /// Everything that was sent, in order.
    package var sentPayloads: [String] { state.withLock { $0.archives[environment]?.sent.map(\.payload) ?? [] } }

    /// The test notification that was asked for last; `nil` until one can be delivered.
    package var newestTest: String? { state.withLock { $0.newestTest } }

    /// Lets the next requests go wrong, one after the other.
    package func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Lets every request go wrong from now on, or those about one id alone; `nil` for no more.
    package func failAlways(_ fault: Fault?, about id: String? = nil) { state.withLock { $0.lasting[id] = fault } }

    /// Lets each answer take so long.
    package func slow(milliseconds: Int) { state.withLock { $0.delay = milliseconds } }

    /// Lets something go wrong with so many requests in a hundred, as a seed has it: the store's limits, an outage, half of
    /// an answer, or a slow one.
    package func failAtRandom(percent: Int, seed: UInt64) {
        state.withLock { ($0.faultShare, $0.random) = (percent, SplitMix64(seed: seed)) }
    }

    /// Lets nothing more go wrong.
    package func forgiveAll() { state.withLock { ($0.faults, $0.lasting, $0.faultShare) = ([], [:], 0) } }

    private func nextFault(_ request: Request) -> Fault? {
        state.withLock { state in
            if !state.faults.isEmpty { return state.faults.removeFirst() }
            for id in request.path { if let fault = state.lasting[id] { return fault } }
            if let fault = state.lasting[nil] { return fault }
            guard state.faultShare > 0, state.random.chance(state.faultShare) else { return nil }
            return state.random.pick([
                .status(429, code: 4_290_000, retryAfter: wallClock() + Span.second), .status(500, code: 5_000_001),
                .status(503),
                .truncated, .slow(milliseconds: 2000),
            ])
        }
    }

    /// How many requests of a kind were answered, by the last word of their path that is no id.
    package func count(of kind: String) -> Int { state.withLock { $0.asked[kind]?.count ?? 0 } }

    /// The most requests of a kind in any hour.
    package func mostInAnHour(of kind: String) -> Int { most(of: kind, within: Span.hour) }

    /// The most requests of a kind in any stretch of so many milliseconds.
    package func most(of kind: String, within length: Int64) -> Int {
        let instants = state.withLock { $0.asked[kind] ?? [] }.sorted()
        var (first, most) = (0, 0)
        for (index, instant) in instants.enumerated() {
            while instants[first] <= instant - length { first += 1 }
            most = max(most, index - first + 1)
        }
        return most
    }

    /// Answers one request.
    package func answer(_ request: Request) async throws -> Response {
        state.withLock { state in
            state.inFlight += 1
            state.mostInFlight = max(state.mostInFlight, state.inFlight)
        }
        defer { state.withLock { $0.inFlight -= 1 } }
        try await waitForOthers()
        let fault = nextFault(request)
        let delay = state.withLock { $0.delay }
        if delay > 0 { try await Task.sleep(for: .milliseconds(delay)) }
        if case .slow(let milliseconds) = fault { try await Task.sleep(for: .milliseconds(milliseconds)) }
        if case .status(let status, let code, let retryAfter) = fault {
            state.withLock { $0.asked["failed", default: []].append(wallClock()) }
            return try error(status, code, retryAfter.map { [("Retry-After", "\($0)")] } ?? [])
        }
        guard accepts(request.authorization) else { return Response(status: 401) }
        var response: Response
        do {
            response = try route(request)
        } catch let limit as LimitReached {
            return try error(429, 4_290_000, [("Retry-After", "\(limit.until)")])
        }
        switch fault {
        case .truncated: response.body.removeLast(response.body.count / 2)
        case .forged: response.body = Self.forged(response.body)
        case .unsigned: response.body = Self.unsigned(response.body)
        case .slow, .status, nil: break
        }
        return response
    }

    func error(_ status: Int, _ code: Int64?, _ headers: [(String, String)] = []) throws -> Response {
        // As of something that stands between.
        guard let code else {
            return Response(status: status, headers: headers, body: Array("<html><h1>\(status)</h1></html>".utf8))
        }
        let members: [String: PayloadValue] = [
            "errorCode": .integer(code), "errorMessage": .string("Simulated error \(code)."),
        ]
        return Response(status: status, headers: headers, body: try PayloadValue.object(members).encoded())
    }

    /// Whether a token is good: signed by the key, for this app, and of this moment.
    private func accepts(_ authorization: String?) -> Bool {
        guard let token = authorization, token.hasPrefix("Bearer ") else { return false }
        let parts = token.dropFirst(7).split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let header = Self.members(parts[0]), let claims = Self.members(parts[1]),
            let signature = Base64.decodeURL(parts[2]), header["alg"] as? String == "ES256",
            header["kid"] as? String == access.keyID, claims["iss"] as? String == access.issuerID,
            claims["aud"] as? String == "appstoreconnect-v1", claims["bid"] as? String == world.bundleID,
            let issued = (claims["iat"] as? NSNumber)?.int64Value,
            let expires = (claims["exp"] as? NSNumber)?.int64Value
        else { return false }
        let second = wallClock() / 1000
        return issued <= second && expires > second && expires - issued <= 3600
            && access.key.isValidES256(signature: signature, message: Array("\(parts[0]).\(parts[1])".utf8))
    }

    private static func members(_ segment: String) -> [String: Any]? {
        Base64.decodeURL(segment).flatMap { try? JSONSerialization.jsonObject(with: Data($0)) as? [String: Any] }
    }

    /// Gives the first `signedPayload` another name.
    private static func unsigned(_ body: [UInt8]) -> [UInt8] {
        Array(String(decoding: body, as: UTF8.self).replacing("signedPayload", with: "else", maxReplacements: 1).utf8)
    }

    /// Changes the last letters of everything that looks like a JWS.
    private static func forged(_ body: [UInt8]) -> [UInt8] {
        let text = String(decoding: body, as: UTF8.self)
        return Array(
            text.split(separator: "\"", omittingEmptySubsequences: false)
                .map { part in
                    part.count(where: { $0 == "." }) == 2 && part.hasPrefix("ey")
                        ? String(part.dropLast(6)) + "AAAAAA" : String(part)
                }
                .joined(separator: "\"").utf8)
    }
}
