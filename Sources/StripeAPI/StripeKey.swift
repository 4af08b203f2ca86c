package import EntitlementCore

/// A secret or restricted key of Stripe's API, which is of one environment.
package struct StripeKey: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package let environment: StoreEnvironment
    let value: String

    /// The longest key taken, in bytes.
    package static let lengthLimit = 512

    /// `nil` for what is no key of Stripe's.
    package init?(_ value: String) {
        let modes: [(String, StoreEnvironment)] = [("live", .production), ("test", .sandbox)]
        let found = modes.first { mode, _ in value.hasPrefix("sk_\(mode)_") || value.hasPrefix("rk_\(mode)_") }
        guard let found, value.utf8.count <= Self.lengthLimit, value.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        environment = found.1
        self.value = value
    }

    package var description: String { "a key of Stripe's API for \(environment.rawValue)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
