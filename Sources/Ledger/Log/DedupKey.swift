import EntitlementCore
import OpenSSLCrypto

/// Finds a second delivery of the same statement: the first 16 bytes of the SHA-256 of the source's own id.
///
/// Of fixed size, because the ids of sources are long. Whether two events of one key are one statement is decided by the
/// ids and hashes in their facts.
struct DedupKey: Hashable, Sendable {
    let bytes: [UInt8]

    init(sourceID: String) { bytes = Array(SHA256.hash(sourceID.utf8).prefix(16)) }
}

extension LedgerFact {
    /// What keeps a second delivery of the same signed statement from becoming an event; `nil` for what no source
    /// numbers.
    var statementKey: (id: String, payloadHash: Digest)? {
        guard case .notification(let fact) = self else { return nil }
        return ("notification:" + fact.uuid, fact.payloadHash)
    }

    /// What column `event.dedup_key` holds.
    var dedupKey: DedupKey? { statementKey.map { DedupKey(sourceID: $0.id) } }
}
