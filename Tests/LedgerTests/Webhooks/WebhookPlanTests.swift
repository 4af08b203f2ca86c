import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Plans of what looks after webhooks", .timeLimit(.minutes(2)))
struct WebhookPlanTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))
    private static let bulk = 20_000

    /// An endpoint that took many messages of the last hours; a few were given up, and a few wait.
    private static func fill(_ ledger: TestLedger) async throws {
        let owner = try await ledger.database.owner()
        try await owner.execute(
            script: """
                ALTER TABLE webhook_message SET (autovacuum_enabled = false);
                ALTER TABLE webhook_delivery SET (autovacuum_enabled = false);
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types)
                VALUES (1, 'we_1', 1, '', ARRAY[1, 2]::smallint[]);
                INSERT INTO webhook_message (ledger_id, type, app, environment, identity, position, at)
                SELECT 1, 2, '', 1, 1 + n, n, to_timestamp(\(now.milliseconds / 1000) - \(bulk) + n)
                FROM generate_series(1, \(bulk)) AS n;
                INSERT INTO webhook_delivery (ledger_id, endpoint, number, identity, environment, state, due_at)
                SELECT 1, 'we_1', number, identity, environment,
                    CASE WHEN number > \(bulk) - 5 THEN 1 WHEN number > \(bulk) - 12 THEN 3 ELSE 2 END,
                    CASE WHEN number > \(bulk) - 5 THEN clock_timestamp() + interval '1 h' END
                FROM webhook_message
                """)
    }

    /// How the session runs what it has prepared that reads like this.
    private static func plan(_ pattern: String, _ pool: PostgresPool) async throws -> String {
        try await pool.withConnection { connection in
            let found = try connection.query(
                """
                SELECT name, cardinality(parameter_types)::bigint FROM pg_prepared_statements
                WHERE statement LIKE $1 AND statement NOT LIKE '%pg_prepared_statements%'
                """, [.text(pattern)]
            ).rows
            let row = try #require(found.first, "nothing reads like \(pattern)")
            let values = [String](repeating: "NULL", count: Int(try row.int(1))).joined(separator: ", ")
            return try connection.query("EXPLAIN (COSTS off) EXECUTE \"\(row.text(0))\"(\(values))").rows
                .map { try $0.text(0) }.joined(separator: "\n")
        }
    }

    @Test("what waits, was given up or is old is found by indexes, however much was delivered")
    func plans() async throws {
        let ledger = try await TestLedger()
        try await Self.fill(ledger)
        let owner = try await ledger.database.owner()
        for state in ["never analysed", "analysed"] {
            if state == "analysed" { try await owner.execute(script: "ANALYZE") }
            // One session, so that it knows every statement.
            let pool = ledger.database.pool(connections: 1)
            let list = DeliveryList(pool: pool)
            let register = EndpointRegister(pool: pool, writer: ledger.writer)
            #expect(try await !list.prune(now: Self.now).isMore)
            let standing = try await register.standings(of: ["we_1"])["we_1"]
            #expect(standing?.waiting == 5 && standing?.failed == 7)
            for (listed, count) in [(DeliveryState.failed, 7), (.waiting, 5)] {
                #expect(try await list.deliveries(of: "we_1", after: 0, limit: 100, state: listed).count == count)
            }
            #expect(try await list.redeliver(.failed, to: "we_1", after: Int64(Self.bulk)).count == 0)
            try await owner.execute(script: "UPDATE webhook_endpoint SET clock_at = clock_timestamp() + interval '1 h'")
            #expect(try await DeliveryRegister(pool: pool).hurryAfterClockAhead() == ["we_1"])
            for (pattern, index) in [
                ("SELECT number FROM webhook_message%at < %", "webhook_message_at"),
                ("SELECT endpoint.endpoint, endpoint.failing_since%", "webhook_delivery_waiting"),
                ("SELECT endpoint.endpoint, endpoint.failing_since%", "webhook_delivery_failed"),
                ("SELECT delivery.number, delivery.state%state = 3%", "webhook_delivery_failed"),
                ("SELECT delivery.number, delivery.state%state = 1%", "webhook_delivery_waiting"),
                ("WITH chosen%", "webhook_delivery_failed"),
                ("UPDATE webhook_delivery SET due_at = clock_timestamp() + make_interval%", "webhook_delivery_due"),
            ] {
                let plan = try await Self.plan(pattern, pool)
                #expect(plan.contains(index), "\(state), \(pattern): \(plan)")
                for table in ["message", "delivery"] {
                    #expect(!plan.contains("Seq Scan on webhook_\(table)"), "\(state), \(pattern): \(plan)")
                }
            }
            await pool.close()
        }
    }

    @Test(
        "what is noted costs no more where much waits of which the statistics know nothing", arguments: [false, true])
    func noting(_ isAnalysed: Bool) async throws {
        let ledger = try await TestLedger()
        let (owner, bulk, noted) = (try await ledger.database.owner(), 6_000, 64)
        try await owner.execute(
            script: """
                ALTER TABLE webhook_delivery SET (autovacuum_enabled = false);
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types)
                VALUES (1, 'we_1', 1, '', ARRAY[1, 2]::smallint[]);
                INSERT INTO webhook_message (ledger_id, type, app, environment, identity, position, at)
                SELECT 1, 2, '', 1, 1 + n / 2, n, clock_timestamp() FROM generate_series(1, \(bulk)) AS n;
                INSERT INTO webhook_delivery (ledger_id, endpoint, number, identity, environment, state)
                SELECT 1, 'we_1', number, identity, environment, 2 FROM webhook_message;
                \(isAnalysed ? "ANALYZE;" : "")
                UPDATE webhook_delivery SET state = 1,
                    due_at = CASE WHEN number % 2 = 0 OR number = 1 THEN clock_timestamp() END;
                INSERT INTO webhook_line (ledger_id, endpoint, identity, environment, sequence, waiting)
                SELECT 1, 'we_1', identity, environment, 0, count(*) FROM webhook_message GROUP BY identity, environment;
                UPDATE webhook_endpoint SET due_at = clock_timestamp();
                """)
        // One session, which tells what it has read when it is asked to.
        let pool = ledger.database.pool(connections: 1)
        func read() async throws -> Int64 {
            _ = try await pool.withConnection { try $0.query("SELECT pg_stat_force_next_flush()") }
            return try await pool.withConnection { connection in
                try connection.query(
                    """
                    SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'webhook_delivery'
                    """
                ).row(0).int(0)
            }
        }
        let register = DeliveryRegister(pool: pool)
        let due = try await register.take(limit: noted)
        try #require(due.count == noted)
        let before = try await read()
        let instant = Timestamp(milliseconds: Int64(1_800_000_000_000))
        try await register.note(
            due.map {
                DeliveryOutcome(
                    endpoint: $0.endpoint, number: $0.number, messageID: $0.id, result: .delivered, at: instant,
                    status: 200, failure: nil)
            })
        #expect(try await read() - before < Int64(noted * 20))
        // The second of each customer is due now; the first message is its customer's only one.
        let left = try await owner.query(
            "SELECT count(*) FROM webhook_delivery WHERE due_at <= clock_timestamp() AND NOT is_taken"
        ).row(0).int(0)
        #expect(left == Int64(bulk / 2 + 1 - noted + noted - 1))
        await pool.close()
    }

    @Test("a page of what is old goes whatever the order of its numbers, and what is not old stays")
    func numbers() async throws {
        let ledger = try await TestLedger()
        try await Self.fill(ledger)
        // As after a failover, or with clocks that differ: the last ones are the oldest.
        let owner = try await ledger.database.owner()
        try await owner.execute(
            script: """
                UPDATE webhook_message SET at = at - interval '40 days' WHERE number > \(Self.bulk) - 8
                """)
        let list = DeliveryList(pool: ledger.pool)
        var undelivered: Int64 = 0
        while true {
            let pruning = try await list.prune(now: Self.now, limit: 3)
            undelivered += pruning.undelivered["we_1"] ?? 0
            if !pruning.isMore { break }
        }
        #expect(undelivered == 5)
        for table in ["webhook_message", "webhook_delivery"] {
            let left = try await ledger.pool.withConnection { connection in
                try connection.query("SELECT count(*), max(number) FROM \(table)").row(0)
            }
            #expect(try left.int(0) == Int64(Self.bulk - 8) && left.int(1) == Int64(Self.bulk - 8), "\(table)")
        }
    }

    @Test("where nothing is due, looking for it is one statement and no transaction")
    func idle() async throws {
        let ledger = try await TestLedger()
        try await Self.fill(ledger)
        let pool = ledger.database.pool(connections: 1)
        let register = DeliveryRegister(pool: pool)
        for _ in 0..<3 { #expect(try await register.take(limit: 10).isEmpty) }
        let executions = try await pool.withConnection { connection in
            try connection.query(
                """
                SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements
                WHERE statement LIKE '%FROM webhook_endpoint%' AND statement NOT LIKE '%pg_prepared_statements%'
                """
            ).rows.map { (sql: try $0.text(0), count: try $0.int(1)) }
        }
        #expect(executions.map(\.count) == [3] && executions[0].sql.hasPrefix("SELECT EXISTS"), "\(executions)")
        try await ledger.database.owner().execute(script: "UPDATE webhook_delivery SET due_at = now() WHERE state = 1")
        try await ledger.database.owner().execute(script: "UPDATE webhook_endpoint SET due_at = now()")
        #expect(try await register.take(limit: 10).count == 5)
        await pool.close()
    }
}
