import COpenSSL

/// What OpenSSL, or a check of ours in front of it, refused.
///
/// Two errors are equal when their codes are; the message is for people and holds no key material.
package struct CryptoError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of refusal, for callers that decide by it.
    package enum Code: Sendable {
        /// Bytes that are not the certificate (PEM or DER) they are said to be.
        case malformedCertificate
        /// Bytes that are not the key (PEM) they are said to be.
        case malformedKey
        /// A key of another kind or curve than the operation needs.
        case unsupportedKey
        /// No valid path from the certificate to a configured root at the given instant.
        case untrustedChain
        /// OpenSSL itself failed: out of memory, no entropy, a value it cannot encode.
        case failed
    }

    package let code: Code
    /// What happened, to what.
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }

    package static func == (left: CryptoError, right: CryptoError) -> Bool { left.code == right.code }
}

extension CryptoError {
    /// An error that ends with OpenSSL's own reason, and leaves this thread's error queue empty.
    static func fromOpenSSL(_ code: Code, _ message: String) -> CryptoError {
        let number = ERR_peek_last_error()
        ERR_clear_error()
        guard number != 0, let reason = ERR_reason_error_string(number) else { return CryptoError(code, message) }
        return CryptoError(code, "\(message): \(String(cString: reason))")
    }
}
