import EntitlementCore
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// Everything that a superuser can do to the tables behind the ledger's back is found, and named.
@Suite("Verify finds damage")
struct VerifyDamageTests {
    /// A column, and the tables that verification may name for a change in it, the first being the column's own.
    struct Column: Sendable, CustomTestStringConvertible {
        let table: String
        let name: String
        let named: Set<String>
        /// What tells the row in the message, as SQL; where the change moves the row elsewhere there is none.
        let row: String?

        init(_ table: String, _ name: String, row: String? = nil, or others: String...) {
            self.table = table
            self.name = name
            self.row = row
            named = Set(others + [table])
        }

        var testDescription: String { "\(table).\(name)" }
    }

    static let columns: [Column] =
        [
            "recorded_at", "occurred_at", "environment", "source", "type", "original_transaction_id", "transaction_id",
            "product_id", "identity", "other_identity", "dedup_key", "facts", "evidence_sha256", "previous_hash",
            "hash",
            "ledger_id",
        ].map { Column("event", $0, row: "'position ' || position") } + [
            Column("event", "position"),
            Column("evidence", "parts", row: "'position ' || position"),
            Column("evidence", "ledger_id", row: "'position ' || position"), Column("evidence", "position"),
            Column("jws_header", "header", row: "encode(sha256, 'hex')"), Column("jws_header", "sha256"),
            Column("jws_header", "ledger_id", row: "encode(sha256, 'hex')", or: "evidence"),
        ]
        + ["ledger_id", "identity", "environment", "kind", "original_transaction_id"].map {
            Column(
                "event_name", $0,
                row: "'identity ' || identity || ', environment ' || environment || ', kind ' || kind")
        } + [
            Column("event_name", "position"),
            Column("identity", "ledger_id", row: "'identity ' || identity"),
            Column("identity", "identity", or: "ledger_head"),
            Column("original_view", "ledger_id", row: "original_transaction_id"),
            Column("original_view", "generation", row: "original_transaction_id"),
            Column("original_view", "environment"), Column("original_view", "original_transaction_id"),
            Column("original_view", "fold_version", row: "original_transaction_id"),
            Column("original_view", "last_position", row: "original_transaction_id"),
            Column("original_view", "events", row: "original_transaction_id"),
            Column("original_view", "state", row: "original_transaction_id"),
            Column("chart_part", "ledger_id"), Column("chart_part", "level"), Column("chart_part", "number"),
            Column("chart_part", "environment"), Column("chart_part", "chart"),
            Column("chart_part", "cells", row: "'level ' || level || ', number ' || number"),
            Column("ledger_head", "ledger_id"), Column("ledger_head", "position", or: "event"),
            Column("ledger_head", "recorded_at"), Column("ledger_head", "hash"),
            Column("ledger_head", "catalog_position"), Column("ledger_head", "view_generation", or: "original_view"),
        ]

