import EntitlementCore
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

@Suite("Changes of answers", .timeLimit(.minutes(5)))
struct AnswerChangeTests {
    private static let day = Timestamp.millisecondsPerDay

    /// One change as the table holds it.
    private struct Change: Equatable {
        let key: WatchKey
        let cause: AnswerCause
        let position: Int64
        let instant: Timestamp
        let before: String
        let after: String
    }

    private static func show(_ answers: [EntitlementAnswer]) -> [UInt8] { Array("\(answers)".utf8) }

    private static func projector(
        _ ledger: TestLedger, events: Int64 = 200, customers: Int = 64,
        patience: Duration = .seconds(1)
    ) -> WebhookProjector {
        WebhookProjector(
            pool: ledger.pool, pageEvents: events, pageCustomers: customers, patience: patience, teller: NoTeller(),
            showDrift: { _ in [] },
            show: show)
    }

    /// Steps until nothing is left to do by an instant.
    private static func finish(_ projector: WebhookProjector, at now: Timestamp) async throws {
        while try await projector.step(now: { now }).isUnfinished {}
    }

    private static func changes(_ ledger: TestLedger) async throws -> [Change] {
        try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT app, identity, environment, cause, position, at, before, after FROM webhook_message
                WHERE type = 1 ORDER BY number
                """
            ).rows.map { row in
                Change(
                    key: WatchKey(
                        app: try row.text(0), identity: IdentityRef(try row.int(1)),
                        environment: try StoreEnvironment(stored: row.int(2))),
                    cause: try AnswerCause(stored: row.int(3)), position: try row.int(4),
                    instant: Timestamp(milliseconds: try row.timestamp(5)),
                    before: String(decoding: try row.bytes(6), as: UTF8.self),
                    after: String(decoding: try row.bytes(7), as: UTF8.self))
            }
        }
    }

    /// What a customer is answered.
    private static func answer(
        _ ledger: TestLedger, _ person: String, _ environment: StoreEnvironment, _ app: AppScope?, knownAt: KnownAt,
        at instant: Timestamp
    ) async throws -> String {
        let customer = try #require(CustomerID(person))
        let facts = try await ledger.reader.customerFacts(
            customer, environment: environment, knownAt: knownAt, app: app
        ).facts
        return String(decoding: show(facts.answers(at: instant)), as: UTF8.self)
    }

    @Test(
        "each change begins with what the one before ended with, and the last ends with what is answered",
        arguments: Campaign.seeds(6))
    func chain(seed: UInt64) async throws {
        // Events are dated by the clock that looks at them: what lies ahead of it would be read at its time.
        let clock = TestClock(Timestamp(milliseconds: Int64(1_790_000_000_000)))
        let ledger = try await TestLedger(now: { clock.now })
        var random = SplitMix64(seed: seed)
        var events = RandomOwnershipEvents(seed: seed)
        var begun: [String: (position: Int64, at: Timestamp)] = [:]
        let scopes: [AppScope?] = [nil, AppScope("com.other")]
        let last: Int64 = 80
        var position: Int64 = 0
        func projector() -> WebhookProjector {
            Self.projector(
                ledger, events: Int64.random(in: 1...9, using: &random),
                customers: Int.random(in: 1...5, using: &random),
                patience: Bool.random(using: &random) ? .zero : .seconds(1))
        }
        while position < last {
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                position += 1
                let isCatalog = position == 1 || Int.random(in: 0..<12, using: &random) == 0
                let draft =
                    isCatalog
                    ? TestLedger.catalogDraft(Self.catalog(Int.random(in: 0..<4, using: &random)))
                    : events.draft(at: position)
                #expect(try await ledger.writer.append(draft).position == position)
            }
            clock.now = clock.now.adding(milliseconds: Int64.random(in: 0..<(8 * Self.day), using: &random))
            for scope in scopes where begun[scope?.bundleID ?? ""] == nil && Int.random(in: 0..<3, using: &random) == 0
            {
                position += 1
                let made = try await ledger.writer.append(Self.endpoint(hears: scope))
                #expect(made.position == position)
                let recordedAt = try await ledger.reader.events(after: position - 1, limit: 1).events[0].record
                    .recordedAt
                begun[scope?.bundleID ?? ""] = (position, recordedAt)
            }
            // Now and then it comes no further than a few steps.
            if Bool.random(using: &random) {
                try await Self.finish(projector(), at: clock.now)
            } else {
                for _ in 0..<3 { _ = try await projector().step(now: { clock.now }) }
            }
        }
        // What was bought runs out.
        clock.now = clock.now.adding(milliseconds: 200 * Self.day)
        let now = clock.now
        try await Self.finish(projector(), at: now)
        let changes = try await Self.changes(ledger)
        let names = try await ledger.pool.withConnection { connection in
            try connection.query("SELECT value, identity FROM identity").rows.map {
                (try $0.text(0), IdentityRef(try $0.int(1)))
            }
        }
        for scope in scopes {
            guard let begun = begun[scope?.bundleID ?? ""] else { continue }
            for (name, identity) in names {
                for environment in StoreEnvironment.allCases {
                    let key = WatchKey(app: scope?.bundleID ?? "", identity: identity, environment: environment)
                    let own = changes.filter { $0.key == key }
                    let comment: Comment = "seed \(seed): \(name) \(environment) \(key.app)"
                    for (one, next) in zip(own, own.dropFirst()) {
                        #expect(one.after == next.before, comment)
                        #expect(one.position <= next.position && one.instant <= next.instant, comment)
                    }
                    #expect(own.allSatisfy { $0.before != $0.after && $0.position >= begun.position }, comment)
                    let answered = try await Self.answer(ledger, name, environment, scope, knownAt: .head, at: now)
                    if let end = own.last {
                        #expect(end.after == answered, comment)
                    } else if try await isCustomer(ledger, identity, environment, knownAt: last) {
                        let wasCustomer = try await isCustomer(ledger, identity, environment, knownAt: begun.position)
                        let first =
                            wasCustomer
                            ? try await Self.answer(
                                ledger, name, environment, scope, knownAt: .position(begun.position), at: begun.at)
                            : "[]"
                        #expect(first == answered, comment)
                    }
                    for change in own {
                        let then = try await Self.answer(
                            ledger, name, environment, scope, knownAt: .position(change.position), at: change.instant)
                        #expect(then == change.after, comment)
                    }
                }
            }
        }
        #expect(begun.isEmpty || changes.contains { $0.cause == .event }, "seed \(seed)")
    }

    @Test("an endpoint hears of what ends after it was made, also where its making is followed only then")
    func madeBeforeAnEnd() async throws {
        let clock = TestClock(Timestamp(milliseconds: Int64(1_790_000_000_000)))
        let ledger = try await TestLedger(now: { clock.now })
        let end = clock.now.adding(milliseconds: 10_000)
        _ = try await ledger.writer.append(.endpoint("we_old"))
        _ = try await ledger.writer.append(.grant("1", of: "pro", to: "bob", until: end))
        // Its own end is told of to whoever was there then.
        _ = try await ledger.writer.append(
            .grant("2", of: "day", to: "eve", until: clock.now.adding(milliseconds: 9_000)))
        try await Self.finish(WebhookProjector(ledger), at: clock.now)
        clock.now = end.adding(milliseconds: -100)
        _ = try await ledger.writer.append(.grant("3", of: "other", to: "ann"))
        let made = try await ledger.writer.append(.endpoint("we_new"))
        _ = try await ledger.writer.append(.grant("4", of: "other", to: "cid"))
        clock.now = end.adding(milliseconds: 100)
        try await Self.finish(WebhookProjector(ledger, pageEvents: 1), at: clock.now)
        let told = try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT delivery.endpoint, message.position FROM webhook_message AS message
                JOIN webhook_delivery AS delivery USING (ledger_id, number)
                WHERE message.type = 1 AND message.cause = 3 ORDER BY message.number, delivery.endpoint
                """
            ).rows.map { "\(try $0.text(0)) \(try $0.int(1))" }
        }
        #expect(told == ["we_old 3", "we_new \(made.position)", "we_old \(made.position)"])
    }

    /// Whether no link leads from an identity to another.
    private func isCustomer(
        _ ledger: TestLedger, _ identity: IdentityRef, _ environment: StoreEnvironment, knownAt position: Int64
    ) async throws -> Bool {
        let key = LinkedCustomerKey(identity: identity, environment: environment)
        return try await ledger.pool.withConnection { connection in
            var histories = LinkedCustomerHistories()
            try histories.read([key], on: connection)
            var facts = histories[key]?.facts(knownAt: position)
            return facts?.facts(of: identity).facts.customer == identity
        }
    }

    private static func endpoint(hears scope: AppScope?) -> EventDraft {
        EventDraft(
            environment: nil, source: .api, occurredAt: nil,
            fact: .access(
                .endpoint(
                    EndpointFact(
                        endpointID: "we_\(scope?.bundleID ?? "")",
                        change: .made(
                            EndpointTerms(
                                urlHash: .zero, secretHash: .zero, origin: "https://example.com", types: [],
                                environment: nil, bundleID: scope?.bundleID, format: "standard", description: nil))))),
            identities: [], deduplication: .unique)
    }

    private static func catalog(_ number: Int) -> Catalog {
        Catalog(
            products: [
                CatalogProduct(
                    productID: "com.example.pro", entitlements: number.isMultiple(of: 2) ? ["pro"] : ["pro", "plus"])
            ],
            policy: AccessPolicy(leewaySeconds: number > 1 ? 3600 : 0))
    }
}
