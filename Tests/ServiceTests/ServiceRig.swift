import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import OutgoingHTTP
import PostgresClient
import RevenueCatAPI
import StoreSimulator
import StripeAPI
import Synchronization
import TestSupport
import Testing

@testable import Service

/// The whole service in this process, on a database of its own, with a store that it trusts.
struct ServiceRig {
    static let bundleID = "com.example.app"
    static let appAppleID: Int64 = 6_400_000_001
    /// A second app of the same developer, where a rig has one.
    static let otherBundleID = "com.example.other"
    static let noon = "2026-11-20T12:00:00.000Z"

    static let ledgerID = "5f0f6a1e-0000-4000-8000-000000000001"

    let application: Application
    let ledger: LedgerAccess
    let trust: StoreTrust
    let passes: PassIssuer
    let keys: APIKeyStore
    let database: TestDatabase
    let pool: PostgresPool
    let store: SimulatedAuthority
    let log: LogKeeper
    let clock: TestClock
    /// What the store's API tells; none where the rig may not ask.
    let asked: AskedStores?
    /// What reads Stripe's list of events, of production; `nil` where the rig may not ask.
    let stripeSweep: StripeSweep?
    /// What reads Stripe's API.
    let stripeIngestion: StripeIngestion
    /// Of each configured app and environment.
    let streams: [StoreStream]
    /// What tells the endpoints of webhooks; it rests until it is run.
    let webhookWork: WebhookWork
    /// A key that may do everything.
    let admin: String

