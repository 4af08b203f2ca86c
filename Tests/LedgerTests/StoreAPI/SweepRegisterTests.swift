import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("The register of sweeps")
struct SweepRegisterTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    @Test("the first goes back as far as the store keeps, the next goes on from its end, with some overlap")
    func windows() async throws {
        let database = try await TestDatabase.make()
        let register = SweepRegister(pool: database.pool(), holder: "one")
        for (environment, days) in [(StoreEnvironment.production, Int64(180)), (.sandbox, 30)] {
            var first = try #require(try await register.begin("app", in: environment, now: Self.now))
            #expect(first.from == Self.now.adding(milliseconds: 3_600_000 - days * Timestamp.millisecondsPerDay))
            #expect(first.until == Self.now && first.cursor == nil && !first.isResumed)
            try await register.finishPage(&first, next: nil, read: 3, recorded: 1, refused: 0)
            let later = Self.now.adding(milliseconds: 10 * 3_600_000)
            let second = try #require(try await register.begin("app", in: environment, now: later))
            #expect(second.from == Self.now.adding(milliseconds: -2 * 3_600_000) && second.until == later)
        }
        let asked = try #require(
            try await register.begin("other", in: .production, since: .earliest, now: Self.now))
        #expect(
            asked.from > Self.now.adding(milliseconds: -180 * Timestamp.millisecondsPerDay), "not beyond what is kept")
        let standings = try await SweepRegister.standings(database.pool())
        #expect(standings.map(\.app) == ["app", "app", "other"] && standings.allSatisfy(\.isHeld))
        #expect(standings[0].completedUntil == Self.now)
    }

    @Test("to ask for less than is unknown reads all that is unknown, so that nothing is called known that nobody read")
    func since() async throws {
        let database = try await TestDatabase.make()
        let register = SweepRegister(pool: database.pool(), holder: "one")
        let oldest = Self.now.adding(milliseconds: 3_600_000 - 180 * Timestamp.millisecondsPerDay)
        let hourAgo = Self.now.adding(milliseconds: -3_600_000)
        // Never read before.
        var sweep = try #require(try await register.begin("app", in: .production, since: hourAgo, now: Self.now))
        #expect(sweep.from == oldest)
        // A window that is under way is gone on with, and never replaced by a later one.
        try await register.finishPage(&sweep, next: "page 2", read: 1, recorded: 0, refused: 0)
        try await register.letGo(of: sweep, nil)
        sweep = try #require(try await register.begin("app", in: .production, since: hourAgo, now: Self.now))
        #expect(sweep.from == oldest && sweep.cursor == "page 2" && sweep.isResumed)
        try await register.finishPage(&sweep, next: nil, read: 1, recorded: 0, refused: 0)
        // Later, an earlier date than what is known reads that again.
        let later = Self.now.adding(milliseconds: 30 * 3_600_000)
        let dayBefore = Self.now.adding(milliseconds: -Timestamp.millisecondsPerDay)
        sweep = try #require(try await register.begin("app", in: .production, since: dayBefore, now: later))
        #expect(sweep.from == dayBefore && sweep.until == later)
        try await register.letGo(of: sweep, nil)
        sweep = try #require(try await register.begin("app", in: .production, since: .latest, now: later))
        #expect(sweep.from == dayBefore, "what was begun")
    }

    @Test("a refused notification is reported until a later sweep records it")
    func refusals() async throws {
        let database = try await TestDatabase.make()
        let register = SweepRegister(pool: database.pool(), holder: "one")
        func read(since: Timestamp?, refused: Int, at now: Timestamp) async throws -> SweepStanding {
            var sweep = try #require(try await register.begin("app", in: .production, since: since, now: now))
            try await register.finishPage(
                &sweep, next: "2", read: 2, recorded: 0, refused: refused, reason: refused > 0 ? "wrong number" : nil)
            try await register.finishPage(&sweep, next: nil, read: 2, recorded: 0, refused: 0)
            return try #require(try await SweepRegister.standings(database.pool()).first)
        }
        let first = try await read(since: nil, refused: 1, at: Self.now)
        let from = try #require(first.refusedFrom)
        #expect(first.refusedReason == "wrong number" && first.refused == 1)
        // The next reading goes on from there, and knows nothing of it.
        let hourLater = Self.now.adding(milliseconds: 3_600_000)
        #expect(try await read(since: nil, refused: 0, at: hourLater).refusedFrom == from)
        let again = try await read(since: from, refused: 1, at: hourLater)
        #expect(again.refusedFrom == from)
        let mended = try await read(since: from, refused: 0, at: hourLater)
        #expect(mended.refusedFrom == nil && mended.refusedReason == nil)
    }

    @Test("one is at work at a time; what it left goes on where it stopped, and it can write nothing more")
    func leases() async throws {
        let database = try await TestDatabase.make()
        let one = SweepRegister(pool: database.pool(), holder: "one")
        let two = SweepRegister(pool: database.pool(), holder: "two")
        var held = try #require(try await one.begin("app", in: .production, now: Self.now))
        try await one.finishPage(&held, next: "page 2", read: 20, recorded: 5, refused: 1)
        #expect(try await two.begin("app", in: .production, now: Self.now) == nil)
        #expect(try await two.begin("app", in: .sandbox, now: Self.now) != nil, "the other environment is free")

        // Silent for too long.
        try await database.owner().execute(
            script: "UPDATE store_sweep SET heartbeat_at = heartbeat_at - interval '31 seconds'")
        var taken = try #require(
            try await two.begin("app", in: .production, now: Self.now.adding(milliseconds: 5000)))
        #expect(taken.isResumed && taken.cursor == "page 2" && taken.from == held.from && taken.until == Self.now)
        await #expect(throws: LedgerError.self) {
            try await one.finishPage(&held, next: "page 3", read: 20, recorded: 0, refused: 0)
        }
        try await two.finishPage(&taken, next: nil, read: 7, recorded: 2, refused: 0)
        let standing = try #require(
            try await SweepRegister.standings(database.pool()).first { $0.environment == .production })
        #expect(standing.read == 27 && standing.recorded == 7 && standing.refused == 1)
        #expect(standing.window == nil && !standing.isHeld && standing.completedUntil == Self.now)
    }

    @Test("one that failed says why, lets go, and goes on later; a page that the store forgot begins the window anew")
    func failures() async throws {
        let database = try await TestDatabase.make()
        let one = SweepRegister(pool: database.pool(), holder: "one")
        let two = SweepRegister(pool: database.pool(), holder: "two")
        var sweep = try #require(try await one.begin("app", in: .production, now: Self.now))
        try await one.finishPage(&sweep, next: "page 2", read: 20, recorded: 0, refused: 0)
        try await one.letGo(of: sweep, String(repeating: "x", count: 5000))
        var standing = try #require(try await SweepRegister.standings(database.pool()).first)
        #expect(standing.lastError?.count == 1000 && standing.lastErrorAt != nil && !standing.isHeld)
        #expect(standing.completedUntil == nil && standing.window != nil)

        var again = try #require(
            try await two.begin("app", in: .production, now: Self.now.adding(milliseconds: 60_000)))
        #expect(again.cursor == "page 2" && again.isResumed)
        try await two.startOver(&again)
        #expect(again.cursor == nil && again.from == sweep.from)
        try await two.finishPage(&again, next: nil, read: 0, recorded: 0, refused: 0)
        standing = try #require(try await SweepRegister.standings(database.pool()).first)
        #expect(standing.lastError == nil && standing.completedUntil == Self.now)

        // A window that begins earlier than the store keeps by now loses its beginning.
        let stale = try #require(try await one.begin("app", in: .production, since: .earliest, now: Self.now))
        try await one.letGo(of: stale, nil)
        let later = Self.now.adding(milliseconds: 2 * Timestamp.millisecondsPerDay)
        let fresh = try #require(try await one.begin("app", in: .production, now: later))
        #expect(
            fresh.isResumed && fresh.end == Self.now
                && fresh.from == later.adding(milliseconds: 3_600_000 - 180 * Timestamp.millisecondsPerDay)
        )
    }

    @Test("what has many pages is read in parts, each of which stays known, whoever is killed after it")
    func parts() async throws {
        let database = try await TestDatabase.make()
        let register = SweepRegister(pool: database.pool(), holder: "one")
        let oldest = SweepRegister.oldest(in: .production, at: Self.now)
        var sweep = try #require(try await register.begin("app", in: .production, now: Self.now))
        #expect(sweep.until == Self.now, "everything at first")
        for page in 1...Sweep.mostPages {
            try await register.finishPage(&sweep, next: "\(page)", read: 20, recorded: 0, refused: 0)
        }
        let whole = Self.now.milliseconds - oldest.milliseconds
        #expect(sweep.from == oldest && sweep.length == whole / 4 && sweep.cursor == nil, "too much at once")
        try await register.finishPage(&sweep, next: "a", read: 20, recorded: 0, refused: 0)
        try await register.finishPage(&sweep, next: nil, read: 20, recorded: 0, refused: 0)
        let quarter = oldest.adding(milliseconds: whole / 4)
        #expect(sweep.from == quarter && sweep.until == Self.now, "it was little: all of the rest")
        var standing = try #require(try await SweepRegister.standings(database.pool()).first)
        #expect(standing.completedUntil == quarter && standing.completedAt == nil && standing.from == oldest)
        try await register.finishPage(&sweep, next: "b", read: 20, recorded: 0, refused: 0)
        // Killed, and taken up days later, by somebody who asks for what is known already.
        let later = Self.now.adding(milliseconds: 5 * Timestamp.millisecondsPerDay)
        var taken = try #require(try await register.begin("app", in: .production, since: oldest, now: later))
        #expect(taken.isResumed && taken.from == quarter && taken.cursor == "b" && taken.pages == 1)
        #expect(try await register.finishPage(&taken, next: nil, read: 1, recorded: 0, refused: 0))
        standing = try #require(try await SweepRegister.standings(database.pool()).first)
        #expect(standing.completedUntil == Self.now && standing.completedAt != nil && standing.window == nil)
    }

    @Test("a sign of life from the future is of a clock that was ahead, and keeps nobody waiting")
    func leasesAhead() async throws {
        let database = try await TestDatabase.make()
        let stream = StoreStream(app: "app", environment: .production)
        func imports(_ holder: String) -> ImportRegister {
            ImportRegister(pool: database.pool(), stream: stream, file: .zero, holder: holder)
        }
        func streams(_ holder: String) -> CheckRegister { CheckRegister(pool: database.pool(), holder: holder) }
        func sweeps(_ holder: String) -> SweepRegister { SweepRegister(pool: database.pool(), holder: holder) }
        _ = try #require(try await sweeps("one").begin("app", in: .production, now: Self.now))
        #expect(try await streams("one").hold(stream))
        _ = try #require(try await imports("one").begin(total: 1))
        let owner = try await database.owner()
        for (ahead, isFree) in [(0, false), (10, false), (10_800, true)] {
            try await owner.execute(
                script: ["store_sweep", "store_stream", "store_import"].map {
                    "UPDATE \($0) SET heartbeat_at = clock_timestamp() + interval '\(ahead) seconds';"
                }.joined())
            #expect(try await SweepRegister.standings(database.pool())[0].isHeld == !isFree, "\(ahead) s")
            #expect(try await streams("two").hold(stream) == isFree, "\(ahead) s")
            #expect((try await imports("two").begin(total: 1) != nil) == isFree, "\(ahead) s")
            #expect((try await sweeps("two").begin("app", in: .production, now: Self.now) != nil) == isFree)
        }
    }

    /// Lets a table lose what is written into it by `act`, as a failover does to a replica that had not got everything.
    private static func losing(
        _ table: String, of database: TestDatabase, _ act: () async throws -> Void
    ) async throws {
        let owner = try await database.owner()
        try await owner.execute(script: "CREATE TABLE kept AS TABLE \(table)")
        try await act()
        try await owner.execute(
            script: "DELETE FROM \(table); INSERT INTO \(table) SELECT * FROM kept; DROP TABLE kept")
    }

    @Test("where the database has lost what was written last, a sweep is not gone on with, and is taken up from there")
    func lostPage() async throws {
        let database = try await TestDatabase.make()
        let register = SweepRegister(pool: database.pool(), holder: "one")
        var sweep = try #require(try await register.begin("app", in: .production, now: Self.now))
        try await register.finishPage(&sweep, next: "1", read: 1, recorded: 1, refused: 0)
        try await Self.losing("store_sweep", of: database) {
            try await register.finishPage(&sweep, next: "2", read: 1, recorded: 1, refused: 0)
        }
        let lost = sweep
        for act in [
            { try await register.finishPage(&sweep, next: nil, read: 1, recorded: 1, refused: 0) },
            { try await register.giveUpPart(&sweep, "") },
            {
                try await register.stopShort(of: sweep, "")
                return true
            },
        ] as [() async throws -> Bool] {
            let error = await #expect(throws: LedgerError.self) { _ = try await act() }
            #expect(error?.code == .invalid && sweep == lost)
        }
        sweep = try #require(try await register.begin("app", in: .production, now: Self.now))
        #expect(sweep.isResumed && sweep.cursor == "1" && sweep.pages == 1)
        #expect(try await register.finishPage(&sweep, next: nil, read: 1, recorded: 1, refused: 0))
        // A whole part, and with it where it began.
        sweep = try #require(try await register.begin("app", in: .production, since: .earliest, now: Self.now))
        let later = sweep.from.adding(milliseconds: 5 * 3_600_000)
        try await Self.losing("store_sweep", of: database) { try await register.skip(&sweep, to: later) }
        await #expect(throws: LedgerError.self) {
            try await register.finishPage(&sweep, next: nil, read: 1, recorded: 1, refused: 0)
        }
    }

    @Test("where the database has lost what was written last, no event of Stripe's beyond it is called known")
    func lostEvents() async throws {
        let database = try await TestDatabase.make()
        let register = WebSweepRegister(pool: database.pool(), holder: "one")
        var sweep = try #require(try await register.begin(.production, now: Self.now))
        let parts = [3, 2, 1].map { Self.now.adding(milliseconds: -$0 * 3_600_000) }
        try await register.advance(&sweep, to: parts[0], read: 1, recorded: 1, refused: 0)
        try await Self.losing("web_stream", of: database) {
            try await register.advance(&sweep, to: parts[1], read: 1, recorded: 1, refused: 0)
        }
        await #expect(throws: LedgerError.self) {
            try await register.advance(&sweep, to: parts[2], read: 1, recorded: 1, refused: 0)
        }
        sweep = try #require(try await register.begin(.production, now: Self.now))
        #expect(sweep.from < parts[0])
        try await register.advance(&sweep, to: Self.now, read: 1, recorded: 1, refused: 0)
        #expect(try await register.standings().first?.eventsUntil == Self.now)
    }

    @Test("where the log has lost what was appended, and the row is as it was, nothing of it is called known")
    func lostAppends() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let sweeps = SweepRegister(pool: ledger.pool, holder: "one")
        let events = WebSweepRegister(pool: ledger.pool, holder: "one")
        let list = ImportRegister(
            pool: ledger.pool, stream: StoreStream(app: "app", environment: .production), file: .zero, holder: "one")
        let lists = WebImportRegister(pool: ledger.pool, environment: .production, ownerMetadata: nil, holder: "one")
        var sweep = try #require(try await sweeps.begin("app", in: .production, now: Self.now))
        try await sweeps.finishPage(&sweep, next: "1", read: 1, recorded: 0, refused: 0)
        var eventSweep = try #require(try await events.begin(.production, now: Self.now))
        let begun = try #require(try await list.begin(total: 9))
        let begunLists = try #require(try await lists.begin())
        var (standing, standingOfLists) = (begun, begunLists)
        (standing.done, standingOfLists.list) = (3, 1)

        let drafts = RandomDrafts(seed: 91, originals: 1).drafts(4)
        let kept = try await ledger.writer.append(drafts[0]).end
        let logEnd = try await LogEnd.now(of: owner)
        // One that is new, and one that is found to be there.
        var lost: [AppendOutcome] = []
        for _ in 0..<2 { lost.append(try await ledger.writer.append(drafts[1])) }
        #expect(lost.map(\.isDuplicate) == [false, true] && lost.map(\.end.position) == [2, 2])
        try await logEnd.restore(by: owner)
        for isRegrown in [false, true] {
            // Another event at its position makes up for nothing.
            if isRegrown { _ = try await ledger.writer.append(drafts[2]) }
            for outcome in lost {
                let ends: Set = [kept, outcome.end]
                let refusals: [() async throws -> Void] = [
                    {
                        _ = try await sweeps.finishPage(
                            &sweep, next: nil, read: 1, recorded: 1, refused: 0, restingOn: ends)
                    },
                    {
                        try await events.advance(
                            &eventSweep, to: Self.now, read: 1, recorded: 1, refused: 0, restingOn: ends)
                    },
                    { try await list.note(standing, after: begun, restingOn: ends) },
                    { try await lists.note(standingOfLists, after: begunLists, restingOn: ends) },
                ]
                for refused in refusals {
                    let error = await #expect(throws: LedgerError.self) { try await refused() }
                    #expect(error?.code == .invalid)
                }
            }
        }
        // Taken up from what the rows say.
        sweep = try #require(try await sweeps.begin("app", in: .production, now: Self.now))
        #expect(sweep.isResumed && sweep.cursor == "1" && sweep.pages == 1)
        #expect(try await events.standings().first?.eventsUntil == nil)
        #expect(try await list.begin(total: 9) == begun)
        #expect(try await lists.begin() == begunLists)
        let again = try await ledger.writer.append(drafts[1])
        #expect(!again.isDuplicate)
        let ends: Set = [kept, again.end]
        #expect(try await sweeps.finishPage(&sweep, next: nil, read: 1, recorded: 1, refused: 0, restingOn: ends))
        try await events.advance(&eventSweep, to: Self.now, read: 1, recorded: 1, refused: 0, restingOn: ends)
        #expect(try await events.standings().first?.eventsUntil == Self.now)
        try await list.note(standing, after: begun, restingOn: ends)
        try await lists.note(standingOfLists, after: begunLists, restingOn: ends)
    }

    @Test(
        "where the database has lost what was written last, an import is taken up from what is left")
    func lostImport() async throws {
        let database = try await TestDatabase.make()
        let register = ImportRegister(
            pool: database.pool(), stream: StoreStream(app: "app", environment: .production), file: .zero, holder: "one"
        )
        let lists = WebImportRegister(
            pool: database.pool(), environment: .production, ownerMetadata: nil, holder: "one")
        let begun = try #require(try await register.begin(total: 9))
        let begunLists = try #require(try await lists.begin())
        var (standing, standingOfLists) = (begun, begunLists)
        (standing.done, standing.failed) = (3, ["1"])
        (standingOfLists.list, standingOfLists.cursor) = (1, "sub_1")
        try await Self.losing("store_import", of: database) { try await register.note(standing, after: begun) }
        try await Self.losing("web_import", of: database) { try await lists.note(standingOfLists, after: begunLists) }
        await #expect(throws: LedgerError.self) { try await register.note(standing, after: standing) }
        await #expect(throws: LedgerError.self) { try await lists.note(standingOfLists, after: standingOfLists) }
        await #expect(throws: LedgerError.self) { try await lists.complete(after: standingOfLists) }
        #expect(try await register.begin(total: 9) == begun)
        #expect(try await lists.begin() == begunLists)
        try await register.note(standing, after: begun)
        try await lists.note(standingOfLists, after: begunLists)
        try await lists.complete(after: standingOfLists)
    }
}
