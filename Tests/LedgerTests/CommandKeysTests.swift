import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Idempotency keys")
struct CommandKeysTests {
    private static let noon = Timestamp(milliseconds: Int64(1_800_000_000_000))
    private static let dayLater = noon.adding(milliseconds: Timestamp.millisecondsPerDay)

    private static func digest(_ text: String) -> Digest { RandomDrafts.digest(text) }

    @Test("a key that was taken answers the same for a day, refuses another request, and is free again after it")
    func lifetime() async throws {
        let keys = CommandKeys(pool: try await TestDatabase.make().pool())
        let hash = Self.digest("a")
        #expect(try await keys.find(key: "k", requestHash: hash, now: Self.noon) == nil)
        let record = try await keys.remember(key: "k", requestHash: hash, about: nil, now: Self.noon)
        #expect(record == CommandRecord(requestHash: hash, position: 0, recordedAt: Self.noon))
        let lastMoment = Self.dayLater.adding(milliseconds: -1)
        for now in [Self.noon, lastMoment] {
            #expect(try await keys.remember(key: "k", requestHash: hash, about: nil, now: now) == record)
            #expect(try await keys.find(key: "k", requestHash: hash, now: now) == record)
            await #expect(throws: AppendRefusal.idempotencyConflict) {
                try await keys.remember(key: "k", requestHash: Self.digest("b"), about: nil, now: now)
            }
            await #expect(throws: AppendRefusal.idempotencyConflict) {
                try await keys.find(key: "k", requestHash: Self.digest("b"), now: now)
            }
        }
        #expect(try await keys.find(key: "k", requestHash: Self.digest("b"), now: Self.dayLater) == nil)
        let again = try await keys.remember(key: "k", requestHash: Self.digest("b"), about: nil, now: Self.dayLater)
        #expect(again == CommandRecord(requestHash: Self.digest("b"), position: 0, recordedAt: Self.dayLater))
    }

    @Test("those that no longer count are found by an index, and deleted by their keys, however many there are")
    func plan() async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        try await owner.execute(
            script: """
                ALTER TABLE command_key SET (autovacuum_enabled = false);
                INSERT INTO command_key SELECT 1, 'key-' || n, '\\x00', 0, to_timestamp(\(Self.noon.milliseconds / 1000) + n)
                FROM generate_series(1, 20000) AS n
                """)
        for state in ["never analysed", "analysed"] {
            if state == "analysed" { try await owner.execute(script: "ANALYZE command_key") }
            // One session, so that it knows the statement.
            let pool = database.pool(connections: 1)
            let isFirst = state == "never analysed"
            let now = Self.dayLater.adding(milliseconds: isFirst ? 100_000 : 200_000)
            #expect(try await CommandKeys(pool: pool).deleteExpired(now: now) == 100)
            let plan = try await pool.withConnection { connection in
                let name = try connection.query(
                    "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'DELETE FROM command_key%'"
                ).row(0).text(0)
                return try connection.query("EXPLAIN (COSTS off) EXECUTE \"\(name)\"(1, NULL)").rows
                    .map { try $0.text(0) }.joined(separator: "\n")
            }
            #expect(plan.contains("command_key_recorded") && !plan.contains("Seq Scan"), "\(state): \(plan)")
            await pool.close()
        }
    }

    @Test("of many that take a key at once, by several instances, one does, and all get its record")
    func race() async throws {
        let database = try await TestDatabase.make()
        let instances = (0..<3).map { _ in CommandKeys(pool: database.pool()) }
        for round in 0..<5 {
            // The last rounds meet a key that has expired.
            let (key, start) = ("k\(round % 3)", Self.noon.adding(milliseconds: Int64(round / 3) * 90_000_000))
            let records = try await withThrowingTaskGroup(of: CommandRecord.self) { group in
                for number in 0..<24 {
                    group.addTask {
                        try await instances[number % 3].remember(
                            key: key, requestHash: Self.digest("same"), about: nil,
                            now: start.adding(milliseconds: Int64(number)))
                    }
                }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            #expect(records.count == 1, "round \(round): \(records)")
        }
    }

    @Test("a key of a command with an event and one of a command without are one and the same")
    func shared() async throws {
        let ledger = try await TestLedger(now: { Self.noon })
        let keys = CommandKeys(pool: ledger.pool)
        let hash = Self.digest("put")
        let draft = TestLedger.catalogDraft(TestLedger.catalog, deduplication: .command(key: "k", requestHash: hash))
        let position = try await ledger.writer.append(draft).position
        let found = try await keys.find(key: "k", requestHash: hash, now: Self.noon)
        #expect(found?.position == position)
        await #expect(throws: AppendRefusal.idempotencyConflict) {
            try await keys.remember(key: "k", requestHash: Self.digest("token"), about: nil, now: Self.noon)
        }
        _ = try await keys.remember(key: "l", requestHash: Self.digest("token"), about: nil, now: Self.noon)
        await #expect(throws: AppendRefusal.idempotencyConflict) {
            try await ledger.writer.append(
                TestLedger.catalogDraft(TestLedger.catalog, deduplication: .command(key: "l", requestHash: hash)))
        }
    }

    @Test("two spellings of one character are two keys, in one batch as in two")
    func spellings() async throws {
        let ledger = try await TestLedger(now: { Self.noon })
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        #expect(composed == decomposed, "Swift takes them for the same")
        let batch = [composed, decomposed, composed].map { key in
            PreparedEvent(
                TestLedger.catalogDraft(
                    TestLedger.catalog, deduplication: .command(key: key, requestHash: Self.digest("same"))))
        }
        for isAgain in [false, true] {
            let outcome = try await ledger.pool.withConnection { connection in
                try AppendTransaction.run(
                    batch, inDoubt: nil, memory: WriterMemory(), lease: ReadLease(), now: { Self.noon }, on: connection)
            }
            guard case .committed(let plan) = outcome else {
                Issue.record("the commit was not answered")
                return
            }
            let outcomes = try plan.outcomes.map { try $0.get() }
            #expect(outcomes.map(\.position) == [1, 2, 1])
            #expect(outcomes.map(\.isDuplicate) == [isAgain, isAgain, true])
        }
        let keys = CommandKeys(pool: ledger.pool)
        for (key, position) in [(composed, Int64(1)), (decomposed, 2)] {
            let found = try await keys.find(key: key, requestHash: Self.digest("same"), now: Self.noon)
            #expect(found?.position == position)
        }
    }

    @Test("keys that no longer count are deleted, the others are not, and one that is being taken is not waited for")
    func deletion() async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let keys = CommandKeys(pool: pool)
        try await database.owner().execute(
            script: """
                INSERT INTO command_key SELECT 1, 'old' || n, '', 0, to_timestamp(1799913600)
                FROM generate_series(1, 12000) AS n
                """)
        let justKept = Self.noon.adding(milliseconds: 1)
        _ = try await keys.remember(key: "new", requestHash: Self.digest("a"), about: nil, now: justKept)
        let holder = try await PostgresConnection.connect(database.serveConninfo)
        try await holder.execute(script: "BEGIN; SELECT FROM command_key WHERE command_key = 'old7' FOR UPDATE")
        #expect(try await keys.deleteExpired(now: Self.dayLater) == 11_999)
        try await holder.execute(script: "COMMIT")
        #expect(try await keys.deleteExpired(now: Self.dayLater) == 1)
        #expect(try await keys.deleteExpired(now: Self.dayLater) == 0)
        #expect(try await keys.find(key: "new", requestHash: Self.digest("a"), now: Self.dayLater) != nil)
    }
}
