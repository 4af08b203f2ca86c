import AppStorePayloads
package import EntitlementCore
package import OpenSSLCrypto

/// The root certificates that signed payloads must lead to.
package struct TrustAnchors: Sendable {
    /// The largest number of roots.
    package static let maximumCount = 32

    package let roots: [Certificate]

    /// Trusts exactly these roots.
    ///
    /// - Throws: when there is none, too many, or one that is no root: it was issued by another certificate, or may issue none.
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
        for root in roots where !root.isCA {
            throw CryptoError(
                .malformedCertificate, "\(root.subject) may not issue certificates, so it can vouch for nothing")
        }
        self.roots = roots
    }

    /// How long before the last root ends somebody should know: long enough for a release of the program and of whoever runs it.
    private static let notice = 365 * Timestamp.millisecondsPerDay

    /// What the roots do not vouch for, now or soon, because of their own validity.
    ///
    /// One that has ended is no fault beside a valid one, since it vouches for what was signed before. Nor is it a reason not
    /// to serve where there is no other: what is in the ledger can be answered from all the same.
    package func warnings(now: Timestamp) -> [String] {
        let valid = roots.filter { $0.isValid(atMilliseconds: now.milliseconds) }
        guard let last = valid.max(by: { $0.notAfter < $1.notAfter }) else {
            let spans = roots.map { "\($0.subject) from \(Self.date($0.notBefore)) until \(Self.date($0.notAfter))" }
            return [
                "root_certificates: none is valid now, so whatever the store signs now is refused: "
                    + spans.joined(separator: "; ")
            ]
        }
        var warnings = roots.filter { now.milliseconds < $0.notBefore }.map {
            "root_certificates: \($0.subject) is valid only from \(Self.date($0.notBefore)) on"
        }
        if last.notAfter < now.adding(milliseconds: Self.notice).milliseconds {
            warnings.append(
                "root_certificates: what is signed after \(Self.date(last.notAfter)) is refused, when \(last.subject) ends and "
                    + "no other root that is valid now goes on; configure its successor")
        }
        return warnings
    }

    private static func date(_ milliseconds: Int64) -> String { "\(Timestamp(milliseconds: milliseconds))" }

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
