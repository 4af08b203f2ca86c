package import EntitlementAPI
package import EntitlementCore
package import Ledger

/// What a check of one original transaction found, without anybody's name: with the log it makes the same answer again.
package struct CheckOutcome: Codable, Sendable {
    /// The store's own id, also where another transaction was asked about.
    package let originalTransactionID: String
    /// `nil` for what was bought on the web.
    package let app: String?
    package let environment: StoreEnvironment
    package let checkedAt: Timestamp
    /// What the store said; `nil` where it knows nothing of it.
    package let store: StoreCheckDocument.StoreWord?
    /// The log's ends before and after.
    package let positions: ClosedRange<Int64>
    package let recorded: [StoreCheckDocument.Recorded]
    package let refused: Int

    /// The answer, told from the log as it was before and after.
    package func document(from reader: LedgerReader, only scope: AppScope?) async throws -> StoreCheckDocument {
        func ledger(at position: Int64) async throws -> SubscriptionDocument? {
            try await reader.subscription(
                originalTransactionID, environment: environment, knownAt: .position(position), app: scope
            ).subscription?.document(at: checkedAt, knownAt: position)
        }
        return StoreCheckDocument(
            originalTransactionID: originalTransactionID, app: app, environment: environment, checkedAt: checkedAt,
            before: .init(ledger: try await ledger(at: positions.lowerBound), store: store), recorded: recorded,
            after: .init(ledger: try await ledger(at: positions.upperBound)), refused: refused)
    }
}
