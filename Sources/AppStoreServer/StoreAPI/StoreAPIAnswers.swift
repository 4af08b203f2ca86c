/// A statement as the store's answer holds it: a compact JWS, of which nothing is believed before it was verified.
package struct UnverifiedStatement: Sendable, Hashable, Decodable {
    package let compact: String

    package init(_ compact: String) { self.compact = compact }

    package init(from decoder: any Decoder) throws {
        compact = try decoder.singleValueContainer().decode(String.self)
    }
}

/// Where each subscription of a customer stands.
///
/// Source: Apple, "StatusResponse".
package struct SubscriptionStatuses: Sendable, Decodable {
    package let environment: String?
    package let bundleID: String?
    /// One entry for each original transaction, in no order; family members have several in one group.
    package let subscriptions: [Subscription]

    package struct Subscription: Sendable, Decodable {
        package let originalTransactionID: String?
        /// 1 active, 2 expired, 3 billing retry, 4 grace period, 5 revoked; others may come.
        package let status: Int?
        package let transaction: UnverifiedStatement?
        package let renewal: UnverifiedStatement?

        enum CodingKeys: String, CodingKey {
            case status
            case originalTransactionID = "originalTransactionId"
            case transaction = "signedTransactionInfo"
            case renewal = "signedRenewalInfo"
        }
    }

    private struct Group: Sendable, Decodable {
        let lastTransactions: [Subscription]?
    }

    enum CodingKeys: String, CodingKey {
        case environment, data
        case bundleID = "bundleId"
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        environment = try members.decodeIfPresent(String.self, forKey: .environment)
        bundleID = try members.decodeIfPresent(String.self, forKey: .bundleID)
        let groups = try members.decodeIfPresent([Group].self, forKey: .data)
        // Any member may be left out, and what has none of them is no such answer.
        guard groups != nil || environment != nil || bundleID != nil else {
            throw DecodingError.dataCorruptedError(forKey: .data, in: members, debugDescription: "no statuses")
        }
        subscriptions = (groups ?? []).flatMap { $0.lastTransactions ?? [] }
    }
}

/// A page of transactions: of a customer's history, or of refunds.
///
/// Source: Apple, "HistoryResponse", "RefundHistoryResponse".
package struct TransactionPage: Sendable, Decodable {
    package let transactions: [UnverifiedStatement]
    /// What asks for the next page, with the same filters.
    package let revision: String?
    package let hasMore: Bool

    enum CodingKeys: String, CodingKey {
        case revision, hasMore
        case transactions = "signedTransactions"
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        transactions = try members.decodeIfPresent([UnverifiedStatement].self, forKey: .transactions) ?? []
        revision = try members.decodeIfPresent(String.self, forKey: .revision)
        hasMore = try members.decodeIfPresent(Bool.self, forKey: .hasMore) ?? false
    }
}

/// A page of the notifications that the store sent, or tried to send.
///
/// Source: Apple, "NotificationHistoryResponse".
package struct NotificationPage: Sendable, Decodable {
    package let items: [Item]
    /// What asks for the next page, with the same body.
    package let paginationToken: String?
    package let hasMore: Bool

    package struct Item: Sendable, Decodable {
        /// The very payload that was sent; Apple calls no field mandatory, and one item must not cost its page.
        package let payload: UnverifiedStatement?
        package let sendAttempts: [SendAttempt]?

        enum CodingKeys: String, CodingKey {
            case payload = "signedPayload"
            case sendAttempts
        }
    }

    /// One attempt of the store to deliver a notification.
    package struct SendAttempt: Sendable, Decodable {
        /// In milliseconds since 1970.
        package let attemptDate: Double?
        /// `SUCCESS`, or one of Apple's words for what went wrong.
        package let result: String?

        enum CodingKeys: String, CodingKey {
            case attemptDate
            case result = "sendAttemptResult"
        }
    }

    enum CodingKeys: String, CodingKey {
        case paginationToken, hasMore
        case items = "notificationHistory"
    }

    /// The longest token that fits into a URL with room to spare, in bytes.
    private static let tokenLimit = 4096

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        let listed = try members.decodeIfPresent([Item].self, forKey: .items)
        let more = try members.decodeIfPresent(Bool.self, forKey: .hasMore)
        // Either may be left out, and whatever is neither is no page.
        guard listed != nil || more != nil else {
            throw DecodingError.dataCorruptedError(forKey: .items, in: members, debugDescription: "no page")
        }
        items = listed ?? []
        hasMore = more ?? false
        paginationToken = try members.decodeIfPresent(String.self, forKey: .paginationToken)
        // Not the last page, and nothing to ask for the next with: to stop here would leave out the rest.
        guard !hasMore || paginationToken.map({ !$0.isEmpty && $0.utf8.count <= Self.tokenLimit }) ?? false else {
            throw DecodingError.dataCorruptedError(
                forKey: .paginationToken, in: members, debugDescription: "no token for the next page")
        }
    }
}

/// One transaction.
///
/// Source: Apple, "TransactionInfoResponse".
package struct TransactionAnswer: Sendable, Decodable {
    package let transaction: UnverifiedStatement

    enum CodingKeys: String, CodingKey { case transaction = "signedTransactionInfo" }
}

/// The transaction of a copy of the app.
///
/// Source: Apple, "AppTransactionInfoResponse".
package struct AppTransactionAnswer: Sendable, Decodable {
    package let appTransaction: UnverifiedStatement

    enum CodingKeys: String, CodingKey { case appTransaction = "signedAppTransactionInfo" }
}

/// What an order id from a customer's receipt stands for.
///
/// Source: Apple, "OrderLookupResponse".
package struct OrderAnswer: Sendable, Decodable {
    private let status: Int
    private let signedTransactions: [UnverifiedStatement]?

    /// Whether the order is one of this app's.
    package var isValid: Bool { status == 0 }
    package var transactions: [UnverifiedStatement] { signedTransactions ?? [] }
}

/// The token by which a test notification's fate can be asked.
///
/// Source: Apple, "SendTestNotificationResponse".
package struct TestNotificationAnswer: Sendable, Decodable {
    package let token: String

    enum CodingKeys: String, CodingKey { case token = "testNotificationToken" }
}

/// What became of a subscription's extension.
///
/// Source: Apple, "ExtendRenewalDateResponse".
package struct ExtensionAnswer: Sendable, Decodable {
    package let originalTransactionID: String?
    package let success: Bool
    /// The new expiry, in milliseconds since 1970.
    package let effectiveDate: Double?

    enum CodingKeys: String, CodingKey {
        case success, effectiveDate
        case originalTransactionID = "originalTransactionId"
    }
}
