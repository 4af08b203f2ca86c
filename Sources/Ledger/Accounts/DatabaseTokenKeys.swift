import EntitlementCore
package import PostgresClient

/// The keys of customer tokens in the database, where every instance of the service finds them.
///
/// A row is never changed, so the serving role needs no right to: the name holds the key's id, and one byte behind the
/// secret says whether the key stands alone.
package struct DatabaseTokenKeys: TokenKeyStore {
    private static let prefix = "customer_tokens:"
    /// The first text behind all that begin with the prefix.
    private static let end = "customer_tokens;"

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    package func read() async throws -> [TokenKey] {
        do {
            return try await pool.withConnection { connection in
                try connection.query(
                    """
                    SELECT name, secret, created_at FROM server_secret
                    WHERE ledger_id = $1 AND name >= $2 AND name < $3
                    """, [.int(ledgerID), .text(Self.prefix), .text(Self.end)]
                ).rows.map { try TokenKey($0, prefix: Self.prefix) }
            }
        } catch {
            throw LedgerError(error, doing: "reading the keys of customer tokens")
        }
    }

    package func add(_ key: TokenKey) async throws {
        do {
            try await pool.withConnection { connection in
                _ = try connection.query(
                    """
                    INSERT INTO server_secret (ledger_id, name, secret, created_at) VALUES ($1, $2, $3, $4)
                    ON CONFLICT (ledger_id, name) DO NOTHING
                    """,
                    [
                        .int4(Int32(ledgerID)), .text("\(Self.prefix)\(key.id)"),
                        .bytes(key.secret + [key.isAlone ? 1 : 0]), .timestamp(key.madeAt.milliseconds),
                    ])
            }
        } catch {
            throw LedgerError(error, doing: "adding a key of customer tokens")
        }
    }
}

extension TokenKey {
    fileprivate init(_ row: PostgresRow, prefix: String) throws {
        let (name, stored) = (try row.text(0), try row.bytes(1))
        guard let id = Int64(name.dropFirst(prefix.count)), stored.count == TokenKey.length + 1 else {
            throw LedgerError(.corrupt, "\(name) in server_secret is no key of customer tokens")
        }
        self.init(
            id: id, secret: Array(stored.dropLast()), madeAt: try row.instant(2),
            isAlone: stored.last == 1)
    }
}
