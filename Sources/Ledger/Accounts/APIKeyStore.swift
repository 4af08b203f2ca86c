package import EntitlementCore
import OpenSSLCrypto
package import PostgresClient

/// What a secret key may do.
package enum APIScope: String, Sendable, Hashable, CaseIterable {
    case customersRead = "customers:read"
    case customersWrite = "customers:write"
    case eventsRead = "events:read"
    case catalogWrite = "catalog:write"
    case metrics
    /// All of the others.
    case admin
}

/// A key as the log knows it: never the key itself.
package struct APIKey: Sendable, Hashable {
    package let id: String
    package let name: String
    /// Ships in an app; may only reconcile, read products and begin a checkout.
    package let isPublishable: Bool
    package let scopes: Set<APIScope>
    /// The only environment it is good for, and so the one meant when a request names none; `nil`: both.
    package let environment: StoreEnvironment?
    package let bundleID: String?
    package let createdAt: Timestamp
    package let revokedAt: Timestamp?

    package func allows(_ scope: APIScope) -> Bool {
        revokedAt == nil && !isPublishable && (scopes.contains(scope) || scopes.contains(.admin))
    }
}

/// Makes, lists, revokes and recognises API keys.
///
/// Only the log defines a key, so nobody can add one, or change what one may do, without an event that shows it. The
/// events are found by the hash of the secret, through the unique index of dedup keys.
package struct APIKeyStore: Sendable {
    /// How a secret key begins, so that whoever finds one, in a log or a commit, can tell what it is.
    package static let secretPrefix = "rightful_sk_"
    /// How a publishable key begins.
    package static let publishablePrefix = "rightful_pk_"

    private let pool: PostgresPool
    private let writer: LedgerWriter

    package init(pool: PostgresPool, writer: LedgerWriter) {
        self.pool = pool
        self.writer = writer
    }

    /// Makes a key of 256 random bits; it is returned this once, and only its hash is kept.
    package func create(
        name: String, scopes: Set<APIScope>, isPublishable: Bool = false, environment: StoreEnvironment? = nil,
        bundleID: String? = nil
    ) async throws -> (key: APIKey, secret: String) {
        let prefix = isPublishable ? Self.publishablePrefix : Self.secretPrefix
        let secret = prefix + Base64.encodeURL(SecureRandom.bytes(32))
        let fact = KeyCreationFact(
            keyID: "key_" + Base64.encodeURL(SecureRandom.bytes(9)), secretHash: Self.hash(secret), name: name,
            isPublishable: isPublishable, scopes: scopes.map(\.rawValue).sorted(), environment: environment,
            bundleID: bundleID)
        try await append(.keyCreated(fact))
        guard let key = try await find(secret: secret) else {
            throw LedgerError(.corrupt, "the key \(fact.keyID) was recorded and is not found")
        }
        return (key, secret)
    }

    /// All keys, revoked ones included, oldest first.
    package func list() async throws -> [APIKey] {
        try await keys(from: Self.allEvents, [.int(ledgerID)]).map(\.key)
    }

    /// Revokes a key for good; `false` when there is no such key, `true` also when it was revoked before.
    package func revoke(_ id: String) async throws -> Bool {
        let keys = try await keys(from: Self.allEvents, [.int(ledgerID)])
        // Each id should be one key's; should somebody have slipped in another under it, that one is revoked as well.
        let meant = keys.filter { $0.key.id == id }
        for key in meant { try await append(.keyRevoked(KeyRevocationFact(keyID: id, secretHash: key.secretHash))) }
        return !meant.isEmpty
    }

    /// The key with this secret, if it exists and is not revoked.
    package func find(secret: String) async throws -> APIKey? { try await find(secretHash: Self.hash(secret)) }

    /// The key whose secret has this hash, if it exists and is not revoked.
    package func find(secretHash hash: Digest) async throws -> APIKey? {
        let names = [LedgerFact.creationKey(ofSecret: hash), LedgerFact.revocationKey(ofSecret: hash)]
        let found = try await keys(
            from: Self.eventsByName,
            [.int(ledgerID), .bytesArray(names.map { DedupKey(sourceID: $0.id).bytes })])
        return found.first { $0.secretHash == hash && $0.key.revokedAt == nil }?.key
    }

    /// The key of this id that is not revoked, and the hash of its secret.
    package func find(id: String) async throws -> (key: APIKey, secretHash: Digest)? {
        try await keys(from: Self.allEvents, [.int(ledgerID)]).first { $0.key.id == id && $0.key.revokedAt == nil }
    }

    private static let allEvents = """
        SELECT recorded_at, facts FROM event
        WHERE ledger_id = $1 AND type IN ('\(AccessFact.keyCreatedType)', '\(AccessFact.keyRevokedType)')
        ORDER BY position
        """

    private static let eventsByName = """
        SELECT recorded_at, facts FROM event WHERE ledger_id = $1 AND dedup_key = ANY ($2) ORDER BY position
        """

    /// The secret holds 256 random bits, so a plain hash is as strong as a slow one and costs a request nothing.
    static func hash(_ secret: String) -> Digest { Digest(SHA256.hash(Array(secret.utf8))) ?? .zero }

    private func append(_ fact: AccessFact) async throws {
        let fact = LedgerFact.access(fact)
        _ = try await writer.append(
            EventDraft(
                environment: nil, source: .operatorCommand, occurredAt: nil, fact: fact, identities: [],
                deduplication: fact.deduplication(in: nil)))
    }

    /// Folds the events of keys, in order.
    private func keys(
        from sql: String, _ parameters: [PostgresValue]
    ) async throws -> [(key: APIKey, secretHash: Digest)] {
        do {
            return try await pool.withConnection { connection in
                var creations: [(fact: KeyCreationFact, at: Timestamp)] = []
                var revocations: [Digest: Timestamp] = [:]
                for row in try connection.query(sql, parameters).rows {
                    let recordedAt = try row.instant(0)
                    switch try FactCodec.decode(row.bytes(1)) {
                    case .access(.keyCreated(let fact)): creations.append((fact, recordedAt))
                    case .access(.keyRevoked(let fact)): revocations[fact.secretHash] = recordedAt
                    case .notification, .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict,
                        .grant, .grantRevocation, .drift, .forgetting, .access(.passKeys), .access(.endpoint),
                        .storeRequest, .web:
                        continue
                    }
                }
                return creations.map { made in
                    let hash = made.fact.secretHash
                    return (APIKey(made.fact, createdAt: made.at, revokedAt: revocations[hash]), hash)
                }
            }
        } catch {
            throw LedgerError(error, doing: "looking up API keys")
        }
    }
}

extension APIKey {
    fileprivate init(_ fact: KeyCreationFact, createdAt: Timestamp, revokedAt: Timestamp?) {
        self.init(
            id: fact.keyID, name: fact.name, isPublishable: fact.isPublishable,
            scopes: Set(fact.scopes.compactMap(APIScope.init(rawValue:))), environment: fact.environment,
            bundleID: fact.bundleID, createdAt: createdAt, revokedAt: revokedAt)
    }
}
