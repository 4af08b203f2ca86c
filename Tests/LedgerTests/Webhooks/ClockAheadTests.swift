import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What is told while a clock is far ahead for a moment, and what of it is set right.
@Suite("Changes of answers under a clock that was ahead", .timeLimit(.minutes(1)))
struct ClockAheadTests {
    enum Story: CaseIterable, Sendable {
        case nothingNew
        /// Another process looks once the clock is right.
        case restarted
        case renewed
        /// Something was recorded meanwhile, so that whatever comes after it is dated ahead as well.
        case datedAhead
        /// Something was read of Stripe meanwhile, which is dated by when it was read.
        case readAhead
    }

    private static let start = Timestamp(milliseconds: Int64(1_790_000_000_000))

    private static func after(days: Int64) -> Timestamp {
        start.adding(milliseconds: days * Timestamp.millisecondsPerDay)
    }

    /// A paid month of ann's, the first or one that renews it.
    private static func month(_ number: Int64) -> EventDraft {
        let begin = after(days: 30 * number)
        let hash = RandomDrafts.digest("month \(number)")
        return EventDraft(
            environment: .production, source: .notification, type: "renewed", occurredAt: begin,
            fact: .notification(
                NotificationFact(
                    type: "DID_RENEW", subtype: nil, uuid: "\(number)", signedDate: begin, payloadHash: hash,
                    bundleID: "com.example",
                    transaction: TransactionFact(
                        payloadHash: hash, signedDate: begin, transactionID: "1-\(number)",
                        originalTransactionID: "1", productID: "com.example.pro", bundleID: "com.example",
                        kind: .known(.autoRenewable), purchaseDate: begin, expiresDate: after(days: 30 * (number + 1)),
                        reason: .known(number == 0 ? .purchase : .renewal), ownership: .known(.purchased),
                        accountToken: IdentityRef(0), appTransaction: nil),
                    renewal: nil, remarks: [])),
            identities: ["ann"], deduplication: .statement(id: "notification:\(number)", payloadHash: hash))
    }

    private static func reading(at instant: Timestamp) -> EventDraft {
        let fact = WebFact(
            type: WebFact.readingLabel, eventID: nil, statedAt: instant, payloadHash: RandomDrafts.digest("reading"),
            originalTransactionID: "pi_9", owners: [WebOwner(place: .purchase, customer: IdentityRef(0))])
        return EventDraft(
            environment: .production, source: .stripeAPI, type: fact.type, occurredAt: instant, fact: .web(fact),
            identities: ["ben"], deduplication: .unique)
    }

