import EntitlementAPI
import EntitlementCore
import Ledger
import Service

extension Configuration {
    /// Reads and checks a configuration; the first thing wrong with it is thrown by name.
    init(_ input: ConfigurationInput) throws(ConfigurationError) {
        let settings = try Settings(input)
        listen = try settings.listen()
        database = try settings.database()
        dataDirectory = try settings.dataDirectory()
        apps = try settings.list(.apps, limit: 1000, ConfiguredApp.init(reading:))
        stripe = try settings.list(.stripe, limit: 2, StripeAccount.init(reading:))
        rootCertificates = try settings.list(.rootCertificates, limit: 32, RootCertificateSource.init(reading:))
        passKeys = try settings.list(.passKeys, limit: 16, PassKey.init(reading:))
        passTTL = try settings.seconds(.passTTL, in: PassDocument.ttlRange) ?? PassDocument.defaultTTL
        logOrigin = try settings.logOrigin()
        logKeyPath = try settings.node(.logKeyPath)?.filePath()
        tokenKeyPath = try settings.node(.tokenKeyPath)?.filePath()
        checkpointDirectory = try settings.node(.checkpointDirectory)?.filePath()
        trustedProxies = try settings.list(.trustedProxies, limit: 1000, NetworkRange.init(reading:))
        rateLimits = try settings.rateLimits()
        answerMemoryMiB =
            try settings.wholeNumber(.answerMemory, of: "MiB", in: 0...Self.answerMemoryLimit).map { Int($0) }
            ?? min(Application.Limits().answerCacheBytes >> 20, input.memory / Self.answerShare)
        (sendsWebhooks, allowsPrivateWebhooks, webhookAttempt) = try settings.webhooks()
        hasConsole = try settings.flag(.console) ?? true
        try settings.refuseRepeated(apps)
        try settings.refuseRepeated(passKeys)
        try settings.refuseRepeated(stripe)
        if settings.node(.rootCertificates) == nil { rootCertificates = [.apple] }
        guard !rootCertificates.isEmpty else {
            throw settings.error(.rootCertificates, "must not be empty: leave the key out to trust Apple's root")
        }
        for key in ConfigurationKey.allCases { sources[key] = settings.source(of: key) }
        notices = settings.notices(apps: apps, database: database, passKeys: passKeys)
        if case .embedded = database, input.memory < Self.leastMemory {
            notices.append(
                "this process may use \(input.memory) MiB of memory, and with its PostgreSQL it needs \(Self.leastMemory): where it "
                    + "has no more, the system ends it")
        }
        if !sendsWebhooks {
            notices.append(
                "webhooks.enabled is false: endpoints are sent nothing, and the App Store's refund requests are not "
                    + "answered")
        }
    }
}

extension Configuration {
    /// The most memory for answers, in MiB: a TiB.
    private static let answerMemoryLimit: Int64 = 1 << 20
    /// Which part of the memory answers take at the most where nothing is said: beside the service and its PostgreSQL a command
    /// has to find room, too.
    private static let answerShare = 8
    /// What an empty ledger needs with its PostgreSQL, in MiB.
    private static let leastMemory = 384
}

/// The merged input: for each key the strongest source that says something.
private struct Settings {
    let input: ConfigurationInput
    let root: [String: ConfigurationNode]
    private let filePath: String

    init(_ input: ConfigurationInput) throws(ConfigurationError) {
        self.input = input
        filePath = input.file?.path ?? ""
        guard let file = input.file else {
            root = [:]
            return
        }
        root = try ConfigurationNode(file: file.path, content: file.content)
            .members(ConfigurationKey.allCases.map(\.rawValue))
    }

    func node(_ key: ConfigurationKey) -> ConfigurationNode? { root[key.rawValue] }

    func source(of key: ConfigurationKey) -> ConfigurationSource {
        if let flag = key.flag, input.flags[key] != nil { return .flag(flag) }
        if let variable = key.variable, self.variable(variable) != nil { return .variable(variable) }
        return node(key) == nil ? .byDefault : .file(filePath)
    }

