import AppStoreServer
import EntitlementCore
import Foundation
import HTTPServer
import OpenSSLCrypto
import StoreSimulator
import Synchronization

/// A client of the App Store Server API beside a simulated store that answers over a real socket.
final class StoreAPIRig: Sendable {
    /// Where the clock begins, which the store and the client share, and which only the client's pauses move.
    static let start: Int64 = 1_790_000_000_000

    let store: SimulatedStoreAPI
    let client: StoreAPIClient
    let clock = Clock()
    private let server: HTTPServer

    init(
        environment: SimulatedStoreEnvironment = .production, bundleID: String? = nil,
        wrongKey: Bool = false, quota: any StoreAPIQuota = FreeQuota(), timeout: TimeInterval = 30,
        clockAhead: Int64 = 0, databaseAhead: Int64 = 0
    ) throws {
        let key = try PrivateKey.generate(.p256)
        let clock = clock
        let world = StoreWorld.standard
        store = SimulatedStoreAPI(
            authority: try SimulatedAuthority(), world: world,
            access: .init(
                issuerID: "issuer", keyID: "KEY1",
                key: wrongKey ? try PrivateKey.generate(.p256).publicKey : key.publicKey),
            environment: environment, now: { clock.milliseconds })
        server = store.makeServer()
        try server.start()
        let base = "http://127.0.0.1:\(server.boundPort ?? 0)"
        guard let url = URL(string: base) else { throw URLError(.badURL) }
        client = StoreAPIClient(
            StoreAPICredentials(
                issuerID: "issuer", keyID: "KEY1", bundleID: bundleID ?? world.bundleID, key: key),
            servers: .init(production: url, sandbox: url), quota: quota,
            transport: StoreAPISession(timeout: timeout),
            surroundings: .init(
                now: { Timestamp(milliseconds: clock.milliseconds + clockAhead + databaseAhead) },
                machineNow: { Timestamp(milliseconds: clock.milliseconds + clockAhead) },
                sleep: { clock.pass($0) }, fraction: { 0.5 }))
    }

    func stop() async { await server.stop(graceSeconds: 0) }

    /// A clock that stands still but for those who sleep by it.
    final class Clock: Sendable {
        private let state = Mutex<(milliseconds: Int64, pauses: [Duration])>((StoreAPIRig.start, []))

        var milliseconds: Int64 { state.withLock { $0.milliseconds } }
        var pauses: [Duration] { state.withLock { $0.pauses } }

        func set(_ milliseconds: Int64) { state.withLock { $0.milliseconds = milliseconds } }

        func pass(_ duration: Duration) {
            state.withLock { state in
                state.milliseconds += Int64(duration / .milliseconds(1))
                state.pauses.append(duration)
            }
        }
    }
}

/// A quota that is never used up.
struct FreeQuota: StoreAPIQuota {
    func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment,
        patience: Duration
    ) async throws -> StoreAPITurn { .after(.zero) }

    func block(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment,
        for pause: Duration
    ) async throws {}
}

/// A quota that has nothing to give.
struct UsedUpQuota: StoreAPIQuota {
    func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment,
        patience: Duration
    ) async throws -> StoreAPITurn { .usedUp }

    func block(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment,
        for pause: Duration
    ) async throws {}
}

/// A quota that remembers what the store said, as the shared one does.
final class RememberingQuota: StoreAPIQuota, Sendable {
    let blocked = Mutex<Duration?>(nil)

    func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment,
        patience: Duration
    ) async throws -> StoreAPITurn {
        blocked.withLock { $0 }.map { $0 > patience ? .blocked($0) : .after($0) } ?? .after(.zero)
    }

    func block(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment,
        for pause: Duration
    ) async throws {
        blocked.withLock { $0 = pause }
    }
}
