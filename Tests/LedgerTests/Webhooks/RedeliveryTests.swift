import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Sending again", .timeLimit(.minutes(1)))
struct RedeliveryTests {
    private static let begin = Timestamp(milliseconds: Int64(1_800_000_000_000))

    /// A ledger with an endpoint that took many messages: one a second, each about the position of its number.
    private static func ledger(_ messages: Int) async throws -> TestLedger {
        let ledger = try await TestLedger()
        try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types)
                VALUES (1, 'we_1', 1, '', ARRAY[1, 2]::smallint[])
                """)
            try connection.query(
                """
                INSERT INTO webhook_message (ledger_id, type, app, environment, identity, position, at)
                SELECT 1, 2, '', 1, 1 + number % 7, number, $1 + number * interval '1 s'
                FROM generate_series(1, $2::bigint) AS number
                """, [.timestamp(begin.milliseconds), .int(Int64(messages))])
            try connection.query(
                """
                INSERT INTO webhook_delivery (ledger_id, endpoint, number, identity, environment, state, attempts)
                SELECT 1, 'we_1', number, identity, environment, 2, 1 FROM webhook_message
                """)
            _ = try connection.query(
                """
                INSERT INTO webhook_line (ledger_id, endpoint, identity, environment, sequence, waiting)
                SELECT DISTINCT 1, 'we_1', identity, environment, 0, 0 FROM webhook_message
                """)
        }
        return ledger
    }

    /// The positions of what waits, and how many transactions made it wait.
    private static func waiting(_ ledger: TestLedger) async throws -> (positions: [Int64], transactions: Int64) {
        try await ledger.pool.withConnection { connection in
            let rows = try connection.query(
                """
                SELECT message.position FROM webhook_delivery AS delivery
                JOIN webhook_message AS message USING (ledger_id, number) WHERE delivery.state = 1 ORDER BY 1
                """
            ).rows
            return (
                try rows.map { try $0.int(0) },
                try connection.query(
                    "SELECT count(DISTINCT xmin::text) FROM webhook_delivery WHERE state = 1"
                ).row(0).int(0)
            )
        }
    }

    @Test("many are done page by page, in transactions of bounded size, and the answer leads on behind what is done")
    func pages() async throws {
        let ledger = try await Self.ledger(2600)
        let list = DeliveryList(pool: ledger.pool)
        let first = try await list.redeliver(.positions(1...2600), to: "we_1", limit: 1700)
        #expect(first.count == 1700)
        let next = try #require(first.next)
        let (positions, transactions) = try await Self.waiting(ledger)
        #expect(positions == Array(1...1700) && transactions >= 4, "\(transactions)")
        let rest = try await list.redeliver(.positions(1...2600), to: "we_1", after: next, limit: 1700)
        #expect(rest == Redelivered(count: 900, next: nil))
        #expect(try await Self.waiting(ledger).positions == Array(1...2600))
        let (due, lines) = try await ledger.pool.withConnection { connection in
            (
                try connection.query("SELECT count(*) FROM webhook_delivery WHERE due_at IS NOT NULL").row(0).int(0),
                try connection.query("SELECT sum(waiting)::bigint FROM webhook_line").row(0).int(0)
            )
        }
        #expect(due == 7, "of each customer one at a time")
        #expect(lines == 2600)
    }

    @Test(
        "a span of time, one message, and what was given up are found; what is already waiting is hurried, not doubled")
    func choices() async throws {
        let ledger = try await Self.ledger(40)
        let list = DeliveryList(pool: ledger.pool)
        func instant(_ second: Int64) -> Timestamp { Self.begin.adding(milliseconds: second * 1000) }
        #expect(
            try await list.redeliver(.span(since: instant(10), until: instant(13)), to: "we_1").count == 3)
        #expect(try await Self.waiting(ledger).positions == [10, 11, 12], "without the instant where it ends")
        #expect(try await list.redeliver(.span(since: instant(39), until: nil), to: "we_1").count == 2)
        #expect(try await list.redeliver(.span(since: instant(39), until: nil), to: "we_1").count == 0)
        let id = try await ledger.pool.withConnection { connection in
            try connection.query(
                "UPDATE webhook_delivery SET state = 3 WHERE number IN (SELECT number FROM webhook_message WHERE position = 20)"
            )
            try connection.query(
                "UPDATE webhook_delivery SET due_at = clock_timestamp() + interval '1 h' WHERE due_at IS NOT NULL")
            return try connection.query("SELECT id::text FROM webhook_message WHERE position = 5").row(0).text(0)
        }
        #expect(try await list.holds(id, to: "we_1"))
        #expect(try await !list.holds(id, to: "we_2"))
        #expect(try await list.redeliver(.message(id), to: "we_1").count == 1)
        // Four customers' first ones wait for their next try, one of them behind the message from before.
        let failed = try await list.redeliver(.failed, to: "we_1").count
        let late = try await ledger.pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_delivery WHERE due_at > clock_timestamp()").row(0).int(0)
        }
        #expect(failed > 1 && late == 0)
        #expect(try await Self.waiting(ledger).positions == [5, 10, 11, 12, 20, 39, 40])
    }

    @Test(
        "one command sends each delivery again once, however often and at once it is carried out, and whoever dies in it"
    )
    func once() async throws {
        let ledger = try await Self.ledger(6000)
        let list = DeliveryList(pool: ledger.database.pool(connections: 4))
        let now = Self.begin
        func command(_ key: String, _ request: String = "a") -> KeyedCommand {
            KeyedCommand(key: key, requestHash: RandomDrafts.digest(request), now: now)
        }
        let interrupted = Task {
            try await list.redeliver(.positions(1...6000), to: "we_1", limit: 5500, once: command("k"))
        }
        while try await Self.waiting(ledger).positions.count < 500 { try await Task.sleep(for: .milliseconds(1)) }
        interrupted.cancel()
        _ = try? await interrupted.value
        // What was done by then is sent meanwhile.
        try await ledger.pool.withConnection { connection in
            try connection.query("UPDATE webhook_delivery SET state = 2, status = 299 WHERE state = 1")
            _ = try connection.query("UPDATE webhook_line SET waiting = 0")
        }
        let answers = try await withThrowingTaskGroup(of: Redelivered.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try await list.redeliver(.positions(1...6000), to: "we_1", limit: 5500, once: command("k"))
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(answers).count == 1 && answers[0].count == 5500, "\(answers)")
        let (waiting, again) = try await ledger.pool.withConnection { connection in
            (
                try connection.query("SELECT sum(waiting)::bigint FROM webhook_line").row(0).int(0),
                try connection.query(
                    "SELECT count(*) FROM webhook_delivery WHERE state = 1 OR status = 299"
                ).row(0).int(0)
            )
        }
        #expect(again == 5500)
        #expect(try await Self.waiting(ledger).positions.count == Int(waiting) && waiting <= 5000)
        await #expect(throws: AppendRefusal.idempotencyConflict) {
            try await list.redeliver(.failed, to: "we_1", once: command("k", "b"))
        }
        let rest = try await list.redeliver(
            .positions(1...6000), to: "we_1", after: try #require(answers[0].next), once: command("l"))
        #expect(rest == Redelivered(count: 500, next: nil))
        #expect(try await list.redeliver(.positions(7000...7001), to: "we_1", once: command("m")).count == 0)
    }
}
