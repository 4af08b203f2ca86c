package import EntitlementCore
import OpenSSLCrypto
package import PostgresClient

/// Somebody who has signed in to the console.
package struct ConsoleSession: Sendable, Hashable {
    /// What they signed in with, and so what they may do.
    package let key: APIKey
    package let createdAt: Timestamp
    /// When it ends unless it is used before.
    package let idleEnd: Timestamp
    /// When it ends however much it is used.
    package let lastEnd: Timestamp
}

/// Sessions of the console, which all instances share.
///
/// The browser holds 256 random bits, and the database their hash, with which nobody can sign in. At each request a
/// session may do what the log says of its key, so it ends with the key.
package struct ConsoleSessions: Sendable {
    /// How every session's token begins, so that whoever finds one can tell what it is.
    package static let tokenPrefix = "rightful_cs_"
    /// How every sign-in link's token begins.
    package static let linkPrefix = "rightful_cl_"
    /// How long a session lasts that nobody uses, in seconds.
    package static let idleSeconds: Int64 = 30 * 60
    /// How long a session lasts at most, in seconds.
    package static let longestSeconds: Int64 = 12 * 3600
    /// How long a sign-in link is good, in seconds.
    package static let linkSeconds: Int64 = 600
    /// The most sessions, and the most links, of one key; the oldest end for a new one.
    package static let mostOfKey: Int64 = 100
    /// How seldom it is noted that a session was used, in milliseconds: a page sends many requests.
    private static let noteEvery: Int64 = 60_000

    private static let work = "looking after sessions of the console"

    private let pool: PostgresPool
    private let keys: APIKeyStore

    package init(pool: PostgresPool, keys: APIKeyStore) {
        self.pool = pool
        self.keys = keys
    }

    /// Begins a session of the secret key with this secret.
    ///
    /// - Returns: the token, which is told this once; `nil` where there is no such key, or it is publishable.
    /// - Throws: `LedgerError`.
    package func begin(secret: String, now: Timestamp) async throws -> (token: String, session: ConsoleSession)? {
        let hash = APIKeyStore.hash(secret)
        guard let key = try await keys.find(secretHash: hash), !key.isPublishable else { return nil }
        return try await begin(key, hash, now: now)
    }

    /// Begins a session by a sign-in link, which is good for nothing from then on.
    ///
    /// - Returns: as ``begin(secret:now:)``; `nil` also for a link that was used before or is too old.
    /// - Throws: `LedgerError`.
    package func begin(link: String, now: Timestamp) async throws -> (token: String, session: ConsoleSession)? {
        let since = now.adding(milliseconds: -Self.linkSeconds * 1000)
        let hash = try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                DELETE FROM console_link WHERE ledger_id = $1 AND token_sha256 = $2
                RETURNING key_secret_sha256, created_at > $3
                """, [.int(ledgerID), .bytes(APIKeyStore.hash(link).bytes), .timestamp(since.milliseconds)]
            ).first.flatMap { try $0.bool(1) ? try $0.digest(0) : nil }
        }
        guard let hash, let key = try await keys.find(secretHash: hash), !key.isPublishable else { return nil }
        return try await begin(key, hash, now: now)
    }

    /// Makes a link's token that signs somebody in once, with a key, within ten minutes; it is returned this once.
    ///
    /// - Throws: `LedgerError`.
    package func makeLink(for key: APIKey, secretHash: Digest, now: Timestamp) async throws -> String {
        let token = Self.linkPrefix + Base64.encodeURL(SecureRandom.bytes(32))
        let since = now.adding(milliseconds: -Self.linkSeconds * 1000)
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                "DELETE FROM console_link WHERE ledger_id = $1 AND created_at <= $2",
                [.int(ledgerID), .timestamp(since.milliseconds)])
            try connection.query(
                """
                INSERT INTO console_link (ledger_id, token_sha256, key_id, key_secret_sha256, created_at)
                VALUES ($1, $2, $3, $4, $5)
                """,
                [
                    .int4(Int32(ledgerID)), .bytes(APIKeyStore.hash(token).bytes), .text(key.id),
                    .bytes(secretHash.bytes), .timestamp(now.milliseconds),
                ])
            try connection.query(Self.trim("console_link", by: "created_at"), [.int(ledgerID), .text(key.id)])
        }
        return token
    }

    /// The session of a token, while it lasts and its key is not revoked.
    ///
    /// - Throws: `LedgerError`.
    package func find(token: String, now: Timestamp) async throws -> ConsoleSession? {
        let hash = APIKeyStore.hash(token)
        let found = try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT key_secret_sha256, created_at, used_at FROM console_session
                WHERE ledger_id = $1 AND token_sha256 = $2 AND created_at > $3 AND used_at > $4
                """, [.int(ledgerID), .bytes(hash.bytes)] + Self.ends(now)
            ).first.map { row in
                Row(
                    secretHash: try row.digest(0), createdAt: try row.instant(1),
                    usedAt: try row.instant(2))
            }
        }
        guard let found, let key = try await keys.find(secretHash: found.secretHash), !key.isPublishable else {
            return nil
        }
        var usedAt = found.usedAt
        if usedAt.adding(milliseconds: Self.noteEvery) <= now {
            usedAt = now
            try await pool.run(doing: Self.work) { connection in
                _ = try connection.query(
                    """
                    UPDATE console_session SET used_at = $3 WHERE ledger_id = $1 AND token_sha256 = $2 AND used_at < $3
                    """, [.int(ledgerID), .bytes(hash.bytes), .timestamp(now.milliseconds)])
            }
        }
        return Self.session(key, createdAt: found.createdAt, usedAt: usedAt)
    }

    /// Ends a session on every instance; one that is over already is left so.
    ///
    /// - Throws: `LedgerError`.
    package func end(token: String) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                "DELETE FROM console_session WHERE ledger_id = $1 AND token_sha256 = $2",
                [.int(ledgerID), .bytes(APIKeyStore.hash(token).bytes)])
        }
    }

    private struct Row: Sendable {
        let secretHash: Digest
        let createdAt: Timestamp
        let usedAt: Timestamp
    }

    private func begin(
        _ key: APIKey, _ secretHash: Digest, now: Timestamp
    ) async throws -> (token: String, session: ConsoleSession) {
        let token = Self.tokenPrefix + Base64.encodeURL(SecureRandom.bytes(32))
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                "DELETE FROM console_session WHERE ledger_id = $1 AND (created_at <= $2 OR used_at <= $3)",
                [.int(ledgerID)] + Self.ends(now))
            try connection.query(
                """
                INSERT INTO console_session (ledger_id, token_sha256, key_id, key_secret_sha256, created_at, used_at)
                VALUES ($1, $2, $3, $4, $5, $5)
                """,
                [
                    .int4(Int32(ledgerID)), .bytes(APIKeyStore.hash(token).bytes), .text(key.id),
                    .bytes(secretHash.bytes), .timestamp(now.milliseconds),
                ])
            try connection.query(Self.trim("console_session", by: "used_at"), [.int(ledgerID), .text(key.id)])
        }
        return (token, Self.session(key, createdAt: now, usedAt: now))
    }

    private static func session(_ key: APIKey, createdAt: Timestamp, usedAt: Timestamp) -> ConsoleSession {
        let lastEnd = createdAt.adding(milliseconds: longestSeconds * 1000)
        return ConsoleSession(
            key: key, createdAt: createdAt, idleEnd: min(lastEnd, usedAt.adding(milliseconds: idleSeconds * 1000)),
            lastEnd: lastEnd)
    }

    /// Before which instants a session that still lasts may neither have been made nor used.
    private static func ends(_ now: Timestamp) -> [PostgresValue] {
        [longestSeconds, idleSeconds].map { .timestamp(now.adding(milliseconds: -$0 * 1000).milliseconds) }
    }

    private static func trim(_ table: String, by column: String) -> String {
        """
        DELETE FROM \(table) WHERE ledger_id = $1 AND token_sha256 IN (
            SELECT token_sha256 FROM \(table) WHERE ledger_id = $1 AND key_id = $2
            ORDER BY \(column) DESC, token_sha256 OFFSET \(mostOfKey))
        """
    }
}
