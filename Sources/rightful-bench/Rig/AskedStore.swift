import EntitlementCore
import Foundation
import HTTPServer
import OpenSSLCrypto
import StoreSimulator

/// The simulated store's own API, served by the benchmark's process.
final class AskedStore {
    let api: SimulatedStoreAPI
    private let server: HTTPServer
    private let keyFile: String

    init(_ workload: Workload, _ directory: WorkDirectory) throws {
        let key = try PrivateKey.generate(.p256)
        keyFile = directory.path("app-store-api.p8")
        _ = FileManager.default.createFile(
            atPath: keyFile, contents: Data(try key.pem().utf8), attributes: [.posixPermissions: 0o600])
        api = SimulatedStoreAPI(
            authority: workload.store, world: workload.world,
            access: SimulatedStoreAPI.Access(issuerID: "issuer", keyID: "KEY1", key: key.publicKey),
            environment: .production, now: { Workload.now().milliseconds })
        server = api.makeServer()
        try server.start()
    }

    /// The app's `app_store_api` in the configuration.
    var setting: String {
        """
        {"issuer_id": "issuer", "key_id": "KEY1", "private_key_path": "\(keyFile)",
         "base_url": "http://127.0.0.1:\(server.boundPort ?? 0)"}
        """
    }

    /// Blocks until it has stopped.
    func stop() { try? Threads.wait { [server] in await server.stop(graceSeconds: 0) } }
}
