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

/// A key as the database knows it: never the key itself.
package struct APIKey: Sendable, Hashable {
    package let id: String
    package let name: String
    /// Ships in an app; may only reconcile.
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
package struct APIKeyStore: Sendable {
    /// How a secret key begins, so that whoever finds one, in a log or a commit, can tell what it is.
    package static let secretPrefix = "rightful_sk_"
    /// How a publishable key begins.
    package static let publishablePrefix = "rightful_pk_"

    private let pool: PostgresPool
    private let now: @Sendable () -> Timestamp

    package init(pool: PostgresPool, now: @escaping @Sendable () -> Timestamp) {
        self.pool = pool
        self.now = now
    }

    /// Makes a key of 256 random bits; it is returned this once, and only its hash is kept.
    package func create(
        name: String, scopes: Set<APIScope>, isPublishable: Bool = false, environment: StoreEnvironment? = nil,
        bundleID: String? = nil
    ) async throws -> (key: APIKey, secret: String) {
        let prefix = isPublishable ? Self.publishablePrefix : Self.secretPrefix
        let secret = prefix + Base64.encodeURL(SecureRandom.bytes(32))
        let key = APIKey(
            id: "key_" + Base64.encodeURL(SecureRandom.bytes(9)), name: name, isPublishable: isPublishable,
            scopes: scopes, environment: environment, bundleID: bundleID, createdAt: now(), revokedAt: nil)
        _ = try await run { connection in
            try connection.query(
                """
                INSERT INTO api_key (ledger_id, key_id, name, secret_sha256, is_publishable, scopes, environment,
                    bundle_id, created_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                """,
                [
                    .int4(Int32(ledgerID)), .text(key.id), .text(name), .bytes(Self.hash(secret)),
                    .bool(isPublishable), .textArray(scopes.map(\.rawValue).sorted()), .text(environment?.rawValue),
                    .text(bundleID), .timestamp(key.createdAt.milliseconds),
                ])
        }
        return (key, secret)
    }

    /// All keys, revoked ones included, oldest first.
    package func list() async throws -> [APIKey] {
        try await run { connection in
            try connection.query(
                "SELECT \(Self.columns) FROM api_key WHERE ledger_id = $1 ORDER BY created_at, key_id",
                [.int(ledgerID)]
            ).rows.map { try APIKey($0) }
        }
    }

    /// Revokes a key for good; `false` when there is no such key, `true` also when it was revoked before.
    package func revoke(_ id: String) async throws -> Bool {
        let now = now()
        return try await run { connection in
            try connection.query(
                """
                UPDATE api_key SET revoked_at = coalesce(revoked_at, $3) WHERE ledger_id = $1 AND key_id = $2
                RETURNING key_id
                """, [.int(ledgerID), .text(id), .timestamp(now.milliseconds)]
            ).isEmpty == false
        }
    }

    /// The key with this secret, if it exists and is not revoked.
    package func find(secret: String) async throws -> APIKey? {
        let hash = Self.hash(secret)
        return try await run { connection in
            try connection.query(
                """
                SELECT \(Self.columns) FROM api_key
                WHERE ledger_id = $1 AND secret_sha256 = $2 AND revoked_at IS NULL
                """, [.int(ledgerID), .bytes(hash)]
            ).first.map { try APIKey($0) }
        }
    }

    fileprivate static let columns =
        "key_id, name, is_publishable, scopes, environment, bundle_id, created_at, revoked_at"

    /// The secret holds 256 random bits, so a plain hash is as strong as a slow one and costs a request nothing.
    private static func hash(_ secret: String) -> [UInt8] { SHA256.hash(Array(secret.utf8)) }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await pool.withConnection(body)
        } catch {
            throw LedgerError(error, doing: "looking up API keys")
        }
    }
}

extension APIKey {
    fileprivate init(_ row: PostgresRow) throws {
        self.init(
            id: try row.text(0), name: try row.text(1), isPublishable: try row.bool(2),
            scopes: Set(try row.textArray(3).compactMap { $0.flatMap(APIScope.init(rawValue:)) }),
            environment: try row.optionalText(4).map { try StoreEnvironment(name: $0) },
            bundleID: try row.optionalText(5), createdAt: Timestamp(milliseconds: try row.timestamp(6)),
            revokedAt: try row.optionalTimestamp(7).map { Timestamp(milliseconds: $0) })
    }
}
