package import EntitlementCore
import Foundation
import OutgoingHTTP

/// Why the App Store Server API gave no usable answer.
package struct StoreAPIError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        /// The store does not accept the credentials (401).
        case unauthorized
        /// Too much was asked of the store; `until` is when it answers again, where it says so.
        case limited(until: Timestamp?)
        /// Answered with 404; whether the store knows nothing of what was asked about, its number tells.
        case notFound
        /// The store does not take the request as it is.
        case refused
        /// The store could not be reached, or could not answer.
        case unavailable
        /// What the store answered cannot be read.
        case unreadable
        /// Nobody waits for the answer any more, or the service has no time left for it.
        case outOfTime
    }

    /// Apple's number where App Store Connect has no URL to deliver notifications to.
    package static let noNotificationURL: Int64 = 4_040_007

    package let kind: Kind
    /// `nil` where there was no answer.
    package let status: Int?
    /// Apple's number, whether this version knows it or not; `nil` where the answer had none.
    package let code: Int64?
    /// What was asked, without ids.
    package let operation: StoreAPILimit
    /// In the store's or the system's own words.
    package let message: String

    /// The longest message that is kept, in characters.
    private static let messageLimit = 300

    package init(_ kind: Kind, status: Int? = nil, code: Int64? = nil, of operation: StoreAPILimit, _ message: String) {
        self.kind = kind
        self.status = status
        self.code = code
        self.operation = operation
        // What a server says may hold anything, and ends up on terminals and in the database.
        let plain = message.unicodeScalars.prefix(Self.messageLimit).map {
            $0.properties.generalCategory == .control || $0.properties.generalCategory == .format ? " " : $0
        }
        self.message = String(String.UnicodeScalarView(plain))
    }

    /// Reads an answer that is no success.
    ///
    /// - Parameters:
    ///   - now: by this machine's clock, by which the request's token is dated.
    ///   - ledgerNow: by the clock that events are dated by, which is the database's where the two differ.
    init(_ answer: StoreAPIResponse, to request: StoreAPIRequest, now: Timestamp, ledgerNow: Timestamp) {
        let body = try? JSONDecoder().decode(Body.self, from: Data(answer.body))
        let code = body?.errorCode
        let reason =
            body?.errorMessage.map { $0.hasSuffix(".") ? String($0.dropLast()) : $0 }
            ?? ((300..<400).contains(answer.status)
                ? "a redirection, which is not followed: is base_url the App Store's, and is there a proxy?"
                : "no reason given")
        self.init(
            Self.kind(answer, code: code, now: now), status: answer.status, code: code, of: request.limit,
            answer.status == 401 ? reason + Self.words(onClocksAt: now, ledgerNow, store: answer.date) : reason)
    }

    /// Which clock is wrong, where one is: the store refuses a token that is dated otherwise than its own clock.
    private static func words(onClocksAt now: Timestamp, _ ledgerNow: Timestamp, store date: String?) -> String {
        let ahead = date.flatMap(HTTPDate.milliseconds).map { now.milliseconds - $0 }
        if let ahead, abs(ahead) > clockTolerance {
            return ". This machine's clock, by which requests are dated, is \(abs(ahead) / 1000) s "
                + (ahead > 0 ? "ahead of" : "behind") + " the store's: set it right"
        }
        let apart = ledgerNow.milliseconds - now.milliseconds
        guard abs(apart) > clockTolerance else { return "" }
        return ". The database's clock is \(abs(apart) / 1000) s " + (apart > 0 ? "ahead of" : "behind")
            + " this machine's, by which requests are dated"
            + (ahead == nil
                ? ": one of the two is wrong" : " and which agrees with the store's: set the database's right")
    }

    /// Milliseconds; a token is dated a minute back, and an answer takes some seconds.
    private static let clockTolerance: Int64 = 20_000

    /// Whether the same request may well succeed later.
    package var isPassing: Bool {
        switch kind {
        case .limited, .unavailable, .unreadable: true
        case .notFound, .refused: code.map(Self.passingCodes.contains) ?? false
        case .unauthorized, .outOfTime: false
        }
    }

    /// How far a failure reaches.
    package enum Reach: Sendable {
        /// Any other request would fare no better now.
        case everyRequest
        /// It looks like it; but some single request may fail so again and again.
        case perhapsEveryRequest
        /// Others may well succeed.
        case oneRequest
    }

    /// Whether it is of use to ask about something else meanwhile.
    ///
    /// An outage with the store's own number may be about one transaction alone; one without is mostly the way to the store.
    package var reach: Reach {
        switch kind {
        case .unauthorized, .limited: .everyRequest
        case .unavailable: code == nil ? .perhapsEveryRequest : .oneRequest
        case .notFound, .refused, .unreadable, .outOfTime: .oneRequest
        }
    }

    /// Whether the store says for certain that it has no transaction, or customer, by the id that was asked about.
    ///
    /// A 404 without one of these numbers comes from elsewhere, passes, or is about the app.
    package var isUnknownTransaction: Bool {
        switch kind {
        case .notFound: code.map(Self.unknownCodes.contains) ?? false
        case .refused: code.map(Self.impossibleCodes.contains) ?? false
        case .unauthorized, .limited, .unavailable, .unreadable, .outOfTime: false
        }
    }

    /// What happened, to what, and what to do.
    package var description: String {
        let number = code.map { " (\($0))" } ?? status.map { " (\($0))" } ?? ""
        let what = "App Store Server API, \(operation.rawValue)\(number): \(message)"
        switch kind {
        case .unauthorized:
            return what + ". Check issuer_id, key_id and private_key_path of app_store_api: the key must be an In-App "
                + "Purchase key that was not revoked, and this machine's clock must be right; in production an app that was "
                + "never released is refused too. What is changed in the configuration or the key's file holds for a running "
                + "service when it is started again"
        case .limited(let until):
            return what + (until.map { ". Nothing more is asked of it before \($0)" } ?? ". Ask less often")
        case .notFound, .refused, .unavailable, .unreadable, .outOfTime: return what
        }
    }

    // MARK: - Reading

    private struct Body: Decodable {
        let errorCode: Int64?
        let errorMessage: String?
    }

    /// Apple marks them as worth trying again: accountNotFoundRetryable, appNotFoundRetryable and
    /// originalTransactionIdNotFoundRetryable.
    private static let passingCodes: Set<Int64> = [4_040_002, 4_040_004, 4_040_006]

    /// Apple's accountNotFound, originalTransactionIdNotFound and transactionIdNotFound.
    private static let unknownCodes: Set<Int64> = [4_040_001, 4_040_005, 4_040_010]
    /// Apple's invalidTransactionId, and the one for an id of another kind than the request takes.
    private static let impossibleCodes: Set<Int64> = [4_000_006, 4_000_048]

    private static func kind(_ answer: StoreAPIResponse, code: Int64?, now: Timestamp) -> Kind {
        switch answer.status {
        case 401: .unauthorized
        case 429:
            .limited(
                until: answer.retryAfter.flatMap { instant($0, now: now) }.map {
                    // A wrong one must not shut the service out for longer.
                    min($0, now.adding(milliseconds: Int64(StoreAPIPace.longestBlock / .milliseconds(1))))
                })
        case 404: .notFound
        case 408, 500...: .unavailable
        case 400..<500: .refused
        // A redirection, or something that no server should say.
        default: .unreadable
        }
    }

    /// The store's Retry-After is an instant in milliseconds since 1970; what stands between may say seconds from now.
    static func instant(_ retryAfter: String, now: Timestamp) -> Timestamp? {
        guard let number = Int64(retryAfter.trimmingCharacters(in: .whitespaces)), number >= 0 else { return nil }
        return number >= 100_000_000_000
            ? Timestamp(milliseconds: number) : now.adding(milliseconds: min(number, 86_400) * 1000)
    }
}
