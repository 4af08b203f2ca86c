import AppStorePayloads
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
        try TrustAnchors([Certificate(pem: AppleRootCertificate.pem)])
    }
}
