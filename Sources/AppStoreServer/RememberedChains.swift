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

/// The chains validated lately, by the SHA-256 of the header that carried them.
///
/// Validating a chain costs twenty times what verifying a signature does, and the App Store sends one header for months.
/// Bounded in number and in age, so that neither memory nor trust grows without end.
struct RememberedChains {
    /// The most chains remembered.
    static let capacity = 32
    /// How long a chain is remembered, in milliseconds, however often it is used: 15 minutes.
    static let lifetime: Int64 = 15 * 60 * 1_000

    private struct Entry {
        let chain: ValidatedChain
        let validatedAt: Int64
        var lastUse: UInt64
    }

    private var entries: [[UInt8]: Entry] = [:]
    private var uses: UInt64 = 0

    var count: Int { entries.count }

    /// The chain of this header, unless it is unknown, too old, or stems from a future that a clock set back left.
    mutating func chain(of header: [UInt8], now: Int64) -> ValidatedChain? {
        guard let entry = entries[header] else { return nil }
        guard entry.validatedAt <= now, now - entry.validatedAt < Self.lifetime else {
            entries[header] = nil
            return nil
        }
        uses += 1
        entries[header]?.lastUse = uses
        return entry.chain
    }

    /// Remembers the chain as validated now; where there are too many, the one used longest ago is forgotten.
    mutating func remember(_ chain: ValidatedChain, of header: [UInt8], now: Int64) {
        uses += 1
        entries[header] = Entry(chain: chain, validatedAt: now, lastUse: uses)
        if entries.count > Self.capacity, let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse }) {
            entries[oldest.key] = nil
        }
    }
}
