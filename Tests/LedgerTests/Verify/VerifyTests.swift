import EntitlementCore
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

@Suite("Verifying")
struct VerifyTests {
    @Test("an empty ledger and a full one are as they must be, and a role that may only read can tell")
    func intact() async throws {
        let empty = try await TestLedger()
        #expect(try await Verifier(pool: empty.pool, derive: nil).run().position == 0)

        let rig = try await VerifyRig(seed: 1)
        try await rig.owner.execute(
            script: """
                DO $$ BEGIN CREATE ROLE only_reads LOGIN IN ROLE pg_read_all_data;
                EXCEPTION WHEN duplicate_object THEN NULL; END $$
                """)
        let before = try await rig.fingerprint()
        let pool = PostgresPool(rig.ledger.database.ownerConninfo + " options='-c role=only_reads'")
        let reached = Mutex<[VerificationProgress.Stage: Int64]>([:])
        let summary = try await Verifier(pool: pool, limits: rig.verifier.limits, derive: nil) { progress in
            reached.withLock { $0[progress.stage] = progress.done }
        }.run()
        let status = try await rig.ledger.reader.status()
        #expect(summary.position == status.position && summary.hash == status.hash)
        #expect(summary.views > 5 && summary.outdatedViews == 0 && summary.missingViews == 0)
        #expect(summary.evidence > 40 && summary.erasedEvidence == 0)
        #expect(reached.withLock { $0[.log] } == status.position)
        #expect(reached.withLock { $0[.views] } == summary.views)
        let names = try await rig.owner.query("SELECT count(*) FROM event_name").first?.int(0)
        #expect(reached.withLock { $0[.names] } == names)
        #expect(try await rig.fingerprint() == before)
    }

    @Test("stopped anywhere, it has changed nothing and holds nothing")
    func stopped() async throws {
        let rig = try await VerifyRig(seed: 2)
        let before = try await rig.fingerprint()
        let total = Mutex(0)
        _ = try await Verifier(pool: rig.ledger.pool, limits: rig.verifier.limits, derive: nil) { _ in
            total.withLock { $0 += 1 }
        }.run()
        let last = total.withLock { $0 }
        #expect(last > 15)
        for stop in 0..<last {
            let pages = Mutex(0)
            let task = Mutex<Task<VerificationSummary, any Error>?>(nil)
            let verifier = Verifier(pool: rig.ledger.pool, limits: rig.verifier.limits, derive: nil) { _ in
                let page = pages.withLock { pages in
                    pages += 1
                    return pages
                }
                if page == stop { task.withLock { $0?.cancel() } }
            }
            let running = task.withLock { task in
                let running = Task { try await verifier.run() }
                task = running
                return running
            }
            if stop == 0 { running.cancel() }
            await #expect(throws: CancellationError.self, "page \(stop)") { try await running.value }
        }
        #expect(try await rig.fingerprint() == before)
        let open = try await rig.owner.query(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL")
        #expect(try open.first?.int(0) == 1, "only this question is a transaction")
    }

    @Test("views of another fold version, or not made yet, are no difference; their number is told")
    func incomplete() async throws {
        let rig = try await VerifyRig(seed: 3)
        let all = try await rig.verifier.run().views
        try await rig.owner.execute(
            script: """
                UPDATE projection SET version = 0;
                UPDATE original_view SET fold_version = 0, state = '\\x00' WHERE environment = 2;
                DELETE FROM original_view WHERE ctid = (
                    SELECT min(ctid) FROM original_view WHERE environment = 1)
                """)
        let summary = try await rig.verifier.run()
        #expect(summary.missingViews == 1 && summary.outdatedViews > 0)
        #expect(summary.views + summary.outdatedViews + summary.missingViews == all)
    }

    @Test("three writers, a forgetting and a rebuild beside it raise no false alarm", arguments: [UInt64(4), 5])
    func besideWriters(seed: UInt64) async throws {
        let rig = try await VerifyRig(seed: seed)
        let isDone = Flag()
        let runs = try await withThrowingTaskGroup(of: Int.self) { group in
            group.addTask {
                var runs = 0
                repeat {
                    _ = try await rig.verifier.run()
                    runs += 1
                } while !isDone.isRaised
                return runs
            }
            try await withThrowingTaskGroup(of: Void.self) { writers in
                for number in 0..<3 {
                    writers.addTask {
                        let writer = LedgerWriter(
                            pool: rig.ledger.database.pool(connections: 1),
                            now: { Timestamp(milliseconds: 1_900_000_000_000) })
                        for draft in VerifyRig.drafts(seed: seed * 10 + UInt64(number), count: 150, originals: 12) {
                            _ = try await writer.append(draft)
                        }
                    }
                }
                writers.addTask {
                    let forgetter = Forgetter(
                        pool: PostgresPool(rig.ledger.database.ownerConninfo), now: { .earliest })
                    for number in [0, 3, 1, 0, 5, 2, 4, 0] {
                        guard let customer = CustomerID("customer-of-2000\(number)") else { continue }
                        _ = try await forgetter.forget(customer)
                        try await Task.sleep(for: .milliseconds(20))
                    }
                }
                writers.addTask {
                    let projector = ViewProjector(
                        pool: rig.ledger.database.pool(connections: 1), pageEvents: 20, policy: .early)
                    for _ in 0..<40 {
                        try await projector.catchUp()
                        try await Task.sleep(for: .milliseconds(10))
                    }
                }
                writers.addTask {
                    let rebuilder = Rebuilder(
                        pool: rig.ledger.database.pool(connections: 2), limits: RebuildRig.limits())
                    for _ in 0..<3 { _ = try await rebuilder.run { _ in } }
                }
                try await writers.waitForAll()
            }
            isDone.raise()
            return try await group.reduce(0, +)
        }
        #expect(runs > 1, "seed \(seed)")
        let summary = try await rig.verifier.run()
        #expect(summary.position > 500 && summary.erasedEvidence > 0, "seed \(seed)")
    }
}

private final class Flag: Sendable {
    private let value = Mutex(false)

    var isRaised: Bool { value.withLock { $0 } }

    func raise() { value.withLock { $0 = true } }
}
