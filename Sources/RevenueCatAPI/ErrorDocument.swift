/// An error as RevenueCat's REST API v1 writes it: `{"code":7225,"message":"…"}`.
package struct ErrorDocument: Codable, Hashable, Sendable {
    package let code: Int
    /// For people.
    package let message: String

    package init(_ code: ErrorCode, message: String) {
        self.code = code.rawValue
        self.message = message
    }
}

/// The codes of RevenueCat's backend that come into question here.
///
/// Source: `BackendErrorCode` of RevenueCat's SDK for iOS.
package enum ErrorCode: Int, Hashable, Sendable {
    case internalError = 7110
    case invalidAPIKey = 7225
    case badRequest = 7226
    /// The key is known, and not for this.
    case wrongKindOfAPIKey = 7243
    case invalidAppUserID = 7256
}