    func error(_ key: ConfigurationKey, _ problem: String) -> ConfigurationError {
        ConfigurationError(key.rawValue, source(of: key), problem)
    }

    /// An empty variable counts as unset: that is how `VAR=${VAR:-}` in a compose file says so.
    private func variable(_ name: String) -> String? {
        input.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    private func text(_ key: ConfigurationKey) throws(ConfigurationError) -> String? {
        if let value = input.flags[key] {
            if value.isEmpty { throw error(key, "must not be empty") }
            return value
        }
        if let value = key.variable.flatMap(variable) { return value }
        return try node(key)?.string()
    }

    func listen() throws(ConfigurationError) -> ListenAddress {
        guard let text = try text(.listen) else { return ListenAddress(host: "127.0.0.1", port: 8080) }
        guard let address = ListenAddress(text) else {
            throw error(.listen, "'\(text)' is not host:port, such as 127.0.0.1:8080 or [::1]:8080")
        }
        return address
    }

    func logOrigin() throws(ConfigurationError) -> String? {
        guard let name = try text(.logOrigin) else { return nil }
        guard LogKey.isName(name) else {
            throw error(.logOrigin, "must have 1 to 256 bytes, and neither spaces nor '+'; such as example.com/ledger")
        }
        return name
    }

    func dataDirectory() throws(ConfigurationError) -> String {
        if case .file = source(of: .dataDirectory), let node = node(.dataDirectory) { return try node.filePath() }
        return try text(.dataDirectory) ?? (input.isRoot ? "/var/lib/rightful" : ".rightful")
    }

    func database() throws(ConfigurationError) -> DatabaseChoice {
        let migrateURL = try databaseURL(.migrateDatabaseURL)
        if let url = try databaseURL(.databaseURL) { return .external(url: url, migrateURL: migrateURL) }
        guard migrateURL == nil else {
            throw error(.migrateDatabaseURL, "needs database_url beside it, which names the database to serve")
        }
        return .embedded
    }

    /// The text itself stays out of the message: it may hold a password.
    private func databaseURL(_ key: ConfigurationKey) throws(ConfigurationError) -> Secret? {
        guard let text = try text(key) else { return nil }
        guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") || text.contains("=") else {
            throw error(key, "is neither a postgresql:// URL nor made of keyword=value pairs")
        }
        return Secret(text)
    }

    /// A whole number of seconds; `nil` where nobody says.
    func seconds(_ key: ConfigurationKey, in range: ClosedRange<Int64>) throws(ConfigurationError) -> Duration? {
        try wholeNumber(key, of: "seconds", in: range).map { .seconds($0) }
    }

