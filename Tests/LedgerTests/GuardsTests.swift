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

    /// The statement that a guard's words say to run, if they do.
    private static func cure(_ words: String) -> String? {
        words.split(separator: "`").map(String.init).last {
            $0.hasPrefix("ALTER ") || $0.hasPrefix("CREATE ")
                || $0.hasPrefix("DROP ") || $0.hasPrefix("REVOKE ")
        }
    }

    /// - Parameter undo: `nil`: what the guard's words say to run.
    @Test("as migrated all guards are on, and each that is off is named with what to do")
    func named() async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let owner = try await database.owner()
        #expect(try await LedgerGuards.off(pool) == [])
        for (change, said, undo) in [
            (
                "ALTER TABLE event DISABLE TRIGGER event_append_only",
                "the trigger event_append_only on table event is off",
                nil
            ),
            (
                "ALTER TABLE event_name ENABLE TRIGGER event_name_no_truncate",
                "the trigger event_name_no_truncate on table event_name can be switched off by a session, as it is not "
                    + "ENABLE ALWAYS",
                nil
            ),
            (
                "GRANT UPDATE (value) ON identity TO PUBLIC", "everybody may UPDATE on table identity",
                nil
            ),
            (
                "GRANT TRUNCATE ON evidence TO pg_monitor", "the role pg_monitor may TRUNCATE on table evidence",
                nil
            ),
            (
                "GRANT CREATE ON SCHEMA public TO PUBLIC",
                "everybody may CREATE in schema public, and so what stands for tables and functions of the ledger's",
                nil
            ),
            (
                "UPDATE ledger_head SET recorded_at = '2100-01-01'", "the last event is dated",
                "UPDATE ledger_head SET recorded_at = 'epoch'"
            ),
            (
                "GRANT INSERT ON erasure TO pg_monitor", "the role pg_monitor may INSERT on table erasure",
                nil
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
                nil
            ),
            (
                "CREATE RULE quiet AS ON INSERT TO erasure DO INSTEAD NOTHING",
                "the rule quiet on table erasure, which `rightful migrate` did not make", nil
            ),
            (
                """
                CREATE FUNCTION twist() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                CREATE TRIGGER twist BEFORE INSERT ON identity FOR EACH ROW EXECUTE FUNCTION twist()
                """, "the trigger twist on table identity, which `rightful migrate` did not make",
                nil
            ),
            (
                "DROP INDEX event_dedup", "no valid unique index on table event (ledger_id, dedup_key)",
                nil
            ),
            (
                """
                DROP INDEX event_ledger_id_dedup_key_idx;
                CREATE UNIQUE INDEX event_dedup ON event (ledger_id, dedup_key) WHERE dedup_key IS NULL
                """, "no valid unique index on table event (ledger_id, dedup_key) WHERE (dedup_key IS NOT NULL)", nil
            ),
            (
                "ALTER TABLE command_key DROP CONSTRAINT command_key_pkey",
                "no valid unique index on table command_key (ledger_id, command_key)",
                nil
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
        ] as [(String, String, String?)] {
            try await owner.execute(script: change)
            let off = try await LedgerGuards.off(pool)
            let words = try #require(off.first { $0.hasPrefix(said) }, "\(change): \(off)")
            guard let undo = undo ?? Self.cure(words), !undo.isEmpty else { continue }
            try await owner.execute(script: undo)
            #expect(try await LedgerGuards.off(pool) == [], "\(undo)")
        }
    }
}