    static func make(
        limits: Application.Limits = .init(), environments: [String] = ["production", "sandbox"],
        trust: DeviceTrust = DeviceTrust(), passKeys: PassKeyRing = .empty, logKey: LogKey? = nil,
        trustedProxies: [NetworkRange] = [], connections: Int = 3, hasOtherApp: Bool = false,
        asksStore: Bool = false, stripe: StripeWebhooks = StripeWebhooks([]), stripeAPI: String? = nil,
        shops: [StoreEnvironment: StripeShop] = [:], hasConsole: Bool = true
    ) async throws -> ServiceRig {
        let database = try await TestDatabase.make()
        let pool = database.pool(connections: connections)
        // The key that is made here is the first event, and a second old.
        let clock = TestClock(try instant(noon).adding(milliseconds: -1000))
        let now: @Sendable () -> Timestamp = { clock.now }
        let store = try SimulatedAuthority()
        let app = AppBinding(
            bundleID: bundleID, appAppleID: appAppleID,
            environments: Set(environments.compactMap { StoreEnvironment(rawValue: $0) }))
        let other = AppBinding(bundleID: otherBundleID, appAppleID: appAppleID, environments: app.environments)
        let apps = hasOtherApp ? [app, other] : [app]
        let jws = try JWSVerifier(trusting: TrustAnchors([store.root.certificate]))
        let metrics = Metrics(version: "0.0.0", foldVersion: OriginalState.foldVersion)
        let log = LogKeeper()
        let writer = LedgerWriter(pool: pool, now: now, report: { metrics.record($0) })
        let keys = APIKeyStore(pool: pool, writer: writer)
        var deviceTrust = DeviceTrustTable()
        for app in apps {
            for environment in app.environments { deviceTrust[app.bundleID, environment] = trust }
        }
        let asked = asksStore ? try AskedStores(apps, authority: store, clock: clock) : nil
        let reader = LedgerReader(pool: pool, now: now)
        let statements = StatementVerifier(jws: jws, apps: apps)
        let checks = (asked?.clients ?? []).map { client in
            StoreCheck(client: client, statements: statements, reader: reader, now: now) {
                try await writer.append($0)
            }
        }
        let streams = apps.flatMap { app in
            app.environments.map { StoreStream(app: app.bundleID, environment: $0) }
        }
        let logger = Logger(level: .debug, now: now, sink: { log.keep($0) })
        let clients = try stripeAPI.map { base in
            var retry = StripeRetry()
            retry.attempts = 1
            return try ["sk_live_1", "rk_test_1"].map {
                StripeClient(
                    try #require(StripeKey($0)), base: base, retry: retry,
                    // The clock stands still, and a turn that lies ahead would never come.
                    surroundings: .init(now: now, sleep: { _ in }, fraction: { 0 }))
            }
        }
        let webSweeps = WebSweepRegister(pool: pool, holder: "rig")
        let conflicts = WebConflicts(reader: reader, metrics: metrics, logger: logger)
        func ingestion(_ clients: [StripeClient]) -> StripeIngestion {
            StripeIngestion(clients, reader: reader, metrics: metrics, logger: logger, now: now) {
                try await conflicts.append($0) { try await writer.append($0) }
            }
        }
        let stripeIngestion = ingestion(clients ?? [])
        let sweep = clients.map { clients in
            StripeSweep(ingestion(Array(clients.prefix(1))), register: webSweeps) { client in
                StripeImport(
                    stripeIngestion, client,
                    register: WebImportRegister(
                        pool: pool, environment: client.environment, ownerMetadata: nil, holder: "rig"),
                    intervals: .impatient)
            }
        }
        let lookups = clients.map { _ in
            StripeLookups(
                stripeIngestion, projector: WebLookupProjector(pool: pool, calls: StripeLookups.calls),
                register: WebLookupRegister(pool: pool))
        }
        let reading = StreamsReading(streams.map { ($0, asksStore) }, register: StreamRegister(pool: pool)).with(
            web: Set((clients ?? []).map(\.environment)), register: webSweeps)
        let endpoints = EndpointRegister(pool: pool, writer: writer)
        let webhookProjector = WebhookProjector(
            pool: pool, settle: .zero, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift,
            show: WebhookWork.show)
        let ledger = LedgerAccess(
            writer: writer, keys: keys, tokens: CustomerTokens(pool: pool), commandKeys: CommandKeys(pool: pool),
            ledgerID: ledgerID, logKey: logKey,
            schemaRefusal: { try await pool.withConnection { try Migrator().standing(on: $0).refusal } })
        let storeTrust = StoreTrust(
            notifications: NotificationVerifier(jws: jws, apps: apps), statements: statements, devices: deviceTrust)
        let passes = PassIssuer(keys: passKeys)
        let application = Application(
            ServiceContext(
                reader: reader, limits: limits, metrics: metrics, logger: logger,
                sha256: { Digest(SHA256.hash($0)) ?? .zero }, now: now),
            ledger: ledger, trust: storeTrust, passes: passes,
            store: StoreConnections(
                checks: StoreChecks(checks, stripe: clients.map { _ in StripeCheck(stripeIngestion) }),
                streams: reading),
            stripe: StripeConnections(webhooks: stripe, lookups: lookups, shops: shops),
            webhooks: Webhooks(
                endpoints: endpoints, list: DeliveryList(pool: pool), projector: webhookProjector,
                apps: Set(apps.map(\.bundleID)), allowsPrivate: true),
            console: hasConsole ? ConsoleSessions(pool: pool, keys: keys) : nil,
            forgetting: Forgetting(
                preview: { try await Forgetter(pool: pool, now: now).preview($0) },
                forget: { customer, preview, keyed in
                    let owner = PostgresPool(database.ownerConninfo)
                    return try await Forgetter(pool: owner, now: now).forget(customer, known: preview, once: keyed)
                }), trustedProxies: trustedProxies)
        var intervals = WebhookDispatcher.Intervals()
        // The clock is put where a test wants it before anything runs.
        intervals.settle = .zero
        let webhookWork = WebhookWork(
            projector: webhookProjector, notices: StreamNotices(pool: pool, patience: .zero), streams: reading,
            dispatcher: WebhookDispatcher(
                register: DeliveryRegister(pool: pool), list: DeliveryList(pool: pool), endpoints: endpoints,
                reader: reader,
                transport: WebhookDispatcher.transport(allowsPrivate: true), allowsPrivate: true, metrics: metrics,
                logger: logger, intervals: intervals, now: now),
            endpoints: endpoints, appended: Doorbell(), metrics: metrics, logger: logger, now: now)
        let admin = try await keys.create(name: "admin", scopes: [.admin]).secret
        clock.now = try instant(noon)
        return ServiceRig(
            application: application, ledger: ledger, trust: storeTrust, passes: passes, keys: keys,
            database: database, pool: pool, store: store, log: log, clock: clock, asked: asked, stripeSweep: sweep,
            stripeIngestion: stripeIngestion, streams: streams,
            webhookWork: webhookWork,
            admin: admin)
    }

