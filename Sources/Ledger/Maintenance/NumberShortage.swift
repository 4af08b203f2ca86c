package import PostgresClient

/// That PostgreSQL has few numbers left for transactions, without which nothing is written.
///
/// It has 2^31 of them, and gets them back as its databases are vacuumed. It does that by itself, unless it is kept from cleaning up.
package struct NumberShortage: Sendable, Hashable {
    private let database: String
    /// How many have been given out since the oldest that the database keeps.
    private let used: Int64

    /// - Parameter limit: how many may have been given out before that is told; PostgreSQL vacuums with all its might from
    ///   1,600 million on.
    /// - Returns: the database that keeps the oldest number; `nil` where none keeps one so old.
    package static func find(
        _ pool: PostgresPool, beyond limit: Int64 = 1_500_000_000
    ) async throws -> NumberShortage? {
        try await pool.run(doing: "looking how many numbers of transactions are left") { connection in
            guard let row = try connection.query(search).first, try row.int(1) > limit else { return nil }
            return NumberShortage(database: try row.text(0), used: try row.int(1))
        }
    }

    private static let search = """
        SELECT datname::text, greatest(age(datfrozenxid), mxid_age(datminmxid))::bigint FROM pg_database
        ORDER BY 2 DESC, 1 LIMIT 1
        """
}

extension NumberShortage: CustomStringConvertible {
    /// For people: how many are used, and what to do.
    package var description: String {
        "\(used / 1_000_000) of 2147 million numbers of transactions are used up since the database \(database) was vacuumed; at their "
            + "end nothing can be recorded: end what keeps PostgreSQL from cleaning up, then run `VACUUM` there, as a "
            + "superuser"
    }
}
