package import EntitlementCore
import Foundation

// The calls of the App Store Server API, each named after Apple's page about it.

extension StoreAPICall where Answer == SubscriptionStatuses {
    /// "Get All Subscription Statuses", of the customer whom any of their transactions names.
    package static func subscriptionStatuses(of transactionID: String) -> Self {
        Self(StoreAPIRequest(.get, ["inApps", "v1", "subscriptions", transactionID], limit: .subscriptionStatuses))
    }
}

extension StoreAPICall where Answer == TransactionPage {
    /// "Get Transaction History" (v2): all of a customer's transactions, finished consumables included, by the date at
    /// which the store changed them last.
    ///
    /// - Parameter newestFirst: whether what was changed last comes first. What changes while the pages are turned is at
    ///   their end in the other order alone.
    package static func transactionHistory(
        of transactionID: String, newestFirst: Bool = false, revision: String? = nil
    ) -> Self {
        var query = [StoreAPIRequest.QueryItem("sort", newestFirst ? "DESCENDING" : "ASCENDING")]
        if let revision { query.append(.init("revision", revision)) }
        return Self(
            StoreAPIRequest(.get, ["inApps", "v2", "history", transactionID], query: query, limit: .transactionHistory))
    }

    /// "Get Refund History".
    package static func refunds(of transactionID: String, revision: String? = nil) -> Self {
        Self(
            StoreAPIRequest(
                .get, ["inApps", "v2", "refund", "lookup", transactionID],
                query: revision.map { [.init("revision", $0)] } ?? [], limit: .refunds))
    }
}

extension StoreAPICall where Answer == TransactionAnswer {
    /// "Get Transaction Info".
    package static func transaction(_ transactionID: String) -> Self {
        Self(StoreAPIRequest(.get, ["inApps", "v1", "transactions", transactionID], limit: .transaction))
    }
}

extension StoreAPICall where Answer == AppTransactionAnswer {
    /// "Get App Transaction Info", of the customer whom any of their transactions names.
    package static func appTransaction(of transactionID: String) -> Self {
        Self(
            StoreAPIRequest(
                .get, ["inApps", "v1", "transactions", "appTransactions", transactionID], limit: .appTransaction))
    }
}

extension StoreAPICall where Answer == OrderAnswer {
    /// "Look Up Order ID".
    package static func order(_ orderID: String) -> Self {
        Self(StoreAPIRequest(.get, ["inApps", "v1", "lookup", orderID], limit: .order))
    }
}

extension StoreAPICall where Answer == NotificationPage {
    /// Which notifications are asked for: all, those of one transaction's subscription, or those that did not arrive.
    package enum NotificationFilter: Sendable, Equatable {
        case all
        case transaction(String)
        case failures
    }

    /// "Get Notification History": what the store sent from `start` to before `end`.
    ///
    /// The store keeps them for 180 days, in the sandbox for 30.
    package static func notifications(
        from start: Timestamp, until end: Timestamp, _ filter: NotificationFilter = .all, paginationToken: String? = nil
    ) throws -> Self {
        var body = NotificationHistoryBody(startDate: start.milliseconds, endDate: end.milliseconds)
        switch filter {
        case .all: break
        case .transaction(let id): body.transactionId = id
        case .failures: body.onlyFailures = true
        }
        return Self(
            StoreAPIRequest(
                .post, ["inApps", "v1", "notifications", "history"],
                query: paginationToken.map { [.init("paginationToken", $0)] } ?? [], body: try encoded(body),
                limit: .notificationHistory))
    }
}

extension StoreAPICall where Answer == TestNotificationAnswer {
    /// "Request a Test Notification".
    package static var testNotification: Self {
        Self(
            StoreAPIRequest(
                .post, ["inApps", "v1", "notifications", "test"], limit: .testNotification, isRepeatable: false))
    }
}

extension StoreAPICall where Answer == NotificationPage.Item {
    /// "Get Test Notification Status".
    package static func testNotificationStatus(_ token: String) -> Self {
        Self(StoreAPIRequest(.get, ["inApps", "v1", "notifications", "test", token], limit: .testNotificationStatus))
    }
}

extension StoreAPICall where Answer == ExtensionAnswer {
    /// "Extend a Subscription Renewal Date"; the store carries a request identifier out once.
    ///
    /// Source: Apple, "requestIdentifier": what is sent again because nobody knows what became of it bears the same one.
    package static func extend(_ originalTransactionID: String, by wish: RenewalExtension) throws -> Self {
        let body = ExtensionBody(
            extendByDays: Int(wish.days), extendReasonCode: Int(wish.reason.code),
            requestIdentifier: wish.requestIdentifier)
        return Self(
            StoreAPIRequest(
                .put, ["inApps", "v1", "subscriptions", "extend", originalTransactionID], body: try encoded(body),
                limit: .extend))
    }
}

extension StoreAPICall where Answer == Void {
    /// "Send Consumption Information" (v2), which the store takes with the customer's consent alone; it keeps the last.
    package static func consumption(_ information: ConsumptionInformation, of transactionID: String) throws -> Self {
        Self(
            StoreAPIRequest(
                .put, ["inApps", "v2", "transactions", "consumption", transactionID],
                body: try encoded(ConsumptionBody(information)),
                limit: .consumption))
    }

    /// "Set App Account Token": replaces it, for what is renewed from now on.
    package static func setAppAccountToken(_ token: String, of originalTransactionID: String) throws -> Self {
        Self(
            StoreAPIRequest(
                .put, ["inApps", "v1", "transactions", originalTransactionID, "appAccountToken"],
                body: try encoded(AccountTokenBody(appAccountToken: token)), limit: .appAccountToken))
    }

    /// "Finish Transaction", so that no device is offered it again.
    package static func finish(_ transactionID: String) -> Self {
        Self(StoreAPIRequest(.post, ["inApps", "v1", "transactions", transactionID, "finish"], limit: .finish))
    }
}

// MARK: - Bodies

private struct NotificationHistoryBody: Encodable {
    let startDate: Int64
    let endDate: Int64
    var transactionId: String?
    var onlyFailures: Bool?
}

private struct ExtensionBody: Encodable {
    let extendByDays: Int
    let extendReasonCode: Int
    let requestIdentifier: String
}

private struct ConsumptionBody: Encodable {
    let customerConsented = true
    let sampleContentProvided: Bool
    let deliveryStatus: String
    let consumptionPercentage: Int64?
    let refundPreference: String?

    init(_ information: ConsumptionInformation) {
        sampleContentProvided = information.sampleContentProvided
        deliveryStatus = information.deliveryStatus.rawValue
        consumptionPercentage = information.consumptionPercentage
        refundPreference = information.refundPreference?.rawValue
    }
}

private struct AccountTokenBody: Encodable {
    let appAccountToken: String
}

private func encoded(_ body: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(body))
}
