import Foundation
import OpenSSLCrypto

@testable import AppStoreServer

/// The instants of the tests, in milliseconds since 1970.
enum Instant {
    static let day: Int64 = 86_400_000
    static let start: Int64 = 1_700_000_000_000
    static let signed: Int64 = start + 100 * day
    static let end: Int64 = start + 700 * day
}

/// A certificate authority shaped like Apple's, and a signer of JWS below it.
struct TestStore {
    let root: CertificateAuthority
    let intermediate: CertificateAuthority
    let leafKey: PrivateKey
    let leaf: Certificate

    /// A store whose templates the caller may spoil.
    init(
        leafCurve: EllipticCurve = .p256,
        intermediate changeIntermediate: (inout CertificateTemplate) -> Void = { _ in },
        leaf changeLeaf: (inout CertificateTemplate) -> Void = { _ in },
        root changeRoot: (inout CertificateTemplate) -> Void = { _ in }
    ) throws {
        var rootTemplate = CertificateTemplate.root(
            commonName: "Test Root", notBefore: Instant.start - 400 * Instant.day,
            notAfter: Instant.end + 400 * Instant.day)
        changeRoot(&rootTemplate)
        var intermediateTemplate = CertificateTemplate.intermediate(
            commonName: "Test Intermediate", notBefore: Instant.start - 200 * Instant.day,
            notAfter: Instant.end + 200 * Instant.day, marker: JWSVerifier.intermediateMarker)
        changeIntermediate(&intermediateTemplate)
        var leafTemplate = CertificateTemplate.leaf(
            commonName: "Test Leaf", notBefore: Instant.start, notAfter: Instant.end, marker: JWSVerifier.leafMarker)
        changeLeaf(&leafTemplate)
        root = try .selfSigned(rootTemplate)
        intermediate = try root.issueAuthority(intermediateTemplate)
        leafKey = try .generate(leafCurve)
        leaf = try intermediate.issue(leafTemplate, for: leafKey.publicKey)
    }

    var chain: [String] {
        [leaf, intermediate.certificate, root.certificate].map { Base64.encode($0.der) }
    }

    /// A JWS of this payload under these certificates (this store's, unless told otherwise).
    func sign(
        _ payload: String = #"{"signedDate":1}"#, x5c: [String]? = nil, key: PrivateKey? = nil
    ) throws -> String {
        try sign(payload, header: header(x5c: x5c ?? chain), key: key)
    }

    /// A JWS under a header given as it stands.
    func sign(_ payload: String, header: String, key: PrivateKey? = nil) throws -> String {
        let content = "\(Base64.encodeURL(header.utf8)).\(Base64.encodeURL(payload.utf8))"
        return "\(content).\(Base64.encodeURL(try (key ?? leafKey).signES256(Array(content.utf8))))"
    }

    func verifier() throws -> JWSVerifier {
        try JWSVerifier(trusting: TrustAnchors([root.certificate]))
    }
}

func header(algorithm: String = "ES256", x5c: [String]) -> String {
    let list = x5c.map { "\"\($0)\"" }.joined(separator: ",")
    return #"{"alg":"\#(algorithm)","x5c":[\#(list)]}"#
}

extension JWSVerifier {
    /// Parses and verifies, as of an instant at which the test certificates are valid.
    func verify(_ compact: String, signedAt: Int64 = Instant.signed, now: Int64 = 0) throws(JWSError) -> VerifiedJWS {
        try verify(UnverifiedJWS(compact), signedAt: signedAt, now: now)
    }

    /// Which of the two refusals a JWS meets; `nil` when it is accepted.
    func refusal(of compact: String, signedAt: Int64 = Instant.signed, now: Int64 = 0) -> Refusal? {
        do throws(JWSError) {
            _ = try verify(compact, signedAt: signedAt, now: now)
            return nil
        } catch {
            switch error {
            case .malformed: return .malformed
            case .untrusted(let reason): return .untrusted(reason)
            }
        }
    }
}

enum Refusal: Equatable {
    case malformed
    case untrusted(String)

    /// Whether it is a refusal for want of trust whose reason speaks of this.
    func isUntrusted(about words: String) -> Bool {
        if case .untrusted(let reason) = self { reason.contains(words) } else { false }
    }
}
