package import AppStoreServer
package import EntitlementCore
package import Ledger

/// Keeps all instances of the service together within the store's limits.
package struct SharedStoreAPIQuota: StoreAPIQuota {
    private let quotas: StoreQuotas

    package init(_ quotas: StoreQuotas) { self.quotas = quotas }

    package func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, patience: Duration
    ) async throws -> Duration? {
        let pace = StoreAPIPace(limit, in: environment)
        return try await quotas.reserve(
            limit.rawValue, app: bundleID, in: environment, interval: pace.interval, burst: pace.burst,
            patience: patience / .milliseconds(1)
        ).map { .milliseconds($0) }
    }
}
