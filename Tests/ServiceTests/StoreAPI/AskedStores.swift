import AppStoreServer
import EntitlementCore
import Foundation
import OpenSSLCrypto
import StoreSimulator
import Synchronization

@testable import Service

/// The simulated store's API of each app of a rig, which is asked without a socket.
struct AskedStores: Sendable {
    let clients: [StoreAPIClient]
    /// How long each answer takes by the rig's clock, in milliseconds.
    let pace: Pace
    /// Whether "Get All Subscription Statuses" is answered with something that nobody can read.
    let garbled = Garbled()

    final class Garbled: Sendable {
        private let value = Atomic(false)

        var statuses: Bool {
            get { value.load(ordering: .relaxed) }
            set { value.store(newValue, ordering: .relaxed) }
        }
    }

    final class Pace: Sendable {
        private let value = Mutex<Int64>(0)

        var milliseconds: Int64 {
            get { value.withLock { $0 } }
            set { value.withLock { $0 = newValue } }
        }
    }
    /// Of the key that each app has at the store.
    let publicKeys: [String: PublicKey]
    private let apis: [String: [StoreEnvironment: SimulatedStoreAPI]]

    init(_ apps: [AppBinding], authority: SimulatedAuthority, clock: TestClock) throws {
        var apis: [String: [StoreEnvironment: SimulatedStoreAPI]] = [:]
        var clients: [StoreAPIClient] = []
        var publicKeys: [String: PublicKey] = [:]
        let pace = Pace()
        let garbled = garbled
        for app in apps {
            let key = try PrivateKey.generate(.p256)
            publicKeys[app.bundleID] = key.publicKey
            var world = StoreWorld.standard
            (world.bundleID, world.appAppleID) = (app.bundleID, app.appAppleID ?? 0)
            let access = SimulatedStoreAPI.Access(issuerID: "issuer", keyID: "KEY1", key: key.publicKey)
            func api(_ environment: SimulatedStoreEnvironment) -> SimulatedStoreAPI {
                SimulatedStoreAPI(
                    authority: authority, world: world, access: access, environment: environment,
                    now: { clock.now.milliseconds })
            }
            let (production, sandbox) = (api(.production), api(.sandbox))
            apis[app.bundleID] = [.production: production, .sandbox: sandbox]
            guard let servers = DirectTransport.servers else { throw URLError(.badURL) }
            clients.append(
                StoreAPIClient(
                    StoreAPICredentials(issuerID: "issuer", keyID: "KEY1", bundleID: app.bundleID, key: key),
                    servers: servers, quota: FreeQuota(),
                    transport: DirectTransport(production: production, sandbox: sandbox, garbled: garbled) {
                        clock.now = clock.now.adding(milliseconds: pace.milliseconds)
                    },
                    surroundings: .init(now: { clock.now }, sleep: { _ in }, fraction: { 0.5 })))
        }
        (self.apis, self.clients, self.publicKeys, self.pace) = (apis, clients, publicKeys, pace)
    }

    subscript(app: String, environment: StoreEnvironment) -> SimulatedStoreAPI? { apis[app]?[environment] }
}

/// Hands requests to the simulated store in this process.
private struct DirectTransport: StoreAPITransport {
    static let servers: StoreAPIClient.Servers? = {
        guard let production = URL(string: "https://production.invalid"),
            let sandbox = URL(string: "https://sandbox.invalid")
        else { return nil }
        return StoreAPIClient.Servers(production: production, sandbox: sandbox)
    }()

    let production: SimulatedStoreAPI
    let sandbox: SimulatedStoreAPI
    let garbled: AskedStores.Garbled
    /// Called after each answer.
    let pass: @Sendable () -> Void

    func send(
        _ request: StoreAPIRequest, to url: URL, token: String, within limit: Duration
    ) async throws -> StoreAPIResponse {
        let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
        let api = url.host()?.hasPrefix("sandbox") == true ? sandbox : production
        let answer = try await api.answer(
            SimulatedStoreAPI.Request(
                method: request.method.rawValue, path: url.pathComponents.filter { $0 != "/" },
                query: items.map { ($0.name, $0.value ?? "") }, authorization: "Bearer " + token,
                body: request.body ?? []))
        pass()
        if garbled.statuses, url.pathComponents.contains("subscriptions") {
            return StoreAPIResponse(status: 200, retryAfter: nil, body: Array("{".utf8))
        }
        return StoreAPIResponse(
            status: answer.status, retryAfter: answer.headers.first { $0.0 == "Retry-After" }?.1, body: answer.body)
    }
}

/// A quota that is never used up.
private struct FreeQuota: StoreAPIQuota {
    func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, patience: Duration
    ) async throws -> StoreAPITurn { .after(.zero) }

    func block(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, for pause: Duration
    ) async throws {}
}
