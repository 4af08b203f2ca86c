import COpenSSL

/// A point on P-256, as a JSON Web Key writes it (RFC 7518, section 6.2.1).
package struct P256Point: Hashable, Sendable {
    /// 32 bytes, leading zeros included.
    package let x: [UInt8]
    /// 32 bytes, leading zeros included.
    package let y: [UInt8]

    /// The key's name that depends on nothing but the key (RFC 7638): base64url of a SHA-256, 43 characters.
    package var thumbprint: String {
        let members = #"{"crv":"P-256","kty":"EC","x":"\#(Base64.encodeURL(x))","y":"\#(Base64.encodeURL(y))"}"#
        return Base64.encodeURL(SHA256.hash(members.utf8))
    }
}

extension PublicKey {
    /// The point that the key is.
    ///
    /// - Throws: `unsupportedKey` for a key that is not on P-256.
    package func p256Point() throws(CryptoError) -> P256Point {
        guard curve == .p256 else { throw CryptoError(.unsupportedKey, "the public key is not on P-256") }
        // Each by itself: a key that was read with its point compressed would give the point compressed too.
        guard let x = coordinate("qx"), let y = coordinate("qy") else {
            throw .fromOpenSSL(.failed, "could not take the public key apart")
        }
        return P256Point(x: x, y: y)
    }

    private func coordinate(_ name: String) -> [UInt8]? {
        var number: OpaquePointer?
        defer { BN_free(number) }
        guard EVP_PKEY_get_bn_param(handle, name, &number) == 1, let number else { return nil }
        var bytes = [UInt8](repeating: 0, count: 32)
        return BN_bn2binpad(number, &bytes, 32) == 32 ? bytes : nil
    }
}
