import COpenSSL

/// An X.509 certificate.
///
/// Sendable, because an `X509` is never changed after it was parsed or signed; what OpenSSL derives from it later
/// (extension flags, fingerprint) it computes under its own lock, and the reference count is atomic.
package final class Certificate: @unchecked Sendable {
    let handle: OpaquePointer
    /// The certificate's DER bytes.
    package let der: [UInt8]
    /// The first instant of validity, in milliseconds since 1970.
    package let notBefore: Int64
    /// The end of validity, in milliseconds since 1970.
    package let notAfter: Int64

    /// Takes over one reference to the certificate.
    init(owning handle: OpaquePointer) throws(CryptoError) {
        guard let der = encodeDER({ i2d_X509(handle, $0) }),
            let notBefore = milliseconds(X509_get0_notBefore(handle)),
            let notAfter = milliseconds(X509_get0_notAfter(handle))
        else {
            X509_free(handle)
            throw .fromOpenSSL(.malformedCertificate, "the certificate's validity or encoding is unreadable")
        }
        self.handle = handle
        self.der = der
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    deinit { X509_free(handle) }

    /// Parses one certificate in DER; bytes after it are refused.
    package convenience init(der: [UInt8]) throws(CryptoError) {
        let parsed = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var cursor = bytes.baseAddress
            guard let parsed = d2i_X509(nil, &cursor, bytes.count) else { return nil }
            guard let cursor, let start = bytes.baseAddress, cursor - start == bytes.count else {
                X509_free(parsed)
                return nil
            }
            return parsed
        }
        guard let parsed else { throw .fromOpenSSL(.malformedCertificate, "not a certificate in DER") }
        try self.init(owning: parsed)
    }

    /// Parses the first certificate of a PEM text.
    package convenience init(pem: String) throws(CryptoError) {
        let parsed = withMemoryBIO(Array(pem.utf8)) { PEM_read_bio_X509($0, nil, refusePassphrase, nil) }
        guard let parsed else { throw .fromOpenSSL(.malformedCertificate, "not a certificate in PEM") }
        try self.init(owning: parsed)
    }

    /// All certificates of a PEM text in their order, or the one of DER bytes.
    ///
    /// Throws when there is none, or when one of them is damaged.
    package static func list(pemOrDER bytes: [UInt8]) throws(CryptoError) -> [Certificate] {
        let marker = Array("-----BEGIN CERTIFICATE-----".utf8)
        guard bytes.firstRange(of: marker) != nil else { return [try Certificate(der: bytes)] }
        let announced = bytes.ranges(of: marker).count
        let parsed = withMemoryBIO(bytes) { bio in
            var parsed: [OpaquePointer] = []
            while let next = PEM_read_bio_X509(bio, nil, refusePassphrase, nil) { parsed.append(next) }
            return parsed
        }
        ERR_clear_error()
        let certificates = (parsed ?? []).compactMap { try? Certificate(owning: $0) }
        guard certificates.count == announced else {
            throw CryptoError(.malformedCertificate, "certificate \(certificates.count + 1) of the PEM is damaged")
        }
        return certificates
    }

    /// Whether the instant lies within the validity, at a second's precision as certificates state it.
    ///
    /// The last second is outside, as in OpenSSL's own check, so that both always agree.
    package func isValid(atMilliseconds instant: Int64) -> Bool {
        notBefore <= instant && instant < notAfter
    }

    /// Whether an extension with this OID (`1.2.840…`) is present, whatever its value.
    package func hasExtension(oid: String) -> Bool {
        guard let object = OBJ_txt2obj(oid, 1) else {
            ERR_clear_error()
            return false
        }
        defer { ASN1_OBJECT_free(object) }
        return X509_get_ext_by_OBJ(handle, object, -1) >= 0
    }

    /// Whether it may sign certificates: basic constraints say CA, and a key usage, if any, allows it.
    package var isCA: Bool { X509_check_ca(handle) == 1 }

    /// Whether subject and issuer have one name, as a root's have.
    package var isSelfIssued: Bool {
        X509_NAME_cmp(X509_get_subject_name(handle), X509_get_issuer_name(handle)) == 0
    }

    /// The subject on one line, for people.
    package var subject: String {
        let name = X509_get_subject_name(handle)
        return textWritten { X509_NAME_print_ex($0, name, 0, copenssl_name_on_one_line) >= 0 } ?? "(unreadable)"
    }

    /// The SHA-256 of the DER bytes.
    package var fingerprint: [UInt8] { SHA256.hash(der) }

    /// The subject's public key.
    package func publicKey() throws(CryptoError) -> PublicKey {
        guard let key = X509_get_pubkey(handle) else {
            throw .fromOpenSSL(.unsupportedKey, "the certificate's public key is unreadable")
        }
        return PublicKey(owning: key)
    }

    /// The certificate in PEM.
    package func pem() throws(CryptoError) -> String {
        guard let text = textWritten(by: { PEM_write_bio_X509($0, handle) == 1 }) else {
            throw .fromOpenSSL(.failed, "could not write the certificate as PEM")
        }
        return text
    }
}

/// An ASN.1 time in milliseconds since 1970; `nil` when it is no time.
private func milliseconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
    guard let time, let epoch = ASN1_TIME_set(nil, 0) else { return nil }
    defer { ASN1_STRING_free(epoch) }
    var days: Int32 = 0
    var seconds: Int32 = 0
    guard ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return nil }
    return (Int64(days) * 86_400 + Int64(seconds)) * 1_000
}
