import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What should keep the log from being changed is looked at, not assumed.
@Suite("Guards of the log")
struct GuardsTests {
    @Test("every unique index that migrate makes is looked for")
    func keys() async throws {
        let present = try await TestDatabase.make().owner().query(LedgerIndexes.present).rows.map { try $0.text(0) }
        #expect(present.sorted() == LedgerIndexes.keys.sorted())
        let quoting = PostgresPool(
            try await TestDatabase.make().serveConninfo + " options='-c quote_all_identifiers=on'")
        #expect(try await LedgerGuards.off(quoting) == [])
        await quoting.close()
    }

    @Test("as migrated all guards are on, and each that is off is named")
    func named() async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let owner = try await database.owner()
        #expect(try await LedgerGuards.off(pool) == [])
        for (change, said, undo) in [
            (
                "ALTER TABLE event DISABLE TRIGGER event_append_only",
                "the trigger event_append_only on table event is off",
                "ALTER TABLE event ENABLE ALWAYS TRIGGER event_append_only"
            ),
            (
                "ALTER TABLE event_name ENABLE TRIGGER event_name_no_truncate",
                "the trigger event_name_no_truncate on table event_name can be switched off by a session "
                    + "(it is not ENABLE ALWAYS)",
                "ALTER TABLE event_name ENABLE ALWAYS TRIGGER event_name_no_truncate"
            ),
            (
                "GRANT UPDATE (value) ON identity TO PUBLIC", "everybody may UPDATE on table identity",
                "REVOKE UPDATE (value) ON identity FROM PUBLIC"
            ),
            (
                "GRANT TRUNCATE ON evidence TO pg_monitor", "the role pg_monitor may TRUNCATE on table evidence",
                "REVOKE TRUNCATE ON evidence FROM pg_monitor"
            ),
            (
                "GRANT CREATE ON SCHEMA public TO PUBLIC",
                "everybody may CREATE in schema public, and so what stands for tables and functions of the ledger's",
                "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
            ),
            (
                "UPDATE ledger_head SET recorded_at = '2100-01-01'", "the last event is dated",
                "UPDATE ledger_head SET recorded_at = 'epoch'"
            ),
            (
                "GRANT INSERT ON erasure TO pg_monitor", "the role pg_monitor may INSERT on table erasure",
                "REVOKE INSERT ON erasure FROM pg_monitor"
            ),
            (
                """
                DROP TRIGGER event_append_only ON event;
                CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event
                FOR EACH ROW WHEN (false) EXECUTE FUNCTION refuse_change();
                ALTER TABLE event ENABLE ALWAYS TRIGGER event_append_only
                """, "the trigger event_append_only on table event does not refuse changes any more",
                """
                DROP TRIGGER event_append_only ON event;
                CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event
                FOR EACH ROW EXECUTE FUNCTION refuse_change();
                ALTER TABLE event ENABLE ALWAYS TRIGGER event_append_only
                """
            ),
            (
                "ALTER TABLE event ENABLE ROW LEVEL SECURITY",
                "row security on table event, which `rightful migrate` did not make",
                "ALTER TABLE event DISABLE ROW LEVEL SECURITY"
            ),
            (
                "CREATE RULE quiet AS ON INSERT TO erasure DO INSTEAD NOTHING",
                "the rule quiet on table erasure, which `rightful migrate` did not make", "DROP RULE quiet ON erasure"
            ),
            (
                """
                CREATE FUNCTION twist() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                CREATE TRIGGER twist BEFORE INSERT ON identity FOR EACH ROW EXECUTE FUNCTION twist()
                """, "the trigger twist on table identity, which `rightful migrate` did not make",
                "DROP FUNCTION twist CASCADE"
            ),
            (
                "DROP INDEX event_dedup", "no valid unique index on table event (ledger_id, dedup_key)",
                "CREATE UNIQUE INDEX event_dedup ON event (ledger_id, dedup_key) WHERE dedup_key IS NOT NULL"
            ),
            (
                """
                DROP INDEX event_dedup;
                CREATE UNIQUE INDEX event_dedup ON event (ledger_id, dedup_key) WHERE dedup_key IS NULL
                """, "no valid unique index on table event (ledger_id, dedup_key) WHERE (dedup_key IS NOT NULL)",
                """
                DROP INDEX event_dedup;
                CREATE UNIQUE INDEX event_dedup ON event (ledger_id, dedup_key) WHERE dedup_key IS NOT NULL
                """
            ),
            (
                "ALTER TABLE command_key DROP CONSTRAINT command_key_pkey",
                "no valid unique index on table command_key (ledger_id, command_key)",
                "ALTER TABLE command_key ADD PRIMARY KEY (ledger_id, command_key)"
            ),
            (
                "ALTER INDEX event_original RENAME TO other", "no valid index event_original on table event",
                "ALTER INDEX other RENAME TO event_original"
            ),
            (
                "DROP TRIGGER event_no_truncate ON event", "the trigger event_no_truncate on table event is gone", ""
            ),
            (
                """
                CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF false THEN RAISE EXCEPTION 'no'; END IF;
                    RETURN coalesce(NEW, OLD);
                END $$
                """, "the trigger event_append_only on table event does not refuse changes any more",
                ""
            ),
            (
                "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
                "the trigger event_append_only on table event does not refuse changes any more",
                ""
            ),
        ] {
            try await owner.execute(script: change)
            let off = try await LedgerGuards.off(pool)
            #expect(off.contains { $0.hasPrefix(said) }, "\(change): \(off)")
            guard !undo.isEmpty else { continue }
            try await owner.execute(script: undo)
            #expect(try await LedgerGuards.off(pool) == [], "\(undo)")
        }
    }
}
