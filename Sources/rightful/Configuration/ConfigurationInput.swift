/// What can be set, by its name in the file.
enum ConfigurationKey: String, Sendable, CaseIterable {
    case listen
    case databaseURL = "database_url"
    case migrateDatabaseURL = "migrate_database_url"
    case dataDirectory = "data_dir"
    case apps
    case stripe
    case rootCertificates = "root_certificates"
    case passKeys = "pass_keys"
    case passTTL = "pass_ttl"
    case logOrigin = "log_origin"
    case logKeyPath = "log_key_path"
    case tokenKeyPath = "token_key_path"
    case checkpointDirectory = "checkpoint_dir"
    case trustedProxies = "trusted_proxies"
    case rateLimits = "rate_limits"
    case answerMemory = "answer_memory_mib"
    case webhooks
    case console

    /// The environment variable, for what one line can say.
    var variable: String? {
        switch self {
        case .listen: "RIGHTFUL_LISTEN"
        case .databaseURL: "DATABASE_URL"
        case .migrateDatabaseURL: "RIGHTFUL_MIGRATE_DATABASE_URL"
        case .dataDirectory: "RIGHTFUL_DATA_DIR"
        case .passTTL: "RIGHTFUL_PASS_TTL"
        case .answerMemory: "RIGHTFUL_ANSWER_MEMORY_MIB"
        case .console: "RIGHTFUL_CONSOLE"
        case .apps, .stripe, .rootCertificates, .passKeys, .logOrigin, .logKeyPath, .tokenKeyPath, .checkpointDirectory,
            .trustedProxies, .rateLimits, .webhooks:
            nil
        }
    }

    /// The command line's flag, where there is one.
    var flag: String? {
        switch self {
        case .listen: "--listen"
        case .databaseURL: "--database-url"
        case .migrateDatabaseURL: "--migrate-database-url"
        case .dataDirectory: "--data-dir"
        case .apps, .stripe, .rootCertificates, .passKeys, .passTTL, .logOrigin, .logKeyPath, .tokenKeyPath,
            .checkpointDirectory,
            .trustedProxies, .rateLimits, .answerMemory, .webhooks, .console:
            nil
        }
    }
}

/// Where a value comes from.
enum ConfigurationSource: Sendable, Hashable, CustomStringConvertible {
    case flag(String)
    case variable(String)
    case file(String)
    case byDefault

    var description: String {
        switch self {
        case .flag(let name): "flag \(name)"
        case .variable(let name): "variable \(name)"
        case .file(let path): "file \(path)"
        case .byDefault: "default"
        }
    }
}

/// Everything a configuration is made of, before it is read.
struct ConfigurationInput: Sendable {
    /// The values given on the command line.
    var flags: [ConfigurationKey: String]
    /// The process's environment.
    var environment: [String: String]
    /// The path and content of the file of `--config`.
    var file: (path: String, content: [UInt8])?
    /// Whether the process runs as root, which changes a default.
    var isRoot: Bool
    /// What memory the process may use, in MiB, which another follows.
    var memory: Int

    init(
        flags: [ConfigurationKey: String] = [:], environment: [String: String] = [:],
        file: (path: String, content: [UInt8])? = nil, isRoot: Bool = false, memory: Int = .max
    ) {
        self.flags = flags
        self.environment = environment
        self.file = file
        self.isRoot = isRoot
        self.memory = memory
    }
}

/// A key that is unknown, missing or has a bad value; the description names it and where it was found.
struct ConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
    let description: String

    init(_ key: String, _ source: ConfigurationSource, _ problem: String) {
        description = "configuration: \(key) (\(source)): \(problem)"
    }

    /// About a file that `--config` or a key names.
    init(file path: String, _ problem: String) {
        description = "configuration: \(path): \(problem)"
    }
}
