import EntitlementCore
import Service

extension Configuration {
    /// One setting as the log shows it.
    struct ReportLine: Sendable, Hashable {
        let key: String
        let source: String
        /// Without passwords and keys.
        let value: String
    }

    /// Every key, where its value comes from, and the value without secrets.
    var report: [ReportLine] {
        ConfigurationKey.allCases.map { key in
            ReportLine(
                key: key.rawValue, source: (sources[key] ?? .byDefault).description, value: shownValue(of: key))
        }
    }

    private func shownValue(of key: ConfigurationKey) -> String {
        switch (key, database) {
        case (.listen, _): listen.description
        case (.databaseURL, .embedded): "none: embedded PostgreSQL"
        case (.databaseURL, .external(let url, _)): url.redactedDatabaseURL
        case (.migrateDatabaseURL, .embedded): "none"
        case (.migrateDatabaseURL, .external(_, let url)): url?.redactedDatabaseURL ?? "database_url"
        case (.dataDirectory, _): dataDirectory
        case (.apps, _): Self.joined(apps.map(\.summary))
        case (.stripe, _): Self.joined(stripe.map(\.summary))
        case (.rootCertificates, _): Self.joined(rootCertificates.map(\.summary))
        case (.passKeys, .embedded) where passKeys.isEmpty: "none: the one in the data directory"
        case (.passKeys, _): Self.joined(passKeys.map(\.keyID))
        case (.passTTL, _): "\(passTTL.components.seconds)"
        case (.logOrigin, _): logOrigin ?? "rightful/ and the ledger's own id"
        case (.tokenKeyPath, _): tokenKeyPath ?? "none: the database keeps them"
        case (.logKeyPath, _): logKeyPath ?? "the one in the data directory"
        case (.checkpointDirectory, _): checkpointDirectory ?? "none"
        case (.trustedProxies, _): Self.joined(trustedProxies.map(\.description))
        case (.rateLimits, _): rateLimits.summary
        case (.answerMemory, _): "\(answerMemoryMiB)"
        case (.console, _): "\(hasConsole)"
        case (.webhooks, _):
            (sendsWebhooks ? "" : "nothing is sent; ")
                + (allowsPrivateWebhooks ? "private addresses and plain http" : "public addresses by https")
                + ", \(webhookAttempt.components.seconds) s for an answer"
        }
    }

    private static func joined(_ items: [String]) -> String { items.isEmpty ? "none" : items.joined(separator: ", ") }
}

extension ConfiguredApp {
    fileprivate var summary: String {
        let places = environments.map(\.rawValue).sorted().joined(separator: "+")
        var parts = [places]
        if appStoreAPI != nil { parts.append("App Store Server API") }
        if consumption != nil { parts.append("answers consumption requests") }
        if !trust.linksOnLogin { parts.append("no links on login") }
        if trust.appTransactionProof != .on { parts.append("proof \(trust.appTransactionProof.rawValue)") }
        if let age = trust.appTransactionMaxAge {
            parts.append("app transactions of \(age / Timestamp.millisecondsPerDay) days")
        }
        return "\(bundleID) (\(parts.joined(separator: ", ")))"
    }
}

extension RootCertificateSource {
    fileprivate var summary: String {
        switch self {
        case .apple: "Apple Root CA - G3"
        case .file(let path): path
        }
    }
}
