import EntitlementCore
import PostgresClient
import SeededRandom
import Synchronization
import TestSupport
import Testing

@testable import Ledger

@Suite("The register of deliveries", .timeLimit(.minutes(2)))
struct DeliveryRegisterTests {
    /// What receivers were sent, in the order in which it came.
    private final class Receivers: Sendable {
        struct Sent: Hashable {
            let endpoint: String
            let number: Int64
            let customer: String?
            let environment: StoreEnvironment?
            let sequence: Int64?
            let before: [UInt8]?
            let after: [UInt8]?
        }

        private let log = Mutex<[Sent]>([])
        /// Whether nothing more is appended.
        let isWritten = Mutex(false)

        var sent: [Sent] { log.withLock { $0 } }

        func receive(_ delivery: DueDelivery) {
            log.withLock {
                $0.append(
                    Sent(
                        endpoint: delivery.endpoint, number: delivery.number, customer: delivery.customerID,
                        environment: delivery.environment, sequence: delivery.sequence, before: delivery.change?.before,
                        after: delivery.change?.after))
            }
        }
    }

    private static let endpoints: [(id: String, types: [MessageType], environment: StoreEnvironment?)] = [
        ("we_all", [], nil), ("we_changes", [.entitlementsChanged], nil), ("we_sandbox", [], .sandbox),
        ("we_events", [.eventRecorded], .production),
    ]

    private static func made(_ endpoint: (id: String, types: [MessageType], environment: StoreEnvironment?))
        -> EventDraft
    {
        EventDraft(
            environment: nil, source: .api, occurredAt: nil,
            fact: .access(
                .endpoint(
                    EndpointFact(
                        endpointID: endpoint.id,
                        change: .made(
                            EndpointTerms(
                                urlHash: .zero, secretHash: .zero, origin: "https://example.com",
                                types: endpoint.types.map(\.rawValue).sorted(), environment: endpoint.environment,
                                bundleID: nil, format: "standard", description: nil))))),
            identities: [], deduplication: .unique)
    }

    /// Adds an endpoint and a message that is due to it.
    static func addMessage(to ledger: TestLedger) async throws {
        _ = try await ledger.pool.withConnection { connection in
            try connection.query(
                "INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types) VALUES (1, 'we', 1, '', '{2}')"
            )
            try connection.query(
                """
                INSERT INTO webhook_message (ledger_id, type, app, environment, identity, position, at)
                VALUES (1, 2, '', 1, 0, 1, clock_timestamp())
                """)
            try connection.query("UPDATE webhook_endpoint SET due_at = clock_timestamp()")
            try connection.query(
                """
                INSERT INTO webhook_delivery (ledger_id, endpoint, number, identity, environment, due_at)
                SELECT 1, 'we', number, 0, 1, clock_timestamp() FROM webhook_message
                """)
        }
    }

