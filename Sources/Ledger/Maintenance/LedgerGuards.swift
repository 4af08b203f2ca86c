package import PostgresClient

/// What keeps the database's roles from changing the log by mistake: triggers and privileges.
package enum LedgerGuards {
    /// The tables that only grow, and those that only the owner may take from.
    private static let tables = [
        "event", "event_name", "evidence", "erasure", "jws_header", "identity", "server_secret",
    ]

    /// The guards that are off, each in words with what to do, as the owner of the tables where that is a statement; none in a
    /// database as `migrate` made it.
    package static func off(_ pool: PostgresPool) async throws -> [String] {
        do {
            return try await pool.withConnection { connection in
                let results = try connection.pipeline([
                    PostgresStatement(triggers), PostgresStatement(privileges, [.textArray(tables)]),
                    PostgresStatement(beginnings, [.textArray(ConnectionOptions.servingSettings.map(\.name))]),
                    PostgresStatement(creators),
                    LedgerIndexes.missing, PostgresStatement(additions, [.textArray(tables)]),
                    PostgresStatement(members), PostgresStatement(ahead, [.int(ledgerID)]),
                ])
                return try results[0].rows.map { try trigger($0) }
                    + results[1].rows.map { row in
                        "\(try row.optionalText(0).map { "the role \($0)" } ?? "everybody") may \(try row.text(1)) on table "
                            + "\(try row.text(2)) (`\(try row.text(3))`)"
                    }
                    + results[2].rows.compactMap { try beginning(of: $0) }
                    + results[3].rows.map { row in
                        "\(try row.optionalText(0).map { "the role \($0)" } ?? "everybody") may CREATE in schema public, "
                            + "and so what stands for tables and functions of the ledger's (`\(try row.text(1))`)"
                    }
                    + results[4].rows.map { try $0.text(0) }
                    + results[5].rows.map { row in
                        "\(try row.text(1)) on table \(try row.text(0)), which `rightful migrate` did not make "
                            + "(`\(try row.text(2))`)"
                    }
                    + results[6].rows.map { row in
                        "the role \(try row.text(0)) may act as \(try row.text(1)) (`\(try row.text(2))`)"
                    }
                    + results[7].rows.map { row in
                        "the last event is dated \(try row.int(0)) s after the database's clock, and so is whatever is appended: "
                            + "grants and transfers begin then (that passes with the time; there is no other way back than a "
                            + "backup from before)"
                    }
            }
        } catch {
            throw LedgerError(error, doing: "looking at the log's guards")
        }
    }

    private static func trigger(_ row: PostgresRow) throws -> String {
        let (table, trigger) = (try row.text(0), try row.text(1))
        let name = "the trigger \(trigger) on table \(table)"
        let enabling = "(`ALTER TABLE \(table) ENABLE ALWAYS TRIGGER \(trigger)`, and then `rightful verify`)"
        let making = "(make it as schema/0005_append_only.sql does, and then run `rightful verify`)"
        switch try row.optionalText(2) {
        case nil: return "\(name) is gone \(making)"
        case "D": return "\(name) is off \(enabling)"
        case "A": return "\(name) does not refuse changes any more \(making)"
        case .some: return "\(name) can be switched off by a session, as it is not ENABLE ALWAYS \(enabling)"
        }
    }

    private static func beginning(of row: PostgresRow) throws -> String? {
        let (name, found) = (try row.text(1), try row.text(2))
        let settings = ConnectionOptions.servingSettings
        guard let wanted = settings.first(where: { $0.name == name })?.value else { return nil }
        let isKept: Bool
        if let limit = Int(wanted) {
            // 0 is none; a shorter one is somebody's choice.
            isKept = Int(found).map { $0 > 0 && $0 <= limit } ?? false
        } else {
            let path = found.split(separator: ",").map { $0.filter { !$0.isWhitespace && $0 != "\"" } }
            isKept = path.joined(separator: ", ") == wanted
        }
        if isKept { return nil }
        return "sessions of the role \(try row.text(0)) do not begin with the \(name) \(wanted) "
            + "(`rightful migrate` sees to it)"
    }

    /// What a session has before it sets anything.
    private static let beginnings =
        "SELECT current_user::text, name, reset_val FROM pg_settings WHERE name = ANY ($1) ORDER BY name"

    /// Whoever may put something beside the ledger's tables, their owner and the schema's aside.
    private static let creators = """
        SELECT DISTINCT pg_get_userbyid(nullif(acl.grantee, 0))::text,
            'REVOKE CREATE ON SCHEMA public FROM '
                || coalesce(quote_ident(pg_get_userbyid(nullif(acl.grantee, 0))), 'PUBLIC')
        FROM pg_namespace AS schema
        CROSS JOIN LATERAL aclexplode(schema.nspacl) AS acl
        WHERE schema.nspname = 'public' AND acl.privilege_type = 'CREATE' AND acl.grantee <> schema.nspowner
            AND acl.grantee IS DISTINCT FROM (SELECT relowner FROM pg_class WHERE oid = to_regclass('event'))
        ORDER BY 1
        """

    private static let triggers = """
        SELECT expected.tab, expected.name, found.tgenabled::text
        FROM (VALUES ('event', 'event_append_only'), ('event', 'event_no_truncate'),
            ('event_name', 'event_name_append_only'), ('event_name', 'event_name_no_truncate')) AS expected (tab, name)
        LEFT JOIN pg_trigger AS found ON found.tgrelid = to_regclass(expected.tab) AND found.tgname = expected.name
        LEFT JOIN pg_proc AS function ON function.oid = found.tgfoid
        WHERE found.tgenabled IS DISTINCT FROM 'A' OR found.tgqual IS NOT NULL
            -- BEFORE UPDATE OR DELETE for each row, and BEFORE TRUNCATE for each statement.
            OR found.tgtype <> (CASE WHEN expected.name LIKE '%truncate' THEN 34 ELSE 27 END)
            OR btrim(function.prosrc, E' \\n') NOT LIKE E'BEGIN\\n    RAISE EXCEPTION %'
        ORDER BY 1, 2
        """

    /// Whatever else could change what is read from these tables, or written to them.
    private static let additions = """
        WITH guarded AS (
            SELECT oid, relname, relrowsecurity FROM pg_class
            WHERE oid = ANY (SELECT to_regclass(name) FROM unnest($1::text[]) AS name)
        )
        SELECT relname::text, 'row security', 'ALTER TABLE ' || relname || ' DISABLE ROW LEVEL SECURITY' FROM guarded
        WHERE relrowsecurity
        UNION ALL
        SELECT relname::text, 'the policy ' || polname, format('DROP POLICY %I ON %I', polname, relname) FROM guarded
        JOIN pg_policy ON polrelid = guarded.oid
        UNION ALL
        SELECT relname::text, 'the rule ' || rulename, format('DROP RULE %I ON %I', rulename, relname) FROM guarded
        JOIN pg_rewrite ON ev_class = guarded.oid
        UNION ALL
        SELECT relname::text, 'the trigger ' || tgname, format('DROP TRIGGER %I ON %I', tgname, relname) FROM guarded
        JOIN pg_trigger ON tgrelid = guarded.oid
        WHERE NOT tgisinternal AND tgname NOT IN ('event_append_only', 'event_no_truncate', 'event_name_append_only',
            'event_name_no_truncate')
        ORDER BY 1, 2
        """

    /// The log's times never decrease, so one of the future holds for all that comes.
    private static let ahead = """
        SELECT extract(epoch FROM recorded_at - clock_timestamp())::bigint FROM ledger_head
        WHERE ledger_id = $1 AND recorded_at > clock_timestamp() + interval '2 seconds'
        """

    /// Roles that are members of the owner's, or of one that may write every table.
    ///
    /// From PostgreSQL 16 on a membership may be for granting it to others alone (`set_option` and `inherit_option` off), as whoever
    /// makes a role has it of that role; before that there are no such columns.
    private static let members = """
        SELECT member.rolname::text, held.rolname::text, format('REVOKE %I FROM %I', held.rolname, member.rolname)
        FROM pg_auth_members JOIN pg_roles AS member ON member.oid = pg_auth_members.member
        JOIN pg_roles AS held ON held.oid = pg_auth_members.roleid
        WHERE (held.oid = (SELECT relowner FROM pg_class WHERE oid = to_regclass('event'))
                OR held.rolname = 'pg_write_all_data')
            AND NOT member.rolsuper
            AND (coalesce((to_jsonb(pg_auth_members) ->> 'set_option')::boolean, true)
                OR coalesce((to_jsonb(pg_auth_members) ->> 'inherit_option')::boolean, true))
            AND member.oid <> (SELECT relowner FROM pg_class WHERE oid = to_regclass('event'))
        ORDER BY 1, 2
        """

    /// Whoever is not the owner may read and insert, whole tables or columns of them.
    private static let privileges = """
        SELECT DISTINCT pg_get_userbyid(nullif(acl.grantee, 0))::text, acl.privilege_type::text, relation.relname::text,
            format('REVOKE %s ON %I FROM ', acl.privilege_type, relation.relname)
                || coalesce(quote_ident(pg_get_userbyid(nullif(acl.grantee, 0))), 'PUBLIC')
        FROM pg_class AS relation
        CROSS JOIN LATERAL (
            SELECT relation.relacl AS entries
            UNION ALL
            SELECT attacl FROM pg_attribute WHERE attrelid = relation.oid AND attacl IS NOT NULL
        ) AS lists
        CROSS JOIN LATERAL aclexplode(lists.entries) AS acl
        WHERE relation.oid = ANY (SELECT to_regclass(name) FROM unnest($1::text[]) AS name)
            AND acl.grantee <> relation.relowner AND (acl.privilege_type NOT IN ('SELECT', 'INSERT')
                OR relation.relname = 'erasure' AND acl.privilege_type = 'INSERT')
        ORDER BY 3, 1, 2
        """
}
