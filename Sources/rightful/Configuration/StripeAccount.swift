import EntitlementCore
import Foundation
import OutgoingHTTP
import Service
import StripeAPI

/// An account of Stripe's that sells on the web in one environment.
struct StripeAccount: Sendable {
    let environment: StoreEnvironment
    /// The file with the key of Stripe's API.
    let secretKeyPath: String
    /// The files with the secrets that webhooks are signed with; several while one is rolled.
    let webhookSecretPaths: [String]
    /// Where Stripe sends whoever has paid, and whoever has not.
    let successURL: String
    let cancelURL: String
    /// Another server in place of Stripe's.
    let baseURL: String?

    /// More than Stripe keeps in force at once for a few endpoints.
    static let secretLimit = 8
}

extension StripeAccount {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let members = try node.members([
            "environment", "secret_key_path", "webhook_secret_paths", "success_url", "cancel_url", "base_url",
        ])
        let name = try members.required("environment", of: node)
        guard let environment = StoreEnvironment(rawValue: try name.string()) else {
            throw name.error("must be production, for Stripe's live mode, or sandbox")
        }
        self.environment = environment
        secretKeyPath = try members.required("secret_key_path", of: node).filePath()
        let paths = try members.required("webhook_secret_paths", of: node)
        var files: [String] = []
        for element in try paths.elements(limit: Self.secretLimit) {
            let path = try element.filePath()
            guard !files.contains(path) else { throw element.error("\(path) is listed twice") }
            files.append(path)
        }
        guard !files.isEmpty else { throw paths.error("must name at least one file") }
        webhookSecretPaths = files
        successURL = try members.required("success_url", of: node).page()
        cancelURL = try members.required("cancel_url", of: node).page()
        baseURL = try members["base_url"]?.webAddress()
    }

    /// As the log shows it.
    var summary: String {
        let count = webhookSecretPaths.count
        return "\(environment.rawValue) (\(count) webhook \(count == 1 ? "secret" : "secrets"))"
    }
}

extension ConfigurationNode {
    /// A page to which a browser is sent; Stripe fills `{CHECKOUT_SESSION_ID}` in.
    fileprivate func page() throws(ConfigurationError) -> String {
        let text = try string()
        let filled = text.replacingOccurrences(of: "{CHECKOUT_SESSION_ID}", with: "cs_1")
        guard let url = URLComponents(string: filled), let host = url.host, !host.isEmpty, url.user == nil,
            ["https", "http"].contains(url.scheme), !filled.contains(where: { $0 == "{" || $0 == "}" })
        else { throw error("must be an https:// address, such as https://example.com/thanks") }
        guard url.scheme == "https" || ["127.0.0.1", "[::1]", "::1", "localhost"].contains(host) else {
            throw error("must be an https:// address: plain http goes to this machine alone")
        }
        return text
    }
}

/// What the files hold that `stripe` names, read and checked.
struct StripeFiles: Sendable {
    let webhooks: StripeWebhooks
    /// A key of the API for each account, and where that is.
    let keys: [(key: StripeKey, base: String?)]
    /// What is wrong with the files without making them useless.
    let warnings: [String]
    private let connections: Int

    /// - Parameter connections: the most that each client opens.
    /// - Throws: `ConfigurationError` for a file that cannot be read, or holds something else; it never quotes any.
    init(_ configuration: Configuration, connections: Int = OutgoingSession.usualConnections) throws {
        var secrets: [StripeWebhookSecret] = []
        var keys: [(key: StripeKey, base: String?)] = []
        var warnings: [String] = []
        for account in configuration.stripe {
            let user = "webhook_secret_paths of stripe for \(account.environment.rawValue)"
            for path in account.webhookSecretPaths {
                let text = try Self.line(path, for: user)
                guard let secret = StripeWebhookSecret(text, of: account.environment) else {
                    throw ConfigurationError(
                        file: path, "\(user): is no signing secret of a webhook, which begins with whsec_")
                }
                guard !secrets.contains(where: { $0.isSame(as: secret) }) else {
                    throw ConfigurationError(file: path, "\(user): the same secret is in another file")
                }
                secrets.append(secret)
                warnings += Self.warning(path, of: user)
            }
            let key = "secret_key_path of stripe for \(account.environment.rawValue)"
            keys.append((try Self.key(Self.line(account.secretKeyPath, for: key), account, key), account.baseURL))
            warnings += Self.warning(account.secretKeyPath, of: key)
        }
        webhooks = StripeWebhooks(secrets)
        self.keys = keys
        self.connections = connections
        self.warnings = warnings
    }

    /// The largest file read, in bytes.
    private static let sizeLimit = 4096

    /// What a file holds, without the line's end that an editor adds.
    private static func line(_ path: String, for user: String) throws -> String {
        let bytes = try Files.read(path, for: user)
        guard bytes.count <= sizeLimit else {
            throw ConfigurationError(file: path, "\(user): is larger than \(sizeLimit) bytes")
        }
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty else { throw ConfigurationError(file: path, "\(user): is empty") }
        return text
    }

    /// A key of the other mode would ask for what was never sold here, or sell for money what is a test.
    private static func key(_ text: String, _ account: StripeAccount, _ user: String) throws -> StripeKey {
        let (own, other) = account.environment == .production ? ("live", "test") : ("test", "live")
        guard let key = StripeKey(text) else {
            throw ConfigurationError(
                file: account.secretKeyPath,
                "\(user): is no secret or restricted key of Stripe's, which begins with sk_\(own)_ or rk_\(own)_")
        }
        guard key.environment == account.environment else {
            throw ConfigurationError(
                file: account.secretKeyPath,
                "\(user): is a key of Stripe's \(other) mode, and \(account.environment.rawValue) takes one of its \(own) mode"
            )
        }
        return key
    }

    /// What asks Stripe's API, one for each account.
    ///
    /// - Parameter paces: of other clients of the same accounts, together with which they ask no more than one would.
    func clients(
        sharing paces: [StoreEnvironment: StripePace], now: @escaping @Sendable () -> Timestamp
    ) -> [StripeClient] {
        keys.map { key, base in
            StripeClient(
                key, base: base,
                transport: OutgoingSession(
                    timeout: StripeClient.timeout, answerLimit: StripeClient.answerLimit, connections: connections),
                pace: paces[key.environment],
                surroundings: .init(
                    now: now, sleep: { try await Task.sleep(for: $0) }, fraction: { Double.random(in: 0...1) }))
        }
    }

    /// How often each account is asked.
    var paces: [StoreEnvironment: StripePace] {
        Dictionary(keys.map { ($0.key.environment, StripePace($0.key.environment)) }) { first, _ in first }
    }

    /// Where it is sold, with connections of their own: whoever buys does not wait for what is read behind the service.
    func shops(
        _ configuration: Configuration, sharing paces: [StoreEnvironment: StripePace],
        now: @escaping @Sendable () -> Timestamp
    ) -> [StoreEnvironment: StripeShop] {
        var shops: [StoreEnvironment: StripeShop] = [:]
        for (account, client) in zip(configuration.stripe, clients(sharing: paces, now: now)) {
            shops[account.environment] = StripeShop(
                client: client, successURL: account.successURL, cancelURL: account.cancelURL)
        }
        return shops
    }

    private static func warning(_ path: String, of user: String) -> [String] {
        guard SecretFile.isOpenToOthers(path) else { return [] }
        return ["\(user): others than its owner may use \(path); chmod it to 600"]
    }
}
