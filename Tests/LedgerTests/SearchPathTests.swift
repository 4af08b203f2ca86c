import EmbeddedPostgres
import EntitlementCore
import Foundation
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// Nothing that others make in the database stands for a table or a function of the ledger's.
@Suite("The search path")
struct SearchPathTests {
    /// Tables and functions with the names that the ledger uses, in a schema; and who asks is told of it.
    private static func shadows(in schema: String) -> String {
        let create = schema == "pg_temp" ? "CREATE TEMPORARY TABLE " : "CREATE TABLE \(schema)."
        let tables = ["event", "event_name", "ledger_head", "identity", "evidence", "jws_header", "schema_migration"]
            .map { "\(create)\($0) AS TABLE public.\($0);" }
        return tables.joined() + """
            CREATE FUNCTION \(schema).now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::timestamptz $$;
            CREATE FUNCTION \(schema).sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$;
            CREATE FUNCTION \(schema).clock_timestamp() RETURNS timestamptz LANGUAGE sql
            AS $$ SELECT 'epoch'::timestamptz $$;
            """
    }

    /// What a session sees by the names that the ledger uses.
    private static let seen = """
        SELECT 'event'::regclass::oid = 'public.event'::regclass::oid
            AND 'ledger_head'::regclass::oid = 'public.ledger_head'::regclass::oid
            AND 'identity'::regclass::oid = 'public.identity'::regclass::oid,
            now() > '2020-01-01' AND clock_timestamp() > '2020-01-01' AND length(sha256('x'::bytea)) = 32
        """

