package import EntitlementCore
import OpenSSLCrypto

/// What makes a signed statement one event: the first 16 bytes of a SHA-256, and unique in the log.
///
/// The first event under a source's own id has the key of that id. An event with another payload under the same id has
/// the key of both. So a second delivery always meets its own key, and the log's index refuses it whatever a writer
/// believes. Of fixed size, because the ids of sources are long; no two ids with the same 128 bits will be met.
struct DedupKey: Hashable, Sendable {
    // Two words rather than an array, which would be an allocation of its own.
    private let high: UInt64
    private let low: UInt64

    /// The key of the first event under an id.
    init(sourceID: String) { self.init(hashOf: Array(sourceID.utf8)) }

    /// The key of an event with another payload than the first one's under an id.
    init(sourceID: String, payloadHash: Digest) {
        // The id is text, so it cannot hold the byte that ends it here.
        self.init(hashOf: Array(sourceID.utf8) + [0xFF] + payloadHash.bytes)
    }

    /// Reads what column `event.dedup_key` holds; `nil` for any other length.
    init?(stored bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.init(firstOf: bytes)
    }

    private init(hashOf bytes: [UInt8]) { self.init(firstOf: SHA256.hash(bytes)) }

    private init(firstOf bytes: [UInt8]) {
        (high, low) = bytes.withUnsafeBytes { bytes in
            (
                UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    /// What column `event.dedup_key` holds.
    var bytes: [UInt8] { withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) } }
}

extension LedgerFact {
    /// The remark of an event whose id another payload came under before.
    static let reusedID = "id_reused"

    /// What keeps a second delivery of the same fact from becoming an event; `nil` for facts without an id of their
    /// source.
    ///
    /// The ids of a store contain the environment: production and sandbox number independently, and an id of one must
    /// not keep out a statement of the other.
    func statementKey(in environment: StoreEnvironment?) -> (id: String, payloadHash: Digest)? {
        func name(_ kind: String, _ id: String) -> String { "\(kind):\(environment?.rawValue ?? ""):\(id)" }
        return switch self {
        case .notification(let fact): (name("notification", fact.uuid), fact.payloadHash)
        case .access(.keyCreated(let fact)): Self.creationKey(ofSecret: fact.secretHash)
        case .access(.keyRevoked(let fact)): Self.revocationKey(ofSecret: fact.secretHash)
        case .storeRequest(let fact): fact.settles.map(Self.settlementKey)
        case .web(let fact): fact.eventID.map { (name("stripe", $0), fact.payloadHash) }
        case .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation,
            .drift, .forgetting, .access(.passKeys), .access(.endpoint):
            nil
        }
    }

    /// An API key is made once, and found by its secret.
    static func creationKey(ofSecret hash: Digest) -> (id: String, payloadHash: Digest) {
        (AccessFact.keyCreatedType + ":" + hash.hex, hash)
    }

    /// It is revoked once, too.
    static func revocationKey(ofSecret hash: Digest) -> (id: String, payloadHash: Digest) {
        (AccessFact.keyRevokedType + ":" + hash.hex, hash)
    }

    /// A question or order to the store is settled once, whatever the outcome.
    static func settlementKey(of position: Int64) -> (id: String, payloadHash: Digest) {
        ("settled:\(position)", .zero)
    }

    /// What makes two deliveries of it one event; for what no source numbers each is an event of its own.
    package func deduplication(in environment: StoreEnvironment?) -> Deduplication {
        statementKey(in: environment).map { .statement(id: $0.id, payloadHash: $0.payloadHash) } ?? .unique
    }

    /// What column `event.dedup_key` holds.
    func dedupKey(in environment: StoreEnvironment?) -> DedupKey? {
        statementKey(in: environment).map(dedupKey(of:))
    }

    /// The same where what its source calls it is known.
    func dedupKey(of statement: (id: String, payloadHash: Digest)) -> DedupKey {
        remarks.contains(Self.reusedID)
            ? DedupKey(sourceID: statement.id, payloadHash: statement.payloadHash) : DedupKey(sourceID: statement.id)
    }
}
