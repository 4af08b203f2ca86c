import EntitlementCore
import Foundation

/// Verifies what lies on the disk as StoreKit verifies what it hands over: by the certificates in a statement (`x5c`), which
/// have to lead to Apple Root CA - G3, and to have been valid when it was signed.
///
/// It needs neither network nor clock, and asks the system about each pair of certificates once in the life of the process.
public struct AppStoreStatementVerifier: SignedStatementVerifier {
    private let root: StoreCertificate?
    private let chains: VouchedChains
    private let isValid: PassCheck.ES256
    private let believesXcode: Bool

    /// - Parameters:
    ///   - root: the root's certificate in DER.
    ///   - trust: finds the way from the certificates to that root.
    ///   - isValid: verifies signatures.
    ///   - believesXcode: whether what Xcode's own store states counts, although nobody vouches for it.
    init(
        root: [UInt8] = AppleRoot.der, chains: VouchedChains, isValid: @escaping PassCheck.ES256, believesXcode: Bool
    ) {
        self.root = StoreCertificate(der: root)
        self.chains = chains
        self.isValid = isValid
        self.believesXcode = believesXcode
    }

    /// Whether a compact JWS was signed by the App Store.
    public func isSignedByStore(_ jws: String) -> Bool {
        if believesXcode, SignedStatementParts.isOfXcode(jws) { return true }
        guard let root, let parts = SignedStatementParts(jws), root.isValid(at: parts.signedAt),
            let key = chains.key(leaf: parts.leaf, intermediate: parts.intermediate, root: root, at: parts.signedAt)
        else { return false }
        return isValid(Data(key), parts.signature, parts.message)
    }
}

/// Finds the way from a certificate to Apple's root.
protocol CertificateTrust: Sendable {
    /// Whether an intermediate certificate has signed a leaf, and the root the intermediate, as of an instant.
    ///
    /// - Parameters:
    ///   - leaf: in DER.
    ///   - intermediate: in DER.
    ///   - instant: when all of them have to be valid.
    func leadsToRoot(leaf: [UInt8], intermediate: [UInt8], at instant: Timestamp) -> Bool
}

/// The pairs of certificates that were looked at, each once.
///
/// Safe to share: everything that changes is read and written under its lock.
final class VouchedChains: @unchecked Sendable {
    /// The most pairs that are looked at; beyond it nothing more is believed until the process ends.
    ///
    /// The store uses a few in years, and whoever can write the disk could name any number.
    static let limit = 64

    private struct Pair: Hashable {
        let leaf: [UInt8]
        let intermediate: [UInt8]
    }

    private struct Certificates {
        let leaf: StoreCertificate
        let intermediate: StoreCertificate
        let key: [UInt8]

        func isValid(at instant: Timestamp) -> Bool {
            leaf.isValid(at: instant) && intermediate.isValid(at: instant)
        }
    }

    private let trust: any CertificateTrust
    private let lock = NSLock()
    private var looked: [Pair: Certificates?] = [:]

    init(_ trust: any CertificateTrust) { self.trust = trust }

    /// How many pairs were looked at.
    var count: Int { lock.withLock { looked.count } }

    /// The key of a leaf that leads to the root; `nil` where it does not, or did not at that instant.
    func key(leaf: [UInt8], intermediate: [UInt8], root: StoreCertificate, at instant: Timestamp) -> [UInt8]? {
        lock.withLock {
            let pair = Pair(leaf: leaf, intermediate: intermediate)
            if let known = looked[pair] { return known.flatMap { $0.isValid(at: instant) ? $0.key : nil } }
            guard let read = Self.read(pair, root: root), read.isValid(at: instant), looked.count < Self.limit else {
                return nil
            }
            let leads = trust.leadsToRoot(leaf: leaf, intermediate: intermediate, at: instant)
            looked[pair] = .some(leads ? read : nil)
            return leads ? read.key : nil
        }
    }

    /// Reads two certificates that look as the store's do, whoever signed them.
    private static func read(_ pair: Pair, root: StoreCertificate) -> Certificates? {
        guard let leaf = StoreCertificate(der: pair.leaf), let key = leaf.p256Key,
            let intermediate = StoreCertificate(der: pair.intermediate), intermediate.isAuthority,
            leaf.has(StoreCertificate.leafMarker), intermediate.has(StoreCertificate.intermediateMarker),
            leaf.issuer == intermediate.subject, intermediate.issuer == root.subject
        else { return nil }
        return Certificates(leaf: leaf, intermediate: intermediate, key: key)
    }
}
