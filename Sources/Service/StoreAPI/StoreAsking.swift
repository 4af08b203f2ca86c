import AppStoreServer
import EntitlementCore
import Synchronization

extension StoreCheck {
    /// One customer about whom the store is asked, and how long that may take.
    struct Asking {
        let client: StoreAPIClient
        let id: String
        let environment: StoreEnvironment
        let end: ContinuousClock.Instant
        let limit: Duration
        let persistence: Duration?

        /// Whether what can wait does.
        var isNearlyOver: Bool { end - .now < limit / 4 }

        /// What the store answers; `nil` where it does not know what it was asked about.
        func send<Answer>(_ call: StoreAPICall<Answer>) async throws(StoreAPIError) -> Answer? {
            do {
                return try await client.send(
                    call, in: environment, within: max(.zero, end - .now), persistence: persistence)
            } catch {
                if error.isUnknownTransaction { return nil }
                throw error
            }
        }

        /// One page of the history; `nil` where the store has none.
        func page(after revision: String?, newestFirst: Bool) async throws(StoreAPIError) -> TransactionPage? {
            guard end > .now else {
                throw StoreAPIError(
                    .outOfTime, of: .transactionHistory, "the history is too long for the time there is")
            }
            return try await send(.transactionHistory(of: id, newestFirst: newestFirst, revision: revision))
        }
    }
}

/// Where the reading of some long histories stopped, so that the next one in this process goes on there.
final class UnreadHistories: Sendable {
    private struct Key: Hashable {
        let id: String
        let environment: StoreEnvironment
    }

    /// How many are remembered; of more, those that come later are read from the beginning.
    private static let most = 1000

    private let places = Mutex<[Key: String]>([:])

    /// The store's own name for the next page; `nil` where nothing was left.
    func place(_ asking: StoreCheck.Asking) -> String? { places.withLock { $0[Self.key(asking)] } }

    /// Remembers the next page.
    func keep(_ revision: String?, _ asking: StoreCheck.Asking) {
        guard let revision else { return }
        places.withLock { if $0.count < Self.most { $0[Self.key(asking)] = revision } }
    }

    /// Forgets it: the history was read to its end.
    func forget(_ asking: StoreCheck.Asking) { places.withLock { $0[Self.key(asking)] = nil } }

    private static func key(_ asking: StoreCheck.Asking) -> Key { Key(id: asking.id, environment: asking.environment) }
}
