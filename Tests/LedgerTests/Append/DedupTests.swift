import EntitlementCore
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// What a writer remembers, and what makes two deliveries one event, in batches of either kind.
@Suite("Duplicates and memory")
struct DedupTests {
    private static func run(
        _ drafts: [EventDraft], _ memory: WriterMemory, on ledger: TestLedger
    ) async throws -> [AppendOutcome] {
        let outcome = try await ledger.pool.withConnection { connection in
            try AppendTransaction.run(
                drafts.map { PreparedEvent($0) }, inDoubt: nil, memory: memory, lease: ReadLease(),
                now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) }, on: connection)
        }
        guard case .committed(let plan) = outcome else { throw LedgerError(.unavailable, "not committed") }
        return try plan.outcomes.map { try $0.get() }
    }

    /// Batches this small are inserted, larger ones copied.
    @Test(
        "one id and payload is one event, another payload one of its own, within a batch and across writers",
        arguments: [4, 60])
    func duplicates(size: Int) async throws {
        let ledger = try await TestLedger()
        let drafts = RandomDrafts(seed: 51, originals: 5).drafts(size)
        let impostors = drafts.enumerated().map { index, draft in
            draft.posing(as: "uuid-51-\(index)", payloadHash: RandomDrafts.digest("impostor \(index)"))
        }
        let memory = WriterMemory()
        // Each twice, and its impostor twice, in one batch.
        let batch = drafts + impostors + drafts + impostors
        let first = try await Self.run(batch, memory, on: ledger)
        let fresh = (0..<size).map { AppendOutcome(position: Int64($0 + 1), isDuplicate: false) }
        let reused = (0..<size).map {
            AppendOutcome(position: Int64(size + $0 + 1), isDuplicate: false, idIsReused: true)
        }
        let again = (0..<(2 * size)).map { AppendOutcome(position: Int64($0 + 1), isDuplicate: true) }
        #expect(first == fresh + reused + again)
        // The same again, by this writer and by one that remembers nothing.
        for memory in [memory, WriterMemory()] {
            #expect(try await Self.run(batch, memory, on: ledger) == again + again)
        }
        // A third payload under each id, across batches.
        let third = drafts.enumerated().map { index, draft in
            draft.posing(as: "uuid-51-\(index)", payloadHash: RandomDrafts.digest("third \(index)"))
        }
        let outcomes = try await Self.run(third, WriterMemory(), on: ledger)
        #expect(outcomes.allSatisfy { !$0.isDuplicate && $0.idIsReused })
        let remarked = try await ledger.reader.events(after: 0, limit: 1000).events.filter {
            $0.fact.remarks == ["id_reused"]
        }
        #expect(remarked.map(\.record.position) == Array(Int64(size + 1)...Int64(3 * size)))
        try await LogInspection(ledger.database).expectSound("batches of \(size)")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("what the store was asked is settled once, whoever settles it, within a batch and across writers")
    func settledOnce() async throws {
        let ledger = try await TestLedger()
        let memory = WriterMemory()
        let asked = try await Self.run(RandomDrafts(seed: 53, originals: 1).drafts(1), memory, on: ledger)
        let settlement = EventDraft(
            StoreRequestFact(
                bundleID: "com.example", originalTransactionID: "1",
                content: .renewalExtension(RenewalExtension(days: 5, reason: .serviceIssue, requestIdentifier: "r")),
                outcome: .accepted, settles: asked[0].position, order: StoreRequestOrder(actor: "", reason: "")),
            in: .production, source: .api)
        let ways: [Deduplication] = [
            settlement.deduplication, .unique, .command(key: "k1", requestHash: .zero),
            .command(key: "k2", requestHash: .zero),
        ]
        let drafts = ways.map { way in
            var draft = settlement
            draft.deduplication = way
            return draft
        }
        let first = try await Self.run(Array(drafts[1...]), memory, on: ledger)
        #expect(first.map(\.position) == [2, 2, 2] && first.map(\.isDuplicate) == [false, true, true])
        for memory in [memory, WriterMemory()] {
            for draft in drafts {
                let again = try await Self.run([draft], memory, on: ledger)
                #expect(again.map(\.position) == [2] && again[0].isDuplicate, "\(draft.deduplication)")
            }
        }
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("a writer that remembered a person's number does not use it once they are forgotten", arguments: [1, 60])
    func forgottenMeanwhile(size: Int) async throws {
        let ledger = try await TestLedger()
        let forgetter = Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
        let drafts = RandomDrafts(seed: 52, originals: 1).drafts(4 * size)
        let customer = try #require(CustomerID("customer-of-20000"))
        let memories = [WriterMemory(), WriterMemory()]
        _ = try await Self.run(Array(drafts[..<size]), memories[0], on: ledger)
        _ = try await Self.run(Array(drafts[size..<(2 * size)]), memories[1], on: ledger)
        _ = try #require(try await forgetter.forget(customer))
        // The one that writes next, and the one that writes after somebody else has.
        _ = try await Self.run(Array(drafts[(2 * size)..<(3 * size)]), memories[0], on: ledger)
        _ = try await Self.run(Array(drafts[(3 * size)...]), memories[1], on: ledger)
        let log = try await ledger.reader.events(after: 0, limit: 1000).events
        let before = Set(log.prefix(2 * size).compactMap(\.record.identity))
        let after = Set(log.suffix(2 * size).compactMap(\.record.identity))
        #expect(before.count == 1 && after.count == 1 && before.isDisjoint(with: after))
        #expect(log.suffix(2 * size).allSatisfy { $0.customerID == customer.value })
        try await ViewInspection(ledger.database).expectTrueNames("after forgetting")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("appends that race with forgetting give nobody a number that was erased", arguments: [UInt64(53), 54])
    func racingForgets(seed: UInt64) async throws {
        let ledger = try await TestLedger()
        let forgetter = Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
        // The first three hundred, and more until somebody was forgotten three times meanwhile.
        let drafts = RandomDrafts(seed: seed, originals: 3).drafts(6000)
        let isDone = Tally()
        let forgotten = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                var random = SplitMix64(seed: seed)
                while isDone.count < 3 {
                    let customer = try #require(CustomerID("customer-of-2000\(Int.random(in: 0..<3, using: &random))"))
                    if try await forgetter.forget(customer) != nil { forgotten.add() }
                }
            }
            for number in 0..<3 {
                group.addTask {
                    defer { isDone.add() }
                    var limits = LedgerWriter.Limits()
                    limits.batchEvents = [1, 10, 64][number]
                    let writer = LedgerWriter(
                        pool: ledger.database.pool(connections: 1), limits: limits,
                        now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
                    try await withThrowingTaskGroup(of: Void.self) { appends in
                        for (index, draft) in drafts.enumerated() where index % 3 == number {
                            if index >= 300, forgotten.count > 2 { break }
                            if index >= 120 { try await appends.next() }
                            appends.addTask { _ = try await writer.append(draft) }
                        }
                        try await appends.waitForAll()
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(forgotten.count > 2, "seed \(seed): nothing was raced")
        var erased: Set<IdentityRef> = []
        for event in try await ViewInspection(ledger.database).events() {
            if let fact = event.fact.forgetting {
                erased.formUnion(fact.identities)
            } else {
                #expect(
                    erased.isDisjoint(with: event.fact.identities),
                    "seed \(seed): event \(event.record.position) names somebody forgotten")
            }
        }
        try await ViewInspection(ledger.database).expectTrueNames("seed \(seed)")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }
}
