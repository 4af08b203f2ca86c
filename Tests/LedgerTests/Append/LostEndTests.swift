import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What is remembered of a log that lost its end since, as when a backup is restored or a replica takes over that had not got
/// everything.
@Suite("A log that lost its end", .timeLimit(.minutes(2)))
struct LostEndTests {
    @Test("statements that were lost are written again when they come again", arguments: [1, 40])
    func statements(atOnce: Int) async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let drafts = RandomDrafts(seed: 81, originals: 6).drafts(80)
        func append(_ drafts: ArraySlice<EventDraft>) async throws -> [AppendOutcome] {
            var outcomes: [AppendOutcome] = []
            var rest = drafts
            while !rest.isEmpty {
                let part = rest.prefix(atOnce)
                rest = rest.dropFirst(atOnce)
                outcomes += try await withThrowingTaskGroup(of: AppendOutcome.self) { group in
                    for draft in part { group.addTask { try await ledger.writer.append(draft) } }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
            }
            return outcomes
        }
        _ = try await append(drafts[..<40])
        let end = try await LogEnd.now(of: owner)
        for _ in 0..<2 {
            #expect(try await append(drafts[40...]).allSatisfy { !$0.isDuplicate })
            try await end.restore(by: owner)
        }
        let again = try await append(drafts[...])
        #expect(again.count { $0.isDuplicate } == 40)
        #expect(Set(again.map(\.position)) == Set(1...80))
        try await LogInspection(ledger.database).expectSound("\(atOnce) at once")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("statements that were lost are written again when others stand at their positions by then")
    func regrown() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let drafts = RandomDrafts(seed: 82, originals: 3).drafts(20)
        for draft in drafts[..<10] { _ = try await ledger.writer.append(draft) }
        let end = try await LogEnd.now(of: owner)
        for draft in drafts[10...] { _ = try await ledger.writer.append(draft) }
        try await end.restore(by: owner)
        let other = LedgerWriter(
            pool: ledger.database.pool(), now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
        for number in 0..<15 {
            _ = try await other.append(.grant("other-\(number)", of: "pro", to: "other-\(number)"))
        }
        for draft in drafts[10...] { #expect(try await !ledger.writer.append(draft).isDuplicate) }
        try await LogInspection(ledger.database).expectSound("regrown")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("endpoints of webhooks that were lost are gone, and those made in their places are there")
    func endpoints() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let register = EndpointRegister(pool: ledger.pool, writer: ledger.writer)
        func ids() async throws -> [String] {
            try await register.refresh()
            return register.endpoints.map(\.id)
        }
        _ = try await ledger.writer.append(.endpoint("we_kept"))
        #expect(try await ids() == ["we_kept"])
        let end = try await LogEnd.now(of: owner)
        _ = try await ledger.writer.append(.endpoint("we_lost"))
        #expect(try await ids() == ["we_kept", "we_lost"])
        try await end.restore(by: owner)
        #expect(try await ids() == ["we_kept"])
        _ = try await ledger.writer.append(.endpoint("we_lost_too"))
        #expect(try await ids() == ["we_kept", "we_lost_too"])
        try await end.restore(by: owner)
        // As long as before.
        _ = try await ledger.writer.append(.endpoint("we_new"))
        #expect(try await ids() == ["we_kept", "we_new"])
    }

    @Test("nobody new gets the number of somebody who was lost, and whoever was lost gets a row again")
    func numbers() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "somebody"))
        let end = try await LogEnd.now(of: owner)
        _ = try await ledger.writer.append(.grant("lost", of: "pro", to: "ann"))
        try await end.restore(by: owner)
        // Decided under the head's lock, with what is remembered.
        var draft = EventDraft.grant("kept", of: "pro", to: "ann")
        draft.deduplication = .command(key: "key", requestHash: .zero)
        _ = try await ledger.writer.append(draft)
        for number in 0..<3 { _ = try await ledger.writer.append(.grant("\(number)", of: "pro", to: "new-\(number)")) }
        let owners = try await owner.query(
            "SELECT value FROM event LEFT JOIN identity USING (ledger_id, identity) ORDER BY position"
        ).rows.map { try $0.optionalText(0) }
        #expect(owners == ["somebody", "ann", "new-0", "new-1", "new-2"])
        try await LogInspection(ledger.database).expectSound("numbers")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("what was decided on what was lost since is not recorded")
    func decisions() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "ann"))
        let end = try await LogEnd.now(of: owner)
        let lost = try await ledger.writer.append(.grant("lost", of: "pro", to: "ann")).position
        try await end.restore(by: owner)
        var grant = EventDraft.grant("again", of: "pro", to: "ann")
        grant.unchangedSince = UnchangedSince(lost, customers: ["ann"])
        let answer = StoreRequestFact(
            bundleID: "com.example.app", originalTransactionID: "1", content: .consumption(transactionID: "1", nil),
            outcome: .tooLate, settles: lost)
        for draft in [grant, EventDraft(answer, in: .production, source: .serverAPI)] {
            await #expect(throws: AppendRefusal.conflict) { try await ledger.writer.append(draft) }
        }
        // Nor behind something else in one batch that takes the place of what was lost.
        let unrelated = EventDraft.grant("unrelated", of: "pro", to: "bob")
        let head = LedgerHead(
            position: lost - 1, recordedAt: .earliest, hash: .zero, nextIdentity: 9, catalogPosition: 0)
        for draft in [grant, EventDraft(answer, in: .production, source: .serverAPI)] {
            let plan = AppendPlan(
                [unrelated, draft].map { PreparedEvent($0) }, context: AppendContext(head: head),
                now: Timestamp(milliseconds: Int64(1_800_000_000_000)))
            #expect(plan.events.map(\.position) == [lost] && plan.outcomes.last == .failure(.conflict))
        }
        grant.unchangedSince?.position = lost - 1
        #expect(try await ledger.writer.append(grant).position == lost)
        try await LogInspection(ledger.database).expectSound("decisions")
    }

    @Test("what was decided on what was lost since is not recorded either once the log is as long again")
    func decisionsRegrown() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let kept = try await ledger.writer.append(.grant("first", of: "pro", to: "ann")).end
        let end = try await LogEnd.now(of: owner)
        var lost = kept
        for number in 0..<2 {
            lost = try await ledger.writer.append(.grant("lost \(number)", of: "pro", to: "ann")).end
        }
        try await end.restore(by: owner)
        for number in 0..<3 { _ = try await ledger.writer.append(.grant("new \(number)", of: "pro", to: "bob")) }
        let answer = StoreRequestFact(
            bundleID: "com.example.app", originalTransactionID: "1", content: .consumption(transactionID: "1", nil),
            outcome: .tooLate, settles: lost.position)
        var grant = EventDraft.grant("again", of: "pro", to: "ann")
        var settlement = EventDraft(answer, in: .production, source: .serverAPI)
        grant.unchangedSince = UnchangedSince(lost, customers: ["ann"])
        settlement.unchangedSince = UnchangedSince(lost)
        for draft in [grant, settlement] {
            await #expect(throws: AppendRefusal.conflict) { try await ledger.writer.append(draft) }
        }
        grant.unchangedSince = UnchangedSince(kept, customers: ["ann"])
        #expect(try await ledger.writer.append(grant).position == 5)
        try await LogInspection(ledger.database).expectSound("decisions")
    }
}
