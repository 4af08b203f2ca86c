import EmbeddedPostgres
import Glibc
import PostgresClient

/// As which users of their machines services run, told by the names under which they are connected to the database.
enum ServingUser {
    private static let prefix = "rightful serve as "

    /// What a service that runs as `user` calls itself.
    static func applicationName(_ user: uid_t) -> String { prefix + ServiceAccount.name(of: user) }

    /// The users of the services that are connected now, as far as the role may see them, in the order of their names.
    static func all(_ pool: PostgresPool) async throws -> [String] {
        try await pool.withConnection { connection in
            let names = try connection.query(
                """
                SELECT DISTINCT application_name FROM pg_stat_activity
                WHERE datname = current_database() AND starts_with(application_name, $1) ORDER BY 1
                """, [.text(prefix)])
            return try Set(names.rows.compactMap { user(in: try $0.text(0)) }).sorted()
        }
    }

    /// The user in the name of a service's connection, to which a pooler may have added ` - host:port`; `nil` in any other name.
    static func user(in applicationName: String) -> String? {
        guard applicationName.hasPrefix(prefix) else { return nil }
        let rest = applicationName.dropFirst(prefix.count)
        return String(rest.firstRange(of: " - ").map { rest[..<$0.lowerBound] } ?? rest)
    }
}
