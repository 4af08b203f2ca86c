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

/// The chains validated lately, with the headers that carried them.
///
/// Validating a chain costs twenty times what verifying a signature does, and the App Store sends one header for months.
/// Bounded in number and in age, so that neither memory nor trust grows without end.
struct RememberedChains {
    /// The most chains remembered.
    static let capacity = 32
    /// How long a chain is remembered, in milliseconds, however often it is used: 15 minutes.
    static let lifetime: Int64 = 15 * 60 * 1_000

    private struct Entry {
        let header: VouchedHeader
        let validatedAt: Int64
        var lastUse: UInt64
    }

    // So few that comparing the bytes costs less than hashing them would.
    private var entries: [Entry] = []
    private var uses: UInt64 = 0

    var count: Int { entries.count }

    /// The header of these bytes and its chain, unless it is unknown, too old, or stems from a future that a clock set
    /// back left.
    mutating func header(of encoded: ArraySlice<UInt8>, now: Int64) -> VouchedHeader? {
        guard let index = index(of: encoded) else { return nil }
        let entry = entries[index]
        guard entry.validatedAt <= now, now - entry.validatedAt < Self.lifetime else {
            entries.remove(at: index)
            return nil
        }
        uses += 1
        entries[index].lastUse = uses
        return entry.header
    }

    /// Remembers the header's chain as validated now; where there are too many, the one used longest ago is forgotten.
    mutating func remember(_ header: VouchedHeader, now: Int64) {
        uses += 1
        if let index = index(of: header.parts.encoded[...]) { entries.remove(at: index) }
        entries.append(Entry(header: header, validatedAt: now, lastUse: uses))
        if entries.count > Self.capacity,
            let oldest = entries.indices.min(by: { entries[$0].lastUse < entries[$1].lastUse })
        {
            entries.remove(at: oldest)
        }
    }

    private func index(of encoded: ArraySlice<UInt8>) -> Int? {
        entries.firstIndex { entry in
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
