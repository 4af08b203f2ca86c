import COpenSSL

/// A private key on P-256 or P-384.
///
/// Sendable, because an `EVP_PKEY` is never changed after it was made or loaded, and OpenSSL guards its internal
/// caches and reference count.
package final class PrivateKey: @unchecked Sendable {
    let handle: OpaquePointer
    package let curve: EllipticCurve
    package let publicKey: PublicKey

    private init(owning handle: OpaquePointer) throws(CryptoError) {
        guard let curve = curveOfKey(handle) else {
            EVP_PKEY_free(handle)
            throw CryptoError(.unsupportedKey, "the private key is not on P-256 or P-384")
        }
        self.handle = handle
        self.curve = curve
        EVP_PKEY_up_ref(handle)
        publicKey = PublicKey(owning: handle)
    }

    deinit { EVP_PKEY_free(handle) }

    /// A new random key on the curve.
    package static func generate(_ curve: EllipticCurve) throws(CryptoError) -> PrivateKey {
        guard let key = copenssl_generate_ec_key(curve.rawValue) else {
            throw .fromOpenSSL(.failed, "could not generate a key on \(curve.rawValue)")
        }
        return try PrivateKey(owning: key)
    }

    /// Reads one unencrypted private key in PEM, PKCS #8 (as App Store Connect's `.p8`) or SEC 1.
    package convenience init(pem: String) throws(CryptoError) {
        try self.init(owning: readPrivateKey(pem: pem))
    }

    /// The key in PEM, PKCS #8, unencrypted: a secret.
    package func pem() throws(CryptoError) -> String {
        try writePrivateKey(handle)
    }

    /// Signs the message with ES256 (RFC 7518, section 3.4).
    ///
    /// - Returns: 64 bytes, `r || s`.
    /// - Throws: `unsupportedKey` for a key that is not on P-256.
    package func signES256(_ message: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard let raw = ES256Signature.raw(fromDER: try signP256(message)) else {
            throw .fromOpenSSL(.failed, "could not sign")
        }
        return raw
    }

    /// Signs the SHA-256 of the message with ECDSA on P-256.
    ///
    /// - Returns: the signature in DER.
    /// - Throws: `unsupportedKey` for a key that is not on P-256.
    package func signP256(_ message: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard curve == .p256 else { throw CryptoError(.unsupportedKey, "ES256 needs a key on P-256") }
        let digest = SHA256.hash(message)
        let context = EVP_PKEY_CTX_new_from_pkey(nil, handle, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var length = 80
        let der = [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
            let signed =
                EVP_PKEY_sign_init(context) == 1
                && EVP_PKEY_sign(context, buffer.baseAddress, &length, digest, digest.count) == 1
            count = signed ? length : 0
        }
        guard !der.isEmpty else { throw .fromOpenSSL(.failed, "could not sign") }
        return der
    }
}

/// Reads one unencrypted private key of any kind in PEM; whoever calls owns it.
func readPrivateKey(pem: String) throws(CryptoError) -> OpaquePointer {
    let key = withMemoryBIO(Array(pem.utf8)) { PEM_read_bio_PrivateKey($0, nil, refusePassphrase, nil) }
    guard let key else { throw .fromOpenSSL(.malformedKey, "not an unencrypted private key in PEM") }
    return key
}

/// A private key in PEM, PKCS #8, unencrypted.
func writePrivateKey(_ key: OpaquePointer) throws(CryptoError) -> String {
    let text = textWritten { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) == 1 }
    guard let text else { throw .fromOpenSSL(.failed, "could not write the private key as PEM") }
    return text
}
