import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Changes of a customer with many names and grants", .timeLimit(.minutes(5)))
struct LinkedNamesTests {
    /// What is measured with `RIGHTFUL_TEST_FACTOR` is a tenth of it without, so that a slow machine is done in time, too.
    private static let (names, grants, last) = Campaign.factor > 1 ? (32, 1520, 40) : (4, 152, 10)
    private static let now = Timestamp(milliseconds: Int64(1_900_000_000_000))

    private static func show(_ answers: [EntitlementAnswer]) -> [UInt8] { Array("\(answers)".utf8) }

    private static func command(_ fact: LedgerFact, _ identities: String...) -> EventDraft {
        EventDraft(
            environment: .production, source: .api, occurredAt: nil, fact: fact, identities: identities,
            deduplication: .unique)
    }

    private static func grant(_ number: Int, to name: String) -> EventDraft {
        command(
            .grant(
                GrantFact(
                    grantID: "grant-\(number)", customer: IdentityRef(0),
                    // What comes last changes the answer.
                    entitlementID: number >= grants - last ? "late-\(number)" : "premium", until: nil, reason: "r")),
            name)
    }

    /// Prints how many events a second are followed: `LinkedNamesTests` says what it is of a customer with many names.
    @Test(
        "whoever has many names, and very many grants, is told of under each name that was told of before, and rightly",
        arguments: [false, true])
    func manyNames(areTold: Bool) async throws {
        let ledger = try await TestLedger()
        let projector = WebhookProjector(pool: ledger.pool, teller: NoTeller(), showDrift: { _ in [] }) {
            Self.show($0)
        }
        func append(_ drafts: [EventDraft]) async throws {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for draft in drafts { group.addTask { _ = try await ledger.writer.append(draft) } }
                try await group.waitForAll()
            }
        }
        func follow() async throws {
            while try await projector.step(now: { Self.now }).isUnfinished {}
        }
        if areTold {
            _ = try await ledger.writer.append(.endpoint("we_1", types: [.entitlementsChanged]))
            try await append((0..<Self.names).map { Self.grant($0, to: "name-\($0)") })
            try await follow()
        }
        try await append(
            (0..<Self.names).map {
                Self.command(.link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), "name-\($0)", "c-1")
            })
        try await append((Self.names..<(Self.grants - Self.last)).map { Self.grant($0, to: "c-1") })
        if !areTold { _ = try await ledger.writer.append(.endpoint("we_1", types: [.entitlementsChanged])) }
        try await follow()
        for number in (Self.grants - Self.last)..<Self.grants {
            _ = try await ledger.writer.append(Self.grant(number, to: "c-1"))
        }
        let start = ContinuousClock.now
        try await follow()
        let seconds = start.duration(to: .now) / .seconds(1)
        print(
            "LinkedNamesTests: \(Self.names) names\(areTold ? ", told of before" : ""), \(Self.grants) grants: "
                + "\((Double(Self.last) / seconds * 10).rounded() / 10) events/s")
        let customer = try #require(CustomerID("c-1"))
        let facts = try await ledger.reader.customerFacts(customer, environment: .production).facts
        let answer = String(decoding: Self.show(facts.answers(at: Self.now)), as: UTF8.self)
        let told = try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT DISTINCT ON (message.identity) known.value, message.after FROM webhook_message AS message
                JOIN identity AS known USING (ledger_id, identity)
                WHERE message.type = 1 ORDER BY message.identity, message.number DESC
                """
            ).rows.map { (try $0.text(0), String(decoding: try $0.bytes(1), as: UTF8.self)) }
        }
        #expect(told.count == (areTold ? Self.names + 1 : 1))
        for (name, after) in told { #expect(after == answer, "\(name)") }
    }

    @Test(
        "what is folded once for all names says of each what is folded for that one alone, whatever app is believed",
        arguments: 1...25 as ClosedRange<UInt64>)
    func equality(seed: UInt64) async throws {
        let ledger = try await TestLedger()
        var events = RandomOwnershipEvents(seed: seed)
        for position in Int64(1)...60 { _ = try await ledger.writer.append(events.draft(at: position)) }
        let keys = try await ledger.pool.withConnection { connection in
            try connection.query("SELECT identity FROM identity").rows.map { IdentityRef(try $0.int(0)) }
        }.flatMap { identity in
            StoreEnvironment.allCases.map { LinkedCustomerKey(identity: identity, environment: $0) }
        }
        let histories = try await ledger.pool.withConnection { connection in
            var histories = LinkedCustomerHistories()
            try histories.read(Set(keys), on: connection)
            return histories
        }
        for app in [nil] + RandomOwnershipEvents.apps.map({ AppScope($0) }) {
            for position in stride(from: Int64(60), through: 0, by: -3) {
                var folded: [LinkedCustomerKey: LinkedFacts] = [:]
                for key in keys.sorted() {
                    let history = try #require(histories[key])
                    let first = LinkedCustomerKey(
                        identity: try #require(history.names.min()), environment: key.environment)
                    var linked = folded[first] ?? history.facts(knownAt: history.lastPosition(at: position), app: app)
                    let facts = linked.facts(of: key.identity).facts
                    folded[first] = linked
                    let alone = CustomerHistory(
                        of: key.identity, environment: key.environment, position: position, events: history.events,
                        app: app
                    ).facts()
                    let comment: Comment =
                        "seed \(seed): \(key.identity) in \(key.environment) at \(position), app \(app?.bundleID ?? "-")"
                    #expect(facts.customer == alone.customer, comment)
                    #expect(facts.originals == alone.originals && facts.ownership == alone.ownership, comment)
                    #expect(Set(facts.grants) == Set(alone.grants), comment)
                    let instant = Timestamp(milliseconds: Int64(1_795_000_000_000))
                    let (answers, until) = FoldedCustomer(facts).answersHolding(at: instant)
                    #expect(answers == alone.answers(at: instant), comment)
                    #expect(until == alone.nextChange(after: instant), comment)
                }
            }
        }
    }
}
