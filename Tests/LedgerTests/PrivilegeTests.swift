import EmbeddedPostgres
import EntitlementCore
import Foundation
import PostgresClient
import Schema
import TestSupport
import Testing

@testable import Ledger

/// What somebody who holds the serving role's password can and cannot do, and how migrations survive trouble.
@Suite("Privileges and migrations")
struct PrivilegeTests {
    private static let refused = [
        "UPDATE event SET facts = ''", "UPDATE event_p000000 SET facts = ''", "DELETE FROM event",
        "DELETE FROM event_p000000", "TRUNCATE event", "TRUNCATE event_p000000 CASCADE", "DROP TABLE event CASCADE",
        "DROP TABLE event_p000002", "ALTER TABLE event DETACH PARTITION event_p000001",
        "ALTER TABLE event DISABLE TRIGGER event_append_only", "ALTER TABLE event ADD COLUMN x int",
        "CREATE TRIGGER mine BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION refuse_change()",
        "CREATE RULE mine AS ON INSERT TO event DO INSTEAD NOTHING", "CREATE INDEX ON event (type)",
        "LOCK TABLE event IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE ledger_head IN SHARE ROW EXCLUSIVE MODE; DELETE FROM ledger_head",
        "SET ROLE rightful", "SET SESSION AUTHORIZATION rightful",
        "SET session_replication_role = replica", "COPY event TO PROGRAM 'cat'", "COPY event TO '/tmp/x'",
        "COPY event_p000000 FROM '/dev/null'", "INSERT INTO event_p000000 SELECT * FROM event",
        "INSERT INTO event SELECT * FROM event", "MERGE INTO event USING evidence ON true WHEN MATCHED THEN DELETE",
        "INSERT INTO event SELECT * FROM event ON CONFLICT (ledger_id, position) DO UPDATE SET facts = ''",
        "SELECT * FROM event FOR UPDATE", "UPDATE evidence SET parts = ''", "DELETE FROM evidence",
        "DELETE FROM evidence_p000000", "TRUNCATE evidence", "UPDATE jws_header SET header = ''",
        "DELETE FROM jws_header", "UPDATE identity SET value = 'me'", "UPDATE event_key SET position = 1",
        "DELETE FROM ledger_head", "INSERT INTO ledger_head SELECT * FROM ledger_head", "TRUNCATE ledger_head",
        "UPDATE schema_migration SET sha256 = ''", "INSERT INTO schema_migration VALUES (99, 'x', '')",
        "UPDATE server_secret SET secret = ''", "DELETE FROM server_secret", "DELETE FROM api_key",
        "CREATE TABLE public.event_p000005 ()", "CREATE SCHEMA mine",
        "ALTER FUNCTION ensure_partitions(bigint) RESET ALL", "SELECT grant_serving_role('rightful_serve')",
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "SELECT ensure_partitions(9000000000000000000)", "SELECT ensure_partitions(60000000)",
        "SELECT lo_import('/etc/passwd')", "SELECT pg_read_file('/etc/passwd')", "ALTER SYSTEM SET fsync = off",
    ]

