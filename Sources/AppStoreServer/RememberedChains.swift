import EntitlementCore
import Foundation
import OpenSSLCrypto

/// A path of certificates, from the leaf to a configured root, that was validated in full.
struct ValidatedChain: Sendable {
    let leaf: Certificate
    let intermediate: Certificate
    let root: Certificate
    let key: PublicKey
    let identity: ChainIdentity

    /// Whether all three certificates are valid at the instant.
    func isValid(atMilliseconds instant: Int64) -> Bool {
        leaf.isValid(atMilliseconds: instant) && intermediate.isValid(atMilliseconds: instant)
            && root.isValid(atMilliseconds: instant)
    }

    /// Whether a header carries these very certificates.
    func isOf(_ header: JWSHeader) -> Bool { leaf.der == header.leaf && intermediate.der == header.intermediate }
}

/// A header as it was sent, and the validated chain that it carries.
///
/// All that can be said of it once for all the JWS that begin with it.
final class VouchedHeader: Sendable {
    let parts: JWSParts.Header
    let chain: ValidatedChain
    /// The header and the dot after it, hashed.
    let hashed: SHA256Prefix

    init?(encoded: [UInt8], chain: ValidatedChain) {
        guard let hash = Digest(SHA256.hash(encoded)) else { return nil }
        parts = JWSParts.Header(encoded: encoded, hash: hash)
        hashed = SHA256Prefix(encoded + [UInt8(ascii: ".")])
        self.chain = chain
    }
}

/// The chains validated lately, and the headers that carried them.
///
/// Validating a chain costs twenty times what verifying a signature does, and the App Store sends one header for months.
/// A header is remembered once a signature under it was right: strangers can send Apple's certificates, which are public,
/// under ever new headers, but cannot sign with them. A chain is remembered whether or not the signature was right, so
/// that such headers cost one signature check each. Bounded in number and in age, so that neither memory nor trust grows
/// without end.
struct RememberedChains {
    /// The most chains remembered, and the most headers.
    static let capacity = 32
    /// How long a chain is trusted before it is validated again, in milliseconds, however often it is used: 15 minutes.
    static let lifetime: Int64 = 15 * 60 * 1_000

    struct HeaderEntry {
        let header: VouchedHeader
        let validatedAt: Int64
        var lastUse: UInt64
    }

    struct ChainEntry {
        var chain: ValidatedChain
        var validatedAt: Int64
        var lastUse: UInt64
        /// Whether somebody has signed with its key.
        ///
        /// Such chains are forgotten last, because nobody but the store can make another.
        var hasSigned = false
    }

    /// What is known of a header's certificates.
    enum Standing {
        /// A chain of them was validated lately, and is valid at the instant asked about.
        case validated(ValidatedChain, at: Int64)
        /// A chain of them is remembered, and has to be validated again: it is too old, or another root may have been valid.
        case known
        /// The certificates are known, and one of them is not valid at the instant asked about.
        case invalid(reason: String)
        case unknown
    }

    // So few that comparing the bytes costs less than hashing them would.
    private(set) var headers: [HeaderEntry] = []
    private(set) var chains: [ChainEntry] = []
    private var uses: UInt64 = 0

    /// The header of these bytes and its chain, unless it is unknown, too old, or stems from a future that a clock set
    /// back left.
    mutating func header(of encoded: ArraySlice<UInt8>, now: Int64) -> VouchedHeader? {
        guard let index = index(of: encoded) else { return nil }
        let entry = headers[index]
        guard Self.isFresh(entry.validatedAt, now: now) else {
            headers.remove(at: index)
            return nil
        }
        uses += 1
        headers[index].lastUse = uses
        if let chain = chains.firstIndex(where: { $0.chain.identity == entry.header.chain.identity }) {
            chains[chain].lastUse = uses
        }
        return entry.header
    }

    /// What is known of a header's certificates, for a signature made at an instant.
    mutating func standing(of header: JWSHeader, signedAt: Int64, now: Int64) -> Standing {
        let known = chains.indices.filter { chains[$0].chain.isOf(header) }
        guard let first = known.first else { return .unknown }
        uses += 1
        for index in known { chains[index].lastUse = uses }
        if let reason = chains[first].chain.leaf.invalidity(at: signedAt, "leaf")
            ?? chains[first].chain.intermediate.invalidity(at: signedAt, "intermediate")
        {
            return .invalid(reason: reason)
        }
        for index in known where Self.isFresh(chains[index].validatedAt, now: now) {
            let entry = chains[index]
            if entry.chain.isValid(atMilliseconds: signedAt) { return .validated(entry.chain, at: entry.validatedAt) }
        }
        return .known
    }

    /// Remembers a chain as validated now; where there are too many, one is forgotten: of those with which nobody has
    /// signed, else of all, the one used longest ago.
    mutating func remember(_ chain: ValidatedChain, now: Int64) {
        uses += 1
        if let index = chains.firstIndex(where: { $0.chain.identity == chain.identity }) {
            chains[index].chain = chain
            chains[index].validatedAt = now
            chains[index].lastUse = uses
            return
        }
        if chains.count >= Self.capacity {
            let strange = chains.indices.filter { !chains[$0].hasSigned }
            let candidates = strange.isEmpty ? Array(chains.indices) : strange
            if let oldest = candidates.min(by: { chains[$0].lastUse < chains[$1].lastUse }) {
                chains.remove(at: oldest)
            }
        }
        chains.append(ChainEntry(chain: chain, validatedAt: now, lastUse: uses))
    }

    /// Remembers a header under which a signature was right, and whose chain was validated at that instant; where there
    /// are too many, the one used longest ago is forgotten.
    mutating func remember(_ header: VouchedHeader, validatedAt: Int64) {
        uses += 1
        if let index = index(of: header.parts.encoded[...]) { headers.remove(at: index) }
        headers.append(HeaderEntry(header: header, validatedAt: validatedAt, lastUse: uses))
        if headers.count > Self.capacity,
            let oldest = headers.indices.min(by: { headers[$0].lastUse < headers[$1].lastUse })
        {
            headers.remove(at: oldest)
        }
        if let chain = chains.firstIndex(where: { $0.chain.identity == header.chain.identity }) {
            chains[chain].hasSigned = true
        }
    }

    private static func isFresh(_ validatedAt: Int64, now: Int64) -> Bool {
        validatedAt <= now && now - validatedAt < lifetime
    }

    private func index(of encoded: ArraySlice<UInt8>) -> Int? {
        headers.firstIndex { entry in
            entry.header.parts.encoded.withUnsafeBytes { known in
                encoded.withUnsafeBytes { bytes in
                    guard known.count == bytes.count else { return false }
                    guard let first = known.baseAddress, let second = bytes.baseAddress else { return true }
                    return memcmp(first, second, known.count) == 0
                }
            }
        }
    }
}

extension Certificate {
    /// Why it is not valid at the instant, in words for people; `nil` when it is.
    func invalidity(at instant: Int64, _ role: String) -> String? {
        if instant < notBefore { return "the \(role) certificate is not yet valid" }
        return isValid(atMilliseconds: instant) ? nil : "the \(role) certificate has expired"
    }
}
