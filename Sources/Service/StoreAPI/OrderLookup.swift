import AppStoreServer
import EntitlementCore
import Ledger

extension StoreCheck {
    /// The original transactions that an order of a customer's names, as the store says; none where the store knows no such
    /// order of this app's.
    ///
    /// The number stands in the customer's receipt, and in nothing that the store sends. What the store answers is verified
    /// as everything else, and nothing of it is recorded.
    ///
    /// - Throws: `StoreAPIError` where the store cannot be asked.
    func originals(ofOrder orderID: String, within limit: Duration) async throws -> Set<String> {
        let asking = Asking(
            client: client, id: orderID, environment: .production, end: .now + limit, limit: limit, persistence: nil)
        guard let answer = try await asking.send(.order(orderID)), answer.isValid else { return [] }
        return await verified(answer.transactions, .production).originals
    }
}

extension StoreChecks {
    /// The same of every app that may ask, or of one alone.
    ///
    /// The store knows orders of production.
    ///
    /// - Throws: `Refusal` where no app may ask; `StoreAPIError`.
    func originals(
        ofOrder orderID: String, only scope: AppScope?, within limit: Duration
    ) async throws -> Set<String> {
        let asked = try scope.map { [try check(of: $0.bundleID)] } ?? all
        guard !asked.isEmpty else { throw Refusal.unconfigured(nil) }
        return try await withThrowingTaskGroup(of: Set<String>.self) { group in
            for check in asked { group.addTask { try await check.originals(ofOrder: orderID, within: limit) } }
            return try await group.reduce(into: []) { $0.formUnion($1) }
        }
    }
}