    /// A database that was migrated by itself, and is no copy.
    private static func migrated() async throws -> TestDatabase {
        let other = try await TestDatabase.make()
        let name = "path_" + UUID().uuidString.replacing("-", with: "").lowercased()
        try await other.owner().execute(script: "CREATE DATABASE \(name)")
        let database = TestDatabase(
            ownerConninfo: other.ownerConninfo + " dbname=\(name)",
            serveConninfo: other.serveConninfo + " dbname=\(name)")
        // What PostgreSQL does by itself, and the other databases of the tests do not.
        try await letGo(of: name, database.owner())
        try await database.owner().run {
            _ = try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0)
        }
        return database
    }

    private static func letGo(of database: String, _ owner: PostgresConnection) async throws {
        for role in [EmbeddedCluster.owner, EmbeddedCluster.server] {
            try await owner.execute(
                script: "ALTER ROLE \(role) IN DATABASE \(database) SET search_path = \"$user\", public")
        }
    }

    @Test(
        "a hostile role's schema of the serving role's name, and temporary objects, change nothing",
        arguments: [true, false])
    func shadowed(isPinned: Bool) async throws {
        let database = try await Self.migrated()
        let owner = try await database.owner()
        let name = try await owner.query("SELECT current_database()::text").row(0).text(0)
        try await owner.execute(
            script: """
                DO $$ BEGIN CREATE ROLE mallory IN ROLE pg_read_all_data;
                EXCEPTION WHEN duplicate_object THEN NULL; END $$;
                GRANT CREATE ON DATABASE \(name) TO mallory;
                SET ROLE mallory;
                CREATE SCHEMA \(EmbeddedCluster.server);
                CREATE SCHEMA \(EmbeddedCluster.owner);
                GRANT USAGE ON SCHEMA \(EmbeddedCluster.server), \(EmbeddedCluster.owner) TO PUBLIC;
                """ + Self.shadows(in: EmbeddedCluster.server) + Self.shadows(in: EmbeddedCluster.owner)
                    + "RESET ROLE;")
        if isPinned {
            // A session that nothing was set in.
            let row = try RawSession(database.serveConninfo).value(
                of: "SELECT 'event'::regclass = 'public.event'::regclass AND now() > '2020-01-01'")
            #expect(row == "t")
        } else {
            try await Self.letGo(of: name, owner)
        }
        // One session, in which somebody who shares it has left temporary objects, as through a pooler.
        let pool = database.pool(connections: 1)
        try await pool.withConnection { try $0.execute(script: Self.shadows(in: "pg_temp")) }
        let sight = try await pool.withConnection { connection in
            let row = try connection.query(Self.seen).row(0)
            return [try row.bool(0), try row.bool(1)]
        }
        #expect(sight == [true, true])
        let clock: @Sendable () -> Timestamp = { Timestamp(milliseconds: 1_800_000_000_000) }
        let writer = LedgerWriter(pool: pool, now: clock)
        #expect(try await writer.append(TestLedger.catalogDraft(TestLedger.catalog)).position == 1)
        #expect(try await LedgerReader(pool: pool, now: clock).status().position == 1)
        #expect(try await Verifier(pool: pool, derive: nil).run().position == 1)
        for schema in ["public", EmbeddedCluster.server, EmbeddedCluster.owner] {
            let count = try await owner.query("SELECT count(*) FROM \(schema).event").row(0).int(0)
            #expect(count == (schema == "public" ? 1 : 0), "\(schema)")
        }
    }

    /// As behind a pooler that gives a statement to whatever session is free, none of which was told anything by us.
    @Test(
        "a session that was told nothing begins with the path, for both roles; what a role changes of its own is named")
    func beginning() async throws {
        let database = try await Self.migrated()
        let owner = try await database.owner()
        // So that nothing but what `migrate` did is left.
        for (role, limits) in [
            (EmbeddedCluster.owner, []),
            (
                EmbeddedCluster.server,
                ["statement_timeout=30000", "lock_timeout=5000", "idle_in_transaction_session_timeout=10000"]
            ),
        ] {
            let settings = try await owner.query(
                """
                SELECT setting FROM pg_db_role_setting CROSS JOIN unnest(setconfig) AS setting
                WHERE setrole = $1::text::regrole AND setdatabase = (
                    SELECT oid FROM pg_database WHERE datname = current_database())
                """, [.text(role)]
            ).rows.map { try $0.text(0) }
            #expect(settings == ["search_path=public, pg_temp"] + limits, "\(role)")
        }
        for conninfo in [database.ownerConninfo, database.serveConninfo] {
            let session = try RawSession(conninfo)
            #expect(try session.value(of: "SHOW search_path") == "public, pg_temp")
        }
        #expect(try await LedgerGuards.off(database.pool()) == [])

        let server = try await PostgresConnection.connect(database.serveConninfo)
        let name = try await owner.query("SELECT current_database()::text").row(0).text(0)
        try await server.execute(
            script: "ALTER ROLE CURRENT_USER IN DATABASE \(name) SET search_path = pg_temp, \"$user\", public")
        #expect(
            try await LedgerGuards.off(database.pool()) == [
                "sessions of the role rightful_serve do not begin with the search_path public, pg_temp "
                    + "(`rightful migrate` sees to it)"
            ])
        // Our own sessions set it all the same.
        let sight = try await database.pool().withConnection { try $0.query("SHOW search_path").row(0).text(0) }
        #expect(sight == "public, pg_temp")
        try await owner.run { _ = try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
        #expect(try await LedgerGuards.off(database.pool()) == [])
        try await server.execute(
            script: """
                ALTER ROLE CURRENT_USER IN DATABASE \(name) SET idle_in_transaction_session_timeout = 0;
                ALTER ROLE CURRENT_USER IN DATABASE \(name) SET lock_timeout = '1s'
                """)
        #expect(
            try await LedgerGuards.off(database.pool()) == [
                "sessions of the role rightful_serve do not begin with the idle_in_transaction_session_timeout 10000 "
                    + "(`rightful migrate` sees to it)"
            ])
        // The role itself may, where the owner is no superuser.
        try await server.execute(script: "ALTER ROLE CURRENT_USER IN DATABASE \(name) RESET search_path")
        try await server.run { try Migrator().pinServingSettings(on: $0) }
        #expect(try RawSession(database.serveConninfo).value(of: "SHOW search_path") == "public, pg_temp")
        #expect(try await LedgerGuards.off(database.pool()) == [])
    }
}
