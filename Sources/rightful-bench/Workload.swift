import AppStoreServer
import EntitlementCore
import Glibc
import Ledger
import OpenSSLCrypto
import Service
import StoreSimulator
import Synchronization

/// What the simulated store sends: subscriptions that start, renew twice, fail and recover.
struct Workload: Sendable {
    let store: SimulatedAuthority
    let world: StoreWorld
    let verifier: NotificationVerifier
    let statements: StatementVerifier
    private let header: String

    init() throws {
        store = try SimulatedAuthority()
        let world = StoreWorld.standard
        self.world = world
        let chain = [store.leaf, store.intermediate.certificate, store.root.certificate]
        header = Base64.encodeURL(
            try PayloadValue.object([
                "alg": .string("ES256"), "x5c": .array(chain.map { .string(Base64.encode($0.der)) }),
            ]).encoded())
        let jws = try JWSVerifier(trusting: TrustAnchors([store.root.certificate]))
        let apps = [AppBinding(bundleID: world.bundleID, appAppleID: world.appAppleID, environments: [.production])]
        verifier = NotificationVerifier(jws: jws, apps: apps)
        statements = StatementVerifier(jws: jws, apps: apps)
    }

    static func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    /// Notifications of one customer.
    static let notificationsPerCustomer = 5

    /// At least so many notifications about customers of their own, unsigned, in the order of their dates.
    ///
    /// - Parameter seed: below 1,000,000; the transactions of different seeds never meet.
    func notifications(atLeast count: Int, seed: UInt64) -> (notifications: [StoreNotification], customers: [String]) {
        var story = Storyteller(world: world, seed: seed)
        var customers: [String] = []
        for number in 0..<(count / Self.notificationsPerCustomer + 1) {
            let account = story.account()
            let day = Int64(number % 28) * Timestamp.millisecondsPerDay
            let key = story.subscribe(account, to: StoreWorld.ProductID.proMonthly, at: world.start + day)
            story.renew(key)
            story.renew(key)
            if let end = story.expiry(key) { story.failToRenew(key, at: end, graceEnd: end + 16 * Span.day) }
            story.renew(key)
            if let id = account.appAccountToken { customers.append(id) }
        }
        return (story.notifications.sorted { $0.signedDate < $1.signedDate }, customers)
    }

    /// The same, signed on all cores.
    func signed(atLeast count: Int, seed: UInt64) async throws -> (payloads: [String], customers: [String]) {
        let (notifications, customers) = notifications(atLeast: count, seed: seed)
        let cores = Measure.cores
        let payloads = try await withThrowingTaskGroup(of: (Int, [String]).self) { group in
            for core in 0..<cores {
                group.addTask {
                    let range = (notifications.count * core / cores)..<(notifications.count * (core + 1) / cores)
                    return (core, try notifications[range].map { try sign($0) })
                }
            }
            return try await group.reduce(into: [Int: [String]]()) { $0[$1.0] = $1.1 }
        }
        return ((0..<cores).flatMap { payloads[$0] ?? [] }, customers)
    }

    /// What the store's own signing gives, in a tenth of the time: the signed parts are spliced into the payload as
    /// text, since they hold nothing that JSON would escape.
    func sign(_ notification: StoreNotification) throws -> String {
        var payload = String(decoding: try PayloadValue.object(notification.payload).encoded(), as: UTF8.self)
        let data = #""data":{"#
        guard let place = payload.firstRange(of: data), let transaction = notification.transaction,
            let renewal = notification.renewal
        else { throw UsageError("a notification without a transaction was made") }
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

    /// The request that delivers a signed notification.
    static func delivery(of signedPayload: String) -> [UInt8] {
        HTTPConnection.request(
            "POST", "/v1/notifications/appstore", body: Array("{\"signedPayload\":\"\(signedPayload)\"}".utf8))
    }

    /// Verified notifications to make any number of events of.
    func drafts(atLeast count: Int) async throws -> DraftSupply {
        let now = Self.now()
        return DraftSupply(
            templates: try await signed(atLeast: count, seed: 999_999).payloads.map {
                EventDraft(try verifier.verify(signedPayload: $0, now: now))
            })
    }
}

/// Any number of distinct events, in the likeness of a few.
final class DraftSupply: Sendable {
    private let templates: [EventDraft]
    private let ticket = Ticket()

    init(templates: [EventDraft]) { self.templates = templates }

    /// An event that nobody else gets: after all templates are used up, the next customers live the same lives.
    func next() -> EventDraft {
        let number = ticket.take()
        let (copy, index) = number.quotientAndRemainder(dividingBy: templates.count)
        var draft = templates[index]
        guard case .notification(var fact) = draft.fact else { return draft }
        let suffix = "-\(copy)"
        fact.uuid += suffix
        fact.transaction?.originalTransactionID += suffix
        fact.transaction?.transactionID += suffix
        fact.renewal?.originalTransactionID += suffix
        draft.fact = .notification(fact)
        draft.identities = draft.identities.map { $0 + suffix }
        draft.identity = .statement(id: "notification:" + fact.uuid, payloadHash: fact.payloadHash)
        return draft
    }

    /// How many bytes an event's facts and evidence take as they are stored, on average.
    var storedBytes: Int {
        let sizes = templates.map { draft in
            FactCodec.encode(draft.fact).count + (draft.evidence.map { EvidenceParts(jws: $0).bytes.count } ?? 0)
        }
        return sizes.reduce(0, +) / sizes.count
    }

    /// The bytes themselves, of a few, to be stored in another way.
    func storedSamples(_ count: Int) -> [[UInt8]] {
        templates.prefix(count).map { draft in
            FactCodec.encode(draft.fact) + (draft.evidence.map { EvidenceParts(jws: $0).bytes } ?? [])
        }
    }
}
