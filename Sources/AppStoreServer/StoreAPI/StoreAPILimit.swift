package import EntitlementCore

/// What the store counts together when it limits an app's requests.
///
/// Source: Apple, "Identifying rate limits": so many a second for each app, held to by the hour.
package enum StoreAPILimit: String, Sendable, CaseIterable {
    case subscriptionStatuses = "subscription_statuses"
    case transactionHistory = "transaction_history"
    case transaction
    case appTransaction = "app_transaction"
    case finish
    case notificationHistory = "notification_history"
    case consumption
    case extend
    case appAccountToken = "app_account_token"
    case order
    case refunds
    case testNotification = "test_notification"
    case testNotificationStatus = "test_notification_status"

    /// How many requests a second the store answers.
    package func perSecond(in environment: StoreEnvironment) -> Double {
        switch environment {
        case .production: production
        case .sandbox: production / 10
        }
    }

    private var production: Double {
        switch self {
        case .subscriptionStatuses, .transactionHistory, .transaction, .appTransaction, .finish, .notificationHistory,
            .consumption:
            50
        case .extend, .appAccountToken: 20
        case .order, .refunds: 10
        // Of a mass extension's status Apple names no limit.
        case .testNotification, .testNotificationStatus: 1
        }
    }
}

/// Keeps an app's requests within the store's limits, ahead of time, over all instances of the service.
package protocol StoreAPIQuota: Sendable {
    /// Reserves the next free moment for one request.
    ///
    /// - Parameter patience: how long the caller would wait for it.
    /// - Returns: how long to wait, or that nothing is reserved, because that is longer than `patience`.
    func reserve(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, patience: Duration
    ) async throws -> StoreAPITurn

    /// Remembers that the store takes no more requests of a kind for so long, whoever asks.
    func block(
        _ limit: StoreAPILimit, app bundleID: String, in environment: StoreEnvironment, for pause: Duration
    ) async throws
}

/// When a request may be sent.
package enum StoreAPITurn: Sendable, Equatable {
    /// After so long.
    case after(Duration)
    /// Not as soon as was wanted: the share of the limit is used up.
    case usedUp
    /// Not for so long, because the store itself said so.
    case blocked(Duration)
}

/// How requests of one kind are spread over time (the generic cell rate algorithm).
package struct StoreAPIPace: Sendable, Equatable {
    /// Milliseconds between two requests.
    package let interval: Double
    /// How many may be sent at once after a pause.
    package let burst: Double

    /// The share of the store's limit that this service takes; the rest is left to the app's own servers.
    package static let share = 0.5
    /// The longest that anybody waits for their turn, however long they would wait for the answer.
    package static let longestTurn = Duration.seconds(60)
    /// The longest that the store's word to come again later is believed.
    package static let longestBlock = Duration.seconds(3600)

    package init(_ limit: StoreAPILimit, in environment: StoreEnvironment) {
        let perSecond = limit.perSecond(in: environment) * Self.share
        interval = 1000 / perSecond
        // What a second allows, but one at least.
        burst = max(1, perSecond)
    }
}
