import COpenSSL

/// What a certificate to be issued says.
///
/// Every field is free, so that tests can also make certificates that must be refused.
package struct CertificateTemplate: Sendable {
    /// The subject's common name.
    package var commonName: String
    package var serial: UInt64
    /// The validity, in milliseconds since 1970, floored to seconds.
    package var notBefore: Int64
    package var notAfter: Int64
    /// Whether basic constraints say that it is a CA; `nil` leaves the extension and the key usage out.
    package var isCA: Bool?
    /// The number of CA certificates allowed below it; `nil` for any.
    package var pathLength: Int?
    /// OIDs of extensions to add, each with the value NULL, as Apple marks its certificates.
    package var markers: [String]
    /// Whether to state subject and authority key identifiers.
    package var hasKeyIdentifiers = true

    package init(
        commonName: String, serial: UInt64, notBefore: Int64, notAfter: Int64, isCA: Bool?, pathLength: Int? = nil,
        markers: [String] = []
    ) {
        self.commonName = commonName
        self.serial = serial
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.isCA = isCA
        self.pathLength = pathLength
        self.markers = markers
    }

    /// A root: a CA with any number of CAs below.
    package static func root(
        commonName: String, serial: UInt64 = 1, notBefore: Int64, notAfter: Int64
    ) -> CertificateTemplate {
        CertificateTemplate(
            commonName: commonName, serial: serial, notBefore: notBefore, notAfter: notAfter, isCA: true)
    }

    /// An intermediate: a CA that may issue leaves only.
    package static func intermediate(
        commonName: String, serial: UInt64 = 2, notBefore: Int64, notAfter: Int64, marker: String
    ) -> CertificateTemplate {
        CertificateTemplate(
            commonName: commonName, serial: serial, notBefore: notBefore, notAfter: notAfter, isCA: true,
            pathLength: 0, markers: [marker])
    }

    /// A leaf: no CA.
    package static func leaf(
        commonName: String, serial: UInt64 = 3, notBefore: Int64, notAfter: Int64, marker: String
    ) -> CertificateTemplate {
        CertificateTemplate(
            commonName: commonName, serial: serial, notBefore: notBefore, notAfter: notAfter, isCA: false,
            markers: [marker])
    }
}

/// A certificate with its private key, which issues certificates: the simulator's root and intermediate.
///
/// It does what it is told, whether or not the result is one that anybody should trust.
package struct CertificateAuthority: Sendable {
    package let certificate: Certificate
    package let key: PrivateKey

    /// An authority of a certificate and the key it was issued for.
    package init(certificate: Certificate, key: PrivateKey) {
        self.certificate = certificate
        self.key = key
    }

    /// A root that signs itself, with a new key (P-384, as Apple's) or the one given.
    package static func selfSigned(
        _ template: CertificateTemplate, key: PrivateKey? = nil
    ) throws(CryptoError) -> CertificateAuthority {
        let key = if let key { key } else { try PrivateKey.generate(.p384) }
        let certificate = try template.signed(subjectKey: key.publicKey, issuer: nil, signer: key)
        return CertificateAuthority(certificate: certificate, key: key)
    }

    /// Issues a certificate for the key.
    package func issue(
        _ template: CertificateTemplate, for publicKey: PublicKey
    ) throws(CryptoError) -> Certificate {
        try template.signed(subjectKey: publicKey, issuer: certificate, signer: key)
    }

    /// Issues a certificate for a key (a new one on P-384, or the one given), and is the authority it makes.
    package func issueAuthority(
        _ template: CertificateTemplate, key: PrivateKey? = nil
    ) throws(CryptoError) -> CertificateAuthority {
        let key = if let key { key } else { try PrivateKey.generate(.p384) }
        return CertificateAuthority(certificate: try issue(template, for: key.publicKey), key: key)
    }
}

extension CertificateTemplate {
    /// The certificate that this describes, signed; without an issuer it is its own.
    fileprivate func signed(
        subjectKey: PublicKey, issuer: Certificate?, signer: PrivateKey
    ) throws(CryptoError) -> Certificate {
        guard let draft = X509_new() else { throw .fromOpenSSL(.failed, "could not make a certificate") }
        let issuerHandle = issuer?.handle ?? draft
        let digest = signer.curve == .p384 ? EVP_sha384() : EVP_sha256()
        let done =
            X509_set_version(draft, 2) == 1
            && ASN1_INTEGER_set_uint64(X509_get_serialNumber(draft), serial) == 1
            && X509_NAME_add_entry_by_txt(
                X509_get_subject_name(draft), "CN", copenssl_utf8_string, Array(commonName.utf8),
                Int32(clamping: commonName.utf8.count), -1, 0) == 1
            && X509_set_issuer_name(draft, X509_get_subject_name(issuerHandle)) == 1
            && ASN1_TIME_set(X509_getm_notBefore(draft), flooredToSeconds(notBefore)) != nil
            && ASN1_TIME_set(X509_getm_notAfter(draft), flooredToSeconds(notAfter)) != nil
            && X509_set_pubkey(draft, subjectKey.handle) == 1
            && addExtensions(to: draft, issuer: issuerHandle)
            && X509_sign(draft, signer.handle, digest) > 0
        guard done else {
            X509_free(draft)
            throw .fromOpenSSL(.failed, "could not issue the certificate \(commonName)")
        }
        return try Certificate(owning: draft)
    }

    private func addExtensions(to draft: OpaquePointer, issuer: OpaquePointer) -> Bool {
        var extensions: [(Int32, String)] = []
        if let isCA {
            let length = pathLength.map { ",pathlen:\($0)" } ?? ""
            extensions.append((NID_basic_constraints, "critical,CA:\(isCA ? "TRUE" : "FALSE")\(length)"))
            extensions.append((NID_key_usage, "critical,\(isCA ? "keyCertSign,cRLSign" : "digitalSignature")"))
        }
        if hasKeyIdentifiers {
            extensions.append((NID_subject_key_identifier, "hash"))
            extensions.append((NID_authority_key_identifier, "keyid"))
        }
        for (kind, value) in extensions {
            var context = X509V3_CTX()
            copenssl_extension_context(&context, issuer, draft)
            guard add(X509V3_EXT_conf_nid(nil, &context, kind, value), to: draft) else { return false }
        }
        return markers.allSatisfy { add(makeMarker($0), to: draft) }
    }

    private func add(_ made: OpaquePointer?, to draft: OpaquePointer) -> Bool {
        guard let made else { return false }
        defer { X509_EXTENSION_free(made) }
        return X509_add_ext(draft, made, -1) == 1
    }
}

/// A non-critical extension of this OID whose value is DER's NULL.
private func makeMarker(_ oid: String) -> OpaquePointer? {
    guard let object = OBJ_txt2obj(oid, 1), let value = ASN1_OCTET_STRING_new() else { return nil }
    defer {
        ASN1_OBJECT_free(object)
        ASN1_OCTET_STRING_free(value)
    }
    let null: [UInt8] = [0x05, 0x00]
    guard ASN1_OCTET_STRING_set(value, null, Int32(null.count)) == 1 else { return nil }
    return X509_EXTENSION_create_by_OBJ(nil, object, 0, value)
}
