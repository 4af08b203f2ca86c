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
    private let server: HTTPServer
    private let writer: LedgerWriter

    static func start(at instant: Int64 = SimulatedCalendar.instant(2026, 3, 1)) async throws -> KitService {
        let pool = try await TestDatabase.make().pool(connections: 4)
        let clock = WorldClock(instant)
        let now: @Sendable () -> Timestamp = { clock.timestamp }
        let world = StoreWorld.standard
        let authority = try SimulatedAuthority()
        let jws = try JWSVerifier(trusting: TrustAnchors([authority.root.certificate]))
        let app = AppBinding(
            bundleID: world.bundleID, appAppleID: world.appAppleID, environments: [.production, .sandbox])
        let writer = LedgerWriter(pool: pool, now: now, report: { _ in })
        let keys = APIKeyStore(pool: pool, writer: writer)
        var limits = Application.Limits()
        // Here all devices of the world share an address, and no time passes while they ask.
        limits.rates.address = RateLimit(perSecond: 1_000_000, burst: 1_000_000)
        limits.rates.publishableKey = limits.rates.address
        limits.rates.secretKey = limits.rates.address
        let passKey = try PrivateKey.generate(.p256)
        let point = try passKey.publicKey.p256Point()
        let ring = PassKeyRing([
            PassKeyRing.Key(id: "k", notBefore: nil, x: point.x, y: point.y) { try passKey.signES256($0) }
        ])
        let application = Application(
            writer: writer, reader: LedgerReader(pool: pool, now: now), keys: keys,
            tokens: CustomerTokens(pool: pool), commandKeys: CommandKeys(pool: pool),
            verifier: NotificationVerifier(jws: jws, apps: [app]),
            statements: StatementVerifier(jws: jws, apps: [app]), schemaRefusal: { nil },
            sha256: { Digest(SHA256.hash($0)) ?? .zero },
            metrics: Metrics(version: "0.0.0", foldVersion: OriginalState.foldVersion),
            logger: Logger(level: .error, now: now, sink: { _ in }), limits: limits, passKeys: ring,
            now: now)
        let server = application.makeServer(HTTPServerConfiguration(port: 0))
        try server.start()
        let port = try #require(server.boundPort)
        let url = try #require(URL(string: "http://127.0.0.1:\(port)"))
        let admin = HTTPClient(url, key: try await keys.create(name: "admin", scopes: [.admin]).secret)
        let publishable = try await keys.create(
            name: "app", scopes: [], isPublishable: true, bundleID: world.bundleID
        ).secret
        let published = try await admin.send("GET", "/.well-known/rightful-keys").text
        let passKeys = try #require(PassKeySet(json: Data(published.utf8)), "\(published)")
        let service = KitService(
            clock, authority, world, admin, publishable, url, passKey.publicKey, passKeys, server, writer)
        let catalog = try await admin.send("PUT", "/v1/catalog", body: world.catalogFile.encoded())
        try #require(catalog.status == 200, "\(catalog.text)")
        return service
    }

    private init(
        _ clock: WorldClock, _ authority: SimulatedAuthority, _ world: StoreWorld, _ admin: HTTPClient,
        _ publishableKey: String, _ url: URL, _ passKey: PublicKey, _ passKeys: PassKeySet, _ server: HTTPServer,
        _ writer: LedgerWriter
    ) {
        (self.passKey, self.passKeys) = (passKey, passKeys)
        (self.clock, self.authority, self.world, self.admin) = (clock, authority, world, admin)
        (self.publishableKey, self.url, self.server, self.writer) = (publishableKey, url, server, writer)
    }

    func stop() async {
        await server.stop()
        await writer.drain()
    }

    /// Ties an Apple account to a customer, as the app's own server does after a login.
    func link(appTransactionID: String, to customer: String) async throws {
        let answer = try await admin.send(
            "POST", "/v1/customers/\(customer)/actions/link", body: bytes(["app_transaction_id": appTransactionID]))
        try #require(answer.status == 200, "\(answer.text)")
    }

    /// A token with which a device of that customer identifies itself.
    func token(_ customer: String) async throws -> String {
        let answer = try await admin.send(
            "POST", "/v1/customers/\(customer)/tokens", body: bytes(["expires_in": 3600]))
        return try #require(answer.json["token"] as? String, "\(answer.text)")
    }

    /// Lets an app believe nothing that its server has not signed, nor anything on its disk that the store has not.
    func guardAgainstForgers(_ configuration: inout EntitlementConfiguration) throws {
        let passKey = passKey
        configuration.passKeys = passKeys
        configuration.es256 = { _, signature, message in
            passKey.isValidES256(signature: Array(signature), message: Array(message))
        }
        configuration.statementVerifier = KitStatementVerifier(
            jws: try JWSVerifier(trusting: TrustAnchors([authority.root.certificate])))
    }

    /// The drift events recorded after a position.
    func drifts(after position: Int64) async throws -> [[String: Any]] {
        try await admin.events(after: position).filter { $0["type"] as? String == "drift" }
    }
}

/// Verifies what a simulated store has signed.
private struct KitStatementVerifier: SignedStatementVerifier {
    let jws: JWSVerifier

    func isSignedByStore(_ statement: String) -> Bool {
        let instant = SimulatedCalendar.instant(2026, 3, 1)
        guard let read = try? UnverifiedJWS(statement) else { return false }
        return (try? jws.verify(read, signedAt: instant, now: instant)) != nil
    }
}
