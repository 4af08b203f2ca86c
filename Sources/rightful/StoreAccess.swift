import AppStoreServer
import EntitlementCore
import Foundation
import Ledger
import OutgoingHTTP
import Service

/// Access to the App Store Server API for one app: its key, read and ready.
struct StoreAccess: Sendable {
    let app: ConfiguredApp
    private let credentials: StoreAPICredentials
    private let servers: StoreAPIClient.Servers
    private let connections: Int

    /// One for each configured app that has `app_store_api`.
    ///
    /// - Parameter connections: the most that each of its clients opens.
    /// - Throws: `ConfigurationError` for a key that cannot be read or cannot sign.
    static func all(
        _ configuration: Configuration, connections: Int = OutgoingSession.usualConnections
    ) throws -> [StoreAccess] {
        try configuration.apps.compactMap { app in
            try app.appStoreAPI.map { try StoreAccess(app, $0, connections: connections) }
        }
    }

    /// That of one app, for one of its environments.
    ///
    /// - Throws: `CommandFailure` where the app is not configured for it, else what `all` throws.
    static func of(
        _ app: String, _ environment: StoreEnvironment, _ configuration: Configuration
    ) throws -> StoreAccess {
        guard let access = try all(configuration).first(where: { $0.app.bundleID == app }) else {
            throw CommandFailure(description: "the app \(app) is not configured, or has no app_store_api")
        }
        guard access.app.environments.contains(environment) else {
            throw CommandFailure(
                description:
                    "the app \(app) is not configured for \(environment.rawValue): what the store says would be refused"
            )
        }
        return access
    }

    private init(_ app: ConfiguredApp, _ access: AppStoreAPIAccess, connections: Int) throws {
        self.app = app
        self.connections = connections
        credentials = StoreAPICredentials(
            issuerID: access.issuerID, keyID: access.keyID, bundleID: app.bundleID,
            key: try TrustedMaterial.privateKey(
                access.privateKeyPath, of: "app_store_api.private_key_path of \(app.bundleID)"))
        servers = StoreAPIClient.Servers(
            production: access.baseURL.flatMap { URL(string: $0) } ?? StoreAPIClient.Servers.apple,
            sandbox: access.sandboxBaseURL.flatMap { URL(string: $0) } ?? StoreAPIClient.Servers.appleSandbox)
    }

    /// What asks the store about this app, within the limits that all instances share.
    func client(_ session: DatabaseSession, now: @escaping @Sendable () -> Timestamp) -> StoreAPIClient {
        StoreAPIClient(
            credentials, servers: servers, quota: SharedStoreAPIQuota(StoreQuotas(pool: session.pool)),
            transport: StoreAPISession(connections: connections),
            surroundings: .init(
                now: now, machineNow: session.clock.machineNow, sleep: { try await Task.sleep(for: $0) },
                fraction: { Double.random(in: 0...1) }))
    }

    /// What asks the store about one customer of this app.
    func check(
        _ session: DatabaseSession, writer: LedgerWriter, reader: LedgerReader, verifier: StatementVerifier,
        now: @escaping @Sendable () -> Timestamp
    ) -> StoreCheck {
        StoreCheck(client: client(session, now: now), statements: verifier, reader: reader, now: now) {
            try await writer.append($0)
        }
    }

    /// What verifies the store's answers; it remembers none, for the store signs each answer anew.
    static func statementVerifier(_ jws: JWSVerifier, _ configuration: Configuration) -> StatementVerifier {
        StatementVerifier(
            jws: jws, apps: configuration.apps.map(\.binding), remembered: RememberedStatements(byteLimit: 0))
    }

    /// What reads the store's history of one app's notifications.
    func sweep(
        _ session: DatabaseSession, writer: LedgerWriter, verifier: NotificationVerifier, logger: Logger,
        now: @escaping @Sendable () -> Timestamp
    ) -> NotificationSweep {
        NotificationSweep(
            client: client(session, now: now),
            register: SweepRegister(pool: session.pool, holder: session.holder),
            verifier: verifier, logger: logger, now: now
        ) { try await writer.append($0) }
    }
}
