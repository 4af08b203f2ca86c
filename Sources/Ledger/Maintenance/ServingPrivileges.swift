package import PostgresClient

/// What a role must be allowed to serve.
package struct ServingPrivileges: Sendable {
    /// Without these nothing is recorded, or customers are not answered.
    package static let ofRequests = ServingPrivileges([
        (["SELECT"], ["schema_migration", "erasure", "original_view", "projection", "tree_node"]),
        (["SELECT", "UPDATE"], ["ledger_head"]),
        (["SELECT", "INSERT"], ["event", "event_name", "evidence", "jws_header", "identity", "server_secret"]),
        (["SELECT", "INSERT", "UPDATE", "DELETE"], ["command_key"]),
    ])

    /// All that `grant_serving_role` grants, as it does.
    package static let all = ServingPrivileges([
        (["SELECT"], ["schema_migration", "erasure"]),
        (["SELECT", "UPDATE"], ["ledger_head"]),
        (["SELECT", "INSERT"], ["event", "event_name", "evidence", "jws_header", "identity", "server_secret"]),
        (
            ["SELECT", "INSERT", "UPDATE", "DELETE"],
            [
                "original_view", "projection", "rebuild", "work_failure", "seen", "tree_node", "command_key",
                "store_quota",
                "store_sweep", "store_watch", "store_stream", "store_import", "web_lookup", "web_stream", "web_import",
                "drift",
                "drift_key", "drift_count", "drift_stream", "chart_part", "answer_scope", "answer_watch",
                "webhook_secret",
                "webhook_endpoint", "webhook_message", "webhook_delivery", "webhook_line", "webhook_stream",
                "console_session", "console_link",
            ]
        ),
    ])

    struct Privilege: Sendable, Hashable {
        let table: String
        /// Such as `INSERT`.
        let name: String
    }

    let privileges: [Privilege]

    package var count: Int { privileges.count }

    private init(_ grants: [(names: [String], tables: [String])]) {
        privileges = grants.flatMap { names, tables in
            tables.flatMap { table in names.map { Privilege(table: table, name: $0) } }
        }
    }

    /// What the role lacks of them, such as `INSERT on event`.
    package func missing(_ pool: PostgresPool) async throws -> [String] {
        try await pool.run(doing: "looking what the role may do") { try missing(on: $0) }
    }

    /// What the role that is connected lacks of them.
    package func missing(on connection: isolated PostgresConnection) throws -> [String] {
        try connection.query(
            """
            SELECT privilege || ' on ' || name
            FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS needed (name, privilege, number)
            WHERE NOT coalesce(has_table_privilege(to_regclass(name), privilege), false) ORDER BY number
            """, [.textArray(privileges.map(\.table)), .textArray(privileges.map(\.name))]
        ).rows.map { try $0.text(0) }
    }

    /// What to tell an operator whose role lacks something.
    package static func refusal(lacking missing: [String]) -> String {
        "the serving role lacks \(missing.joined(separator: ", ")): `rightful migrate` with the owner's URL "
            + "(--migrate-database-url) grants what it needs"
    }
}