    /// A whole number; `nil` where nobody says.
    func wholeNumber(
        _ key: ConfigurationKey, of unit: String, in range: ClosedRange<Int64>
    ) throws(ConfigurationError) -> Int64? {
        let number: Int64
        if let text = key.variable.flatMap(variable) {
            number = Int64(text) ?? .max
        } else if let node = node(key) {
            number = try node.wholeNumber()
        } else {
            return nil
        }
        guard range.contains(number) else {
            throw error(key, "must be a whole number of \(unit) from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// `true` or `false`; `nil` where nobody says.
    func flag(_ key: ConfigurationKey) throws(ConfigurationError) -> Bool? {
        guard let text = key.variable.flatMap(variable) else { return try node(key)?.boolean() }
        guard let flag = Bool(text) else { throw error(key, "must be true or false, not '\(text)'") }
        return flag
    }

    func rateLimits() throws(ConfigurationError) -> RateLimits {
        guard let node = node(.rateLimits) else { return RateLimits() }
        return try RateLimits(reading: node)
    }

    func webhooks() throws(ConfigurationError) -> (sends: Bool, allowsPrivate: Bool, attempt: Duration) {
        let members = try node(.webhooks)?.members(["enabled", "allow_private_addresses", "attempt_seconds"]) ?? [:]
        var attempt = WebhookDispatcher.defaultAttempt
        if let node = members["attempt_seconds"] {
            attempt = .seconds(try node.positiveInteger())
            guard attempt <= WebhookDispatcher.longestAttempt else {
                throw node.error("must be at most \(WebhookDispatcher.longestAttempt.components.seconds)")
            }
        }
        return (
            try members["enabled"]?.boolean() ?? true, try members["allow_private_addresses"]?.boolean() ?? false,
            attempt
        )
    }

    func list<Element>(
        _ key: ConfigurationKey, limit: Int,
        _ read: (ConfigurationNode) throws(ConfigurationError) -> Element
    ) throws(ConfigurationError) -> [Element] {
        var elements: [Element] = []
        for node in try node(key)?.elements(limit: limit) ?? [] { elements.append(try read(node)) }
        return elements
    }

    func refuseRepeated(_ apps: [ConfiguredApp]) throws(ConfigurationError) {
        var seen: Set<String> = []
        for (index, app) in apps.enumerated() {
            for environment in app.environments
            where !seen.insert("\(environment.rawValue) \(app.bundleID)").inserted {
                throw ConfigurationError(
                    "apps[\(index)].bundle_id", .file(filePath),
                    "\(app.bundleID) is listed twice for \(environment.rawValue)")
            }
            // What asks the store is found by the app.
            let others = apps[..<index].filter { $0.bundleID == app.bundleID }
            guard others.isEmpty || (others + [app]).allSatisfy({ $0.appStoreAPI == nil }) else {
                throw ConfigurationError(
                    "apps[\(index)].bundle_id", .file(filePath),
                    "\(app.bundleID) is listed twice: with app_store_api list it once, with all its environments")
            }
        }
    }

    func refuseRepeated(_ keys: [PassKey]) throws(ConfigurationError) {
        var seen: Set<String> = []
        for (index, key) in keys.enumerated() where !seen.insert(key.keyID).inserted {
            throw ConfigurationError(
                "pass_keys[\(index)].key_id", .file(filePath), "\(key.keyID) is listed twice")
        }
    }

    func refuseRepeated(_ accounts: [StripeAccount]) throws(ConfigurationError) {
        guard accounts.count == 2, accounts[0].environment == accounts[1].environment else { return }
        throw ConfigurationError(
            "stripe[1].environment", .file(filePath), "\(accounts[1].environment.rawValue) is listed twice")
    }

    func notices(apps: [ConfiguredApp], database: DatabaseChoice, passKeys: [PassKey]) -> [String] {
        var notices: [String] = []
        if apps.isEmpty { notices.append("no apps are configured: every notification is refused as unknown_app") }
        for app in apps where app.appStoreAPI == nil {
            notices.append("\(app.bundleID) has no app_store_api: missed notifications are not fetched from the store")
        }
        for app in apps where app.environments.count > 1 {
            guard let access = app.appStoreAPI, (access.baseURL == nil) != (access.sandboxBaseURL == nil) else {
                continue
            }
            let (given, missing) =
                access.baseURL == nil ? ("sandbox_base_url", "base_url") : ("base_url", "sandbox_base_url")
            notices.append(
                "\(app.bundleID) has \(given) and no \(missing): for the other environment Apple's own server is asked")
        }
        if case .external = database, passKeys.isEmpty {
            notices.append("no pass_keys are configured: devices get no passes to show or keep offline")
        }
        if case .external = database, source(of: .dataDirectory) != .byDefault {
            notices.append("data_dir is not used for the database, because database_url names another one")
        }
        // Only a warning: orchestrators set variables of their own, such as RIGHTFUL_SERVICE_HOST.
        let known = Set(ConfigurationKey.allCases.compactMap(\.variable))
        for name in input.environment.keys.sorted() where name.hasPrefix("RIGHTFUL_") && !known.contains(name) {
            notices.append("the environment variable \(name) is not one that rightful reads")
        }
        return notices
    }
}
