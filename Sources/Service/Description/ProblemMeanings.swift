extension ProblemCode {
    /// When it is answered, for descriptions.
    var meaning: String {
        switch self {
        case .malformedRequest: "the request is not of the right form; `param` names what is not"
        case .malformedJWS: "a signed payload is not of the right form"
        case .untrustedSignature:
            "a signature leads to no trusted root, or was made with no webhook secret that is configured, or too long ago"
        case .unauthenticated: "no key or token that is known"
        case .forbidden: "the key may not, or is for another environment or app"
        case .unknownApp: "the app, or `stripe`, is not configured"
        case .wrongEnvironment: "the app, or `stripe`, is not configured for this environment"
        case .notFound: "there is no such thing"
        case .methodNotAllowed: "there is no such thing with this method"
        case .positionNotReached: "`min_position` was not reached in time"
        case .ownershipConflict: "it contradicts who owns what"
        case .alreadyOwned:
            "the customer has this product, and it goes on or is charged for; or a payment for it is under way"
        case .idempotencyConflict: "the `Idempotency-Key` was used for another request"
        case .preconditionFailed: "the catalog is not the one that `If-Match` names"
        case .tooLarge: "a limit on the body, or on a list in it"
        case .targetTooLong: "a limit on the path with its query"
        case .inconsistentPayload: "parts of a signed payload contradict each other"
        case .unprocessable: "what is asked makes no sense, or would rest on more of the log than one answer may"
        case .rateLimited: "wait as long as `Retry-After` says"
        case .headersTooLarge: "a limit on the header fields"
        case .internalError: "our own fault"
        case .notImplemented: "what is not spoken here"
        case .unavailable:
            "the database is away, or somebody else who was to be asked; `Retry-After` says when to come again"
        }
    }
}