    @Test("what is read to be sent, and given back, is of the messages handed out, whatever has their numbers since")
    func lostContents() async throws {
        let ledger = try await TestLedger()
        try await Self.addMessage(to: ledger)
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "ann"))
        let register = DeliveryRegister(pool: ledger.pool)
        let due = try await register.take(limit: 1)
        let message = try #require(due.first)
        let ann = IdentityRef(1)
        let contents = try await ledger.reader.contents(of: due, events: [.whole: [1]], people: [ann])
        #expect(contents.names == [ann: "ann"] && contents.events[.whole]?.map(\.record.position) == [1])
        let owner = try await ledger.database.owner()
        func isGivenBack() async throws -> Bool {
            try await register.giveBack([(endpoint: message.endpoint, number: message.number, messageID: message.id)])
            return try await ledger.pool.withConnection { connection in
                try connection.query("SELECT NOT is_taken FROM webhook_delivery").row(0).bool(0)
            }
        }
        // Another has its number.
        try await owner.execute(script: "UPDATE webhook_message SET id = gen_random_uuid()")
        for (events, people) in [([:], [ann]), ([.whole: [1]], [])] as [([LogScope: Set<Int64>], Set<IdentityRef>)] {
            let error = await #expect(throws: LedgerError.self) {
                try await ledger.reader.contents(of: due, events: events, people: people)
            }
            #expect(error?.code == .unavailable)
        }
        #expect(try await !isGivenBack())
        try await owner.execute(script: "UPDATE webhook_message SET id = '\(message.id)'")
        #expect(try await isGivenBack())
    }

    @Test("what came of a message that the database has lost says nothing of the one that has its number since")
    func lostMessage() async throws {
        let ledger = try await TestLedger()
        try await Self.addMessage(to: ledger)
        let register = DeliveryRegister(pool: ledger.pool)
        let due = try #require(try await register.take(limit: 1).first)
        func state(after messageID: String) async throws -> Int64 {
            try await register.note([
                DeliveryOutcome(
                    endpoint: due.endpoint, number: due.number, messageID: messageID, result: .delivered,
                    at: Timestamp(milliseconds: Int64(1_800_000_000_000)), status: 200, failure: nil)
            ])
            return try await ledger.pool.withConnection { connection in
                try connection.query("SELECT state FROM webhook_delivery").row(0).int(0)
            }
        }
        #expect(try await state(after: "00000000-0000-4000-8000-000000000000") == 1)
        #expect(try await state(after: due.id) == 2)
    }

    @Test(
        "each endpoint hears of each customer in order and of everything, though senders die and receivers refuse",
        arguments: 1...4 as ClosedRange<UInt64>)
    func order(seed: UInt64) async throws {
        let ledger = try await TestLedger()
        let receivers = Receivers()
        var events = RandomOwnershipEvents(seed: seed)
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        for endpoint in Self.endpoints { _ = try await ledger.writer.append(Self.made(endpoint)) }
        let first = Int64(Self.endpoints.count + 2)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for sender in 0..<3 {
                group.addTask {
                    var random = SplitMix64(seed: seed * 10 + UInt64(sender))
                    let register = DeliveryRegister(
                        pool: ledger.database.pool(connections: 1), patience: .milliseconds(300))
                    var idle = 0
                    while idle < 3 {
                        let due = try await register.take(limit: 3, total: 5)
                        let isOver = receivers.isWritten.withLock { $0 }
                        if due.isEmpty, isOver, try await Self.waiting(ledger) == 0 { idle += 1 }
                        if due.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
                        var outcomes: [DeliveryOutcome] = []
                        for delivery in due {
                            // Dies before it is sent, or after; or is refused, or taken.
                            let luck =
                                isOver ? Int.random(in: 2..<10, using: &random) : Int.random(in: 0..<10, using: &random)
                            if luck == 0 { continue }
                            let isTaken = luck > 3
                            if isTaken { receivers.receive(delivery) }
                            if luck == 1 { continue }
                            let now = Timestamp(milliseconds: Int64(1_795_000_000_000))
                            outcomes.append(
                                DeliveryOutcome(
                                    endpoint: delivery.endpoint, number: delivery.number, messageID: delivery.id,
                                    result: isTaken ? .delivered : .failed(pause: 0), at: now,
                                    status: isTaken ? 200 : 500, failure: isTaken ? nil : "status 500"))
                        }
                        try await register.note(outcomes)
                    }
                }
            }
            group.addTask {
                let now = Timestamp(milliseconds: Int64(1_800_000_000_000))
                let projector = WebhookProjector(
                    pool: ledger.database.pool(connections: 1), pageEvents: 7, teller: NoTeller(),
                    showDrift: { _ in [] }
                ) {
                    Array("\($0)".utf8)
                }
                while !receivers.isWritten.withLock({ $0 }) {
                    let progress = try await projector.step(now: { now })
                    if !progress.isUnfinished { try await Task.sleep(for: .milliseconds(5)) }
                }
            }
            for position in first..<(first + 70) {
                #expect(try await ledger.writer.append(events.draft(at: position)).position == position)
            }
            let projector = WebhookProjector(pool: ledger.pool, teller: NoTeller(), showDrift: { _ in [] }) {
                Array("\($0)".utf8)
            }
            while true {
                let progress = try await projector.step(now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
                if case .done = progress { break }
            }
            receivers.isWritten.withLock { $0 = true }
            try await group.waitForAll()
        }
        try await expectEverything(ledger, receivers.sent, "seed \(seed)")
    }

    @Test("a delivery that becomes due while others are being taken is handed out later")
    func dueMeanwhile() async throws {
        let ledger = try await TestLedger()
        let endpoints = (0..<100).map { "we_\($0)" }
        try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types)
                SELECT 1, endpoint, 1, '', ARRAY[7]::smallint[] FROM unnest($1::text[]) AS endpoint
                """, [.textArray(endpoints)])
            for endpoint in endpoints {
                _ = try Outbox.test(endpoint, body: Array("{}".utf8), at: Timestamp(milliseconds: 1), on: connection)
            }
        }
        let register = DeliveryRegister(pool: ledger.pool)
        for round in 0..<20 {
            // A look at that many takes some 20 ms.
            try await ledger.pool.withConnection { connection in
                try connection.query("UPDATE webhook_endpoint SET due_at = clock_timestamp()")
                _ = try connection.query(
                    "UPDATE webhook_delivery SET due_at = clock_timestamp() + random() * interval '20 ms'")
            }
            let taken = try await register.take(limit: endpoints.count)
            let forgotten = try await ledger.pool.withConnection { connection in
                try connection.query(
                    """
                    SELECT endpoint FROM webhook_endpoint AS endpoint JOIN webhook_delivery AS waiting USING (endpoint)
                    WHERE endpoint.due_at IS NULL OR endpoint.due_at > waiting.due_at
                    """
                ).rows.map { try $0.text(0) }
            }
            #expect(forgotten.isEmpty, "round \(round), in which \(taken.count) were handed out")
        }
    }

    private static func waiting(_ ledger: TestLedger) async throws -> Int64 {
        try await ledger.pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_delivery WHERE state = 1").row(0).int(0)
        }
    }

    private func expectEverything(_ ledger: TestLedger, _ sent: [Receivers.Sent], _ comment: Comment) async throws {
        let (deliveries, lines) = try await ledger.pool.withConnection { connection in
            (
                try connection.query(
                    "SELECT endpoint, number FROM webhook_delivery WHERE state = 2 ORDER BY endpoint, number"
                ).rows.map { "\(try $0.text(0)) \(try $0.int(1))" },
                try connection.query("SELECT count(*) FROM webhook_line WHERE waiting <> 0").row(0).int(0)
            )
        }
        #expect(Set(sent.map { "\($0.endpoint) \($0.number)" }) == Set(deliveries), comment)
        #expect(lines == 0, comment)
        #expect(!deliveries.isEmpty, comment)
        for (line, all) in Dictionary(
            grouping: sent, by: { "\($0.endpoint) \($0.customer ?? "-") \(String(describing: $0.environment))" })
        {
            guard all.first?.customer != nil else { continue }
            // Sent again, it comes before anything newer.
            var newest: Int64 = 0
            for one in all {
                #expect(one.number >= newest, "\(line): \(comment)")
                newest = max(newest, one.number)
            }
            let changes = all.filter { $0.sequence != nil }
            var last: Receivers.Sent?
            for one in changes where one.number != last?.number {
                #expect(one.sequence == (last?.sequence ?? 0) + 1, "\(line): \(comment)")
                if let last { #expect(one.before == last.after, "\(line): \(comment)") }
                last = one
            }
        }
        let sandbox = sent.filter { $0.endpoint == "we_sandbox" }
        #expect(sandbox.allSatisfy { $0.environment != .production }, comment)
        #expect(sent.filter { $0.endpoint == "we_changes" }.allSatisfy { $0.sequence != nil }, comment)
    }
}
