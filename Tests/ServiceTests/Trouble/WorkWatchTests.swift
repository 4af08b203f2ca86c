import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Work behind the service that fails", .timeLimit(.minutes(2)))
struct WorkWatchTests {
    @Test("a projection that fails is told in the log once, and in status until it succeeds again")
    func projections() async throws {
        let rig = try await ServiceRig.make()
        try await rig.notify(Purchase())
        let owner = try await rig.database.owner()
        let failures = WorkFailures(pool: rig.pool)
        try await owner.execute(script: "ALTER TABLE seen RENAME TO mislaid")
        var intervals = BackgroundProjections.Intervals()
        intervals.follow = .milliseconds(20)
        let watch = rig.watch()
        let projections = BackgroundProjections(
            rebuilder: Rebuilder(pool: rig.pool), views: ViewProjector(pool: rig.pool),
            seen: SeenProjector(pool: rig.pool), tree: TreeProjector(pool: rig.pool),
            charts: ChartProjector(pool: rig.pool),
            watch: watch,
            logger: rig.context.logger, intervals: intervals)
        let task = Task { await projections.run() }
        defer { task.cancel() }
        try await Self.wait { try await !failures.list().isEmpty }
        let failure = try #require(try await failures.list().first)
        #expect(failure.work == "remarks" && failure.host == "here" && failure.reason.contains("seen"))
        try await Task.sleep(for: .milliseconds(200))
        #expect(rig.log.lines.count { $0.contains("work behind the service fails") } == 1, "though it is tried again")
        #expect(try await failures.list().map(\.work) == ["remarks"], "the others go on")

        try await owner.execute(script: "ALTER TABLE mislaid RENAME TO seen")
        try await Self.wait { try await failures.list().isEmpty }
        try await Self.wait { rig.log.lines.contains { $0.contains("succeeds again") } }
    }

    @Test("what a service before this one left is cleared by the first success, and only this machine's")
    func leftovers() async throws {
        let rig = try await ServiceRig.make()
        let failures = WorkFailures(pool: rig.pool)
        try await failures.note("checkpoints", on: "here", reason: "old")
        try await failures.note("checkpoints", on: "there", reason: String(repeating: "x", count: 5000))
        let watch = rig.watch()
        await watch.watch(.checkpoints) {}
        let left = try await failures.list()
        #expect(left.map(\.host) == ["there"] && left.first?.reason.count == 1000)
    }

    @Test("what fails for want of room on the disk finds room in a page that is there already")
    func room() async throws {
        let rig = try await ServiceRig.make()
        let failures = WorkFailures(pool: rig.pool)
        let owner = try await rig.database.owner()
        func size() async throws -> Int64? {
            try await owner.run { try $0.query("SELECT pg_relation_size('work_failure')").first?.int(0) }
        }
        try await failures.note("appends", on: "here", reason: "old")
        for _ in 1...2 {
            await rig.watch().begin()
            #expect(try await failures.list().isEmpty)
            // It gives empty pages back to the system.
            try await owner.execute(script: "VACUUM work_failure")
            #expect(try await size() == 8192)
            try await failures.note("appends", on: "here", reason: "full")
            #expect(try await size() == 8192)
            #expect(try await failures.list().map(\.reason) == ["full"])
        }
    }

    @Test("while the database is away nothing is noted")
    func databaseAway() async throws {
        let rig = try await ServiceRig.make()
        let succeeded: Void? = await rig.watch().watch(.views) { throw LedgerError(.unavailable, "it is away") }
        #expect(succeeded == nil)
        #expect(try await WorkFailures(pool: rig.pool).list().isEmpty)
        #expect(!rig.log.lines.contains { $0.contains("work behind the service") })
    }

    /// Ten seconds at most.
    private static func wait(_ isSo: () async throws -> Bool) async throws {
        for _ in 0..<1000 {
            if try await isSo() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("it does not come")
    }
}

extension ServiceRig {
    /// Notes what fails on a machine called `here`.
    func watch() -> WorkWatch {
        WorkWatch(failures: WorkFailures(pool: pool), host: "here", logger: context.logger)
    }
}
