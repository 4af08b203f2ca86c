import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// The database's clock goes back, or a server takes over whose clock is behind.
@Suite("Deliveries that a clock which was ahead has put off", .timeLimit(.minutes(1)))
struct ClockBackTests {
    private static func outcome(_ delivery: DueDelivery, hold: Int64? = nil) -> DeliveryOutcome {
        DeliveryOutcome(
            endpoint: delivery.endpoint, number: delivery.number, messageID: delivery.id, result: .failed(pause: 5000),
            at: delivery.at, status: 503, failure: "status 503", hold: hold)
    }

    /// Whatever the database's clock has said to the endpoint, it has said an hour later.
    private static func advance(_ ledger: TestLedger) async throws {
        try await ledger.database.owner().execute(
            script: """
                UPDATE webhook_delivery SET due_at = due_at + interval '1 h';
                UPDATE webhook_endpoint SET due_at = due_at + interval '1 h', held_until = held_until + interval '1 h',
                    clock_at = clock_at + interval '1 h'
                """)
    }

    @Test(
        "what failed is tried again at once, also where its receiver had asked to be left alone",
        arguments: [nil, 60_000] as [Int64?])
    func failed(hold: Int64?) async throws {
        let ledger = try await TestLedger()
        try await DeliveryRegisterTests.addMessage(to: ledger)
        let register = DeliveryRegister(pool: ledger.pool)
        let delivery = try #require(try await register.take(limit: 1).first)
        try await register.note([Self.outcome(delivery, hold: hold)])
        #expect(try await register.hurryAfterClockAhead().isEmpty)
        #expect(try await register.take(limit: 1).isEmpty)
        try await Self.advance(ledger)
        #expect(try await register.take(limit: 1).isEmpty)
        #expect(try await register.hurryAfterClockAhead() == ["we"])
        #expect(try await register.take(limit: 1).map(\.number) == [delivery.number])
        #expect(try await register.hurryAfterClockAhead().isEmpty)
    }

    @Test("what a process took that died is another's once it has had its time")
    func taken() async throws {
        let ledger = try await TestLedger()
        try await DeliveryRegisterTests.addMessage(to: ledger)
        let register = DeliveryRegister(pool: ledger.pool)
        #expect(try await register.take(limit: 1).count == 1)
        try await Self.advance(ledger)
        #expect(try await register.hurryAfterClockAhead() == ["we"])
        #expect(try await register.take(limit: 1).isEmpty)
        let left = try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT delivery.due_at - clock_timestamp() < interval '91 s', endpoint.due_at <= delivery.due_at
                FROM webhook_delivery AS delivery JOIN webhook_endpoint AS endpoint USING (ledger_id, endpoint)
                """
            ).row(0)
        }
        #expect(try left.bool(0) && left.bool(1))
    }

    @Test("a message that came while the clock was ahead, and was not sent in that time, is sent")
    func told() async throws {
        let ledger = try await TestLedger()
        try await DeliveryRegisterTests.addMessage(to: ledger)
        let projector = WebhookProjector(
            pool: ledger.pool, teller: NoTeller(), showDrift: { _ in [] }, show: { _ in [] })
        let register = DeliveryRegister(pool: ledger.pool)
        let first = try await register.take(limit: 1)
        try await register.giveBack(first.map { (endpoint: $0.endpoint, number: $0.number, messageID: $0.id) })
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "ann"))
        while try await projector.step(now: { .earliest }).isUnfinished {}
        try await Self.advance(ledger)
        #expect(try await register.take(limit: 1).isEmpty)
        #expect(try await register.hurryAfterClockAhead() == ["we"])
        #expect(try await !register.take(limit: 1).isEmpty)
    }
}
