/// Why a signed payload was refused.
///
/// The reasons are English sentences for people, and hold nothing of the payload.
package enum JWSError: Error, Equatable, Sendable, CustomStringConvertible {
    /// It is no JWS of the expected form: parts, base64url, JSON, length of the signature, or size.
    case malformed(String)
    /// Its form is right, but nothing ties it to a trusted root: algorithm, certificates, validity, or signature.
    case untrusted(String)

    package var description: String {
        switch self {
        case .malformed(let reason): "malformed JWS: \(reason)"
        case .untrusted(let reason): "untrusted JWS: \(reason)"
        }
    }
}
