import AppStoreServer
import Dispatch
import EntitlementCore
import Foundation
import Ledger
import OpenSSLCrypto
import StoreSimulator
import Synchronization

/// What the simulated store signs.
struct Workload: Sendable {
    let store: SimulatedAuthority
    let world = StoreWorld.standard
    private let header: String

    /// A store with keys of its own.
    init() throws {
        store = try SimulatedAuthority()
        let chain = [store.leaf, store.intermediate.certificate, store.root.certificate]
        header = Base64.encodeURL(
            try PayloadValue.object([
                "alg": .string("ES256"), "x5c": .array(chain.map { .string(Base64.encode($0.der)) }),
            ]).encoded())
    }

    /// The time, for the ledger.
    static func now() -> Timestamp { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) }

    /// Notifications of one customer's whole story.
    static let notificationsPerCustomer = 5

    /// At least so many notifications about customers of their own, unsigned, in the order of their dates: subscriptions
    /// that start, renew twice, fail and recover.
    ///
    /// - Parameters:
    ///   - seed: below 1,000,000; the transactions of different seeds never meet.
    ///   - onlyFirst: each customer's first notification alone.
    func notifications(atLeast count: Int, seed: UInt64, onlyFirst: Bool = false) -> [StoreNotification] {
        var story = Storyteller(world: world, seed: seed)
        for number in 0..<(onlyFirst ? count : count / Self.notificationsPerCustomer + 1) {
            let account = story.account()
            let day = Int64(number % 28) * Timestamp.millisecondsPerDay
            let key = story.subscribe(account, to: StoreWorld.ProductID.proMonthly, at: world.start + day)
            guard !onlyFirst else { continue }
            story.renew(key)
            story.renew(key)
            if let end = story.expiry(key) { story.failToRenew(key, at: end, graceEnd: end + 16 * Span.day) }
            story.renew(key)
        }
        return story.notifications.sorted { $0.signedDate < $1.signedDate }
    }

    /// Signs on all cores.
    func sign(_ notifications: [StoreNotification]) throws -> [String] {
        let parts = Machine.cores * 4
        let signed = Mutex<[Int: Result<[String], any Error>]>([:])
        DispatchQueue.concurrentPerform(iterations: parts) { part in
            let range = (notifications.count * part / parts)..<(notifications.count * (part + 1) / parts)
            let result = Result { try notifications[range].map { try sign($0) } }
            signed.withLock { $0[part] = result }
        }
        return try (0..<parts).flatMap { try signed.withLock { $0 }[$0]?.get() ?? [] }
    }

    /// What the store's own signing gives, in a tenth of the time: the signed parts are spliced into the payload as
    /// text, since they hold nothing that JSON would escape.
    private func sign(_ notification: StoreNotification) throws -> String {
        var payload = String(decoding: try PayloadValue.object(notification.payload).encoded(), as: UTF8.self)
        let data = #""data":{"#
        guard let place = payload.firstRange(of: data), let transaction = notification.transaction,
            let renewal = notification.renewal
        else { throw BenchmarkFailure("a notification without a transaction was made") }
        let parts = [
            ("signedTransactionInfo", try sign(PayloadValue.object(transaction).encoded())),
            ("signedRenewalInfo", try sign(PayloadValue.object(renewal).encoded())),
        ]
        payload.insert(contentsOf: parts.map { "\"\($0)\":\"\($1)\"," }.joined(), at: place.upperBound)
        return try sign(Array(payload.utf8))
    }

    private func sign(_ payload: [UInt8]) throws -> String {
        let message = header + "." + Base64.encodeURL(payload)
        return message + "." + Base64.encodeURL(try store.leafKey.signES256(Array(message.utf8)))
    }

    /// The body that delivers a signed notification.
    static func body(_ signedPayload: String) -> [UInt8] { Array("{\"signedPayload\":\"\(signedPayload)\"}".utf8) }

    /// The request that delivers a signed notification.
    static func delivery(_ signedPayload: String) -> [UInt8] {
        HTTPConnection.request("POST", "/v1/notifications/appstore", body: body(signedPayload))
    }

    /// The account token that a notification is about.
    static func customer(of notification: StoreNotification) throws -> String {
        guard case .string(let token) = notification.transaction?["appAccountToken"] else {
            throw BenchmarkFailure("a notification without an account token was made")
        }
        return token.lowercased()
    }

    /// Signed bytes for events that are made up: some hundreds, which the events carry in turn.
    ///
    /// Taken apart, as a verifier hands them on.
    static func evidence() throws -> [JWSParts] {
        let workload = try Workload()
        let now = now()
        let verifier = NotificationVerifier(
            jws: try JWSVerifier(trusting: TrustAnchors([workload.store.root.certificate])),
            apps: [
                AppBinding(
                    bundleID: workload.world.bundleID, appAppleID: workload.world.appAppleID,
                    environments: [.production])
            ])
        return try workload.sign(workload.notifications(atLeast: 500, seed: 999_998)).map {
            try verifier.verify(signedPayload: $0, now: now).evidenceParts
        }
    }

    /// One launch of each of so many customers' apps: four transactions, renewal information and an app transaction.
    func launches(customers: Int, key: String) throws -> [[UInt8]] {
        var story = Storyteller(world: world, seed: 30)
        return try (0..<customers).map { _ in
            let account = story.account()
            let before = story.notifications.count
            let original = story.subscribe(account, to: StoreWorld.ProductID.proMonthly, at: world.start)
            for _ in 0..<3 { story.renew(original) }
            let own = story.notifications[before...]
            let body = PayloadValue.object([
                "app": .string(world.bundleID),
                "signed_transactions": .array(
                    try own.compactMap { try store.signTransaction(of: $0) }.map(PayloadValue.string)),
                "signed_renewal_infos": .array(
                    try own.suffix(1).compactMap(\.renewal).map { .string(try store.sign(.object($0))) }),
                "app_transaction": .string(
                    try store.signAppTransaction(account.appTransactionID ?? "0", .production, world: world)),
            ])
            return HTTPConnection.request(
                "POST", "/v1/customers/\(account.customerID ?? "")/reconcile", key: key, body: try body.encoded())
        }
    }
}
