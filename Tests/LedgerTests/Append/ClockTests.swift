import EntitlementCore
import Foundation
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// Events are dated by one clock, however many instances there are and whatever theirs say.
@Suite("One clock")
struct ClockTests {
    /// This machine's clock, set wrong by so many milliseconds.
    private final class WrongClock: Sendable {
        let error = Atomic<Int64>(0)

        init(_ error: Int64 = 0) { self.error.store(error, ordering: .relaxed) }

        var now: Timestamp {
            Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) + error.load(ordering: .relaxed))
        }
    }

    @Test(
        "a clock that is more than 2 s wrong dates nothing, whenever it went wrong",
        arguments: [3_600_000, -3_600_000, 2500, -2500, 1000, 0] as [Int64])
    func wrong(error: Int64) async throws {
        for later in [false, true] {
            let database = try await TestDatabase.make()
            let pool = database.pool()
            let machine = WrongClock(later ? 0 : error)
            let clock = LedgerClock { machine.now }
            let writer = LedgerWriter(pool: pool, clock: clock)
            let drafts = RandomDrafts(seed: 4, originals: 6).drafts(24)
            for (number, draft) in drafts.enumerated() {
                if number == 12 {
                    machine.error.store(error, ordering: .relaxed)
                    // As the service does at once; until then the clock's error dates nothing.
                    try await clock.compare(through: pool)
                }
                _ = try await writer.append(draft)
            }
            let worst = try await pool.withConnection { connection in
                try connection.query(
                    """
                    SELECT max(abs(extract(epoch FROM recorded_at - clock_timestamp()) * 1000))::bigint FROM event
                    """, []
                ).first?.int(0)
            }
            // The tolerance, and as long as the test may have taken.
            #expect(try #require(worst) < 2000 + 20_000, "\(error) later: \(later)")
            #expect(error.magnitude > 2000 ? clock.skewMilliseconds != 0 : clock.skewMilliseconds == 0, "\(error)")
            _ = try await Verifier(pool: pool, derive: nil).run()
        }
    }

    /// How somebody learns where the log ends.
    enum Reading: CaseIterable {
        case customer, past, subscription, catalog, tail, news
    }

    @Test("what another instance recorded has happened by the clock of whoever read of it", arguments: Reading.allCases)
    func heard(reading: Reading) async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let writer = LedgerWriter(pool: pool, clock: LedgerClock { WrongClock().now })
        for draft in RandomDrafts(seed: 6, originals: 2).drafts(3) { _ = try await writer.append(draft) }
        let recordedAt = try await LedgerReader(pool: pool) { .earliest }.status().recordedAt
        for (behind, isHeard) in [(1500, true), (5000, true), (5001, false)] as [(Int64, Bool)] {
            let own = recordedAt.adding(milliseconds: -behind)
            let clock = LedgerClock({ own }, elapsed: { 0 })
            let reader = LedgerReader(pool: pool, clock: clock)
            #expect(clock.now() == own)
            let customer = try #require(CustomerID("nobody"))
            switch reading {
            case .customer: _ = try await reader.customerFacts(customer, environment: .production)
            case .past: _ = try await reader.customerFacts(customer, environment: .production, knownAt: .position(1))
            case .subscription: _ = try await reader.subscription("1", environment: .production)
            case .catalog: _ = try await reader.catalog()
            case .tail, .news:
                let tail = try await reader.openLogTail()
                let known = reading == .tail ? nil : LogMark(position: 0, hash: .zero, nextIdentity: 0)
                try tail.ask()
                while try tail.receive(since: known) == nil { try await Task.sleep(for: .milliseconds(2)) }
            }
            #expect(clock.now() == (isHeard ? recordedAt : own), "\(behind) ms behind")
        }
    }

    @Test("what any instance acknowledged has happened by the clock of each, however wrong they may be")
    func opposite() async throws {
        let pool = try await TestDatabase.make().pool()
        var limits = LedgerWriter.Limits()
        limits.lockedBatches = 1
        let clocks = ([1900, -1900] as [Int64]).map { error in
            let machine = WrongClock(error)
            return LedgerClock { machine.now }
        }
        let writers = clocks.map { LedgerWriter(pool: pool, limits: limits, now: $0.now, clock: $0) }
        let readers = clocks.map { LedgerReader(pool: pool, clock: $0) }
        let nobody = try #require(CustomerID("nobody"))
        // By each in turn, under the lock at first and then ahead of it.
        for (number, draft) in RandomDrafts(seed: 7, originals: 4).drafts(24).enumerated() {
            let sender = number / 4 % 2
            _ = try await writers[sender].append(draft)
            let recordedAt = try await LedgerReader(pool: pool) { .earliest }.status().recordedAt
            // Whoever appends need not read to know of it.
            #expect(clocks[sender].now() >= recordedAt, "\(number)")
            _ = try await readers[1 - sender].customerFacts(nobody, environment: .production)
            #expect(clocks[1 - sender].now() >= recordedAt, "\(number)")
        }
        #expect(clocks.allSatisfy { $0.skewMilliseconds == 0 }, "neither counts as wrong")
    }

    @Test("a machine that stood still and did not count that dates nothing more than 3 s before its commit")
    func stoodStill() async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let machine = WrongClock()
        let clock = LedgerClock({ machine.now }) {
            LedgerClock.elapsed() + machine.error.load(ordering: .relaxed)
        }
        let writer = LedgerWriter(pool: pool, clock: clock)
        let drafts = RandomDrafts(seed: 5, originals: 3).drafts(9)
        for draft in drafts[..<8] { _ = try await writer.append(draft) }
        machine.error.store(-600_000, ordering: .relaxed)
        // Else it is dated a millisecond after the event before, which is not too early yet.
        try await Task.sleep(for: .milliseconds(3200))
        let position = try await writer.append(drafts[8]).position
        #expect(clock.skewMilliseconds < -590_000)
        let age = try await pool.withConnection { connection in
            try connection.query(
                """
                SELECT (extract(epoch FROM clock_timestamp() - recorded_at) * 1000)::bigint FROM event WHERE position = $1
                """, [.int(position)]
            ).row(0).int(0)
        }
        // The tolerance, and as long as the test may have taken.
        #expect(age < 3000)
    }

    /// A machine that goes on as a test wants it to, in milliseconds.
    private final class Machine: Sendable {
        let own = Atomic<Int64>(0)
        let elapsed = Atomic<Int64>(0)

        init(_ own: Int64) { self.own.store(own, ordering: .relaxed) }

        func pass(_ milliseconds: Int64) {
            own.add(milliseconds, ordering: .relaxed)
            elapsed.add(milliseconds, ordering: .relaxed)
        }

        var clock: LedgerClock {
            LedgerClock(
                { [self] in Timestamp(milliseconds: own.load(ordering: .relaxed)) },
                elapsed: { [self] in elapsed.load(ordering: .relaxed) })
        }
    }

    @Test(
        "a clock that is set changes the present only once it is compared, before the first comparison too",
        arguments: [3_600_000, -3_600_000, 30_000, -30_000] as [Int64])
    func set(step: Int64) {
        let machine = Machine(100_000)
        let clock = machine.clock
        func expect(_ present: Int64, skew: Int64, _ place: String) {
            #expect(clock.now() == Timestamp(milliseconds: present), "\(place)")
            #expect(clock.skewMilliseconds == skew, "\(place)")
        }
        func compare(with database: Int64) {
            clock.compare(with: Timestamp(milliseconds: database), asked: clock.reading())
        }
        machine.own.add(step, ordering: .relaxed)
        machine.pass(1000)
        expect(101_000, skew: 0, "set before the first comparison")
        machine.own.subtract(step, ordering: .relaxed)
        compare(with: 101_500)
        expect(101_000, skew: 0, "compared while it is right")
        machine.own.add(step, ordering: .relaxed)
        machine.pass(60_000)
        expect(161_000, skew: 0, "set wrong, however long nobody compares")
        #expect(clock.wasSet())
        #expect(!clock.wasSet(), "that is said once")
        compare(with: 161_500)
        expect(161_500, skew: step - 500, "compared while it is wrong")
        machine.pass(1000)
        expect(162_500, skew: step - 500, "a second later")
        machine.own.subtract(step, ordering: .relaxed)
        machine.pass(1000)
        expect(163_500, skew: step - 500, "set right")
        compare(with: 163_500)
        expect(163_000, skew: 0, "compared once it is right again")
        #expect(!clock.wasSet(), "a comparison has seen it")
        machine.pass(86_400_000)
        #expect(!clock.wasSet(), "time that passes is no step, suspended or not")
        expect(86_563_000, skew: 0, "a day later")
    }

    @Test("what another instance acknowledged is there, by the clock of one that was set back a moment ago")
    func setBackReader() async throws {
        let pool = try await TestDatabase.make().pool()
        let machine = WrongClock()
        let clock = LedgerClock { machine.now }
        try await clock.compare(through: pool)
        machine.error.store(-3_600_000, ordering: .relaxed)
        let writer = LedgerWriter(pool: pool, clock: LedgerClock { WrongClock().now })
        for draft in RandomDrafts(seed: 6, originals: 2).drafts(3) { _ = try await writer.append(draft) }
        let recordedAt = try await LedgerReader(pool: pool) { .earliest }.status().recordedAt
        let customer = try #require(CustomerID("nobody"))
        _ = try await LedgerReader(pool: pool, clock: clock).customerFacts(customer, environment: .production)
        #expect(clock.now() >= recordedAt)
    }

    @Test("a slow answer is not taken for a wrong clock")
    func slow() {
        let machine = Machine(100_000)
        let clock = machine.clock
        // Asked at 100 s, answered at 190 s: the database's clock said something in between.
        let asked = clock.reading()
        machine.pass(90_000)
        for database in [98_000, 100_000, 150_000, 192_000] as [Int64] {
            clock.compare(with: Timestamp(milliseconds: database), asked: asked)
            #expect(clock.skewMilliseconds == 0, "\(database)")
        }
        clock.compare(with: Timestamp(milliseconds: 97_000), asked: asked)
        #expect(clock.skewMilliseconds == 3000)
        #expect(clock.now() == Timestamp(milliseconds: 187_000))
        // Nor for a right one, where it is known to be wrong.
        clock.compare(with: Timestamp(milliseconds: 150_000), asked: asked)
        #expect(clock.skewMilliseconds == 3000)
        clock.compare(with: Timestamp(milliseconds: 190_000), asked: asked + 89_000)
        #expect(clock.skewMilliseconds == 0)
        clock.compare(with: Timestamp(milliseconds: 193_000), asked: asked)
        #expect(clock.skewMilliseconds == -3000)
        #expect(clock.now() == Timestamp(milliseconds: 193_000))
    }
}
