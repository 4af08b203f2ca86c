import AppStoreServer
import EmbeddedPostgres
import EntitlementCore
import Glibc
import Ledger
import OpenSSLCrypto
import Service

/// What `serve` reads from files, or makes there, with the rights of whoever started it.
///
/// It is all done before those rights are given up: keys may be in files that only root can read.
struct ServingFiles: Sendable {
    let passKeys: PassKeyFiles
    /// What signs checkpoints; `nil` where there is none.
    let logKey: Ed25519PrivateKey?
    /// Whether that key was made just now.
    let hasMadeLogKey: Bool
    let checkpoints: CheckpointDirectory?
    /// Who may ask the store about which app.
    let storeAccess: [StoreAccess]
    /// What verifies Stripe's webhooks.
    let stripe: StripeFiles
    /// What is wrong with files without making them useless.
    private(set) var warnings: [String]

    /// - Parameters:
    ///   - cluster: the embedded PostgreSQL, where that is the database.
    ///   - account: as whom the service is going to run; `nil`: as whoever started it.
    init(
        _ configuration: Configuration, trusting anchors: TrustAnchors, passKeys configured: PassKeyFiles,
        storeAccess: [StoreAccess], stripe: StripeFiles, cluster: EmbeddedCluster?, for account: ServiceAccount?,
        now: Timestamp
    ) async throws {
        passKeys =
            if configured.ring.isEmpty, let cluster {
                try PassKeyFiles(keptIn: cluster.dataDirectory)
            } else {
                configured
            }
        self.stripe = stripe
        warnings = anchors.warnings(now: now) + passKeys.warnings + stripe.warnings
        warnings += [passKeys.warning(ofKeyLeftIn: configuration.dataDirectory)].compactMap(\.self)
        if let start = passKeys.ring.start(after: now) {
            warnings.append(
                "pass_keys: none may sign before \(start) (not_before); until then there are no passes, and a device that asks for "
                    + "them (passKeys) believes no answer")
        }
        do {
            let isMissing = LogKeyFile.isMissing(configuration)
            let key = try LogKeyFile.privateKey(configuration, isMade: true)
            (logKey, hasMadeLogKey) = (key, isMissing)
            warnings += [LogKeyFile.warning(configuration)].compactMap(\.self)
        } catch {
            // With an embedded PostgreSQL, and where one is configured, there must be one.
            guard case .external = configuration.database, configuration.logKeyPath == nil else { throw error }
            (logKey, hasMadeLogKey) = (nil, false)
            warnings.append(
                "no checkpoints are signed, for there is no key to sign them with (see log_key_path): \(error)")
        }
        do {
            try TrustedMaterial.keep(anchors, configuration)
        } catch {
            warnings.append(
                "the roots that are trusted now cannot be kept for `rightful verify`, which then takes the same "
                    + "configuration: \(error)")
        }
        if let path = configuration.tokenKeyPath {
            try await CustomerTokens(keys: TokenKeyFile(path: path)).prepare(now: now)
        }
        self.storeAccess = storeAccess
        warnings += [configuration.tokenKeyWarning].compactMap(\.self)
        checkpoints = configuration.checkpointDirectory.map { path in
            CheckpointDirectory.made(path, owner: account.map { ($0.user, $0.group) })
        }
    }

    /// Looks, as `account`, whether the service can use what it reads and writes again and again.
    ///
    /// - Throws: `CommandFailure` for what it cannot serve without.
    mutating func check(_ configuration: Configuration, as account: ServiceAccount) throws {
        if let path = configuration.tokenKeyPath, access(path, R_OK) != 0 {
            throw CommandFailure(
                description: "token_key_path: \(path) cannot be read by the user \(account.name), as whom root serves: "
                    + "give it to that user, in a directory that they may pass")
        }
        if let checkpoints, !checkpoints.isWritable {
            warnings.append(
                "checkpoint_dir: the user \(account.name), as whom root serves, may not write to \(checkpoints.path); "
                    + "give it to that user")
        }
    }
}
