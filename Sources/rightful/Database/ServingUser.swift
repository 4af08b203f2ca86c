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
            return try names.rows.map { String(try $0.text(0).dropFirst(prefix.count)) }
        }
    }
}
