import AppStorePayloads
import Foundation
import OpenSSLCrypto

/// A JWS in compact form (RFC 7515, section 7.1) whose signature nobody has checked yet.
///
/// What its payload says is good for choosing what to check it against, such as the environment and the signed date,
/// and for nothing else. Its header is read by `JWSVerifier`, which has seen most headers before.
package struct UnverifiedJWS: Sendable {
    /// The largest JWS that is looked at, in bytes.
    ///
    /// Apple's notifications, which hold two more, take about 20 kB.
    package static let maximumLength = 512 * 1024

    /// The exact bytes that were received.
    package let compact: [UInt8]
    /// The decoded payload: the bytes of a JSON object.
    package let payload: [UInt8]
    /// The decoded signature, of any length.
    let signature: [UInt8]
    private let headerLength: Int
    private let signedLength: Int

    /// Takes a JWS apart: three parts, a payload that is a JSON object, a signature in base64url.
    ///
    /// - Throws: `malformed`.
    package init(_ compact: [UInt8]) throws(JWSError) {
        guard compact.count <= Self.maximumLength else {
            throw .malformed("it is longer than \(Self.maximumLength) bytes")
        }
        let dot = UInt8(ascii: ".")
        guard let first = compact.firstIndex(of: dot),
            let second = compact[(first + 1)...].firstIndex(of: dot),
            !compact[(second + 1)...].contains(dot)
        else { throw .malformed("it does not have three parts between dots") }
        guard let payload = Base64.decodeURL(compact[(first + 1)..<second]) else {
            throw .malformed("the payload is not base64url without padding")
        }
        guard isJSONObject(payload) else { throw .malformed("the payload is not a JSON object") }
        guard let signature = Base64.decodeURL(compact[(second + 1)...]) else {
            throw .malformed("the signature is not base64url without padding")
        }
        self.compact = compact
        self.payload = payload
        self.signature = signature
        headerLength = first
        signedLength = second
    }

    /// Takes a JWS apart.
    ///
    /// - Throws: `malformed`.
    package init(_ compact: String) throws(JWSError) {
        try self.init(Array(compact.utf8))
    }

    /// The header as it was sent, in base64url.
    var encodedHeader: ArraySlice<UInt8> { compact.prefix(headerLength) }

    /// Runs the body with the bytes that the signature is about: header, dot and payload as sent.
    func withSignedBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        compact.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0.prefix(signedLength))) }
    }
}

private func isJSONObject(_ bytes: [UInt8]) -> Bool {
    struct AnyObject: Decodable {
        enum NoKeys: CodingKey {}
        init(from decoder: any Decoder) throws { _ = try decoder.container(keyedBy: NoKeys.self) }
    }
    if (try? JSONDecoder().decode(AnyObject.self, from: Data(bytes))) != nil { return true }
    // Slower, and reads a little more.
    return (try? JSONObject(parsing: bytes)) != nil
}
