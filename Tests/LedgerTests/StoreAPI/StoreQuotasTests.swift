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
                    let wait = try await instances[number % 3].reserve(
                        "history", app: "a", in: .production, interval: 100, burst: 5, patience: 3000)
                    return wait.map { start.duration(to: .now) / .milliseconds(1) + $0 }
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
            "history", app: "a", in: .sandbox, interval: 100, burst: 5, patience: 0)
        #expect(other == 0, "another environment is counted by itself")
        #expect(
            try await instances[0].reserve("order", app: "a", in: .production, interval: 100, burst: 1, patience: 0)
                == 0)
        #expect(
            try await instances[1].reserve("order", app: "a", in: .production, interval: 1e7, burst: 1, patience: 10)
                == nil, "nothing is reserved beyond one's patience")
    }

    @Test("a clock that was set back keeps nobody waiting for the time to come")
    func clockSetBack() async throws {
        let database = try await TestDatabase.make()
        let quotas = StoreQuotas(pool: database.pool())
        func reserve() async throws -> Double? {
            try await quotas.reserve("order", app: "a", in: .production, interval: 200, burst: 1, patience: 1000)
        }
        #expect(try await reserve() == 0)
        try await database.owner().execute(script: "UPDATE store_quota SET next_at = next_at + 86400000")
        #expect(try await reserve() == 0)
        let next = try #require(try await reserve())
        #expect(next > 0 && next <= 200, "\(next)")
    }
}
