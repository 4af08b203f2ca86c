import PostgresClient

/// What the role that serves could do to the log.
enum ServingRole {
    /// Why the role is stronger than it needs to be; `nil` when it can only read and append.
    static func weakness(_ pool: PostgresPool) async throws -> String? {
        try await pool.withConnection { connection in
            let row = try connection.query(
                """
                SELECT current_user::text, role.rolsuper,
                    pg_has_role(current_user, relation.relowner, 'USAGE'),
                    has_any_column_privilege('event', 'UPDATE') OR has_table_privilege('event', 'DELETE')
                        OR has_table_privilege('event', 'TRUNCATE')
                FROM pg_roles AS role, pg_class AS relation
                WHERE role.rolname = current_user AND relation.oid = 'event'::regclass
                """
            ).first
            guard let row else { return nil }
            let role = try row.text(0)
            if try row.bool(1) { return "the role \(role) is a superuser" }
            if try row.bool(2) { return "the role \(role) owns the log" }
            if try row.bool(3) { return "the role \(role) was granted more than SELECT and INSERT on the log" }
            return nil
        }
    }
}
