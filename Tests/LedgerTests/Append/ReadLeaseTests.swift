import EntitlementCore
import PostgresClient
import SeededRandom
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// What lets an instance read without asking the database, and keeps others from appending meanwhile.
@Suite("The read lease", .serialized, .timeLimit(.minutes(5)))
struct ReadLeaseTests {
    private let database: TestDatabase
    private let reader: LedgerReader

    init() async throws {
        database = try await TestDatabase.make()
        reader = LedgerReader(pool: database.pool(), now: { .latest })
    }

    private func writer(
        _ number: Int = 0, conninfo: String? = nil, limits: LedgerWriter.Limits = .init()
    ) -> LedgerWriter {
        LedgerWriter(
            pool: PostgresPool(
                conninfo ?? database.serveConninfo, limits: PostgresPool.Limits(connections: 2, wait: .seconds(30))),
            limits: limits,
            now: { Timestamp(milliseconds: Int64(1_800_000_000_000) + Int64(number) * 7_000) })
    }

    private var mark: LogMark {
        get async throws {
            let status = try await reader.status()
            return LogMark(position: status.position, hash: status.hash, nextIdentity: 0)
        }
    }

    /// A writer whose proofs hold for long, for tests in which nobody outlasts them.
    private func patientWriter(_ number: Int = 0) -> LedgerWriter {
        var limits = LedgerWriter.Limits()
        (limits.lease.proves, limits.lease.outlasts) = (.seconds(20), .seconds(25))
        return writer(number, limits: limits)
    }

    /// Whether a writer gets a proof that the log ends at a mark; on a machine that stands still it may run out at once.
    private func getsProof(_ writer: LedgerWriter, of mark: LogMark) async -> Bool {
        for _ in 0..<20 {
            await writer.renewReadLease()
            if writer.readLease.proves(mark, at: .now) { return true }
        }
        return false
    }

    /// Whether a writer's lease proves the log to end where it does.
    private func provesEnd(_ writer: LedgerWriter) async throws -> Bool {
        let mark = try await mark
        return writer.readLease.proves(mark, at: .now)
    }

