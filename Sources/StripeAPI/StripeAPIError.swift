import AppStorePayloads
package import EntitlementCore
import OutgoingHTTP

/// Why Stripe's API gave no usable answer.
package struct StripeAPIError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        /// Stripe does not know the key (401).
        case unauthorized
        /// The key may not do that (403).
        case forbidden
        /// Too much was asked; `until` is when Stripe wants to be asked again, where it says so.
        case limited(until: Timestamp?)
        /// Stripe says that there is no such thing.
        case notFound
        /// Stripe does not take the request as it is.
        case refused
        /// Stripe could not be reached, or could not answer.
        case unavailable
        /// What was answered cannot be read, or is not from Stripe.
        case unreadable
        /// Nobody waits for the answer any more, or there is no time left for it.
        case outOfTime
    }

    package let kind: Kind
    /// `nil` where there was no answer.
    package let status: Int?
    /// Stripe's own word, such as `resource_missing`; `nil` where the answer had none.
    package let code: String?
    /// The parameter that Stripe finds fault with; `nil` where the answer named none.
    package let param: String?
    /// What was asked, without ids.
    package let operation: String
    /// Stripe's name for the request, by which its support finds it.
    package let requestID: String?
    /// In Stripe's or the system's own words, without the key.
    package let message: String
    /// What Stripe itself says of sending it again.
    let shouldRetry: Bool?
    /// For how long, in seconds, Stripe wants to be left alone.
    let retryAfter: Int64?

    /// The longest message that is kept, in characters.
    private static let messageLimit = 300
    /// The longest that Stripe's wish to be left alone is believed, in seconds.
    static let longestRetryAfter: Int64 = 3600

    package init(_ kind: Kind, of operation: String, _ message: String) {
        self.init(
            kind, of: operation, message, status: nil, code: nil, param: nil, requestID: nil, shouldRetry: nil,
            retryAfter: nil)
    }

    private init(
        _ kind: Kind, of operation: String, _ message: String, status: Int?, code: String?, param: String?,
        requestID: String?, shouldRetry: Bool?, retryAfter: Int64?
    ) {
        self.kind = kind
        self.status = status
        self.code = code.map(Self.plain)
        self.param = param.map(Self.plain)
        self.operation = operation
        self.requestID = requestID.map(Self.plain)
        self.message = Self.plain(message)
        self.shouldRetry = shouldRetry
        self.retryAfter = retryAfter
    }

    /// Reads an answer that is no success.
    ///
    /// - Parameter key: is left out of whatever was answered, should it stand there.
    init(_ answer: OutgoingAnswer, to request: StripeRequest, key: StripeKey, now: Timestamp) {
        let error = (try? JSONObject(parsing: answer.body))?["error"]?.object
        let isStripes = error?["type"]?.identifier != nil
        let reason =
            error?["message"]?.string
            ?? Self.reason(withoutWords: answer.status)
        let code = error?["code"]?.identifier
        let seconds = answer.header("Retry-After").flatMap { Int64($0) }.flatMap {
            $0 >= 0 ? min($0, Self.longestRetryAfter) : nil
        }
        let kind: Kind =
            switch answer.status {
            case 401: .unauthorized
            // What has no error of Stripe's was said by something on the way.
            case 403: isStripes ? .forbidden : .unavailable
            case 404 where isStripes: .notFound
            case 429: .limited(until: seconds.map { now.adding(milliseconds: $0 * 1000) })
            case 300..<400, 408, 409, 500...: .unavailable
            case 400, 402, 405..<500: isStripes ? .refused : .unreadable
            // A gateway's answer, or something that no server should say.
            default: .unreadable
            }
        self.init(
            kind, of: request.operation,
            StripeWords.withoutIDs(reason.replacing(key.value, with: "…"), hiding: request.names),
            status: answer.status,
            code: code?.replacing(key.value, with: "…"),
            param: error?["param"]?.identifier?.replacing(key.value, with: "…"),
            requestID: answer.header("Request-Id")?.replacing(key.value, with: "…"),
            shouldRetry: answer.header("Stripe-Should-Retry").flatMap { ["true": true, "false": false][$0] },
            retryAfter: seconds)
    }

    private static func reason(withoutWords status: Int) -> String {
        switch status {
        case 300..<400: "a redirection, which is not followed: is base_url Stripe's, and is there a proxy?"
        case 403: "refused, and not by Stripe: is there a proxy or a firewall on the way?"
        default: "no reason given"
        }
    }

    /// What a server says may hold anything, and ends up on terminals and in the database.
    private static func plain(_ text: String) -> String {
        let plain = text.unicodeScalars.prefix(messageLimit).map {
            $0.properties.generalCategory == .control || $0.properties.generalCategory == .format ? " " : $0
        }
        return String(String.UnicodeScalarView(plain))
    }

    /// Whether the same request may well succeed later.
    package var isPassing: Bool {
        if let shouldRetry { return shouldRetry }
        // Whoever leads elsewhere does so again.
        if let status, (300..<400).contains(status) { return false }
        return switch kind {
        case .limited, .unavailable, .unreadable: true
        case .unauthorized, .forbidden, .notFound, .refused, .outOfTime: false
        }
    }

    /// Whether any other request would fare no better now, so far as one answer tells.
    package var isOfEveryRequest: Bool {
        switch kind {
        case .unauthorized, .limited, .unavailable: true
        case .forbidden, .notFound, .refused, .unreadable, .outOfTime: false
        }
    }

    /// What happened, to what, and what to do.
    package var description: String {
        let number = [status.map(String.init), code].compactMap(\.self).joined(separator: ", ")
        let request = requestID.map { ", request \($0)" } ?? ""
        // Stripe's own sentences end with a full stop.
        let message = message.hasSuffix(".") ? String(message.dropLast()) : message
        let what = "Stripe's API, \(operation)\(number.isEmpty ? "" : " (\(number))")\(request): \(message)"
        switch kind {
        case .unauthorized:
            return what
                + ". Check secret_key_path of stripe: the key must be one that was not rolled. Another key in the "
                + "file holds for a running service when it is started again"
        case .forbidden:
            return what
                + ". The restricted key of secret_key_path lacks a permission: see the list in docs/web-checkout.md"
        case .limited(let until):
            return what + (until.map { ". Nothing more is asked of it before \($0)" } ?? ". Ask less often")
        case .notFound, .refused, .unavailable, .unreadable, .outOfTime: return what
        }
    }
}
