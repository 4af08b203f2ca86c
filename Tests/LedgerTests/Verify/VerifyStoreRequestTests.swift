import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What the store was told or asked, as the log holds it.
@Suite("What the store was told, in the log")
struct VerifyStoreRequestTests {
    private static func draft(
        settling position: Int64?, _ outcome: StoreRequestFact.Outcome = .accepted, source: EventSource = .serverAPI
    ) -> EventDraft {
        EventDraft(
            StoreRequestFact(
                bundleID: "com.example", originalTransactionID: "20001",
                content: .consumption(transactionID: "20001", nil), outcome: outcome, settles: position),
            in: .production, source: source)
    }

    @Test("a question comes to one end, whoever records it and however it ended")
    func once() async throws {
        let rig = try await VerifyRig(seed: 31, drafts: 4)
        let writer = rig.ledger.writer
        let first = try await writer.append(Self.draft(settling: 2))
        let again = try await writer.append(Self.draft(settling: 2, .tooLate, source: .operatorCommand))
        #expect(!first.isDuplicate && again.isDuplicate && again.position == first.position)
        // Another process, which remembers nothing.
        let other = LedgerWriter(pool: rig.ledger.pool, now: { Timestamp(milliseconds: 1_900_000_000_000) })
        #expect(try await other.append(Self.draft(settling: 2, .refused(code: 1))).position == first.position)
        #expect(try await !other.append(Self.draft(settling: 3)).isDuplicate)
        let free = try await writer.append(Self.draft(settling: nil))
        #expect(try await !writer.append(Self.draft(settling: nil)).isDuplicate && !free.isDuplicate)
        let register = ConsumptionRegister(pool: rig.ledger.pool, holder: "x")
        #expect(try await register.settled([1, 2, 3, 4], knownAt: .none) == [2, 3])
        try await rig.prepare()
        #expect(try await rig.difference() == nil)
    }

    @Test("of several extensions that rest on the same position, one is about to be asked for")
    func extensions() async throws {
        let rig = try await VerifyRig(seed: 33, drafts: 4)
        let key = OriginalKey(environment: .production, originalTransactionID: "20001")
        let position = try await rig.ledger.reader.status().position
        @Sendable func begin(_ name: String, _ writer: LedgerWriter, since position: Int64) async throws -> Bool {
            var draft = EventDraft(
                StoreRequestFact(
                    bundleID: "com.example", originalTransactionID: "20001",
                    content: .renewalExtension(RenewalExtension(days: 7, reason: .other, requestIdentifier: name)),
                    outcome: .pending), in: .production, source: .operatorCommand)
            draft.unchangedSince = UnchangedSince(position, originals: [key])
            do {
                return try await writer.append(draft).position > position
            } catch AppendRefusal.conflict {
                return false
            }
        }
        let other = LedgerWriter(pool: rig.ledger.pool, now: { Timestamp(milliseconds: 1_900_000_000_000) })
        let begun = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<8 {
                let writer = number.isMultiple(of: 2) ? rig.ledger.writer : other
                group.addTask { try await begin("\(number)", writer, since: position) }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(begun == 1)
        #expect(try await begin("later", other, since: rig.ledger.reader.status().position))
        try await rig.prepare()
        #expect(try await rig.difference() == nil)
    }

    /// The serving role may append whatever it likes.
    @Test(
        "one that ends what is to come, or comes from nobody who could have asked, is named",
        arguments: [
            (Int64(7), EventSource.serverAPI), (5, .serverAPI), (2, .device), (2, .notification), (2, .stripeAPI),
        ])
    func forged(settled: Int64, source: EventSource) async throws {
        let rig = try await VerifyRig(seed: 32, drafts: 4)
        try await rig.prepare()
        let position = try await rig.ledger.writer.append(Self.draft(settling: 2, source: source)).position
        // This program's writer refuses what ends what is to come.
        if settled > 2 { try await Self.rewriteLast(rig, settling: position + settled - 5) }
        #expect(try await rig.difference()?.key == "position \(position)")
    }

    private static func rewriteLast(_ rig: VerifyRig, settling position: Int64) async throws {
        var record = try #require(try await rig.ledger.reader.events(after: 0, limit: 1000).events.last?.record)
        let fact = draft(settling: position).fact
        record.facts = FactCodec.encode(fact)
        record.hash = record.computedHash()
        try await rig.owner.run { [record] connection in
            try connection.query(
                "UPDATE event SET facts = $1, dedup_key = $2, hash = $3 WHERE position = $4",
                [
                    .bytes(record.facts), .bytes(fact.dedupKey(in: .production)?.bytes), .bytes(record.hash.bytes),
                    .int(record.position),
                ])
            try connection.query("UPDATE ledger_head SET hash = $1", [.bytes(record.hash.bytes)])
        }
    }
}
