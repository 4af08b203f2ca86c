import EntitlementAPI
import HTTPServer
import RevenueCatAPI

/// How a refusal is written: by what path something was asked.
enum RefusalShape: Sendable {
    /// RFC 9457.
    case problemDetails
    /// As RevenueCat's clients read it.
    case revenueCat

    /// What all routes in RevenueCat's shape begin with.
    static let revenueCatPath = "/revenuecat/"

    /// - Parameter path: percent-encoded.
    init(path: String) { self = path.hasPrefix(Self.revenueCatPath) ? .revenueCat : .problemDetails }

    func response(to problem: Problem, requestID: String) -> HTTPResponse {
        switch self {
        case .problemDetails: return problem.response(requestID: requestID)
        case .revenueCat:
            // A number and text always encode.
            let document = ErrorDocument(problem.revenueCatCode, message: problem.detail)
            let body = (try? WireJSON.encode(document)) ?? []
            return .json(status: problem.code.status, headers: problem.headers, body)
        }
    }
}

extension Problem {
    fileprivate var revenueCatCode: ErrorCode {
        switch code {
        case .unauthenticated: .invalidAPIKey
        case .forbidden: .wrongKindOfAPIKey
        case .internalError, .unavailable: .internalError
        case .malformedRequest where param == Parameter.appUser.name: .invalidAppUserID
        case .malformedRequest, .malformedJWS, .untrustedSignature, .unknownApp, .wrongEnvironment, .notFound,
            .methodNotAllowed, .positionNotReached, .ownershipConflict, .alreadyOwned, .idempotencyConflict,
            .preconditionFailed, .tooLarge, .targetTooLong, .inconsistentPayload, .unprocessable, .rateLimited,
            .headersTooLarge, .notImplemented:
            .badRequest
        }
    }
}
