import Ledger

extension DatabaseSession {
    /// Apps of which the log has events, as far as is known without a look through it, and which `apps` does not name; none
    /// where it names none at all, as what looks at a ledger may do.
    func appsMissing(in configuration: Configuration) async throws -> [String] {
        let configured = Set(configuration.apps.map(\.bundleID))
        guard !configured.isEmpty else { return [] }
        return try await StreamRegister(pool: pool).apps().filter { !configured.contains($0) }
    }
}

extension Configuration {
    /// What comes of an app's being missing, and what to do.
    static func notice(ofMissing app: String) -> String {
        "the log has events of the app \(app), which apps does not name: what the store says of it is refused, its subscriptions are "
            + "not watched, and `rightful verify` fails at its first event; leave it in apps, also where it is sold no more"
    }
}