    /// What ann's backend was told, in its order.
    private static func told(_ ledger: TestLedger) async throws -> [(before: String, after: String)] {
        try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT message.before, message.after FROM webhook_message AS message
                JOIN identity AS known USING (ledger_id, identity)
                WHERE message.type = 1 AND known.value = 'ann' ORDER BY message.number
                """
            ).rows.map { row in
                (
                    before: String(decoding: try row.bytes(0), as: UTF8.self),
                    after: String(decoding: try row.bytes(1), as: UTF8.self)
                )
            }
        }
    }

    @Test(
        "what a clock that was ahead told is set right once it is right, and what is learned then is read at its time",
        arguments: Story.allCases)
    func setRight(story: Story) async throws {
        let clock = TestClock(Self.start)
        let ledger = try await TestLedger(now: { clock.now })
        var projector = WebhookProjector(ledger)
        /// Looks, and expects that the last that was told is what is answered; returns whether that gives access.
        func look(day: Int64) async throws -> Bool? {
            clock.now = Self.after(days: day)
            while try await projector.step(now: { clock.now }).isUnfinished {}
            let customer = try #require(CustomerID("ann"))
            let facts = try await ledger.reader.customerFacts(customer, environment: .production).facts
            let answers = facts.answers(at: clock.now)
            let told = try await Self.told(ledger)
            #expect(told.last?.after == "\(answers)", "day \(day)")
            for (one, next) in zip(told, told.dropFirst()) { #expect(one.after == next.before, "day \(day)") }
            return answers.first?.givesAccess
        }
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        _ = try await ledger.writer.append(.endpoint("we_1", types: [.entitlementsChanged]))
        _ = try await ledger.writer.append(Self.month(0))
        #expect(try await look(day: 0) == true)
        clock.now = Self.after(days: 200)
        if story == .datedAhead { _ = try await ledger.writer.append(.grant("grant", of: "pro", to: "ben")) }
        if story == .readAhead { _ = try await ledger.writer.append(Self.reading(at: clock.now)) }
        #expect(try await look(day: 200) == false)
        switch story {
        case .nothingNew, .readAhead: #expect(try await look(day: 1) == true)
        case .restarted:
            projector = WebhookProjector(ledger)
            #expect(try await look(day: 1) == true)
        case .renewed, .datedAhead:
            clock.now = Self.after(days: 30)
            _ = try await ledger.writer.append(Self.month(1))
            #expect(try await look(day: 30) == true)
            #expect(try await look(day: 59) == true)
        }
        #expect(try await look(day: 61) == false)
    }

    /// A ledger in which ann has paid for a month; looks at it as of a day, and returns how much she was told by then.
    private static func watched(settle: Duration) async throws -> (TestLedger, look: (Int64) async throws -> Int) {
        let clock = TestClock(start)
        let ledger = try await TestLedger(now: { clock.now })
        let projector = WebhookProjector(ledger, settle: settle)
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        _ = try await ledger.writer.append(.endpoint("we_1", types: [.entitlementsChanged]))
        _ = try await ledger.writer.append(month(0))
        return (
            ledger,
            { day in
                clock.now = after(days: day)
                while try await projector.step(now: { clock.now }).isUnfinished {}
                return try await told(ledger).count
            }
        )
    }

    @Test("a clock that falls behind for a while ends nothing that has begun since")
    func behind() async throws {
        let (ledger, look) = try await Self.watched(settle: .seconds(600))
        let told = try await look(1)
        #expect(told == 1)
        for day in [-400, -3, 2] as [Int64] { #expect(try await look(day) == told, "day \(day)") }
        _ = try await ledger.writer.append(.grant("grant", of: "pro", to: "ben"))
        #expect(try await look(-3) == told, "nor beside what is learned")
        #expect(try await look(31) == told + 1)
    }

    @Test("a clock that is behind what a store has signed ends nothing, however long it goes on")
    func signedLater() async throws {
        let (_, look) = try await Self.watched(settle: .zero)
        let told = try await look(1)
        for day in [-3, -3, 2] as [Int64] { #expect(try await look(day) == told, "day \(day)") }
        #expect(try await look(31) == told + 1)
    }

    @Test("a clock is believed once it has gone on for a while, and anew once it went back")
    func believed() {
        let began = ContinuousClock.now
        let clockAhead = ClockAheadDetector(settle: .seconds(600), at: began)
        #expect(clockAhead.present(Self.start, at: began + .seconds(599)) == nil)
        #expect(clockAhead.present(Self.start, at: began + .seconds(600)) == Self.start)
        // It may be set by less than a minute.
        let earlier = Self.start.adding(milliseconds: -59_000)
        #expect(clockAhead.present(earlier, at: began + .seconds(601)) == earlier)
        let behind = Self.start.adding(milliseconds: -3_600_000)
        #expect(clockAhead.present(behind, at: began + .seconds(602)) == nil)
        #expect(clockAhead.present(behind.adding(milliseconds: 599_000), at: began + .seconds(1201)) == nil)
        #expect(clockAhead.present(behind.adding(milliseconds: 600_000), at: began + .seconds(1202)) != nil)
    }

    @Test("rows are searched at the beginning and when the clock went back, until none lies ahead")
    func searches() {
        let clockAhead = ClockAheadDetector(settle: .zero)
        #expect(clockAhead.isPossible(at: Self.start))
        clockAhead.noteLook(at: Self.start)
        #expect(clockAhead.isPossible(at: Self.start), "nobody has searched yet")
        clockAhead.noteNone(at: Self.start)
        #expect(!clockAhead.isPossible(at: Self.start))
        clockAhead.noteLook(at: Self.after(days: 1))
        #expect(!clockAhead.isPossible(at: Self.after(days: 1).adding(milliseconds: -600_000)))
        clockAhead.noteLook(at: Self.start)
        #expect(clockAhead.isPossible(at: Self.start))
        clockAhead.noteNone(at: Self.start)
        #expect(!clockAhead.isPossible(at: Self.start))
    }
}
