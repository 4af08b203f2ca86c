import AppStorePayloads
package import EntitlementCore

/// One app as it is configured: whose notifications are taken, and from where.
package struct AppBinding: Hashable, Sendable {
    package let bundleID: String
    /// The app's number in the App Store, which every notification from production must bear.
    package let appAppleID: Int64?
    package let environments: Set<StoreEnvironment>

    package init(bundleID: String, appAppleID: Int64?, environments: Set<StoreEnvironment>) {
        self.bundleID = bundleID
        self.appAppleID = appAppleID
        self.environments = environments
    }
}

/// The configured apps, and the question whether something signed is about one of them.
struct ConfiguredApps: Sendable {
    private let byBundleID: [String: [AppBinding]]

    /// A bundle id may be listed more than once, such as once for each environment.
    init(_ apps: [AppBinding]) { byBundleID = Dictionary(grouping: apps, by: \.bundleID) }

    /// The bundle id and environment of a notification about a configured app.
    ///
    /// - Throws: `unknown_app`, and only for an app that is known, `wrong_environment`.
    func bind(
        _ app: NotificationApp
    ) throws(NotificationRefusal) -> (bundleID: String, environment: StoreEnvironment) {
        guard let bundleID = app.bundleID, var candidates = byBundleID[bundleID] else {
            throw NotificationRefusal(
                .unknownApp, "the notification is about \(quoted(app.bundleID)), which is none of the configured apps")
        }
        let environment = app.environment.flatMap(StoreEnvironment.init(apple:))
        // An app configured for the sandbox alone may have no number to compare; it is refused for the environment.
        if environment == .production,
            candidates.contains(where: { $0.appAppleID != nil || $0.environments.contains(.production) })
        {
            candidates.removeAll { app.appAppleID == nil || $0.appAppleID != app.appAppleID }
            guard !candidates.isEmpty else {
                throw NotificationRefusal(
                    .unknownApp,
                    "the notification comes from production, and its appAppleId is not the app_apple_id configured for "
                        + quoted(bundleID))
            }
        }
        guard let environment, candidates.contains(where: { $0.environments.contains(environment) }) else {
            throw NotificationRefusal(
                .wrongEnvironment,
                "the notification comes from environment \(quoted(app.environment)), for which \(quoted(bundleID)) is "
                    + "not configured")
        }
        return (bundleID, environment)
    }

    private func quoted(_ text: String?) -> String {
        guard let text else { return "(none)" }
        return "'\(text.prefix(100))'"
    }
}