    @Test("the serving role is refused everything beyond reading and appending")
    func refusals() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(RandomDrafts(seed: 1, originals: 1).drafts(1)[0])
        let connection = try await PostgresConnection.connect(ledger.database.serveConninfo)
        // Only warned about, and without effect, as what follows shows.
        try await connection.execute(script: "GRANT ALL ON event TO PUBLIC")
        for statement in Self.refused {
            await #expect(throws: PostgresError.self, "\(statement)") {
                try await connection.execute(script: statement)
            }
        }
        try await LogInspection(ledger.database).expectSound("after all attempts")
    }

    @Test("a table of the serving role's own does not pass for a partition")
    func shadowing() async throws {
        let database = try await TestDatabase.make()
        let connection = try await PostgresConnection.connect(database.serveConninfo)
        try await connection.execute(
            script: """
                CREATE TEMP TABLE event_p000003 (); CREATE TEMP TABLE event (LIKE public.event);
                CREATE FUNCTION pg_temp.format(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
                CREATE FUNCTION pg_temp.lpad(text, integer, text) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
                SET search_path = pg_temp, public;
                """)
        #expect(try await connection.query("SELECT public.ensure_partitions(8000000)").first?.int(0) == 2)
        let owner = try await database.owner()
        let partitions = try await owner.query(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'public.event'::regclass ORDER BY 1")
        #expect(try partitions.rows.map { try $0.text(0) } == (0...3).map { "event_p00000\($0)" })
    }

    @Test("every partition, made early or late, bears guards that no session setting switches off")
    func guards() async throws {
        let database = try await TestDatabase.make()
        let server = try await PostgresConnection.connect(database.serveConninfo)
        try await server.query("SELECT ensure_partitions(30000000)")
        let rows = try await database.owner().query(
            """
            SELECT partition.relname::text,
                (SELECT string_agg(tgname || ' ' || tgenabled::text, ',' ORDER BY tgname) FROM pg_trigger
                WHERE tgrelid = partition.oid)
            FROM pg_inherits JOIN pg_class AS partition ON partition.oid = inhrelid
            WHERE inhparent = 'event'::regclass
            UNION ALL SELECT 'event', (SELECT string_agg(tgname || ' ' || tgenabled::text, ',' ORDER BY tgname)
            FROM pg_trigger WHERE tgrelid = 'event'::regclass)
            """
        ).rows
        #expect(rows.count == 10)
        for row in rows {
            let (name, guards) = (try row.text(0), try row.text(1))
            #expect(guards == "event_append_only A,event_no_truncate A", "\(name)")
        }
    }

    @Test("a missing grant is an error of that append alone; with the grant back the log goes on without a hole")
    func partialGrants() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let drafts = RandomDrafts(seed: 3, originals: 2).drafts(10)
        for (index, right) in [
            "INSERT ON identity", "INSERT ON evidence", "INSERT ON event_key", "UPDATE ON original_view",
            "UPDATE ON ledger_head", "UPDATE ON projection", "SELECT ON jws_header",
        ].enumerated() {
            try await owner.execute(script: "REVOKE \(right) FROM rightful_serve")
            let error = await #expect(throws: LedgerError.self, "\(right)") {
                try await ledger.writer.append(drafts[index])
            }
            #expect(error?.code == .invalid)
            try await owner.execute(script: "GRANT \(right) TO rightful_serve")
            #expect(try await ledger.writer.append(drafts[index]).position == Int64(index + 1))
        }
        try await LogInspection(ledger.database).expectSound("after revokes")
    }

    private static func emptyDatabase() async throws -> String {
        let database = try await TestDatabase.make()
        let name = "empty_" + UUID().uuidString.replacingOccurrences(of: "-", with: "").lowercased()
        try await database.owner().execute(script: "CREATE DATABASE \(name)")
        return database.ownerConninfo + " dbname=\(name)"
    }

    @Test("of several that migrate at once each step is applied by one")
    func migratingAtOnce() async throws {
        let conninfo = try await Self.emptyDatabase()
        let applied = try await withThrowingTaskGroup(of: [String].self) { group in
            for _ in 0..<5 {
                group.addTask {
                    let connection = try await PostgresConnection.connect(conninfo)
                    return try await connection.run {
                        try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0)
                    }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(applied.sorted() == Migration.all.map(\.name))
    }

    @Test("a migration killed at random and tried again ends in the same schema")
    func interruptedMigration() async throws {
        let conninfo = try await Self.emptyDatabase()
        let killer = try await PostgresConnection.connect(
            conninfo, options: ConnectionOptions(applicationName: "killer"))
        var (random, tries) = (SplitMix64(seed: 5), 0)
        var standing = Migrator.Standing.behind(missing: 1)
        while standing != .current, tries < 200 {
            tries += 1
            let connection = try await PostgresConnection.connect(conninfo)
            let pid = Int64(await connection.serverProcessID)
            let work = Task {
                try await connection.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
            }
            try await Task.sleep(for: .milliseconds(Int.random(in: 2...(20 + tries * 2), using: &random)))
            try await killer.query("SELECT pg_terminate_backend($1::int)", [.int(pid)])
            _ = await work.result
            standing = try await killer.run { try Migrator().standing(on: $0) }
        }
        #expect(standing == .current && tries > 1, "after \(tries) tries")
        let again = try await killer.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
        #expect(again == [])
        let checkpoints = try await killer.query("SELECT count(*) FROM projection").first?.int(0)
        #expect(checkpoints == 1)
    }
}
