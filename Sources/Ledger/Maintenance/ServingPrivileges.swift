package import PostgresClient

/// What a role must be allowed for anything to be recorded and answered.
package enum ServingPrivileges {
    /// Of what `grant_serving_role` grants, what the log itself is read by and written with.
    private static let needed: [(table: String, privilege: String)] =
        ["event", "event_name", "evidence", "jws_header", "identity"].flatMap { [($0, "SELECT"), ($0, "INSERT")] }
        + [("ledger_head", "SELECT"), ("ledger_head", "UPDATE")]

    /// What the role lacks, such as `INSERT on event`.
    package static func missing(_ pool: PostgresPool) async throws -> [String] {
        try await pool.run(doing: "looking what the role may do") { connection in
            try connection.query(
                """
                SELECT privilege || ' on ' || name
                FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS needed (name, privilege, number)
                WHERE NOT coalesce(has_table_privilege(to_regclass(name), privilege), false) ORDER BY number
                """, [.textArray(needed.map(\.table)), .textArray(needed.map(\.privilege))]
            ).rows.map { try $0.text(0) }
        }
    }

    /// What to tell an operator whose role lacks something.
    package static func refusal(lacking missing: [String]) -> String {
        "the serving role lacks \(missing.joined(separator: ", ")): `rightful migrate` with the owner's URL "
            + "(--migrate-database-url) grants what it needs"
    }
}
