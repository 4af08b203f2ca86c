import EmbeddedPostgres
import EntitlementCore
import Foundation
import PostgresClient
import Schema
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// What somebody who holds the serving role's password can and cannot do, and how migrations survive trouble.
@Suite("Privileges and migrations")
struct PrivilegeTests {
    private static let refused = [
        "UPDATE event SET facts = ''", "DELETE FROM event", "TRUNCATE event", "TRUNCATE event CASCADE",
        "UPDATE event SET dedup_key = NULL", "DROP TABLE event CASCADE",
        "ALTER TABLE event DISABLE TRIGGER event_append_only", "ALTER TABLE event ADD COLUMN x int",
        "CREATE TRIGGER mine BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION refuse_change()",
        "CREATE RULE mine AS ON INSERT TO event DO INSTEAD NOTHING", "CREATE INDEX ON event (type)",
        "LOCK TABLE event IN ACCESS EXCLUSIVE MODE", "CREATE TABLE mine () INHERITS (event)", "CLUSTER event",
        "UPDATE event_name SET position = 1", "DELETE FROM event_name", "TRUNCATE event_name",
        "DROP TABLE event_name", "ALTER TABLE event_name DISABLE TRIGGER event_name_append_only",
        "ALTER TABLE event_name DISABLE TRIGGER ALL",
        "CREATE RULE mine AS ON INSERT TO event_name DO INSTEAD NOTHING",
        "INSERT INTO event_name SELECT * FROM event_name",
        """
        INSERT INTO event_name SELECT * FROM event_name
        ON CONFLICT (ledger_id, identity, environment, kind, original_transaction_id, position) DO UPDATE SET position = 9
        """,
        "MERGE INTO event_name USING event ON true WHEN MATCHED THEN DELETE", "SELECT * FROM event_name FOR UPDATE",
        "SET session_replication_role = replica; DELETE FROM event_name",
        "LOCK TABLE ledger_head IN SHARE ROW EXCLUSIVE MODE; DELETE FROM ledger_head",
        "SET ROLE rightful", "SET SESSION AUTHORIZATION rightful",
        "SET session_replication_role = replica", "COPY event TO PROGRAM 'cat'", "COPY event TO '/tmp/x'",
        "COPY event FROM '/dev/null'",
        "INSERT INTO event SELECT * FROM event", "MERGE INTO event USING evidence ON true WHEN MATCHED THEN DELETE",
        "INSERT INTO event SELECT * FROM event ON CONFLICT (ledger_id, position) DO UPDATE SET facts = ''",
        "SELECT * FROM event FOR UPDATE", "UPDATE evidence SET parts = ''", "DELETE FROM evidence",
        "TRUNCATE evidence", "UPDATE jws_header SET header = ''",
        "DELETE FROM jws_header", "UPDATE identity SET value = 'me'", "DELETE FROM identity", "TRUNCATE identity",
        "DELETE FROM ledger_head", "INSERT INTO ledger_head SELECT * FROM ledger_head", "TRUNCATE ledger_head",
        "UPDATE schema_migration SET sha256 = ''", "INSERT INTO schema_migration VALUES (99, 'x', '')",
        "UPDATE server_secret SET secret = ''", "DELETE FROM server_secret", "DELETE FROM api_key",
        "CREATE TABLE public.event_2 ()", "CREATE SCHEMA mine", "SELECT grant_serving_role('rightful_serve')",
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "DROP FUNCTION refuse_change() CASCADE", "ALTER FUNCTION refuse_change() OWNER TO rightful_serve",
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

    @Test("the log and its names bear guards that no session setting switches off, and that stop their owner too")
    func guards() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(RandomDrafts(seed: 2, originals: 1).drafts(1)[0])
        let owner = try await ledger.database.owner()
        let rows = try await owner.query(
            """
            SELECT tgrelid::regclass::text, string_agg(tgname || ' ' || tgenabled::text, ',' ORDER BY tgname)
            FROM pg_trigger WHERE NOT tgisinternal GROUP BY 1 ORDER BY 1
            """
        ).rows.map { "\(try $0.text(0)): \(try $0.text(1))" }
        #expect(
            rows == [
                "event: event_append_only A,event_no_truncate A",
                "event_name: event_name_append_only A,event_name_no_truncate A",
            ])
        for statement in [
            "UPDATE event SET type = 'x'", "UPDATE event_name SET position = 2", "DELETE FROM event",
            "DELETE FROM event_name", "TRUNCATE event", "TRUNCATE event_name", "TRUNCATE event, event_name CASCADE",
            """
            INSERT INTO event_name SELECT * FROM event_name
            ON CONFLICT (ledger_id, identity, environment, kind, original_transaction_id, position)
            DO UPDATE SET position = 9
            """,
        ] {
            for setting in ["", "SET session_replication_role = replica;"] {
                let error = await #expect(throws: PostgresError.self, "\(setting) \(statement)") {
                    try await owner.execute(script: "\(setting) \(statement)")
                }
                #expect(error?.message.contains("append-only") == true, "\(setting) \(statement)")
            }
        }
        try await LogInspection(ledger.database).expectSound("after all attempts")
    }

    @Test("a missing grant is an error of that append alone; with the grant back the log goes on without a hole")
    func partialGrants() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        var drafts = RandomDrafts(seed: 3, originals: 2).drafts(10)
        // Of somebody, and with a header, that no writer remembers.
        drafts[2].identities = drafts[2].identities.map { "new-" + $0 }
        drafts[6].evidence = .received(VerifyRig.signed("{}"))
        for (index, right) in [
            "INSERT ON identity", "INSERT ON evidence", "INSERT ON event_name", "INSERT ON event",
            "UPDATE ON ledger_head",
            "SELECT ON event", "SELECT ON jws_header",
        ].enumerated() {
            try await owner.execute(script: "REVOKE \(right) FROM rightful_serve")
            let error = await #expect(throws: LedgerError.self, "\(right)") {
                try await ledger.writer.append(drafts[index])
            }
            // Not the fault of whoever asked, who may ask again.
            #expect(error?.code == .schema)
            for needed in [ServingPrivileges.ofRequests, .all] {
                #expect(try await needed.missing(ledger.pool) == [right.replacing(" ON ", with: " on ")])
            }
            try await owner.execute(script: "GRANT \(right) TO rightful_serve")
            #expect(try await ledger.writer.append(drafts[index]).position == Int64(index + 1))
        }
        try await LogInspection(ledger.database).expectSound("after revokes")
    }

    @Test("what is looked for is what migrate grants, and of that what requests need")
    func granted() async throws {
        let owner = try await TestDatabase.make().owner()
        let rows = try await owner.query(
            "SELECT table_name::text, privilege_type::text FROM information_schema.role_table_grants WHERE grantee = 'rightful_serve'"
        ).rows.map { ServingPrivileges.Privilege(table: try $0.text(0), name: try $0.text(1)) }
        #expect(Set(rows) == Set(ServingPrivileges.all.privileges))
        #expect(Set(rows).isSuperset(of: ServingPrivileges.ofRequests.privileges))
    }

    @Test("a schema that the role may not use any more is no fault of whoever asked")
    func schemaUsage() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        _ = try await ledger.writer.append(RandomDrafts(seed: 4, originals: 1).drafts(1)[0])
        try await owner.execute(script: "REVOKE USAGE ON SCHEMA public FROM PUBLIC, rightful_serve")
        let error = await #expect(throws: LedgerError.self) { try await ledger.reader.status() }
        #expect(error?.code == .schema)
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

    @Test("a server that cannot compress columns as the ledger's are is refused before anything is done")
    func compression() async throws {
        let connection = try await PostgresConnection.connect(Self.emptyDatabase())
        // Stands for a server that is built without lz4.
        try await connection.execute(
            script: """
                CREATE TEMPORARY TABLE pg_settings AS SELECT name, array_remove(enumvals, 'lz4') AS enumvals
                FROM pg_catalog.pg_settings;
                SET search_path = pg_temp, pg_catalog, public
                """)
        let error = await #expect(throws: LedgerError.self) {
            try await connection.run { try Migrator().migrate(servingRole: nil, on: $0) }
        }
        #expect(error?.code == .schema && error?.description.contains("lz4") == true, "\(String(describing: error))")
        #expect(error?.description.contains("\n") == false)
        #expect(try await connection.run { try Migrator().standing(on: $0) } == .empty)
    }

    @Test("nobody sees a schema before the serving role may use it")
    func wholeOrNothing() async throws {
        let conninfo = try await Self.emptyDatabase()
        let connection = try await PostgresConnection.connect(conninfo)
        await #expect(throws: PostgresError.self) {
            try await connection.run { try Migrator().migrate(servingRole: "nobody_of_this_name", on: $0) }
        }
        #expect(try await connection.run { try Migrator().standing(on: $0) } == .empty)
    }

    @Test("the numbers of messages go on after those that are there, as after tables were copied one by one")
    func messageNumbers() async throws {
        let owner = try await TestDatabase.make().owner()
        let columns = "(ledger_id, number, type, app, identity, position, at)"
        try await owner.execute(
            script: "INSERT INTO webhook_message \(columns) OVERRIDING SYSTEM VALUE VALUES (1, 41, 2, '', 0, 1, now())")
        for expected in [42, 43] as [Int64] {
            _ = try await owner.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
            let number = try await owner.query(
                "INSERT INTO webhook_message \(columns) VALUES (1, DEFAULT, 2, '', 0, 1, now()) RETURNING number"
            ).row(0).int(0)
            #expect(number == expected)
        }
    }

    @Test("a migration killed at random and tried again ends in the same schema")
    func interruptedMigration() async throws {
        // On a busy machine the first attempt may be done before it is interrupted; then that says nothing yet.
        for seed in UInt64(5)..<15 where try await interruptMigration(seed: seed) > 1 { return }
        Issue.record("no migration was interrupted")
    }

    /// Migrates an empty database, interrupted at random instants; returns how many attempts it took.
    private func interruptMigration(seed: UInt64) async throws -> Int {
        let conninfo = try await Self.emptyDatabase()
        let killer = try await PostgresConnection.connect(
            conninfo, options: ConnectionOptions(applicationName: "killer"))
        var (random, tries) = (SplitMix64(seed: seed), 0)
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
        #expect(standing == .current, "seed \(seed), after \(tries) tries")
        let again = try await killer.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
        #expect(again == [])
        let checkpoints = try await killer.query("SELECT count(*) FROM projection").first?.int(0)
        #expect(checkpoints == 1)
        return tries
    }
}
