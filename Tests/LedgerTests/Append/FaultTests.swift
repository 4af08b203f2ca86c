import EntitlementCore
import Foundation
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What the network, the server and stopped programs do to appends.
@Suite("Appends under faults", .serialized)
struct FaultTests {
    private static let commit: [String] = ["catalog", "statement", "expected catalog", "command"]

    private static func draft(_ kind: String) -> EventDraft {
        switch kind {
        case "catalog": TestLedger.catalogDraft(TestLedger.catalog)
        case "expected catalog": TestLedger.catalogDraft(TestLedger.catalog, expected: 0)
        case "command":
            TestLedger.catalogDraft(
                TestLedger.catalog, deduplication: .command(key: "k", requestHash: RandomDrafts.digest("r")))
        default: RandomDrafts(seed: 11, originals: 1).drafts(1)[0]
        }
    }

    @Test(
        "a commit whose answer is lost is found again, and one that never reached the server is made again, once",
        arguments: [CuttingProxy.Cut.answerToCommit, .requestToCommit], commit)
    func lostCommit(cut: CuttingProxy.Cut, kind: String) async throws {
        let database = try await TestDatabase.make()
        let proxy = try CuttingProxy(database.serveConninfo, cut: cut)
        defer { proxy.stop() }
        let pool = PostgresPool(proxy.conninfo)
        let writer = LedgerWriter(pool: pool, now: { .earliest })
        #expect(try await writer.append(Self.draft(kind)) == AppendOutcome(position: 1, isDuplicate: false))
        #expect(proxy.cuts == 1)
        #expect(try await LedgerReader(pool: pool, now: { .latest }).status().position == 1)
    }

    @Test("a program that stopped while sending a batch loses the head, and the others go on")
    func stalledSender() async throws {
        let database = try await TestDatabase.make()
        let stalled = try RawSession(database.serveConninfo)
        try stalled.execute(withoutSync: ["BEGIN", "SELECT position FROM ledger_head FOR UPDATE"])
        let pool = Self.impatientPool(database)
        var limits = LedgerWriter.Limits()
        limits.stalledMilliseconds = 300
        let writer = LedgerWriter(pool: pool, limits: limits, now: { .earliest })
        #expect(!stalled.isEnded(within: 0))
        #expect(try await writer.append(Self.draft("statement")).position == 1)
        #expect(stalled.isEnded(within: 1000))
    }

