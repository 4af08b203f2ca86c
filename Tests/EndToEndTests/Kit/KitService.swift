import AppStoreServer
import EntitlementAPI
import EntitlementCore
import EntitlementKit
import Foundation
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import Service
import StoreSimulator
import StripeAPI
import Synchronization
import TestSupport
import Testing

/// The service on a socket and a database of its own, under the clock of a simulated world.
///
/// The same composition as `rightful serve`, whose clock is the machine's; the program itself is met elsewhere.
final class KitService: Sendable {
    let clock: WorldClock
    let authority: SimulatedAuthority
    let world: StoreWorld
    let admin: HTTPClient
    let publishableKey: String
    let url: URL
    /// What the service signs passes with.
    let passKey: PublicKey
    /// Its published form.
    let passKeys: PassKeySet
    /// Verifies by their certificates what devices read from their disks, as all of this store's devices do in one process.
    let statementVerifier: AppStoreStatementVerifier
    /// The simulated Stripe that sells on the web; `nil` where nothing is sold there.
    let shop: KitShop?
    private let verifiers: Verifiers
    private let running: Mutex<Running>

    /// What is the same whichever database it runs on.
    private struct Verifiers {
        let jws: JWSVerifier
        let app: AppBinding
        let ring: PassKeyRing
        let shop: KitShop?
    }

    /// The service on one database.
    private struct Running {
        let database: TestDatabase
        let pool: PostgresPool
        let server: HTTPServer
        let writer: LedgerWriter
        let keys: APIKeyStore
        let lookups: StripeLookups?
        var backup: TestDatabase?
    }

    /// - Parameter isOnWeb: whether the world's products are sold on the web, too.
    static func start(
        at instant: Int64 = SimulatedCalendar.instant(2026, 3, 1), isOnWeb: Bool = false, seed: UInt64 = 1
    ) async throws -> KitService {
        let clock = WorldClock(instant)
        let world = isOnWeb ? StoreWorld.standardOnWeb : .standard
        let shop = isOnWeb ? try KitShop(clock, seed: seed) : nil
        let authority = try SimulatedAuthority()
        let passKey = try PrivateKey.generate(.p256)
        let point = try passKey.publicKey.p256Point()
        let verifiers = Verifiers(
            jws: try JWSVerifier(trusting: TrustAnchors([authority.root.certificate])),
            app: AppBinding(
                bundleID: world.bundleID, appAppleID: world.appAppleID, environments: [.production, .sandbox]),
            ring: PassKeyRing([
                PassKeyRing.Key(id: "k", notBefore: nil, x: point.x, y: point.y) { try passKey.signES256($0) }
            ]), shop: shop)
        let running = try run(try await TestDatabase.make(), port: 0, clock, verifiers)
        let port = try #require(running.server.boundPort)
        let url = try #require(URL(string: "http://127.0.0.1:\(port)"))
        let admin = HTTPClient(url, key: try await running.keys.create(name: "admin", scopes: [.admin]).secret)
        let publishable = try await running.keys.create(
            name: "app", scopes: [], isPublishable: true, bundleID: world.bundleID
        ).secret
        let published = try await admin.send("GET", "/.well-known/rightful-keys").text
        let passKeys = try #require(PassKeySet(json: Data(published.utf8)), "\(published)")
        let service = KitService(
            clock, authority, world, admin, publishable, url, passKey.publicKey, passKeys,
            try .simulated(authority), verifiers, running)
        let catalog = try await admin.send("PUT", "/v1/catalog", body: world.catalogFile.encoded())
        try #require(catalog.status == 200, "\(catalog.text)")
        return service
    }

    private static func run(
        _ database: TestDatabase, port: UInt16, _ clock: WorldClock, _ verifiers: Verifiers
    ) throws -> Running {
        let pool = database.pool(connections: 4)
        let now: @Sendable () -> Timestamp = { clock.timestamp }
        let writer = LedgerWriter(pool: pool, now: now, report: { _ in })
        let keys = APIKeyStore(pool: pool, writer: writer)
        var limits = Application.Limits()
        // Here all devices of the world share an address, and no time passes while they ask.
        limits.rates.address = RateLimit(perSecond: 1_000_000, burst: 1_000_000)
        limits.rates.publishableKey = limits.rates.address
        limits.rates.secretKey = limits.rates.address
        let reader = LedgerReader(pool: pool, now: now)
        let logger = Logger(level: .error, now: now, sink: { _ in })
        let metrics = Metrics(version: "0.0.0", foldVersion: OriginalState.foldVersion)
        let client = try verifiers.shop?.client()
        let lookups = client.map { client in
            StripeLookups(
                StripeIngestion([client], reader: reader, metrics: metrics, logger: logger, now: now) {
                    try await writer.append($0)
                }, projector: WebLookupProjector(pool: pool, calls: StripeLookups.calls),
                register: WebLookupRegister(pool: pool))
        }
        let application = Application(
            ServiceContext(
                reader: reader, limits: limits, metrics: metrics, logger: logger,
                sha256: { Digest(SHA256.hash($0)) ?? .zero }, now: now),
            ledger: LedgerAccess(
                writer: writer, keys: keys, tokens: CustomerTokens(pool: pool), commandKeys: CommandKeys(pool: pool),
                schemaRefusal: { nil }),
            trust: StoreTrust(
                notifications: NotificationVerifier(jws: verifiers.jws, apps: [verifiers.app]),
                statements: StatementVerifier(jws: verifiers.jws, apps: [verifiers.app])),
            passes: PassIssuer(keys: verifiers.ring),
            stripe: StripeConnections(
                webhooks: StripeWebhooks(try verifiers.shop.map { [try $0.webhookSecret()] } ?? []), lookups: lookups,
                shops: client.map { [.production: KitShop.shop($0)] } ?? [:]))
        let server = application.makeServer(HTTPServerConfiguration(port: port))
        try server.start()
        return Running(database: database, pool: pool, server: server, writer: writer, keys: keys, lookups: lookups)
    }

