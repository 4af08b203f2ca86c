import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("The shared quota of requests to the store")
struct StoreQuotasTests {
    @Test("many instances together send no more than one would, evenly spread after the first burst")
    func shared() async throws {
        let database = try await TestDatabase.make()
        let instances = (0..<3).map { _ in StoreQuotas(pool: database.pool(connections: 3)) }
        let start = ContinuousClock.now
        let moments = try await withThrowingTaskGroup(of: Double?.self) { group in
            for number in 0..<60 {
                group.addTask {
                    let turn = try await instances[number % 3].reserve(
                        "history", app: "a", in: .production, .init(interval: 100, burst: 5), patience: 3000)
                    guard case .after(let wait) = turn else { return nil }
                    return start.duration(to: .now) / .milliseconds(1) + wait
                }
            }
            return try await group.reduce(into: [Double]()) { moments, moment in
                if let moment { moments.append(moment) }
            }
        }
        let elapsed = start.duration(to: .now) / .milliseconds(1)
        // Five at once, and then one each tenth of a second, for as long as anybody would wait.
        #expect(moments.count >= 30 && Double(moments.count) <= 5 + (3000 + elapsed) / 100 + 1, "\(moments.count)")
        let sorted = moments.sorted()
        for (index, moment) in sorted.enumerated() {
            let together = sorted[index...].prefix { $0 < moment + 1000 }.count
            // What lies between the database's clock and ours moves them by a little.
            #expect(together <= 17, "\(together) in one second from \(moment)")
        }
        let other = try await instances[0].reserve(
            "history", app: "a", in: .sandbox, .init(interval: 100, burst: 5), patience: 0)
        #expect(other == .after(0), "another environment is counted by itself")
        #expect(
            try await instances[0].reserve(
                "order", app: "a", in: .production, .init(interval: 100, burst: 1), patience: 0) == .after(0))
        #expect(
            try await instances[1].reserve(
                "order", app: "a", in: .production, .init(interval: 30_000, burst: 1), patience: 10) == .usedUp,
            "nothing is reserved beyond one's patience")
    }

    @Test("a clock that was set back, by a day or by minutes, delays no request")
    func clockSetBack() async throws {
        let database = try await TestDatabase.make()
        let quotas = StoreQuotas(pool: database.pool())
        func reserve() async throws -> StoreQuotas.Turn {
            try await quotas.reserve(
                "order", app: "a", in: .production, .init(interval: 60_000, burst: 1), patience: 80_000)
        }
        for milliseconds in [86_400_000, 3_000_000, 180_000] {
            try await database.owner().execute(script: "DELETE FROM store_quota")
            #expect(try await reserve() == .after(0))
            try await database.owner().execute(script: "UPDATE store_quota SET next_at = next_at + \(milliseconds)")
            #expect(try await reserve() == .after(0), "\(milliseconds) ms")
            guard case .after(let next) = try await reserve() else {
                Issue.record("nothing is reserved after \(milliseconds) ms")
                continue
            }
            #expect(next > 0 && next <= 60_000, "\(next)")
        }
    }

    @Test("when the store takes requests again counts for all instances, and a wrong instant for an hour at most")
    func blocked() async throws {
        let database = try await TestDatabase.make()
        let (one, other) = (StoreQuotas(pool: database.pool()), StoreQuotas(pool: database.pool()))
        let pace = StoreQuotas.Pace(interval: 40, burst: 25)
        func reserve(_ quotas: StoreQuotas, patience: Double = 10_000) async throws -> StoreQuotas.Turn {
            try await quotas.reserve("history", app: "a", in: .production, pace, patience: patience)
        }
        try await one.block("history", app: "a", in: .production, pace, for: 86_400_000)
        for quotas in [one, other] {
            guard case .blocked(let wait) = try await reserve(quotas) else {
                Issue.record("a request may be sent although the store takes none")
                return
            }
            #expect(wait > 3_000_000 && wait <= 3_600_000)
        }
        #expect(
            try await other.reserve("order", app: "a", in: .production, pace, patience: 0) == .after(0),
            "the store counts each kind by itself")
        // Who would wait so long waits, and then all together do not come at once.
        try await one.block("history", app: "a", in: .production, pace, for: 30_000)
        var waits: [Double] = []
        for _ in 0..<3 {
            guard case .after(let wait) = try await reserve(other, patience: 50_000) else { continue }
            waits.append(wait)
        }
        #expect(waits.count == 3 && waits.allSatisfy { $0 > 10_000 && $0 <= 30_200 }, "\(waits)")
        // The clock was set back by two hours.
        try await database.owner().execute(
            script: "UPDATE store_quota SET next_at = next_at + 7200000, blocked_until = blocked_until + 7200000")
        #expect(try await reserve(one) == .after(0))
    }
}
