import PostgresClient

/// By which of its settings the server may acknowledge what a crash then takes back.
enum ServerDurability {
    /// Each in words; none where the server keeps what it acknowledges.
    ///
    /// `synchronous_commit` is the one with which sessions begin: this program's own turn it on, which a pooler may lose.
    static func gaps(_ pool: PostgresPool) async throws -> [String] {
        try await pool.withConnection { connection in
            try connection.query(settings).rows.map { row in
                let name = try row.text(0)
                guard name == "synchronous_commit" else { return "\(name) is off" }
                return "\(name) is off when sessions begin; this program turns it on in its own, which a pooler may "
                    + "lose"
            }
        }
    }

    private static let settings = """
        SELECT name FROM pg_settings
        WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'
            OR name = 'synchronous_commit' AND reset_val = 'off'
        ORDER BY 1
        """
}