    private init(
        _ clock: WorldClock, _ authority: SimulatedAuthority, _ world: StoreWorld, _ admin: HTTPClient,
        _ publishableKey: String, _ url: URL, _ passKey: PublicKey, _ passKeys: PassKeySet,
        _ statementVerifier: AppStoreStatementVerifier, _ verifiers: Verifiers, _ running: Running
    ) {
        (self.passKey, self.passKeys, self.statementVerifier) = (passKey, passKeys, statementVerifier)
        (self.clock, self.authority, self.world, self.admin) = (clock, authority, world, admin)
        shop = verifiers.shop
        (self.publishableKey, self.url, self.verifiers) = (publishableKey, url, verifiers)
        self.running = Mutex(running)
    }

    func stop() async {
        let running = running.withLock { $0 }
        await running.server.stop()
        await running.writer.drain()
    }

    /// Reads from the simulated Stripe what webhooks left open, as the service does some seconds later.
    func lookUp() async throws {
        guard let lookups = running.withLock({ $0.lookups }) else { return }
        while try await lookups.round() > 0 {}
    }

    // MARK: - Backups

    /// Copies the ledger as it is now, for ``restore()``.
    func backUp() async throws {
        let database = try await close()
        let backup = try await database.copy()
        try open(database, backup: backup)
    }

    /// Goes on from the last backup, as if nothing had happened since.
    ///
    /// Returns false where there is none.
    func restore() async throws -> Bool {
        guard let backup = running.withLock({ $0.backup }) else { return false }
        _ = try await close()
        try open(backup, backup: nil)
        return true
    }

    private func close() async throws -> TestDatabase {
        await stop()
        let running = running.withLock { $0 }
        await running.pool.close()
        return running.database
    }

    private func open(_ database: TestDatabase, backup: TestDatabase?) throws {
        var next = try Self.run(database, port: UInt16(url.port ?? 0), clock, verifiers)
        next.backup = backup
        running.withLock { [next] in $0 = next }
    }

    /// Ties an Apple account to a customer, as the app's own server does after a login.
    func link(appTransactionID: String, to customer: String) async throws {
        let answer = try await admin.send(
            "POST", "/v1/customers/\(customer)/actions/link", body: bytes(["app_transaction_id": appTransactionID]))
        try #require(answer.status == 200, "\(answer.text)")
    }

    /// Whether an Apple account is taken to be a customer's.
    func isLinked(appTransactionID: String, to customer: String) async throws -> Bool {
        let answer = try await admin.send("GET", "/v1/customers", query: ["app_transaction_id": appTransactionID])
        let matches = try #require(answer.json["items"] as? [[String: Any]], "\(answer.text)")
        return matches.contains { $0["customer_id"] as? String == customer }
    }

    /// A token with which a device of that customer identifies itself.
    func token(_ customer: String) async throws -> String {
        let answer = try await admin.send(
            "POST", "/v1/customers/\(customer)/tokens", body: bytes(["expires_in": 3600]))
        return try #require(answer.json["token"] as? String, "\(answer.text)")
    }

    /// Lets an app believe nothing that its server has not signed, nor anything on its disk that the store has not.
    func guardAgainstForgers(_ configuration: inout EntitlementConfiguration) {
        let passKey = passKey
        configuration.passKeys = passKeys
        configuration.es256 = { _, signature, message in
            passKey.isValidES256(signature: Array(signature), message: Array(message))
        }
        configuration.statementVerifier = statementVerifier
    }

    /// The drift events recorded after a position.
    func drifts(after position: Int64) async throws -> [[String: Any]] {
        try await admin.events(after: position).filter { $0["type"] as? String == "drift" }
    }
}