    var context: ServiceContext { application.context }

    // MARK: - Requests

    func send(
        _ method: String, _ target: String, key: String? = nil, headers: [(String, String)] = [], body: [UInt8] = []
    ) async throws -> HTTPResponse {
        let authorization = key.map { [("Authorization", "Bearer " + $0)] } ?? []
        let head = HTTPRequestHead(method: method, target: target, headers: authorization + headers)
        let request = try HTTPRequest(head: head, body: body)
        let answer = await application.handle(request)
        expectDescribed(answer, to: request)
        return answer
    }

    /// Expects that what went wrong is among what the route says may, and what the header of an answer says, too.
    private func expectDescribed(_ answer: HTTPResponse, to request: HTTPRequest) {
        guard let route = try? Route.find(request).route else { return }
        #expect(answer.status != 401 || answer.header("WWW-Authenticate") != nil, "RFC 9110, section 15.5.2")
        for field in APIOperation.Header.allCases where answer.status == 200 && answer.header(field.rawValue) != nil {
            #expect(
                route.operation.headers.contains(field),
                "the description of \(route.method) \(route.template) lacks \(field.rawValue)")
        }
        guard let code = answer.code, answer.header("Content-Type") == "application/problem+json" else { return }
        #expect(
            route.codes.contains { $0.rawValue == code && $0.status == answer.status },
            "the description of \(route.method) \(route.template) lacks \(answer.verdict)")
    }

    func get(_ target: String, headers: [(String, String)] = []) async throws -> HTTPResponse {
        try await send("GET", target, key: admin, headers: headers)
    }

    func put(_ catalog: String, headers: [(String, String)] = []) async throws -> HTTPResponse {
        try await send("PUT", "/v1/catalog", key: admin, headers: headers, body: Array(catalog.utf8))
    }

    /// Delivers a notification about a purchase.
    @discardableResult
    func notify(_ purchase: Purchase) async throws -> HTTPResponse {
        try await deliver(purchase.signed(by: store))
    }

    func deliver(_ signedPayload: String) async throws -> HTTPResponse {
        try await send(
            "POST", "/v1/notifications/appstore", body: SimulatedAuthority.requestBody(signedPayload))
    }

    /// Writes snapshots of however short lives.
    func writeViews() async throws {
        var policy = SnapshotPolicy()
        policy.tail = 1
        try await ViewProjector(pool: pool, policy: policy).catchUp()
    }

    /// Deletes every snapshot; returns how many there were.
    func deleteViews() async throws -> Int {
        try await pool.withConnection { connection in
            Int(try connection.query("DELETE FROM original_view").affectedRows)
        }
    }

    static let proCatalog = #"{"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium"]}]}"#
}

extension StripeImport.Intervals {
    /// For tests in which Stripe does not come back.
    static var impatient: StripeImport.Intervals {
        var intervals = StripeImport.Intervals()
        intervals.outage = .milliseconds(50)
        intervals.backoff.first = .milliseconds(20)
        return intervals
    }
}

