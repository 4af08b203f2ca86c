import AppStoreServer
import EntitlementCore
import Service

/// Everything that can be set, checked and with its defaults in place.
///
/// A value comes from a flag, else an environment variable, else the file, else the default; `sources` says which.
/// Files that are named here have not been opened yet.
struct Configuration: Sendable {
    var listen: ListenAddress
    var database: DatabaseChoice
    /// Where the embedded PostgreSQL and the files this program makes for itself live.
    var dataDirectory: String
    var apps: [ConfiguredApp]
    /// The accounts of Stripe's that sell on the web, one for each environment at most.
    var stripe: [StripeAccount]
    var rootCertificates: [RootCertificateSource]
    var passKeys: [PassKey]
    /// The name of the log in its checkpoints; `nil`: made of the ledger's own id.
    var logOrigin: String?
    /// The key that signs checkpoints; `nil`: one that the data directory keeps.
    var logKeyPath: String?
    /// The file with the keys of customer tokens; `nil`: the database keeps them.
    var tokenKeyPath: String?
    /// Where `serve` writes checkpoints; `nil`: nowhere.
    var checkpointDirectory: String?
    /// How long a pass may live at most, in whole seconds.
    var passTTL: Duration
    /// The peers whose word about the client's address is taken.
    var trustedProxies: [NetworkRange]
    var rateLimits: RateLimits
    /// What the answers that are kept in memory may take, in MiB; 0 keeps none.
    var answerMemoryMiB: Int
    /// Whether endpoints of webhooks are sent anything, and the App Store's refund requests answered.
    var sendsWebhooks: Bool
    /// Whether endpoints of webhooks may be at private addresses, and by plain http.
    var allowsPrivateWebhooks: Bool
    /// How long an endpoint of webhooks has for its answer, in whole seconds.
    var webhookAttempt: Duration
    /// Whether there is a console.
    var hasConsole: Bool

    /// Where each value comes from.
    var sources: [ConfigurationKey: ConfigurationSource] = [:]
    /// What is legitimate but worth a word at start.
    var notices: [String] = []
}

/// A host and a port to listen on.
struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    let host: String
    /// 0 lets the system choose.
    let port: UInt16

    init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, with an IPv6 address in brackets.
    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard digits.utf8.allSatisfy({ (48...57).contains($0) }), let port = UInt16(digits) else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, !host.contains(where: { $0.isWhitespace || $0 == "/" }) else { return nil }
        self.init(host: String(host), port: port)
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Which PostgreSQL holds the ledger.
enum DatabaseChoice: Sendable {
    /// The private one in the data directory.
    case embedded
    /// One that somebody else runs; `migrateURL` logs in as the owner of the tables, where that is another role.
    case external(url: Secret, migrateURL: Secret?)
}

/// One app whose purchases the ledger keeps.
struct ConfiguredApp: Sendable {
    let bundleID: String
    /// The app's number in the App Store; always there when `environments` holds production.
    let appAppleID: Int64?
    let environments: Set<StoreEnvironment>
    /// Access to the App Store Server API; without it nothing missed can be fetched.
    let appStoreAPI: AppStoreAPIAccess?
    /// What the store is told of refund requests; `nil` where the customers' consent is not stated, and then nothing is.
    let consumption: ConsumptionPolicy?
    /// How far what its devices bring is believed.
    let trust: DeviceTrust

    /// What incoming notifications are held against.
    var binding: AppBinding {
        AppBinding(bundleID: bundleID, appAppleID: appAppleID, environments: environments)
    }
}

extension [ConfiguredApp] {
    /// How far each app's devices are believed.
    var deviceTrust: DeviceTrustTable {
        var table = DeviceTrustTable()
        for app in self {
            for environment in app.environments { table[app.bundleID, environment] = app.trust }
        }
        return table
    }
}

/// How to sign in to the App Store Server API for one app.
struct AppStoreAPIAccess: Sendable {
    let issuerID: String
    let keyID: String
    /// A P-256 key in PEM, as App Store Connect hands it out.
    let privateKeyPath: String
    /// Other servers in place of Apple's.
    let baseURL: String?
    let sandboxBaseURL: String?
}

/// A key that signs passes: a file with a P-256 key in PEM.
struct PassKey: Sendable {
    let keyID: String
    let privateKeyPath: String
    let notBefore: Timestamp?
}

/// Where a trusted root certificate comes from.
enum RootCertificateSource: Sendable, Hashable {
    /// The built-in Apple Root CA - G3; `apple` in the file.
    case apple
    /// A file in PEM or DER.
    case file(String)
}
