import AppStorePayloads
import Foundation
import OpenSSLCrypto

/// A JWS in compact form (RFC 7515, section 7.1) whose signature nobody has checked yet.
///
/// What its payload says is good for choosing what to check it against, such as the environment and the signed date,
/// and for nothing else. Its header is read by `JWSVerifier`, which has seen most headers before.
package struct UnverifiedJWS {
    /// The largest JWS that is looked at, in bytes.
    ///
    /// Apple's notifications, which hold two more, take about 20 kB.
    package static let maximumLength = 512 * 1024

    /// The exact bytes that were received.
    package let compact: [UInt8]
    /// The decoded payload: the bytes of a JSON object.
    package let payload: [UInt8]
    /// The payload, parsed: here, so that nobody parses it again.
    let json: JSONObject
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
        guard let (first, second) = Self.dots(in: compact) else {
            throw .malformed("it does not have three parts between dots")
        }
        let payload = compact.withUnsafeBytes { Base64.decodeURL(.init(rebasing: $0[(first + 1)..<second])) }
        guard let payload else { throw .malformed("the payload is not base64url without padding") }
        guard let json = try? JSONObject(parsing: payload) else { throw .malformed("the payload is not a JSON object") }
        guard let signature = Base64.decodeURL(compact[(second + 1)...]) else {
            throw .malformed("the signature is not base64url without padding")
        }
        self.compact = compact
        self.payload = payload
        self.json = json
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

    /// Runs the body with the two pieces after the header and its dot: the payload as sent, which the signature is about
    /// together with the header, and the rest.
    func withBytesAfterHeader<Result>(
        _ body: (_ payload: UnsafeRawBufferPointer, _ rest: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        compact.withUnsafeBytes {
            body(
                UnsafeRawBufferPointer(rebasing: $0[(headerLength + 1)..<signedLength]),
                UnsafeRawBufferPointer(rebasing: $0[signedLength...]))
        }
    }

    /// Where the two dots of three parts are; `nil` when there are fewer or more.
    private static func dots(in compact: [UInt8]) -> (first: Int, second: Int)? {
        compact.withUnsafeBytes { bytes in
            guard let first = firstDot(in: bytes, from: 0), let second = firstDot(in: bytes, from: first + 1),
                firstDot(in: bytes, from: second + 1) == nil
            else { return nil }
            return (first, second)
        }
    }

    private static func firstDot(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = bytes.baseAddress, start < bytes.count,
            let found = memchr(base + start, Int32(UInt8(ascii: ".")), bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }
}
