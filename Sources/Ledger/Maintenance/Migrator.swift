import EntitlementCore
import OpenSSLCrypto
package import PostgresClient
package import Schema

/// Brings a database to this program's schema, or says how the two differ.
package struct Migrator: Sendable {
    package enum Standing: Sendable, Equatable {
        case current
        /// No step was applied.
        case empty
        /// Steps are missing.
        case behind(missing: Int)
        /// A newer program has been here.
        case ahead(version: Int)
        /// An applied step is not what this program calls by that name.
        case changed(name: String)
        /// It was made by a version from before the first release, whose form no program reads any more.
        case unreleased
    }

    private let migrations: [Migration]

    package init(migrations: [Migration] = Migration.all) { self.migrations = migrations }

    /// - Throws: `LedgerError`.
    package func standing(through pool: PostgresPool) async throws -> Standing {
        try await pool.run(doing: "looking at the schema") { try standing(on: $0) }
    }

    package func standing(on connection: isolated PostgresConnection) throws -> Standing {
        guard try holdsSchema(on: connection) else { return .empty }
        let rows = try connection.query("SELECT version, name, sha256 FROM schema_migration ORDER BY version").rows
        if try rows.contains(where: { try $0.text(1) == Self.unreleasedStep }) { return .unreleased }
        let known = Dictionary(migrations.map { ($0.version, $0) }, uniquingKeysWith: { first, _ in first })
        for row in rows {
            let version = Int(try row.int(0))
            guard let migration = known[version] else { return .ahead(version: version) }
            guard try row.bytes(2) == SHA256.hash(migration.sql) else { return .changed(name: try row.text(1)) }
        }
        return rows.count == migrations.count ? .current : .behind(missing: migrations.count - rows.count)
    }

    /// Applies what is missing and lets `servingRole` do its work, in one transaction: nobody sees a schema that is half made,
    /// or that the role may not use yet.
    ///
    /// Two that migrate at once take turns. Returns the names of the steps applied.
    ///
    /// - Parameter servingRole: `nil`: the one that is connected serves as well.
    package func migrate(servingRole: String?, on connection: isolated PostgresConnection) throws -> [String] {
        try connection.query("SELECT pg_advisory_lock($1)", [.int(Self.lockKey)])
        defer { _ = try? connection.query("SELECT pg_advisory_unlock($1)", [.int(Self.lockKey)]) }
        let standing = try standing(on: connection)
        switch standing {
        case .ahead, .changed, .unreleased: throw LedgerError(.schema, standing.refusal ?? "")
        case .empty, .behind: try requireCompression(on: connection)
        case .current: break
        }
        var applied: [String] = []
        let present = try holdsSchema(on: connection)
        let done =
            present ? try Set(connection.query("SELECT version FROM schema_migration").rows.map { try $0.int(0) }) : []
        try connection.transaction { connection in
            for migration in migrations where !done.contains(Int64(migration.version)) {
                try connection.execute(script: String(decoding: migration.sql, as: UTF8.self))
                try connection.query(
                    "INSERT INTO schema_migration (version, name, sha256) VALUES ($1, $2, $3)",
                    [.int4(Int32(migration.version)), .text(migration.name), .bytes(SHA256.hash(migration.sql))])
                applied.append(migration.name)
            }
            try connection.query(
                """
                INSERT INTO projection (ledger_id, name, version, checkpoint)
                SELECT $1, 'originals', $2, 0 FROM ledger_head WHERE ledger_id = $1 AND position = 0
                ON CONFLICT (ledger_id, name) DO NOTHING
                """, [.int4(Int32(ledgerID)), .int4(Int32(OriginalState.foldVersion))])
            // Copies of tables, such as logical replication makes, leave out where the numbers of messages had come to.
            try connection.query(
                """
                SELECT setval(pg_get_serial_sequence('webhook_message', 'number'), last.number)
                FROM (SELECT number FROM webhook_message WHERE ledger_id = $1 ORDER BY number DESC LIMIT 1) AS last
                WHERE last.number > (
                    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('webhook_message', 'number')::regclass), 0))
                """, [.int(ledgerID)])
            if let servingRole { try connection.query("SELECT grant_serving_role($1)", [.text(servingRole)]) }
        }
        try pin(
            servingRole == nil ? ConnectionOptions.servingSettings : ConnectionOptions.owningSettings, of: nil,
            on: connection)
        if let servingRole {
            try letUseSchema(servingRole, on: connection)
            do throws(any Error) {
                try pin(ConnectionOptions.servingSettings, of: servingRole, on: connection)
            } catch let error as PostgresError where error.kind == .insufficientPrivilege {
                // The owner of the tables may not, unless it is a superuser: the role itself may.
            }
        }
        return applied
    }

    /// Asks whether the server can compress columns as the ledger's are, before a step fails half-way.
    private func requireCompression(on connection: isolated PostgresConnection) throws {
        let row = try connection.query(
            "SELECT count(*) FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)"
        ).row(0)
        guard try row.int(0) == 0 else { return }
        throw LedgerError(
            .schema,
            "the server is built without lz4, by which the ledger's tables are compressed: use a PostgreSQL that has it, as those "
                + "of Debian and PGDG do (`configure --with-lz4`); nothing was done")
    }

    /// Whether any step was applied.
    ///
    /// - Throws: `LedgerError` of code `schema` where the database could not hold a ledger, or the role could not find or
    ///   read it.
    private func holdsSchema(on connection: isolated PostgresConnection) throws -> Bool {
        let row = try connection.query(
            """
            SELECT current_setting('server_encoding'), current_user,
                coalesce(has_schema_privilege(to_regnamespace('public'), 'USAGE'), false),
                to_regclass('schema_migration') IS NOT NULL,
                coalesce(has_table_privilege(to_regclass('schema_migration'), 'SELECT'), true)
            """
        ).row(0)
        let encoding = try row.text(0)
        guard encoding == "UTF8" else {
            throw LedgerError(
                .schema,
                "the database's encoding is \(encoding), which does not hold every customer id: use one with UTF8 "
                    + "(`createdb --encoding UTF8 --template template0`)")
        }
        guard try row.bool(2) else { throw try Self.mayNotUseSchema(row.text(1)) }
        // As after `pg_restore --no-acl`.
        guard try row.bool(4) else {
            throw LedgerError(.schema, ServingPrivileges.refusal(lacking: ["SELECT on schema_migration"]))
        }
        return try row.bool(3)
    }

    private static func mayNotUseSchema(_ role: String) -> LedgerError {
        LedgerError(
            .schema,
            "the role \(role) may not use the schema public, in which the ledger's tables are: let its owner run "
                + "`GRANT USAGE ON SCHEMA public TO \"\(role)\"`")
    }

    /// Lets a role find the tables, where that was taken from everybody.
    ///
    /// - Throws: `LedgerError` of code `schema` where the role that is connected may not do so.
    private func letUseSchema(_ role: String, on connection: isolated PostgresConnection) throws {
        func row() throws -> PostgresRow {
            try connection.query(
                "SELECT has_schema_privilege($1, 'public', 'USAGE'), format('GRANT USAGE ON SCHEMA public TO %I', $1)",
                [.text(role)]
            ).row(0)
        }
        let before = try row()
        guard try !before.bool(0) else { return }
        do throws(any Error) {
            try connection.execute(script: before.text(1))
        } catch let error as PostgresError where error.kind == .insufficientPrivilege {
            // Said below, as where the server only warns.
        }
        guard try row().bool(0) else { throw Self.mayNotUseSchema(role) }
    }

    /// Has all sessions of the connected role, which serves, begin with what they may not lose.
    package func pinServingSettings(on connection: isolated PostgresConnection) throws {
        try pin(ConnectionOptions.servingSettings, of: nil, on: connection)
    }

    /// Has all sessions of a role begin with these settings, in this database; does nothing where they do.
    ///
    /// So nothing that somebody makes in another schema, or that is temporary, can stand for a table or a function of the
    /// ledger's, and no session can hold its rows for ever, even where a pooler loses what a session has set.
    ///
    /// - Parameter role: `nil`: the one that is connected, which always may.
    private func pin(
        _ settings: [(name: String, value: String)], of role: String?, on connection: isolated PostgresConnection
    ) throws {
        for (name, value) in settings {
            let row = try connection.query(
                """
                SELECT format('ALTER ROLE %I IN DATABASE %I SET ', role.rolname, database.datname),
                    coalesce(($2 || '=' || $3) = ANY (setting.setconfig), false)
                FROM pg_roles AS role
                JOIN pg_database AS database ON database.datname = current_database()
                LEFT JOIN pg_db_role_setting AS setting
                    ON setting.setrole = role.oid AND setting.setdatabase = database.oid
                WHERE role.rolname = coalesce($1, current_user)
                """, [role.map { .text($0) } ?? .null, .text(name), .text(value)]
            ).first
            guard let row, try !row.bool(1) else { continue }
            try connection.execute(script: "\(try row.text(0))\(name) = \(value)")
        }
    }

    /// A step that only versions from before the first release had.
    private static let unreleasedStep = "0019_ensure_partitions"
    fileprivate static let unreleasedRefusal =
        "the database was made by a version from before the first release, and cannot be read or upgraded: "
        + "use an empty database, or an empty data directory"

    /// Arbitrary, but the same in every version of this program.
    private static let lockKey: Int64 = 0x7269_6768_7466_756C
}

extension Migrator.Standing {
    /// What to tell an operator who tries to serve; `nil` when all is well.
    package var refusal: String? {
        switch self {
        case .current: nil
        case .empty:
            "there is no ledger in the database: run `rightful migrate`, with the owner's role where it is your own"
        case .behind(let missing):
            "the database lacks \(missing) schema migration(s): run `rightful migrate`, with the owner's role where the "
                + "database is your own"
        case .ahead(let version):
            "the database has schema migration \(version), which this rightful does not know: use a newer rightful"
        case .unreleased: Migrator.unreleasedRefusal
        case .changed(let name):
            "schema migration \(name) was applied in another form than this rightful's: use the rightful that applied it"
        }
    }
}
