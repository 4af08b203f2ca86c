package import OpenSSLCrypto

/// The root certificates that signed payloads must lead to.
package struct TrustAnchors: Sendable {
    /// The largest number of roots.
    package static let maximumCount = 32

    package let roots: [Certificate]

    /// Trusts exactly these roots.
    ///
    /// - Throws: when there is none, too many, or one that was issued by another certificate and so is no root.
    package init(_ roots: [Certificate]) throws(CryptoError) {
        guard (1...Self.maximumCount).contains(roots.count) else {
            throw CryptoError(
                .malformedCertificate,
                "between 1 and \(Self.maximumCount) root certificates are needed, not \(roots.count)")
        }
        for root in roots where !root.isSelfIssued {
            throw CryptoError(
                .malformedCertificate,
                "\(root.subject) is not a root certificate: another one issued it. Configure that one's root instead")
        }
        self.roots = roots
    }

    /// Trusts exactly the roots in these files' contents, each PEM (one certificate or several) or DER.
    package init(contents: [[UInt8]]) throws(CryptoError) {
        var roots: [Certificate] = []
        for content in contents { roots += try Certificate.list(pemOrDER: content) }
        try self.init(roots)
    }

    /// Trusts Apple Root CA - G3, which everything that the App Store signs leads to.
    package static func apple() throws(CryptoError) -> TrustAnchors {
        try TrustAnchors([Certificate(pem: appleRootCAG3)])
    }
}

/// Apple Root CA - G3, valid until 2039-04-30, from <https://www.apple.com/certificateauthority/>.
///
/// Its SHA-256 is 63343ABFB89A6A03EBB57E9B3F5FA7BE7C4F5C756F3017B3A8C488C3653E9179.
private let appleRootCAG3 = """
    -----BEGIN CERTIFICATE-----
    MIICQzCCAcmgAwIBAgIILcX8iNLFS5UwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwS
    QXBwbGUgUm9vdCBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9u
    IEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcN
    MTQwNDMwMTgxOTA2WhcNMzkwNDMwMTgxOTA2WjBnMRswGQYDVQQDDBJBcHBsZSBS
    b290IENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRpZmljYXRpb24gQXV0aG9y
    aXR5MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzB2MBAGByqGSM49
    AgEGBSuBBAAiA2IABJjpLz1AcqTtkyJygRMc3RCV8cWjTnHcFBbZDuWmBSp3ZHtf
    TjjTuxxEtX/1H7YyYl3J6YRbTzBPEVoA/VhYDKX1DyxNB0cTddqXl5dvMVztK517
    IDvYuVTZXpmkOlEKMaNCMEAwHQYDVR0OBBYEFLuw3qFYM4iapIqZ3r6966/ayySr
    MA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMDA2gA
    MGUCMQCD6cHEFl4aXTQY2e3v9GwOAEZLuN+yRhHFD/3meoyhpmvOwgPUnPWTxnS4
    at+qIxUCMG1mihDK1A3UT82NQz60imOlM27jbdoXt2QfyFMm+YhidDkLF1vLUagM
    6BgD56KyKA==
    -----END CERTIFICATE-----
    """
