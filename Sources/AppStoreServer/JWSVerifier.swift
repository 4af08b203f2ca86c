package import EntitlementCore
package import OpenSSLCrypto
import Synchronization

/// A JWS whose signature leads to a trusted root.
///
/// Only `JWSVerifier` makes one.
package struct VerifiedJWS: Sendable {
    /// What it consists of, without what its payload carries.
    package let parts: JWSParts
    /// The SHA-256 of the decoded payload: the identity of what was signed, whatever the signature's bytes.
    package let payloadHash: Digest
    /// Who vouched for the signature.
    package let chain: ChainIdentity

    /// The exact bytes that were received: the evidence.
    package var compact: [UInt8] { parts.compact }
    /// The decoded payload: the bytes of a JSON object.
    package var payload: [UInt8] { parts.payload }

    fileprivate init(_ jws: UnverifiedJWS, _ header: VouchedHeader, hash: Digest, payloadHash: Digest) {
        parts = JWSParts(
            compact: jws.compact, hash: hash, header: header.parts, payload: jws.payload, signature: jws.signature,
            isExact: true)
        self.payloadHash = payloadHash
        chain = header.chain.identity
    }
}

/// The certificates of a validated chain, each by the SHA-256 of its DER bytes.
package struct ChainIdentity: Hashable, Sendable {
    package let leafSHA256: [UInt8]
    package let intermediateSHA256: [UInt8]
    package let rootSHA256: [UInt8]
}