func instant(_ text: String) throws -> Timestamp { try #require(Timestamp(rfc3339: text)) }

/// A clock that stands where it is put.
final class TestClock: Sendable {
    private let value: Mutex<Timestamp>

    init(_ start: Timestamp) { value = Mutex(start) }

    var now: Timestamp {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}

/// Keeps what was logged.
final class LogKeeper: Sendable {
    private let kept = Mutex<[String]>([])

    func keep(_ record: LogRecord) {
        kept.withLock { $0.append(String(decoding: record.line, as: UTF8.self)) }
    }

    var lines: [String] { kept.withLock { $0 } }
}

/// What a notification about one period says.
struct Purchase {
    var type = "SUBSCRIBED"
    var subtype: String? = "INITIAL_BUY"
    var uuid = "3838df56-31ab-4e2d-9f44-9b2b3b6b9a11"
    var environment = "Production"
    var bundleID = ServiceRig.bundleID
    var original = "2000000123456780"
    var transaction = "2000000123456780"
    var product: String? = "com.example.pro.yearly"
    var token: String? = "7E3FB20B-4CDB-47CC-936D-99D65F608138"
    var appTransaction: String? = "704000001"
    var from = "2026-01-01T00:00:00Z"
    var until = "2027-01-01T00:00:00Z"
    var signed = "2026-01-01T00:00:01Z"

    /// The default customer of the token.
    static let customer = "7e3fb20b-4cdb-47cc-936d-99d65f608138"

    /// The next period of the same subscription.
    func renewed(uuid: String = "3838df56-31ab-4e2d-9f44-9b2b3b6b9a12") -> Purchase {
        var next = self
        next.type = "DID_RENEW"
        next.subtype = nil
        next.uuid = uuid
        next.transaction = transaction + "1"
        next.from = until
        next.until = "2028-01-01T00:00:00Z"
        next.signed = "2027-01-01T00:00:01Z"
        return next
    }

    func signed(by store: SimulatedAuthority) throws -> String { try store.sign(payload(signedBy: store)) }

    /// What the notification says; signing it twice gives other bytes each time, and so does signing its parts.
    func payload(signedBy store: SimulatedAuthority) throws -> PayloadValue {
        func moment(_ text: String) throws -> PayloadValue { .integer(try instant(text).milliseconds) }
        var transaction: [String: PayloadValue] = [
            "transactionId": .string(self.transaction), "originalTransactionId": .string(original),
            "webOrderLineItemId": .string("line-" + self.transaction), "bundleId": .string(bundleID),
            "purchaseDate": try moment(from), "expiresDate": try moment(until), "signedDate": try moment(signed),
            "type": .string("Auto-Renewable Subscription"), "inAppOwnershipType": .string("PURCHASED"),
            "transactionReason": .string(type == "DID_RENEW" ? "RENEWAL" : "PURCHASE"),
            "environment": .string(environment), "offerType": .integer(1), "offerDiscountType": .string("FREE_TRIAL"),
        ]
        transaction["productId"] = product.map { .string($0) }
        transaction["appAccountToken"] = token.map { .string($0) }
        transaction["appTransactionId"] = appTransaction.map { .string($0) }
        let renewal: [String: PayloadValue] = [
            "originalTransactionId": .string(original), "productId": .string(product ?? ""),
            "autoRenewProductId": .string(product ?? ""), "autoRenewStatus": .integer(1),
            "environment": .string(environment), "signedDate": try moment(signed),
        ]
        var data: [String: PayloadValue] = [
            "environment": .string(environment), "bundleId": .string(bundleID),
            "signedTransactionInfo": .string(try store.sign(.object(transaction))),
            "signedRenewalInfo": .string(try store.sign(.object(renewal))),
        ]
        if environment == "Production" { data["appAppleId"] = .integer(ServiceRig.appAppleID) }
        var payload: [String: PayloadValue] = [
            "notificationType": .string(type), "notificationUUID": .string(uuid), "version": .string("2.0"),
            "signedDate": try moment(signed), "data": .object(data),
        ]
        payload["subtype"] = subtype.map { .string($0) }
        return .object(payload)
    }
}

extension HTTPResponse {
    /// The body, read as JSON.
    var json: WireValue { get throws { try WireJSON.decode(WireValue.self, from: body) } }

    /// The code of a problem, also where it is written as RevenueCat writes it; `nil` for any other answer.
    var code: String? {
        if header("Content-Type") == "application/problem+json" {
            return (try? WireJSON.decode(ProblemDocument.self, from: body))?.code
        }
        guard status >= 400, let error = try? WireJSON.decode(ErrorDocument.self, from: body) else { return nil }
        return switch ErrorCode(rawValue: error.code) {
        case .invalidAPIKey: "unauthenticated"
        case .wrongKindOfAPIKey: "forbidden"
        case .internalError, .badRequest, .invalidAppUserID, nil: String(error.code)
        }
    }

    /// Status and code, as tables of refusals compare them.
    var verdict: String { "\(status) \(code ?? "-")" }

    var text: String { String(decoding: body, as: UTF8.self) }
}

extension WireValue {
    subscript(name: String) -> WireValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }

    subscript(index: Int) -> WireValue? {
        if case .array(let values) = self, values.indices.contains(index) { values[index] } else { nil }
    }

    var count: Int { if case .array(let values) = self { values.count } else { 0 } }

    /// Reads a text as JSON.
    init(json text: String) throws { self = try WireJSON.decode(WireValue.self, from: Array(text.utf8)) }
}
