// Stands for swift-crypto's module of this name, where packages cannot be had: as much of it as docs/receivers uses, declared as
// there and done by OpenSSL.
internal import COpenSSL
public import Foundation

/// Makes a digest.
public protocol HashFunction {
    /// How long a digest is, in bytes.
    static var digestLength: Int { get }
}

/// SHA-2 with 256 bits.
public struct SHA256: HashFunction {
    /// How long a digest is, in bytes.
    public static var digestLength: Int { 32 }
}

/// A key that both sides have.
public struct SymmetricKey: Sendable {
    fileprivate let bytes: [UInt8]

    /// A key of these bytes.
    public init(data: some ContiguousBytes) { bytes = data.withUnsafeBytes { Array($0) } }
}

/// Codes that say that a message came from a holder of the key, unchanged.
public struct HMAC<H: HashFunction> {
    /// Whether a code is a message's; compares in constant time.
    public static func isValidAuthenticationCode<C: ContiguousBytes, D: DataProtocol>(
        _ authenticationCode: C, authenticating authenticatedData: D, using key: SymmetricKey
    ) -> Bool {
        let message = Array(authenticatedData)
        var expected = [UInt8](repeating: 0, count: H.digestLength)
        authenticate(&expected, message, key.bytes)
        let code = authenticationCode.withUnsafeBytes { Array($0) }
        return code.count == expected.count && CRYPTO_memcmp(code, expected, code.count) == 0
    }
}

private func authenticate(_ code: inout [UInt8], _ message: [UInt8], _ key: [UInt8]) {
    precondition(COpenSSL.HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &code, nil) != nil)
}