/// Verifies what the App Store signs, up to a configured root.
///
/// It works without network and without a clock, and any number of threads may use one verifier at once. It does not
/// ask whether Apple has withdrawn a certificate (OCSP), nor whom the payload is about: that is for the caller.
package final class JWSVerifier: Sendable {
    /// Marks the certificates that sign for the App Store.
    package static let leafMarker = "1.2.840.113635.100.6.11.1"
    /// Marks the authority that issues them, Apple Worldwide Developer Relations.
    package static let intermediateMarker = "1.2.840.113635.100.6.2.1"

    private let store: CertificateStore
    let remembered = Mutex(RememberedChains())

    /// A verifier that trusts these roots alone.
    package init(trusting anchors: TrustAnchors) throws(CryptoError) {
        store = try CertificateStore(roots: anchors.roots)
    }

    /// Verifies the algorithm, the chain of certificates and the signature.
    ///
    /// - Parameters:
    ///   - jws: what to verify.
    ///   - signedAt: the instant at which the certificates must have been valid, in milliseconds since 1970: the
    ///     payload's own signed date, or where it has none, one that the caller vouches for.
    ///   - now: the present, in milliseconds since 1970; it only decides for how long a chain stays remembered.
    ///   - work: bounds what may be done for certificates that are not known yet, and is told what was done in vain.
    /// - Throws: `untrusted`, or `malformed` for a header or signature that is not of the right form.
    package func verify(
        _ jws: UnverifiedJWS, signedAt: Int64, now: Int64, work: inout SignatureWork
    ) throws(JWSError) -> VerifiedJWS {
        do throws(JWSError) {
            let verified = try examine(jws, signedAt: signedAt, now: now, work: &work)
            work.end(isVerified: true)
            return verified
        } catch {
            work.end(isVerified: false)
            throw error
        }
    }

    /// Verifies the algorithm, the chain of certificates and the signature, whatever that costs.
    package func verify(
        _ jws: UnverifiedJWS, signedAt: Int64, now: Int64
    ) throws(JWSError) -> VerifiedJWS {
        var work = SignatureWork()
        return try verify(jws, signedAt: signedAt, now: now, work: &work)
    }

    private func examine(
        _ jws: UnverifiedJWS, signedAt: Int64, now: Int64, work: inout SignatureWork
    ) throws(JWSError) -> VerifiedJWS {
        let known = remembered.withLock { $0.header(of: jws.encodedHeader, now: now) }
        if let known, known.chain.isValid(atMilliseconds: signedAt) {
            return try checkSignature(of: jws, vouchedBy: known, work: &work)
        }
        // A header that is known but not valid then goes the long way, which finds the words for the refusal, or another
        // root that was valid.
        let read = try JWSHeader(encoded: jws.encodedHeader)
        try Self.checkLength(of: jws.signature)
        let (chain, validatedAt) = try chain(of: read, signedAt: signedAt, now: now, work: &work)
        guard let header = VouchedHeader(encoded: Array(jws.encodedHeader), chain: chain) else {
            throw .untrusted("its header has no SHA-256")
        }
        let verified = try checkSignature(of: jws, vouchedBy: header, work: &work)
        remembered.withLock { $0.remember(header, validatedAt: validatedAt) }
        return verified
    }

    /// The validated chain that a header carries, from memory where its certificates are known.
    private func chain(
        of header: JWSHeader, signedAt: Int64, now: Int64, work: inout SignatureWork
    ) throws(JWSError) -> (chain: ValidatedChain, validatedAt: Int64) {
        switch remembered.withLock({ $0.standing(of: header, signedAt: signedAt, now: now) }) {
        case .validated(let chain, let validatedAt): return (chain, validatedAt)
        case .invalid(let reason): throw Self.notLeadingToRoot(reason)
        // At the verifier's own expense: whoever fills a sender's address with forgeries must not have the store's own
        // certificates refused every quarter of an hour.
        case .known: break
        case .unknown: try work.beginUnknownChain()
        }
        let chain = try validate(header, signedAt: signedAt)
        remembered.withLock { $0.remember(chain, now: now) }
        return (chain, now)
    }

    /// Validates the chain of a header under which the ledger holds signatures, so that it is known from the start.
    ///
    /// Whoever fills the store's address with forgeries after a restart then keeps out none of its notifications. A header
    /// whose certificates are not valid now is passed over.
    ///
    /// - Parameters:
    ///   - encoded: the header as it was received.
    ///   - now: the present, in milliseconds since 1970.
    package func recognize(header encoded: [UInt8], now: Int64) {
        guard let read = try? JWSHeader(encoded: encoded[...]), let chain = try? validate(read, signedAt: now),
            let header = VouchedHeader(encoded: encoded, chain: chain)
        else { return }
        remembered.withLock { remembered in
            remembered.remember(chain, now: now)
            remembered.remember(header, validatedAt: now)
        }
    }

    /// The SHA-256 of a compact JWS, most of it from memory where its header is known.
    func hash(of compact: [UInt8], now: Int64) -> Digest? {
        if let dot = compact.firstIndex(of: UInt8(ascii: ".")),
            let header = remembered.withLock({ $0.header(of: compact[..<dot], now: now) })
        {
            return compact.withUnsafeBytes {
                Digest(header.hashed.hash(UnsafeRawBufferPointer(rebasing: $0[(dot + 1)...])))
            }
        }
        return Digest(SHA256.hash(compact))
    }

    private func validate(_ header: JWSHeader, signedAt: Int64) throws(JWSError) -> ValidatedChain {
        let leaf = try parse(header.leaf, "leaf")
        let intermediate = try parse(header.intermediate, "intermediate")
        guard leaf.hasExtension(oid: Self.leafMarker) else {
            throw .untrusted("its leaf certificate is not one that signs for the App Store (no \(Self.leafMarker))")
        }
        guard intermediate.hasExtension(oid: Self.intermediateMarker) else {
            throw .untrusted(
                "its intermediate certificate is not Apple's for developer relations (no \(Self.intermediateMarker))")
        }
        guard intermediate.isCA else { throw .untrusted("its intermediate certificate may not issue certificates") }
        // Asked here already, because looking for a path costs much.
        if let reason = leaf.invalidity(at: signedAt, "leaf") ?? intermediate.invalidity(at: signedAt, "intermediate") {
            throw Self.notLeadingToRoot(reason)
        }
        do {
            let path = try store.validate(leaf: leaf, intermediates: [intermediate], atMilliseconds: signedAt)
            let key = try leaf.publicKey()
            guard path.count == 3, path[1].der == intermediate.der else {
                throw JWSError.untrusted("its certificates do not form a path of three to a trusted root")
            }
            guard key.curve == .p256 else { throw JWSError.untrusted("its leaf certificate's key is not on P-256") }
            let identity = ChainIdentity(
                leafSHA256: leaf.fingerprint, intermediateSHA256: intermediate.fingerprint,
                rootSHA256: path[2].fingerprint)
            return ValidatedChain(leaf: leaf, intermediate: intermediate, root: path[2], key: key, identity: identity)
        } catch let error as JWSError {
            throw error
        } catch {
            throw Self.notLeadingToRoot("\(error)")
        }
    }

    private static func notLeadingToRoot(_ reason: String) -> JWSError {
        .untrusted("its certificates do not lead to a trusted root: \(reason)")
    }

    private func parse(_ der: [UInt8], _ role: String) throws(JWSError) -> Certificate {
        do throws(CryptoError) {
            return try Certificate(der: der)
        } catch {
            throw .untrusted("its \(role) certificate is unreadable: \(error)")
        }
    }

    private func checkSignature(
        of jws: UnverifiedJWS, vouchedBy header: VouchedHeader, work: inout SignatureWork
    ) throws(JWSError) -> VerifiedJWS {
        try Self.checkLength(of: jws.signature)
        work.countSignature()
        let hashes = jws.withBytesAfterHeader { header.hashed.hash($0, andThen: $1) }
        guard header.chain.key.isValidES256(signature: jws.signature, digest: hashes.message) else {
            throw .untrusted("its signature does not match its content")
        }
        guard let hash = Digest(hashes.whole), let payloadHash = Digest(SHA256.hash(jws.payload)) else {
            throw .untrusted("it has no SHA-256")
        }
        return VerifiedJWS(jws, header, hash: hash, payloadHash: payloadHash)
    }

    private static func checkLength(of signature: [UInt8]) throws(JWSError) {
        guard signature.count == 64 else {
            throw .malformed("the signature is \(signature.count) bytes long; ES256's are 64")
        }
    }
}
