import COpenSSL

/// A private key for Ed25519 signatures (RFC 8032).
///
/// Sendable, because an `EVP_PKEY` is never changed after it was made or loaded, and OpenSSL guards its reference count.
package final class Ed25519PrivateKey: @unchecked Sendable {
    /// The length of a signature in bytes.
    package static let signatureLength = 64

    private let handle: OpaquePointer
    /// 32 bytes, as RFC 8032 encodes it.
    package let publicKey: [UInt8]

    private init(owning handle: OpaquePointer) throws(CryptoError) {
        var length = Ed25519.keyLength
        var publicKey = [UInt8](repeating: 0, count: length)
        guard EVP_PKEY_is_a(handle, Ed25519.name) == 1,
            EVP_PKEY_get_raw_public_key(handle, &publicKey, &length) == 1, length == Ed25519.keyLength
        else {
            EVP_PKEY_free(handle)
            ERR_clear_error()
            throw CryptoError(.unsupportedKey, "the private key is not one for Ed25519")
        }
        self.handle = handle
        self.publicKey = publicKey
    }

    deinit { EVP_PKEY_free(handle) }

    /// A new random key.
    package static func generate() throws(CryptoError) -> Ed25519PrivateKey {
        let seed = SecureRandom.bytes(Ed25519.keyLength)
        guard let key = EVP_PKEY_new_raw_private_key_ex(nil, Ed25519.name, nil, seed, seed.count) else {
            throw .fromOpenSSL(.failed, "could not make an Ed25519 key")
        }
        return try Ed25519PrivateKey(owning: key)
    }

    /// Reads one unencrypted private key in PEM, PKCS #8.
    package convenience init(pem: String) throws(CryptoError) {
        try self.init(owning: readPrivateKey(pem: pem))
    }

    /// The key in PEM, PKCS #8, unencrypted: a secret.
    package func pem() throws(CryptoError) -> String {
        try writePrivateKey(handle)
    }

    /// Signs a message; 64 bytes, the same each time.
    package func sign(_ message: [UInt8]) throws(CryptoError) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var length = Self.signatureLength
        var signature = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSignInit(context, nil, nil, nil, handle) == 1,
            EVP_DigestSign(context, &signature, &length, message, message.count) == 1,
            length == Self.signatureLength
        else { throw .fromOpenSSL(.failed, "could not sign") }
        return signature
    }
}

/// Checks Ed25519 signatures (RFC 8032).
package enum Ed25519 {
    /// The length of a private or public key in bytes.
    package static let keyLength = 32
    static let name = "ED25519"

    /// Whether a signature is one of the message by a public key of 32 bytes; false for what is no key.
    package static func isValid(signature: [UInt8], message: [UInt8], publicKey: [UInt8]) -> Bool {
        guard publicKey.count == keyLength, signature.count == Ed25519PrivateKey.signatureLength,
            let key = EVP_PKEY_new_raw_public_key_ex(nil, name, nil, publicKey, publicKey.count)
        else { return false }
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            EVP_PKEY_free(key)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
}
