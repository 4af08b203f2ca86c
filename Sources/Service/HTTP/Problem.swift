import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// The codes of what can go wrong; each keeps its meaning and its status for ever.
enum ProblemCode: String, Sendable, CaseIterable {
    case malformedRequest = "malformed_request"
    case malformedJWS = "malformed_jws"
    case untrustedSignature = "untrusted_signature"
    case unauthenticated
    case forbidden
    case unknownApp = "unknown_app"
    case wrongEnvironment = "wrong_environment"
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case positionNotReached = "position_not_reached"
    case ownershipConflict = "ownership_conflict"
    case alreadyOwned = "already_owned"
    case idempotencyConflict = "idempotency_conflict"
    case preconditionFailed = "precondition_failed"
    case tooLarge = "too_large"
    case targetTooLong = "target_too_long"
    case inconsistentPayload = "inconsistent_payload"
    case unprocessable
    case rateLimited = "rate_limited"
    case headersTooLarge = "headers_too_large"
    case internalError = "internal"
    case notImplemented = "not_implemented"
    case unavailable

    var status: Int {
        switch self {
        case .malformedRequest, .malformedJWS: 400
        case .untrustedSignature, .unauthenticated: 401
        case .forbidden, .unknownApp, .wrongEnvironment: 403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .positionNotReached, .ownershipConflict, .alreadyOwned, .idempotencyConflict: 409
        case .preconditionFailed: 412
        case .tooLarge: 413
        case .targetTooLong: 414
        case .inconsistentPayload, .unprocessable: 422
        case .rateLimited: 429
        case .headersTooLarge: 431
        case .internalError: 500
        case .notImplemented: 501
        case .unavailable: 503
        }
    }

    var title: String {
        switch self {
        case .malformedRequest: "The request is malformed"
        case .malformedJWS: "The signed payload is malformed"
        case .untrustedSignature: "The signature is not trusted"
        case .unauthenticated: "No valid key or token was given"
        case .forbidden: "The key or token does not allow this"
        case .unknownApp: "The app is not configured here"
        case .wrongEnvironment: "The app is not configured for this environment"
        case .notFound: "There is no such thing"
        case .methodNotAllowed: "The method is not allowed here"
        case .positionNotReached: "The ledger has not reached that position"
        case .ownershipConflict: "It contradicts who owns what"
        case .alreadyOwned: "The customer has it already"
        case .idempotencyConflict: "The idempotency key was used for another request"
        case .preconditionFailed: "It has changed since it was read"
        case .tooLarge: "The request is too large"
        case .targetTooLong: "The request target is too long"
        case .inconsistentPayload: "The signed payload contradicts itself or lacks a mandatory field"
        case .unprocessable: "The request cannot be answered"
        case .rateLimited: "There are too many requests"
        case .headersTooLarge: "The header fields are too large"
        case .internalError: "The server failed"
        case .notImplemented: "The server does not implement this"
        case .unavailable: "The service is unavailable"
        }
    }

    /// Whether the same request may succeed later, unless it is known better.
    fileprivate var isRetryable: Bool {
        switch self {
        case .positionNotReached, .rateLimited, .internalError, .unavailable: true
        default: false
        }
    }
}

/// Why a request is not answered as asked.
struct Problem: Error, Sendable {
    let code: ProblemCode
    /// For the client; never holds anybody's identity.
    private(set) var detail: String
    /// Whether the same request may succeed later.
    private(set) var isRetryable: Bool
    /// Whether it is not known what was done by then, or may be yet.
    private(set) var isInDoubt = false
    /// The parameter, header field or member at fault.
    var param: String?
    var headers: [(String, String)] = []
    /// For the log alone.
    var cause: String?
    /// Of the API key that is refused, for the log alone.
    var keyID: String?

    init(_ code: ProblemCode, _ detail: String, param: String? = nil, headers: [(String, String)] = []) {
        self.code = code
        self.detail = detail
        isRetryable = code.isRetryable
        self.param = param
        self.headers = headers
        // Each 401 says how to authenticate (RFC 9110, section 15.5.2): whoever signs does so by that.
        if code == .untrustedSignature { self.headers.append(("WWW-Authenticate", "Signature")) }
    }