    @Test("a program that stopped between reading and writing loses the head, and reads never wait for it")
    func stalledReader() async throws {
        let database = try await TestDatabase.make()
        let pool = Self.impatientPool(database)
        let stalled = try await PostgresConnection.connect(
            database.serveConninfo, options: ConnectionOptions(idleInTransactionTimeoutMilliseconds: 500))
        try await stalled.execute(script: "BEGIN; SELECT position FROM ledger_head FOR UPDATE")
        let reader = LedgerReader(pool: pool, now: { .latest })
        let customer = try #require(CustomerID("c"))
        #expect(try await reader.customerFacts(customer, environment: .production).position == 0)
        #expect(try await reader.status().position == 0)
        #expect(await stalled.isInTransaction)
        let writer = LedgerWriter(pool: pool, now: { .earliest })
        #expect(try await writer.append(Self.draft("statement")).position == 1)
        await #expect(throws: PostgresError.self) {
            try await stalled.execute(script: "UPDATE ledger_head SET position = 7; COMMIT")
        }
        #expect(try await reader.status().position == 1)
    }

    private static func impatientPool(_ database: TestDatabase) -> PostgresPool {
        PostgresPool(database.serveConninfo, options: ConnectionOptions(lockTimeoutMilliseconds: 400))
    }

    @Test("an event is dated when its turn comes, not when it began to wait")
    func datedUnderLock() async throws {
        let clock = TestClock(Timestamp(milliseconds: Int64(1_000_000)))
        let ledger = try await TestLedger(now: { clock.now })
        let holder = try await ledger.database.owner()
        try await holder.execute(script: "BEGIN; SELECT position FROM ledger_head FOR UPDATE")
        async let outcome = ledger.writer.append(Self.draft("statement"))
        try await ledger.database.untilASessionWaits()
        clock.now = Timestamp(milliseconds: Int64(9_000_000))
        try await holder.execute(script: "COMMIT")
        _ = try await outcome
        #expect(try await ledger.reader.status().recordedAt == clock.now)
    }

    @Test("connections cut anywhere and sessions ended at random lose nothing acknowledged and write nothing twice")
    func cutAnywhere() async throws {
        let seed: UInt64 = 21
        let database = try await TestDatabase.make()
        let proxy = try CuttingProxy(database.serveConninfo, cut: .randomly(seed: seed, within: 60_000))
        defer { proxy.stop() }
        let drafts = RandomDrafts(seed: seed, originals: 7).drafts(300 * Campaign.factor)
        let writers = (0..<3).map { number in
            // Clocks apart by a minute.
            LedgerWriter(
                pool: PostgresPool(proxy.conninfo, limits: PostgresPool.Limits(connections: 3)),
                now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) + Int64(number) * 60_000) })
        }
        let assassin = Task {
            let owner = try await database.owner()
            while !Task.isCancelled {
                try await owner.query(
                    """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5
                    """)
                try? await Task.sleep(for: .milliseconds(30))
            }
        }
        var acknowledged: [Int: Int64] = [:]
        for (round, writer) in writers.enumerated() {
            if round == writers.count - 1 {
                assassin.cancel()
                _ = try await assassin.value
                proxy.calm()
            }
            await withTaskGroup(of: (Int, Int64?).self) { group in
                for (index, draft) in drafts.enumerated() {
                    group.addTask { [writer = writers[(index + round) % writers.count]] in
                        (index, try? await writer.append(draft).position)
                    }
                }
                for await case (let index, let position?) in group {
                    #expect(acknowledged[index] ?? position == position, "seed \(seed): \(index) moved")
                    acknowledged[index] = position
                }
            }
            await writer.drain()
        }
        #expect(proxy.cuts > 3, "nothing was tested")
        #expect(acknowledged.count == drafts.count, "seed \(seed)")
        #expect(Set(acknowledged.values) == Set(1...Int64(drafts.count)), "seed \(seed)")
        try await LogInspection(database).expectSound("seed \(seed)")
    }

    @Test("no more appends wait than the limit says; those that do are carried out when the head is free")
    func boundedQueue() async throws {
        let database = try await TestDatabase.make()
        let holder = try await database.owner()
        try await holder.execute(script: "BEGIN; SELECT position FROM ledger_head FOR UPDATE")
        var limits = LedgerWriter.Limits()
        (limits.waiting, limits.batchEvents) = (20, 5)
        let writer = LedgerWriter(pool: database.pool(), limits: limits, now: { .earliest })
        let drafts = RandomDrafts(seed: 13, originals: 3).drafts(60)
        let (done, refused) = await withTaskGroup(of: Result<AppendOutcome, any Error>.self) { group in
            for draft in drafts {
                group.addTask {
                    do { return .success(try await writer.append(draft)) } catch { return .failure(error) }
                }
            }
            var (done, refused) = (0, 0)
            for await result in group {
                switch result {
                case .success: done += 1
                case .failure(let error):
                    #expect((error as? LedgerError)?.code == .unavailable)
                    refused += 1
                    // As many wait as can, beside one batch of at most 5 at the head, which is freed only now.
                    if refused == 35 { try? await holder.execute(script: "COMMIT") }
                }
            }
            return (done, refused)
        }
        #expect((20...25).contains(done) && done + refused == drafts.count, "\(done) done, \(refused) refused")
        try await LogInspection(database).expectSound("after a full queue")
    }
}
