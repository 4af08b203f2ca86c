import AppStorePayloads
package import EntitlementCore

/// One app as it is configured: whose statements are taken, and from where.
package struct AppBinding: Hashable, Sendable {
    package let bundleID: String
    /// The app's number in the App Store, which notifications and app transactions from production must bear.
    package let appAppleID: Int64?
    package let environments: Set<StoreEnvironment>

    package init(bundleID: String, appAppleID: Int64?, environments: Set<StoreEnvironment>) {
        self.bundleID = bundleID
        self.appAppleID = appAppleID
        self.environments = environments
    }
}

/// Which app a signed statement says it is about, and where.
struct StatedApp {
    /// The statement in words, such as "the notification".
    let statement: String
    let bundleID: String?
    /// The environment in Apple's word.
    let environment: String?
    let number: Number

    /// The app's number in the App Store.
    enum Number {
        /// What the statement bears, which in production must be the configured one.
        case borne(Int64?)
        /// Statements of this kind bear none.
        case none
    }
}

/// The configured apps, and the question whether something signed is about one of them.
struct ConfiguredApps: Sendable {
    /// `nil`: whatever app a statement is about.
    private let byBundleID: [String: [AppBinding]]?

    /// A bundle id may be listed more than once, such as once for each environment.
    init(_ apps: [AppBinding]) { byBundleID = Dictionary(grouping: apps, by: \.bundleID) }

    private init() { byBundleID = nil }

    /// Whatever app a statement is about, in either environment: for what was asked when the statement came.
    static let any = ConfiguredApps()

    /// Where an app is served; `nil` for one that is not configured.
    func environments(of bundleID: String) -> Set<StoreEnvironment>? {
        byBundleID?[bundleID].map { $0.reduce(into: []) { $0.formUnion($1.environments) } }
    }

    /// The bundle id and environment of a statement about a configured app.
    ///
    /// - Throws: `unknown_app`, and only for an app that is known, `wrong_environment`.
    func bind(_ app: StatedApp) throws(NotificationRefusal) -> (bundleID: String, environment: StoreEnvironment) {
        guard let byBundleID else {
            guard let bundleID = app.bundleID,
                let environment = app.environment.flatMap(StoreEnvironment.init(apple:))
            else {
                throw NotificationRefusal(.unknownApp, "\(app.statement) names no app, or no environment")
            }
            return (bundleID, environment)
        }
        guard let bundleID = app.bundleID, var candidates = byBundleID[bundleID] else {
            throw NotificationRefusal(
                .unknownApp, "\(app.statement) is about \(quoted(app.bundleID)), which is none of the configured apps")
        }
        let environment = app.environment.flatMap(StoreEnvironment.init(apple:))
        // An app configured for the sandbox alone may have no number to compare; it is refused for the environment.
        if case .borne(let number) = app.number, environment == .production,
            candidates.contains(where: { $0.appAppleID != nil || $0.environments.contains(.production) })
        {
            candidates.removeAll { number == nil || $0.appAppleID != number }
            guard !candidates.isEmpty else {
                throw NotificationRefusal(
                    .unknownApp,
                    "\(app.statement) comes from production, and its appAppleId is not the app_apple_id configured for "
                        + quoted(bundleID))
            }
        }
        guard let environment, candidates.contains(where: { $0.environments.contains(environment) }) else {
            throw NotificationRefusal(
                .wrongEnvironment,
                "\(app.statement) comes from environment \(quoted(app.environment)), for which \(quoted(bundleID)) is "
                    + "not configured")
        }
        return (bundleID, environment)
    }

    /// The environment of a statement that names no app: one in which any app is served.
    ///
    /// - Throws: `wrong_environment`.
    func bind(_ statement: String, environment word: String) throws(NotificationRefusal) -> StoreEnvironment {
        guard let environment = StoreEnvironment(apple: word),
            byBundleID?.values.joined().contains(where: { $0.environments.contains(environment) }) ?? true
        else {
            throw NotificationRefusal(
                .wrongEnvironment,
                "\(statement) comes from environment \(quoted(word)), for which no app is configured")
        }
        return environment
    }

    private func quoted(_ text: String?) -> String {
        guard let text else { return "(none)" }
        return "'\(text.prefix(100))'"
    }
}
