package import EntitlementCore

extension StoreEnvironment {
    /// The environment of Apple's word for it; `nil` for `Xcode`, `LocalTesting` and anything else, which no store signs.
    package init?(apple word: String) {
        switch word {
        case "Production": self = .production
        case "Sandbox": self = .sandbox
        default: return nil
        }
    }

    /// Apple's word for it.
    package var apple: String {
        switch self {
        case .production: "Production"
        case .sandbox: "Sandbox"
        }
    }
}