    @Test("one changed byte of any column is found, in any row", arguments: Campaign.seeds(2))
    func columns(seed: UInt64) async throws {
        let rig = try await VerifyRig(seed: seed)
        try await rig.prepare()
        var random = SplitMix64(seed: seed)
        for column in Self.columns {
            for _ in 0..<6 {
                let edit: (sql: String, row: String?)
                do {
                    edit = try await Self.edit(column, rig, &random)
                } catch let error as PostgresError where error.kind == .uniqueViolation {
                    // The changed row would have had the key of another.
                    continue
                }
                let place = "seed \(seed): \(edit.sql)"
                let difference = try await rig.difference()
                #expect(
                    column.named.contains(difference?.table ?? ""), "\(place) gave \(String(describing: difference))")
                if let row = edit.row {
                    #expect(
                        difference?.description.contains(row) == true, "\(place) gave \(String(describing: difference))"
                    )
                }
                try await rig.restore()
            }
        }
        #expect(try await rig.difference() == nil, "seed \(seed)")
    }

    /// Changes one byte, or one unit, of a column in a random row.
    private static func edit(
        _ column: Column, _ rig: VerifyRig, _ random: inout SplitMix64
    ) async throws -> (sql: String, row: String?) {
        let (table, name) = (column.table, column.name)
        let type = try await rig.owner.query(
            """
            SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1::text::regclass
                AND attname = $2::text
            """, [.text(table), .text(name)]
        ).first?.text(0)
        let (byte, bit) = (Int.random(in: 0..<4000, using: &random), Int.random(in: 0..<8, using: &random))
        // A row must take nobody else's place: hence the higher bits of keys.
        let value =
            switch type {
            case "bytea":
                """
                CASE WHEN coalesce(length(\(name)), 0) = 0 THEN '\\x07' ELSE set_byte(\(name), \(byte) % length(\(name)),
                get_byte(\(name), \(byte) % length(\(name))) # \(1 << bit)) END
                """
            case "text":
                """
                CASE WHEN coalesce(length(\(name)), 0) = 0 THEN 'x' ELSE overlay(\(name) placing
                chr(ascii(substr(\(name), \(byte) % length(\(name)) + 1, 1)) # \(table == "original_view" ? 64 : 1 << (bit % 4)))
                from \(byte) % length(\(name)) + 1 for 1) END
                """
            case "timestamp with time zone":
                "coalesce(\(name), 'epoch') + interval '1 \(["microsecond", "millisecond", "day"][bit % 3])'"
            case _ where table == "chart_part" && ["level", "number"].contains(name): "\(name) # \(1 << (6 + bit))"
            case _ where table == name: "\(name) # \(1 << (5 + bit))"
            case _ where name == "position" && ["event", "evidence"].contains(table): "\(name) # \(1 << (12 + bit))"
            default: "coalesce(\(name), 0) # \(1 << bit)"
            }
        let count = try await rig.owner.query("SELECT count(*) FROM \(table)").first?.int(0) ?? 0
        let offset = Int64.random(in: 0..<count, using: &random)
        let target = "(SELECT tableoid, ctid FROM saved_order OFFSET \(offset) LIMIT 1)"
        let from = "WITH saved_order AS (SELECT t.tableoid, t.ctid FROM \(table) AS t ORDER BY t::text)"
        let row = try await rig.owner.query(
            "\(from) SELECT (\(column.row ?? "NULL"))::text FROM \(table) WHERE (tableoid, ctid) = \(target)"
        ).first?.optionalText(0)
        let sql = "\(from) UPDATE \(table) SET \(name) = \(value) WHERE (tableoid, ctid) = \(target)"
        try await rig.owner.execute(script: sql)
        return (sql, row)
    }

    /// Damage of other kinds, and the table that must be named.
    static let scripts: [(name: String, sql: String, table: String)] = [
        (
            "two events swapped",
            "UPDATE event SET position = 1000 WHERE position = 20; UPDATE event SET position = 20 WHERE position = 31;"
                + "UPDATE event SET position = 31 WHERE position = 1000", "event"
        ),
        ("the first event gone", "DELETE FROM event WHERE position = 1", "event"),
        ("an event in the middle gone", "DELETE FROM event WHERE position = 30", "event"),
        ("the last event gone", "DELETE FROM event WHERE position = 61", "event"),
        (
            "the tail gone, and the head set back to fit",
            """
            DELETE FROM event WHERE position > 40;
            UPDATE ledger_head SET (position, hash, recorded_at) =
                (SELECT position, hash, recorded_at FROM event WHERE position = 40)
            """, "evidence"
        ),
        (
            "the tail gone with its evidence, and the head set back to fit",
            """
            DELETE FROM event WHERE position > 40; DELETE FROM evidence WHERE position > 40;
            UPDATE ledger_head SET (position, hash, recorded_at) =
                (SELECT position, hash, recorded_at FROM event WHERE position = 40)
            """, "event_name"
        ),
        (
            "the tail gone with its evidence and names, and the head set back to fit",
            """
            DELETE FROM event WHERE position > 40; DELETE FROM evidence WHERE position > 40;
            DELETE FROM event_name WHERE position > 40;
            UPDATE ledger_head SET (position, hash, recorded_at) =
                (SELECT position, hash, recorded_at FROM event WHERE position = 40)
            """, "original_view"
        ),
        (
            "the tail gone with its evidence, names and views, and the head set back to fit",
            """
            DELETE FROM event WHERE position > 40; DELETE FROM evidence WHERE position > 40;
            DELETE FROM event_name WHERE position > 40; DELETE FROM original_view WHERE last_position > 40;
            UPDATE ledger_head SET (position, hash, recorded_at) =
                (SELECT position, hash, recorded_at FROM event WHERE position = 40)
            """, "projection"
        ),
        (
            "the whole log gone",
            """
            DELETE FROM event; DELETE FROM evidence; DELETE FROM event_name; DELETE FROM original_view;
            UPDATE ledger_head SET position = 0, hash = decode(repeat('00', 32), 'hex'), catalog_position = 0
            """, "ledger_head"
        ),
        ("the head row gone", "DELETE FROM ledger_head", "ledger_head"),
        ("the next number set back", "UPDATE ledger_head SET next_identity = 2", "ledger_head"),
        (
            "two pieces of evidence swapped",
            """
            UPDATE evidence SET parts = other.parts FROM evidence AS other
            WHERE evidence.position + other.position = (SELECT min(position) + max(position) FROM evidence)
                AND evidence.position IN (
                    SELECT min(position) FROM evidence UNION SELECT max(position) FROM evidence)
            """, "evidence"
        ),
        (
            "a piece of evidence gone", "DELETE FROM evidence WHERE position = (SELECT max(position) FROM evidence)",
            "evidence"
        ),
        (
            "evidence for an event that had none",
            "INSERT INTO evidence VALUES (1, 1, '\\x')", "evidence"
        ),
        ("evidence cut short", "UPDATE evidence SET parts = substr(parts, 1, length(parts) - 1)", "evidence"),
        (
            "a header gone",
            "DELETE FROM jws_header WHERE sha256 = (SELECT sha256 FROM jws_header ORDER BY sha256 LIMIT 1)", "evidence"
        ),
        (
            "a view row gone", "DELETE FROM original_view WHERE ctid = (SELECT min(ctid) FROM original_view)",
            "original_view"
        ),
        (
            "a view row of nothing",
            "INSERT INTO original_view SELECT 1, 0, 1, '9', fold_version, 1, 1, state FROM original_view LIMIT 1",
            "original_view"
        ),
        (
            "two views swapped",
            """
            UPDATE original_view SET (last_position, events, state) = (other.last_position, other.events, other.state)
            FROM original_view AS other
            WHERE original_view.environment = 1 AND other.environment = 1
                AND (original_view.original_transaction_id, other.original_transaction_id)
                    IN (('20000', '20001'), ('20001', '20000'))
            """, "original_view"
        ),
        (
            "a dedup key gone",
            "UPDATE event SET dedup_key = NULL WHERE position = (SELECT max(position) FROM event WHERE dedup_key <> '')",
            "event"
        ),
        ("a dedup key of nothing", "UPDATE event SET dedup_key = '\\x00' WHERE position = 1", "event"),
        (
            "two dedup keys swapped",
            """
            CREATE TEMPORARY TABLE swapped AS SELECT position, dedup_key FROM event WHERE position IN (
                SELECT unnest(ARRAY[min(position), max(position)]) FROM event WHERE dedup_key IS NOT NULL);
            UPDATE event SET dedup_key = NULL WHERE position IN (SELECT position FROM swapped);
            UPDATE event SET dedup_key = other.dedup_key FROM swapped AS other
            WHERE event.position IN (SELECT position FROM swapped) AND other.position <> event.position;
            DROP TABLE swapped
            """, "event"
        ),
        ("the first name gone", "DELETE FROM event_name WHERE position = 2", "event_name"),
        (
            "the last name gone", "DELETE FROM event_name WHERE position = (SELECT max(position) FROM event_name)",
            "event_name"
        ),
        (
            "a name that leads to an earlier event",
            "UPDATE event_name SET position = 1 WHERE position = (SELECT max(position) FROM event_name)", "event_name"
        ),
        (
            "a name that leads to a later event of the same",
            """
            UPDATE event_name SET position = event.position FROM event
            WHERE kind = 0 AND event.identity = event_name.identity AND event.environment = event_name.environment
                AND event.original_transaction_id = event_name.original_transaction_id
                AND event.position > event_name.position
            """, "event_name"
        ),
        (
            "a first name twice",
            """
            INSERT INTO event_name SELECT name.ledger_id, name.identity, name.environment, name.kind,
                name.original_transaction_id, max(event.position)
            FROM event_name AS name JOIN event ON event.identity = name.identity
                AND event.environment = name.environment
                AND event.original_transaction_id = name.original_transaction_id
            WHERE kind = 0 GROUP BY 1, 2, 3, 4, 5 HAVING max(event.position) > max(name.position) LIMIT 1
            """, "event_name"
        ),
        ("a name of nothing", "INSERT INTO event_name VALUES (1, 1, 1, 0, '9', 5)", "event_name"),
        ("a name beyond the log", "INSERT INTO event_name VALUES (1, 1, 1, 0, '9', 62)", "event_name"),
        ("a name in another ledger", "UPDATE event_name SET ledger_id = 2 WHERE position = 2", "event_name"),
        ("an earlier catalog", "UPDATE ledger_head SET catalog_position = 0", "ledger_head"),
        ("a catalog of nothing", "UPDATE ledger_head SET catalog_position = 7", "ledger_head"),
        ("another generation", "UPDATE ledger_head SET view_generation = 1", "original_view"),
        ("an identity gone", "DELETE FROM identity WHERE identity = 1", "identity"),
        ("a checkpoint beyond the log", "UPDATE projection SET checkpoint = 62", "projection"),
        (
            "a checkpoint of webhooks beyond the log", "INSERT INTO projection VALUES (1, 'webhook', 1, 62)",
            "projection"
        ),
    ]

    @Test("rows lost, added, swapped or cut are found", arguments: [UInt64(13)])
    func scripts(seed: UInt64) async throws {
        let rig = try await VerifyRig(seed: seed)
        try await rig.prepare()
        for script in Self.scripts {
            try await rig.owner.execute(script: script.sql)
            let difference = try await rig.difference()
            #expect(difference?.table == script.table, "\(script.name): \(String(describing: difference))")
            try await rig.restore()
        }
        #expect(try await rig.difference() == nil)
    }

    @Test("a forgotten identity, or its evidence, that is put back is found")
    func restoredPerson() async throws {
        let rig = try await VerifyRig(seed: 14)
        try await rig.prepare()
        let forgetter = Forgetter(pool: PostgresPool(rig.ledger.database.ownerConninfo), now: { .earliest })
        let customer = try #require(CustomerID("customer-of-20001"))
        #expect(try await forgetter.forget(customer)?.evidence ?? 0 > 2)
        #expect(try await rig.difference() == nil)
        for table in ["identity", "evidence"] {
            let key = table == "identity" ? "identity" : "position"
            try await rig.owner.execute(
                script: """
                    CREATE TABLE saved.back AS SELECT * FROM saved.\(table)
                    WHERE \(key) NOT IN (SELECT \(key) FROM \(table)) LIMIT 1;
                    INSERT INTO \(table) SELECT * FROM saved.back
                    """)
            let difference = try await rig.difference()
            #expect(difference?.table == table, "\(String(describing: difference))")
            try await rig.owner.execute(
                script: "DELETE FROM \(table) WHERE \(key) IN (SELECT \(key) FROM saved.back); DROP TABLE saved.back")
        }
        #expect(try await rig.difference() == nil)
    }
}
