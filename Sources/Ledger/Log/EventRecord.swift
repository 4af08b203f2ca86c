package import EntitlementCore
import OpenSSLCrypto

/// One row of the log.
package struct EventRecord: Sendable, Hashable {
    package var position: Int64
    package var recordedAt: Timestamp
    package var occurredAt: Timestamp?
    package var environment: StoreEnvironment?
    package var source: EventSource
    package var type: String
    package var originalTransactionID: String?
    package var transactionID: String?
    package var productID: String?
    package var identity: IdentityRef?
    package var otherIdentity: IdentityRef?
    /// The canonical bytes of the fact.
    package var facts: [UInt8]
    package var evidenceHash: Digest?
    package var previousHash: Digest
    package var hash: Digest
    /// What binds the identities that this event is the first to name to their numbers, in the order of the numbers.
    package var identityCommitments: [Digest] = []

    /// What the hash of this event must be: SHA-256 over every other column, each preceded by its length, in a fixed
    /// order.
    ///
    /// It covers numbers in place of identities, so erasing a person leaves every hash as it is.
    package func computedHash() -> Digest {
        var writer = CanonicalWriter()
        writer.text("rightful event 2")
        writer.integer(ledgerID)
        writer.integer(position)
        writer.timestamp(recordedAt)
        writer.optional(occurredAt) { $0.timestamp($1) }
        writer.optional(environment) { $0.text($1.rawValue) }
        writer.text(source.rawValue)
        writer.text(type)
        writer.optional(originalTransactionID) { $0.text($1) }
        writer.optional(transactionID) { $0.text($1) }
        writer.optional(productID) { $0.text($1) }
        writer.optional(identity) { $0.integer($1.number) }
        writer.optional(otherIdentity) { $0.integer($1.number) }
        writer.data(facts)
        writer.optional(evidenceHash) { $0.digest($1) }
        writer.integer(Int64(identityCommitments.count))
        for commitment in identityCommitments { writer.digest(commitment) }
        writer.digest(previousHash)
        return Digest(SHA256.hash(writer.bytes)) ?? .zero
    }

    /// The id shown outside: it names content and place, and is derived from the chain.
    package var eventID: String { "evt_" + hash.hex.prefix(24) }
}