    /// What a failure anywhere below means to the client: our own faults are never theirs.
    init(_ error: any Error) {
        switch error {
        case let problem as Problem:
            self = problem
        case let refusal as HTTPRefusal:
            self.init(refusal)
        case let refusal as NotificationRefusal:
            self.init(ProblemCode(refusal.code), refusal.detail)
            cause = refusal.detail
        case KnownAtError.beyondHead(let head):
            self.init(
                .unprocessable, "known_at lies beyond the ledger's last position, which is \(head).", param: "known_at")
        case KnownAtError.notSettled:
            self.init(
                .unprocessable,
                "An event could still be recorded at that instant; ask again a few seconds after it, or give a position.",
                param: "known_at")
            isRetryable = true
        case AppendRefusal.catalogChanged(let position):
            self.init(.preconditionFailed, "The catalog in force is \"\(position)\"; read it again.", param: "If-Match")
        case AppendRefusal.conflict:
            self = .unavailable("Somebody else's command came first; send it again.")
        case AppendRefusal.idempotencyConflict:
            self.init(
                .idempotencyConflict,
                "Another request was sent under this Idempotency-Key in the last 24 hours: its target or its body differs, be it by a "
                    + "byte. Use a new key.",
                param: "Idempotency-Key")
        case let error as LedgerError where error.isOfReadOnlyDatabase:
            self = .unavailable(
                "The ledger's database only reads, so this was not recorded. Send it again once that is over: "
                    + "\(LedgerError.cureOfReadOnlyDatabase).")
            cause = error.description
        case let error as LedgerError where error.code == .unavailable || error.code == .schema:
            self = .unavailable(
                error.notice.map { "\($0), so this could not be done; send it again later." }
                    ?? "The ledger cannot be reached at the moment, or cannot be written to.")
            cause = error.description
            isInDoubt = true
        case let error as LedgerError where error.code == .notReady:
            self = .unavailable(error.description)
        case let error as LedgerError where error.code == .tooMuch:
            self.init(.unprocessable, error.description)
        case let error as LedgerError:
            self.init(.internalError, "The server failed; its log says more under this request_id.")
            cause = error.description
            isInDoubt = true
        case is CancellationError:
            self = .unavailable("The server is stopping.")
            isInDoubt = true
        default:
            self.init(.internalError, "The server failed; its log says more under this request_id.")
            isInDoubt = true
            // Its text might quote what the request held.
            cause = String(reflecting: type(of: error))
        }
    }

    /// What the server refuses before any handler sees it.
    init(_ refusal: HTTPRefusal) {
        let code: ProblemCode =
            switch refusal {
            case .malformed: .malformedRequest
            case .bodyTooLarge: .tooLarge
            case .targetTooLong: .targetTooLong
            case .headersTooLarge: .headersTooLarge
            case .unsupportedTransferCoding: .notImplemented
            case .overloaded, .tooSlow, .shuttingDown: .unavailable
            case .unsendableResponse: .internalError
            }
        self.init(code, refusal.explanation)
        isInDoubt = refusal.isInHandlersPlace
        if let seconds = refusal.retryAfterSeconds { headers = [("Retry-After", String(seconds))] }
    }

    /// The same where it is the answer to a command, of which it then says what to do about the doubt.
    var ofCommand: Problem {
        var problem = self
        if isInDoubt {
            problem.detail +=
                " Whether the command was carried out is not known, and it may be yet: send it again under the same "
                + "Idempotency-Key; if it had none, look first what became of it."
        }
        return problem
    }

    static func unavailable(_ detail: String) -> Problem {
        Problem(.unavailable, detail, headers: [("Retry-After", "5")])
    }

    func response(requestID: String) -> HTTPResponse {
        let document = ProblemDocument(
            code: code.rawValue, title: code.title, status: code.status, detail: detail, param: param,
            isRetryable: isRetryable, requestID: requestID)
        // Text and flags alone always encode.
        let body = (try? WireJSON.encode(document)) ?? []
        return .json(status: code.status, headers: headers, body, contentType: "application/problem+json")
    }
}

extension ProblemCode {
    init(_ code: NotificationRefusal.Code) {
        switch code {
        case .malformedJWS: self = .malformedJWS
        case .untrustedSignature: self = .untrustedSignature
        case .unknownApp: self = .unknownApp
        case .wrongEnvironment: self = .wrongEnvironment
        case .inconsistentPayload: self = .inconsistentPayload
        }
    }
}
