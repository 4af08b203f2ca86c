/// What came of one attempt to deliver a notification.
package enum DeliveryAnswer: Sendable, Equatable {
    /// The service answered with this HTTP status.
    case status(Int)
    /// The service took too long.
    case timedOut
    /// Nobody answered.
    case noResponse

    /// Apple's word for it, `sendAttemptResult`.
    package var result: String {
        switch self {
        case .status: isSuccess ? "SUCCESS" : "UNSUCCESSFUL_HTTP_RESPONSE_CODE"
        case .timedOut: "TIMED_OUT"
        case .noResponse: "NO_RESPONSE"
        }
    }

    /// Whether the store takes it for delivered.
    package var isSuccess: Bool {
        switch self {
        case .status(let code): (200...206).contains(code)
        case .timedOut, .noResponse: false
        }
    }

    /// Whether the store tries again: after 40x, 50x and silence; every other code is a failure for good.
    var isRetried: Bool {
        switch self {
        case .status(let code): (400...409).contains(code) || (500...509).contains(code)
        case .timedOut, .noResponse: true
        }
    }
}

/// The attempts to deliver one notification, and when the store makes the next.
///
/// Source: Apple, "Responding to App Store Server Notifications".
package struct DeliveryCourse: Sendable, Equatable {
    /// One attempt.
    package struct Attempt: Sendable, Equatable {
        /// When it was made, in milliseconds since 1970, at the store's clock.
        package let instant: Int64
        /// What came of it, in Apple's words.
        package let result: String
    }

    /// The hours after the previous attempt at which the production store tries again; the sandbox tries once.
    package static let retryHours: [Int64] = [1, 12, 24, 48, 72]

    private let pauses: [Int64]
    /// The attempts made so far, in order; at most six.
    package private(set) var attempts: [Attempt] = []
    /// Whether one of them succeeded.
    package private(set) var isDelivered = false
    /// When the next one is made; `nil` before the first, and where there is none.
    package private(set) var nextAttempt: Int64?

    /// A notification of which no delivery was attempted yet.
    package init(_ environment: SimulatedStoreEnvironment) {
        pauses = environment == .production ? Self.retryHours.map { $0 * Span.hour } : []
    }

    /// Whether the store makes no further attempt.
    package var isOver: Bool { !attempts.isEmpty && nextAttempt == nil }

    /// How often the store tries again at most.
    package var mostRetries: Int { pauses.count }

    /// Notes what came of an attempt; what comes after the last one, as a copy of what was delivered, is none of the store's.
    package mutating func note(_ answer: DeliveryAnswer, at instant: Int64) {
        guard !isOver else { return }
        attempts.append(Attempt(instant: instant, result: answer.result))
        isDelivered = answer.isSuccess
        nextAttempt =
            answer.isRetried && attempts.count <= pauses.count ? instant + pauses[attempts.count - 1] : nil
    }
}
