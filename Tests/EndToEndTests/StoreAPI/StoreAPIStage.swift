import Foundation
import Glibc
import HTTPServer
import OpenSSLCrypto
import StoreSimulator
import TestSupport
import Testing

/// An installation whose app may ask the simulated store, and the store's two servers.
final class StoreAPIStage: Sendable {
    let installation: Installation
    let production: SimulatedStoreAPI
    let sandbox: SimulatedStoreAPI
    private let servers: [HTTPServer]
    private let keyFile: URL

    /// - Parameters:
    ///   - hasWrongKey: whether the store knows another key than the installation has.
    ///   - hasKey: whether the installation may ask the store at all.
    ///   - consents: whether the configuration says that customers consented to answers about refund requests.
    ///   - world: whose catalog and prices there are.
    ///   - settings: for the configuration file, beside the app's.
    init(
        hasWrongKey: Bool = false, hasKey: Bool = true, consents: Bool = false, world: StoreWorld = .standard,
        settings: [String: any Sendable] = [:]
    ) async throws {
        let key = try PrivateKey.generate(.p256)
        keyFile = ScratchSpace.directory.appending(path: "api-key-\(UUID().uuidString).p8")
        _ = FileManager.default.createFile(
            atPath: keyFile.path(), contents: Data(try key.pem().utf8), attributes: [.posixPermissions: 0o600])
        let access = SimulatedStoreAPI.Access(
            issuerID: "issuer", keyID: "KEY1",
            key: hasWrongKey ? try PrivateKey.generate(.p256).publicKey : key.publicKey)
        let authority = try SimulatedAuthority()
        let apis = SimulatedStoreEnvironment.allCases.map {
            SimulatedStoreAPI(
                authority: authority, world: world, access: access, environment: $0, now: { Self.now })
        }
        (production, sandbox) = (apis[0], apis[1])
        servers = apis.map { $0.makeServer() }
        for server in servers { try server.start() }
        let urls = servers.map { "http://127.0.0.1:\($0.boundPort ?? 0)" }
        let root = ScratchSpace.directory.appending(path: "api-root-\(UUID().uuidString).pem")
        try Data(authority.root.certificate.pem().utf8).write(to: root)
        var app: [String: any Sendable] = ["bundle_id": world.bundleID, "app_apple_id": world.appAppleID]
        if hasKey {
            app["app_store_api"] =
                [
                    "issuer_id": "issuer", "key_id": "KEY1", "private_key_path": keyFile.path(),
                    "base_url": urls[0], "sandbox_base_url": urls[1],
                ] as [String: any Sendable]
        }
        if consents {
            app["consumption_information"] =
                ["customer_consented": true, "sample_content_provided": false, "refund_preference": "DECLINE"]
                as [String: any Sendable]
        }
        let all: [String: any Sendable] = ["root_certificates": [root.path()], "apps": [app]]
        installation = try await Installation(world: world, settings: settings.merging(all) { _, new in new })
    }

    /// The time of day, which store and service share.
    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Signs a notification now, and remembers it; it arrives nowhere by itself.
    func send(_ notification: StoreNotification) throws -> String {
        try api(notification.environment).send(notification, at: Self.now)
    }

    func api(_ environment: SimulatedStoreEnvironment) -> SimulatedStoreAPI {
        environment == .production ? production : sandbox
    }

    /// A life that ends a few days ago, so that some of what it tells of is going on.
    static func lifeUntilNow(seed: UInt64) -> StoreLife { .recent(seed: seed, until: now) }

    /// How the App Store's sweeps stand, by environment, as `rightful status` tells.
    func sweeps() async throws -> [String: [String: Any]] {
        let text = try await installation.rightful("status", "--json")
        let status = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        let sweeps = try #require(status["sweeps"] as? [[String: Any]])
            .filter { $0["source"] as? String == "app_store" }
        return Dictionary(uniqueKeysWithValues: sweeps.map { ("\($0["environment"] ?? "")", $0) })
    }

    /// Waits until both sweeps have been completed.
    func awaitSweeps() async throws {
        for _ in 0..<300 {
            let sweeps = try await sweeps()
            if sweeps.count == 2, sweeps.values.allSatisfy({ $0["state"] as? String == "idle" }) { return }
            try await Task.sleep(for: .milliseconds(200))
        }
        Issue.record("the sweeps were never completed: \(try await sweeps())")
    }

    /// Waits for one of the sweeps to be as told, and returns it as it is then, or after a minute.
    func sweep(
        _ environment: SimulatedStoreEnvironment, until isSo: ([String: Any]) -> Bool
    ) async throws -> [String: Any] {
        for _ in 0..<300 {
            if let sweep = try await sweeps()[environment.rawValue], isSo(sweep) { return sweep }
            try await Task.sleep(for: .milliseconds(200))
        }
        return try #require(try await sweeps()[environment.rawValue])
    }

    /// Waits for the test notification that somebody asks the store for.
    ///
    /// A request is counted before its notification is signed, so the count does not tell that there is one.
    static func testNotification(of store: SimulatedStoreAPI) async throws -> String {
        for _ in 0..<1200 {
            if let payload = store.newestTest { return payload }
            try await Task.sleep(for: .milliseconds(50))
        }
        return try #require(store.newestTest)
    }

    func remove() async {
        installation.remove()
        for server in servers { await server.stop(graceSeconds: 0) }
        try? FileManager.default.removeItem(at: keyFile)
    }
}
