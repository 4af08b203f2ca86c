/// Why a notification, or a statement that a device posted, was refused: it leaves no fact.
package struct NotificationRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of refusal, by the codes the HTTP interface documents.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        case malformedJWS = "malformed_jws"
        case untrustedSignature = "untrusted_signature"
        case unknownApp = "unknown_app"
        case wrongEnvironment = "wrong_environment"
        case inconsistentPayload = "inconsistent_payload"
    }

    package let code: Code
    /// A sentence for people; it never holds whose purchase it is.
    package let detail: String

    package init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    package var description: String { "\(code.rawValue): \(detail)" }
}