    private func lease() async throws -> (holder: Int64?, pause: Double) {
        let row = try #require(
            try await database.owner().query(
                "SELECT lease_holder, extract(epoch FROM lease_pause)::float8 FROM ledger_head"
            ).first)
        return (try row.optionalInt(0), try row.double(1))
    }

    /// Lets the lease be taken again at once.
    private func endPause() async throws {
        try await database.owner().execute(script: "UPDATE ledger_head SET lease_free_at = clock_timestamp()")
    }

    @Test("the holder's proof ends before anybody else's event can be seen, and others wait but once")
    func outlasted() async throws {
        let (holder, other) = (writer(), writer(1))
        let drafts = RandomDrafts(seed: 71, originals: 3).drafts(8)
        _ = try await holder.append(drafts[0])
        let before = try await mark
        #expect(!holder.readLease.proves(before, at: .now), "nothing was asked for")
        #expect(await getsProof(holder, of: before))
        #expect(!other.readLease.proves(before, at: .now))
        await other.renewReadLease()
        #expect(!other.readLease.proves(before, at: .now), "two hold the lease")

        let asked = ContinuousClock.now
        await holder.renewReadLease()
        let appended = Task { try await other.append(drafts[1]) }
        while try await mark == before { try await Task.sleep(for: .milliseconds(2)) }
        #expect(!holder.readLease.proves(before, at: .now), "the event is seen, and the proof still holds")
        _ = try await appended.value
        #expect(asked.duration(to: .now) >= .milliseconds(250))
        #expect(try await lease().holder == nil)

        // While nobody has it, nobody waits; and nobody gets it at once.
        let start = ContinuousClock.now
        for draft in drafts[2...] { _ = try await other.append(draft) }
        #expect(start.duration(to: .now) < .milliseconds(1400))
        await holder.renewReadLease()
        #expect(try await !provesEnd(holder))
    }

    @Test("each time the lease is taken away the pause doubles, and after a quiet time it is a second again")
    func pauses() async throws {
        let (holder, other) = (writer(), writer(1))
        let drafts = RandomDrafts(seed: 72, originals: 3).drafts(20)
        var pauses: [Double] = []
        for draft in drafts[..<12] {
            await holder.renewReadLease()
            _ = try await other.append(draft)
            pauses.append(try await lease().pause)
            try await endPause()
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600])
        try await database.owner().execute(
            script: "UPDATE ledger_head SET lease_free_at = clock_timestamp() - interval '11 minutes'")
        await holder.renewReadLease()
        _ = try await other.append(drafts[12])
        #expect(try await lease().pause == 1)
    }

    @Test("what the holder appends itself it knows without asking, and a log that was replaced with the next proof")
    func ownAppends() async throws {
        let holder = patientWriter()
        let drafts = RandomDrafts(seed: 73, originals: 3).drafts(40)
        await holder.renewReadLease()
        for draft in drafts {
            let before = try await mark
            _ = try await holder.append(draft)
            let after = try await mark
            #expect(before != after && !holder.readLease.proves(before, at: .now))
            #expect(holder.readLease.proves(after, at: .now))
        }
        let last = try await mark
        // The same position with another hash is another log, as after a backup was restored.
        try await database.owner().execute(
            script: "UPDATE ledger_head SET hash = sha256('another')")
        await holder.renewReadLease()
        #expect(!holder.readLease.proves(last, at: .now))
        #expect(try await provesEnd(holder))
    }

    @Test("forgetting somebody waits for the lease of every instance, its own too")
    func forgetting() async throws {
        let holder = writer()
        let drafts = RandomDrafts(seed: 74, originals: 3).drafts(20)
        for draft in drafts { _ = try await holder.append(draft) }
        let before = try await mark
        #expect(await getsProof(holder, of: before))
        let forgetter = Forgetter(pool: PostgresPool(database.ownerConninfo), now: { .earliest })
        let customers = (0..<3).compactMap { CustomerID("customer-of-2000\($0)") }
        var forgotten = 0
        for customer in customers where try await forgetter.forget(customer) != nil { forgotten += 1 }
        #expect(forgotten > 0)
        #expect(!holder.readLease.proves(before, at: .now))
        #expect(try await !provesEnd(holder))
        #expect(try await lease().holder == nil)
    }

    @Test("a commit proves nothing while it is under way, and one whose outcome is unknown ends the lease")
    func commits() async throws {
        let holder = patientWriter()
        _ = try await holder.append(RandomDrafts(seed: 75, originals: 1).drafts(1)[0])
        let head = LedgerHead(
            position: 9, recordedAt: .earliest, hash: RandomDrafts.digest("nine"), nextIdentity: 1, catalogPosition: 0)
        let lease = holder.readLease
        await holder.renewReadLease()
        let before = try await mark
        try lease.whileCommitting(to: head) { () throws(PostgresError) in
            #expect(!lease.proves(before, at: .now))
            #expect(!lease.isWorthRenewing(after: 1000, at: .now + .seconds(9)))
        }
        #expect(!lease.proves(before, at: .now), "a commit that took place is not known of")
        #expect(lease.proves(LogMark(position: 9, hash: head.hash, nextIdentity: 0), at: .now))

        let (name, refused) = (lease.holder, PostgresError(kind: .lockTimeout, message: "held"))
        await holder.renewReadLease()
        #expect(throws: PostgresError.self) {
            try lease.whileCommitting(to: head) { () throws(PostgresError) in throw refused }
        }
        #expect(lease.holder == name)
        #expect(try await provesEnd(holder), "nothing was committed")

        let cut = PostgresError(kind: .connection, message: "cut")
        #expect(throws: PostgresError.self) {
            try lease.whileCommitting(to: head) { () throws(PostgresError) in throw cut }
        }
        #expect(try await !provesEnd(holder))
        await holder.renewReadLease()
        #expect(lease.holder != name)
        #expect(try await !provesEnd(holder))
        #expect(try await self.lease().holder == name, "the earlier name's lease is outlasted, not taken over")
    }

    @Test("an orderly stop gives the lease back, so that the next start neither waits nor rests")
    func release() async throws {
        let (first, second) = (patientWriter(), patientWriter(1))
        let drafts = RandomDrafts(seed: 76, originals: 1).drafts(2)
        _ = try await first.append(drafts[0])
        await first.renewReadLease()
        await first.drain()
        #expect(try await !provesEnd(first))
        await second.renewReadLease()
        #expect(try await provesEnd(second))
        _ = try await second.append(drafts[1])
    }

    @Test("a proof that is asked for while others hold the head waits for nobody")
    func heldHead() async throws {
        let holder = writer()
        await holder.renewReadLease()
        let other = try await database.owner()
        try await other.execute(script: "BEGIN; SELECT position FROM ledger_head FOR UPDATE")
        let start = ContinuousClock.now
        await holder.renewReadLease()
        #expect(start.duration(to: .now) < .seconds(1))
        try await Task.sleep(for: .milliseconds(210))
        #expect(try await !provesEnd(holder))
        try await other.execute(script: "COMMIT")
        let end = try await mark
        #expect(await getsProof(holder, of: end))
    }

    @Test("no instance answers with less than was acknowledged or answered anywhere", arguments: Campaign.seeds(2))
    func instances(seed: UInt64) async throws {
        let proxy = try CuttingProxy(database.serveConninfo, cut: .randomly(seed: seed, within: 10_000))
        defer { proxy.stop() }
        let writers = [writer(0), writer(1), writer(2, conninfo: proxy.conninfo)]
        let seen = Greatest()
        let (proofs, isDone) = (Tally(), Tally())
        let drafts = RandomDrafts(seed: seed, originals: 7).drafts(150 * Campaign.factor)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, writer) in writers.enumerated() {
                for _ in 0..<2 {
                    group.addTask { [reader] in
                        var mark: LogMark?
                        while isDone.count == 0 {
                            let before = seen.position
                            let now = ContinuousClock.now
                            if writer.readLease.isWorthRenewing(after: 4, at: now) {
                                Task { await writer.renewReadLease() }
                            }
                            if let mark, writer.readLease.proves(mark, at: now) {
                                proofs.add()
                            } else {
                                let status = try await reader.status()
                                mark = LogMark(position: status.position, hash: status.hash, nextIdentity: 0)
                            }
                            let answer = mark?.position ?? 0
                            #expect(answer >= before, "seed \(seed): instance \(number) answered \(answer)")
                            seen.note(answer)
                            await Task.yield()
                        }
                    }
                }
            }
            // So that the lease goes from hand to hand.
            group.addTask { [self] in
                while isDone.count == 0 {
                    try? await endPause()
                    try await Task.sleep(for: .milliseconds(60))
                }
            }
            group.addTask {
                defer { isDone.add() }
                var random = SplitMix64(seed: seed)
                for draft in drafts {
                    // Mostly one of them for a while, or all would wait for each other all the time.
                    let writer = writers[random.chance(80) ? 0 : Int.random(in: 0..<3, using: &random)]
                    guard let position = try? await writer.append(draft).position else { continue }
                    seen.note(position)
                    try await Task.sleep(for: .milliseconds(Int.random(in: 0...8, using: &random)))
                }
            }
            try await group.waitForAll()
        }
        #expect(proofs.count > 100, "seed \(seed): nothing was proven")
        #expect(proxy.cuts > 0, "seed \(seed): nothing was cut")
        try await LogInspection(database).expectSound("seed \(seed)")
    }
}

/// The greatest position that anybody was told of.
private final class Greatest: Sendable {
    private let value = Mutex(Int64(0))

    var position: Int64 { value.withLock { $0 } }

    func note(_ position: Int64) { value.withLock { $0 = max($0, position) } }
}
