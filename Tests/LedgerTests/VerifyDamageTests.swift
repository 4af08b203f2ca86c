import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// Everything that a superuser can do to the tables behind the ledger's back is found, and named.
@Suite("Damage")
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
            "product_id", "identity", "other_identity", "facts", "evidence_sha256", "previous_hash", "hash",
            "ledger_id",
        ].map { Column("event", $0, row: "'position ' || position") } + [
            Column("event", "position"),
            Column("evidence", "parts", row: "'position ' || position"),
            Column("evidence", "ledger_id", row: "'position ' || position"), Column("evidence", "position"),
            Column("jws_header", "header", row: "encode(sha256, 'hex')"), Column("jws_header", "sha256"),
            Column("jws_header", "ledger_id", row: "encode(sha256, 'hex')", or: "evidence"),
            Column("event_key", "ledger_id", row: "source_id"), Column("event_key", "source_id", row: "source_id"),
            Column("event_key", "payload_sha256", row: "source_id"), Column("event_key", "position", row: "source_id"),
            Column("identity", "ledger_id", row: "'identity ' || identity"),
            Column("identity", "identity", or: "ledger_head"),
            Column("original_view", "ledger_id", row: "original_transaction_id"),
            Column("original_view", "environment"), Column("original_view", "original_transaction_id"),
            Column("original_view", "fold_version", row: "original_transaction_id"),
            Column("original_view", "last_position", row: "original_transaction_id"),
            Column("original_view", "state", row: "original_transaction_id"),
            Column("ledger_head", "ledger_id"), Column("ledger_head", "position", or: "event"),
            Column("ledger_head", "recorded_at"), Column("ledger_head", "hash"),
        ]

    @Test("one changed byte of any column is found, in any row", arguments: [UInt64(11), 12])
    func columns(seed: UInt64) async throws {
        let rig = try await VerifyRig(seed: seed)
        try await rig.prepare()
        var random = SplitMix64(seed: seed)
        for column in Self.columns {
            for _ in 0..<6 {
                let edit = try await Self.edit(column, rig, &random)
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
        // A row must stay within its partition, and take nobody else's place: hence the higher bits of keys.
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
            """, "event_key"
        ),
        (
            "the tail gone with its evidence and keys, and the head set back to fit",
            """
            DELETE FROM event WHERE position > 40; DELETE FROM evidence WHERE position > 40;
            DELETE FROM event_key WHERE position > 40;
            UPDATE ledger_head SET (position, hash, recorded_at) =
                (SELECT position, hash, recorded_at FROM event WHERE position = 40)
            """, "projection"
        ),
        (
            "the whole log gone",
            """
            DELETE FROM event; DELETE FROM evidence; DELETE FROM event_key;
            UPDATE ledger_head SET position = 0, hash = decode(repeat('00', 32), 'hex')
            """, "projection"
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
            "INSERT INTO original_view VALUES (1, 'production', '9', 1, 0, decode(repeat('00', 16), 'hex'))",
            "original_view"
        ),
        (
            "two views swapped",
            """
            UPDATE original_view SET (last_position, state) = (other.last_position, other.state)
            FROM original_view AS other
            WHERE original_view.environment = 'production' AND other.environment = 'production'
                AND (original_view.original_transaction_id, other.original_transaction_id)
                    IN (('20000', '20001'), ('20001', '20000'))
            """, "original_view"
        ),
        ("a key gone", "DELETE FROM event_key WHERE position = (SELECT max(position) FROM event_key)", "event_key"),
        ("a key of nothing", "INSERT INTO event_key VALUES (1, 'notification:x', '\\x00', 5)", "event_key"),
        (
            "two keys swapped",
            """
            UPDATE event_key SET position = bounds.low + bounds.high - position
            FROM (SELECT min(position) AS low, max(position) AS high FROM event_key) AS bounds
            WHERE position IN (bounds.low, bounds.high)
            """, "event_key"
        ),
        ("an identity gone", "DELETE FROM identity WHERE identity = 1", "identity"),
        ("a checkpoint beyond the log", "UPDATE projection SET checkpoint = 62", "projection"),
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

    @Test("what was forgotten and comes back is found")
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

    /// Changes of one event, each with the table in which a chain computed anew does not hide it.
    static let forgeries: [(name: String, table: String, change: @Sendable (inout EventRecord) -> Void)] = [
        ("another product in the column", "event", { $0.productID = "com.example.other" }),
        ("another original transaction in the column", "event", { $0.originalTransactionID = "20009" }),
        ("another transaction in the column", "event", { $0.transactionID = nil }),
        ("another owner in the column", "event", { $0.identity = IdentityRef(2) }),
        ("another second identity in the column", "event", { $0.otherIdentity = IdentityRef(1) }),
        ("a type that is looked for by name", "event", { $0.type = "catalog_applied" }),
        ("an earlier time", "event", { $0.recordedAt = .earliest }),
        ("other evidence", "evidence", { $0.evidenceHash = RandomDrafts.digest("other") }),
        ("no evidence", "evidence", { $0.evidenceHash = nil }),
        (
            "a longer subscription", "original_view",
            { record in
                guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                fact.transaction?.expiresDate = .latest
                record.facts = FactCodec.encode(.notification(fact))
            }
        ),
        (
            "another notification", "event_key",
            { record in
                guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                fact.uuid = "another"
                record.facts = FactCodec.encode(.notification(fact))
            }
        ),
        (
            "an owner nobody knows", "ledger_head",
            { record in
                guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                fact.transaction?.accountToken = IdentityRef(500)
                record.facts = FactCodec.encode(.notification(fact))
                record.identity = IdentityRef(500)
            }
        ),
    ]

    @Test("a forger who computes the whole chain anew is caught by what else the tables say")
    func forgedChain() async throws {
        let rig = try await VerifyRig(seed: 15)
        try await rig.prepare()
        let log = try await rig.ledger.reader.events(after: 0, limit: 1000).events
        let views = try await rig.owner.query("SELECT state FROM original_view").rows.map {
            try OriginalState(encoded: $0.bytes(0))
        }
        let kept = Set(views.flatMap { $0.transactions.map(\.position) })
        // One whose statement its original transaction's view keeps.
        let target = try #require(
            log.last { shown in
                guard case .notification(let fact) = shown.fact else { return false }
                return fact.transaction?.appTransaction != nil && kept.contains(shown.record.position)
            })
        for forgery in Self.forgeries {
            var previous = Digest.zero
            var records = log.map(\.record)
            for index in records.indices {
                if records[index].position == target.record.position { forgery.change(&records[index]) }
                records[index].previousHash = previous
                records[index].hash = records[index].computedHash()
                previous = records[index].hash
            }
            try await Self.write(records, rig)
            let difference = try await rig.difference()
            #expect(difference?.table == forgery.table, "\(forgery.name): \(String(describing: difference))")
            try await rig.restore()
        }
        #expect(try await rig.difference() == nil)
    }

    private static func write(_ records: [EventRecord], _ rig: VerifyRig) async throws {
        let head = try #require(records.last)
        try await rig.owner.run { connection in
            for record in records {
                try connection.query(
                    """
                    UPDATE event SET recorded_at = $2, type = $3, original_transaction_id = $4, transaction_id = $5,
                        product_id = $6, identity = $7, other_identity = $8, facts = $9, evidence_sha256 = $10,
                        previous_hash = $11, hash = $12
                    WHERE position = $1
                    """,
                    [
                        .int(record.position), .timestamp(record.recordedAt.milliseconds), .text(record.type),
                        .text(record.originalTransactionID), .text(record.transactionID), .text(record.productID),
                        .int(record.identity?.number), .int(record.otherIdentity?.number), .bytes(record.facts),
                        .bytes(record.evidenceHash?.bytes), .bytes(record.previousHash.bytes),
                        .bytes(record.hash.bytes),
                    ])
            }
            try connection.query("UPDATE ledger_head SET hash = $1", [.bytes(head.hash.bytes)])
        }
    }
}
