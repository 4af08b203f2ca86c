import EntitlementCore
import Foundation
import OpenSSLCrypto
import StoreSimulator
import Synchronization

@testable import EntitlementKit

/// A store with certificates of its own, which signs what it is told, whether or not anybody should believe it.
struct ForgersDesk {
    /// What is asked of a chain.
    struct Chain: Sendable {
        /// In the order in which `x5c` names them.
        var certificates: [[UInt8]]
        let key: PrivateKey
    }

    /// The way to the root by OpenSSL, where Apple's systems have their own.
    final class Trust: CertificateTrust {
        private let chains: AppleChains
        private let asked = Mutex(0)

        /// How often it was asked.
        var count: Int { asked.withLock { $0 } }

        init(_ root: Certificate) throws { chains = try AppleChains(root) }

        func leadsToRoot(leaf: [UInt8], intermediate: [UInt8], at instant: Timestamp) -> Bool {
            asked.withLock { $0 += 1 }
            return chains.leadsToRoot(leaf: leaf, intermediate: intermediate, at: instant.milliseconds)
        }
    }

    static let leafMarker = "1.2.840.113635.100.6.11.1"
    static let intermediateMarker = "1.2.840.113635.100.6.2.1"

    let root: CertificateAuthority
    let trust: Trust
    let chains: VouchedChains

    init() throws {
        root = try CertificateAuthority.selfSigned(
            .root(commonName: "Root", notBefore: Statements.instant(-5000), notAfter: Statements.instant(5000)))
        trust = try Trust(root.certificate)
        chains = VouchedChains(trust)
    }

    func verifier(believesXcode: Bool = false) -> AppStoreStatementVerifier {
        AppStoreStatementVerifier(
            root: root.certificate.der, chains: chains, isValid: Self.isValid, believesXcode: believesXcode)
    }

    private static let isValid: PassCheck.ES256 = { key, signature, message in
        AppleChains.isValid(key: Array(key), signature: Array(signature), message: Array(message))
    }

    /// The store's own chain, but for what is changed about it.
    func chain(
        issuedBy other: CertificateAuthority? = nil, until: Double = 400, leafMarker: String = leafMarker,
        intermediateMarker: String = intermediateMarker, isCA: Bool = true
    ) throws -> Chain {
        let (from, end) = (Statements.instant(-400), Statements.instant(until))
        let root = other ?? root
        var template = CertificateTemplate.intermediate(
            commonName: "Intermediate", notBefore: from, notAfter: end, marker: intermediateMarker)
        template.isCA = isCA
        let intermediate = try root.issueAuthority(template)
        let key = try PrivateKey.generate(.p256)
        let leaf = try intermediate.issue(
            .leaf(commonName: "Leaf", notBefore: from, notAfter: end, marker: leafMarker), for: key.publicKey)
        return Chain(certificates: [leaf.der, intermediate.certificate.der, root.certificate.der], key: key)
    }

    /// A statement with the same payload, signed under a chain.
    func sign(
        _ statement: SignedStatement, _ chain: Chain, header edit: (inout [String: Any]) -> Void = { _ in }
    ) throws -> SignedStatement {
        var header: [String: Any] = [
            "alg": "ES256", "x5c": chain.certificates.map { Data($0).base64EncodedString() },
        ]
        edit(&header)
        let payload = String(statement.jws.split(separator: ".")[1])
        let text = Self.text(try JSONSerialization.data(withJSONObject: header)) + "." + payload
        return SignedStatement(jws: text + "." + Self.text(Data(try chain.key.signES256(Array(text.utf8)))))
    }

    static func text(_ data: Data) -> String {
        data.base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }
}
