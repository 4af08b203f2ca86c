import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Putting forward what waits for its next try", .timeLimit(.minutes(1)))
struct RetryNowTests {
    /// A ledger with an endpoint to which many customers' deliveries are to be tried again much later, and one that has nothing.
    private static func ledger(_ customers: Int) async throws -> TestLedger {
        let ledger = try await TestLedger()
        try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types)
                SELECT 1, name, 1, '', ARRAY[1, 2]::smallint[] FROM unnest(ARRAY['we_1', 'we_2']) AS name
                """)
            try connection.query(
                """
                INSERT INTO webhook_message (ledger_id, type, app, environment, identity, position, at)
                SELECT 1, 2, '', 1, number, number, clock_timestamp() FROM generate_series(1, $1::bigint) AS number
                """, [.int(Int64(customers))])
            try connection.query(
                """
                INSERT INTO webhook_delivery (
                    ledger_id, endpoint, number, identity, environment, state, attempts, due_at)
                SELECT 1, 'we_1', number, identity, environment, 1, 5, clock_timestamp() + interval '6 h'
                FROM webhook_message
                """)
            _ = try connection.query(
                """
                INSERT INTO webhook_line (ledger_id, endpoint, identity, environment, sequence, waiting)
                SELECT 1, 'we_1', identity, environment, 0, 1 FROM webhook_message
                """)
        }
        return ledger
    }

    /// How many are due, or handed out; and how many of these one transaction made so, with the two that it hands out.
    private static func due(_ ledger: TestLedger) async throws -> (count: Int64, most: Int64, isHurried: Bool) {
        try await ledger.pool.withConnection { connection in
            let row = try connection.query(
                """
                SELECT coalesce(sum(count), 0)::bigint, coalesce(max(count), 0)::bigint,
                    (SELECT is_hurried FROM webhook_endpoint WHERE endpoint = 'we_1')
                FROM (
                    SELECT count(*) AS count FROM webhook_delivery
                    WHERE due_at < clock_timestamp() + interval '1 h' GROUP BY xmin::text
                ) AS page
                """
            ).row(0)
            return (try row.int(0), try row.int(1), try row.bool(2))
        }
    }

    @Test("it is done page by page by the processes that take what is due, and continues where one of them died")
    func pages() async throws {
        let ledger = try await Self.ledger(2600)
        try await ledger.pool.withConnection { connection in
            try connection.transaction { try Outbox.retryNow("we_1", on: $0) }
        }
        #expect(try await Self.due(ledger) == (0, 0, true), "the order itself is one row")
        // Each dies with what it took.
        func take() async throws -> [DueDelivery] {
            let register = DeliveryRegister(
                pool: ledger.database.pool(connections: 1), patience: .seconds(60), retryPage: 1000)
            return try await register.take(limit: 10) { _ in 2 }
        }
        for round in 1...2 {
            #expect(try await take().count == 2)
            let due = try await Self.due(ledger)
            #expect(due.count == Int64(1000 * round) && due.most <= 1002 && due.isHurried, "\(due)")
        }
        #expect(try await take().count == 2)
        let due = try await Self.due(ledger)
        #expect(due.count == 2600 && due.most <= 1002 && !due.isHurried, "\(due)")
        let state = try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT count(*) FILTER (WHERE is_taken), count(*) FILTER (WHERE state = 1),
                    (SELECT due_at <= clock_timestamp() FROM webhook_endpoint WHERE endpoint = 'we_1')
                FROM webhook_delivery
                """
            ).row(0)
        }
        #expect(try state.int(0) == 6 && state.int(1) == 2600 && state.bool(2))
    }

    @Test("what fails while it goes on waits for its own next try, and an endpoint that waits for nothing is soon done")
    func others() async throws {
        let ledger = try await Self.ledger(30)
        try await ledger.pool.withConnection { connection in
            try connection.transaction { connection in
                try Outbox.retryNow("we_1", on: connection)
                try Outbox.retryNow("we_2", on: connection)
            }
        }
        let register = DeliveryRegister(pool: ledger.pool, retryPage: 20)
        let taken = try await register.take(limit: 10) { _ in 64 }
        #expect(taken.count == 20)
        let rest = try await register.take(limit: 10) { _ in 64 }
        #expect(rest.count == 10 && Set((taken + rest).map(\.number)).count == 30)
        try await register.note(
            (taken + rest).map {
                DeliveryOutcome(
                    endpoint: $0.endpoint, number: $0.number, messageID: $0.id, result: .failed(pause: 60_000),
                    at: Timestamp(milliseconds: Int64(1_800_000_000_000)), status: 500, failure: "status 500")
            })
        #expect(try await register.take(limit: 10).isEmpty)
        let marked = try await ledger.pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_endpoint WHERE is_hurried").row(0).int(0)
        }
        #expect(marked == 0)
    }
}
