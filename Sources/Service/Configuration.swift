package import AppStoreServer
package import EntitlementCore

/// Everything that can be set, checked and with its defaults in place.
///
/// A value comes from a flag, else an environment variable, else the file, else the default; `sources` says which.
/// Files that are named here have not been opened yet.
package struct Configuration: Sendable {
    package var listen: ListenAddress
    package var database: DatabaseChoice
    /// Where the embedded PostgreSQL and the files this program makes for itself live.
    package var dataDirectory: String
    package var apps: [ConfiguredApp]
    package var rootCertificates: [RootCertificateSource]
    package var passKeys: [PassKey]
    /// How long a pass may live at most, in whole seconds.
    package var passTTL: Duration
    /// The peers whose word about the client's address is taken.
    package var trustedProxies: [NetworkRange]
    package var rateLimits: RateLimits

    /// Where each value comes from.
    package internal(set) var sources: [ConfigurationKey: ConfigurationSource] = [:]
    /// What is legitimate but worth a word at start.
    package internal(set) var notices: [String] = []
}

/// A host and a port to listen on.
package struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    package let host: String
    /// 0 lets the system choose.
    package let port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, with an IPv6 address in brackets.
    package init?(_ text: String) {
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

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Which PostgreSQL holds the ledger.
package enum DatabaseChoice: Sendable {
    /// The private one in the data directory.
    case embedded
    /// One that somebody else runs; `migrateURL` logs in as the owner of the tables, where that is another role.
    case external(url: Secret, migrateURL: Secret?)
}

/// One app whose purchases the ledger keeps.
package struct ConfiguredApp: Sendable {
    package let bundleID: String
    /// The app's number in the App Store; always there when `environments` holds production.
    package let appAppleID: Int64?
    package let environments: Set<StoreEnvironment>
    /// Access to the App Store Server API; without it nothing missed can be fetched.
    package let appStoreAPI: AppStoreAPIAccess?

    /// What incoming notifications are held against.
    package var binding: AppBinding {
        AppBinding(bundleID: bundleID, appAppleID: appAppleID, environments: environments)
    }
}

/// How to sign in to the App Store Server API for one app.
package struct AppStoreAPIAccess: Sendable {
    package let issuerID: String
    package let keyID: String
    /// A P-256 key in PEM, as App Store Connect hands it out.
    package let privateKeyPath: String
    /// Another server in place of Apple's.
    package let baseURL: String?
}

/// A key that signs passes: a file with a P-256 key in PEM.
package struct PassKey: Sendable {
    package let keyID: String
    package let privateKeyPath: String
    package let notBefore: Timestamp?
}

/// Where a trusted root certificate comes from.
package enum RootCertificateSource: Sendable, Hashable {
    /// The built-in Apple Root CA - G3; `apple` in the file.
    case apple
    /// A file in PEM or DER.
    case file(String)
}
