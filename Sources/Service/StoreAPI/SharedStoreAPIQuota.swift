package import AppStoreServer
package import EntitlementCore
package import Ledger

/// Keeps all instances of the service together within the store's limits.
package struct SharedStoreAPIQuota: StoreAPIQuota {
    private let quotas: StoreQuotas

    package init(_ quotas: StoreQuotas) { self.quotas = quotas }

    package func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, patience: Duration
    ) async throws -> StoreAPITurn {
        switch try await quotas.reserve(
            limit.rawValue, app: bundleID, in: environment, Self.pace(limit, environment),
            patience: patience / .milliseconds(1))
        {
        case .after(let milliseconds): .after(.milliseconds(milliseconds))
        case .usedUp: .usedUp
        case .blocked(let milliseconds): .blocked(.milliseconds(milliseconds))
        }
    }

    package func block(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, for pause: Duration
    ) async throws {
        try await quotas.block(
            limit.rawValue, app: bundleID, in: environment, Self.pace(limit, environment),
            for: pause / .milliseconds(1))
    }

    private static func pace(_ limit: StoreAPILimit, _ environment: StoreEnvironment) -> StoreQuotas.Pace {
        let pace = StoreAPIPace(limit, in: environment)
        return StoreQuotas.Pace(
            interval: pace.interval, burst: pace.burst, longestTurn: StoreAPIPace.longestTurn / .milliseconds(1),
            longestBlock: StoreAPIPace.longestBlock / .milliseconds(1))
    }
}
