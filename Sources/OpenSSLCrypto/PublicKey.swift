import COpenSSL

/// The elliptic curves that App Store certificates use.
package enum EllipticCurve: String, Sendable, CaseIterable {
    /// NIST P-256, the only one an ES256 signature can be made with.
    case p256 = "prime256v1"
    /// NIST P-384.
    case p384 = "secp384r1"
}

/// A public key.
///
/// Sendable, because an `EVP_PKEY` is never changed after it was loaded: verification reads it, and OpenSSL guards its
/// internal caches and reference count. So any number of threads may verify with one key at once.
package final class PublicKey: @unchecked Sendable {
    let handle: OpaquePointer
    /// The key's curve; `nil` for RSA, another curve, or one with parameters of its own.
    package let curve: EllipticCurve?
    private let idle = IdleVerifyContexts()

    /// Takes over one reference to the key.
    init(owning handle: OpaquePointer) {
        self.handle = handle
        curve = curveOfKey(handle)
    }

    deinit { EVP_PKEY_free(handle) }

    /// Reads one `PUBLIC KEY` in PEM (SubjectPublicKeyInfo).
    package convenience init(pem: String) throws(CryptoError) {
        let key = withMemoryBIO(Array(pem.utf8)) { PEM_read_bio_PUBKEY($0, nil, refusePassphrase, nil) }
        guard let key else { throw .fromOpenSSL(.malformedKey, "not a public key in PEM") }
        self.init(owning: key)
    }

    /// The key's SubjectPublicKeyInfo in DER.
    package func derBytes() throws(CryptoError) -> [UInt8] {
        let der = encodeDER { i2d_PUBKEY(handle, $0) }
        guard let der else { throw .fromOpenSSL(.failed, "the public key has no DER form") }
        return der
    }

    /// Whether the 64 bytes `r || s` are an ES256 signature (RFC 7518, section 3.4) by this key of the message with this
    /// SHA-256.
    ///
    /// False for any other length and for a key that is not on P-256. Both of a signature's two forms, s and n-s, are
    /// valid; so identity must never rest on a signature's bytes.
    package func isValidES256(signature: [UInt8], digest: [UInt8]) -> Bool {
        guard curve == .p256, digest.count == SHA256.length, let context = idle.take() ?? VerifyContext(handle) else {
            return false
        }
        defer { idle.put(context) }
        let valid = signature.withUnsafeBytes { raw in
            ES256Signature.withDER(fromRaw: raw) { der in
                EVP_PKEY_verify(context.handle, der.baseAddress, der.count, digest, digest.count) == 1
            }
        }
        if valid != true { ERR_clear_error() }
        return valid ?? false
    }

    /// Whether the 64 bytes `r || s` are an ES256 signature of the message by this key.
    package func isValidES256(signature: [UInt8], message: UnsafeRawBufferPointer) -> Bool {
        isValidES256(signature: signature, digest: SHA256.hash(message))
    }

    /// Whether the 64 bytes `r || s` are an ES256 signature of the message by this key.
    package func isValidES256(signature: [UInt8], message: [UInt8]) -> Bool {
        message.withUnsafeBytes { isValidES256(signature: signature, message: $0) }
    }
}

/// The named curve of a key.
///
/// OpenSSL names explicit parameters only where all of them, the generator included, match.
func curveOfKey(_ key: OpaquePointer) -> EllipticCurve? {
    guard EVP_PKEY_is_a(key, "EC") == 1 else { return nil }
    var name = [CChar](repeating: 0, count: 64)
    var length = 0
    guard EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else {
        ERR_clear_error()
        return nil
    }
    return EllipticCurve(rawValue: String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self))
}
