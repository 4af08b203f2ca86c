import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What should keep the log from being changed is looked at, not assumed.
@Suite("Guards of the log")
struct GuardsTests {
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
                "DROP TRIGGER event_no_truncate ON event", "the trigger event_no_truncate on table event is gone", ""
            ),
            (
                "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
                "the trigger event_append_only on table event does not refuse changes any more",
                ""
            ),
        ] {
            try await owner.execute(script: change)
            let off = try await LedgerGuards.off(pool)
            #expect(off.contains(said), "\(change): \(off)")
            guard !undo.isEmpty else { continue }
            try await owner.execute(script: undo)
            #expect(try await LedgerGuards.off(pool) == [], "\(undo)")
        }
    }
}
