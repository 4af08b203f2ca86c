import EntitlementCore
import Foundation
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

/// The riskiest piece: one log, several processes that append to it and are killed at random, and a reader behind them.
@Suite("Concurrent appends", .serialized)
struct ConcurrentAppendTests {
    static let drafts = 1200
    static let originals = 25

    @Test("three processes killed at random leave a dense, exact log and true views", arguments: [UInt64(1), 2])
    func killedProcesses(seed: UInt64) async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let reader = LedgerReader(pool: pool, now: { .latest })

        let tail = Task { try await Self.tail(reader) }
        let acknowledged = try await Self.killAndRestart(seed: seed, conninfo: database.serveConninfo)
        tail.cancel()
        let seen = try await tail.value

        let drafts = RandomDrafts(seed: seed, originals: Self.originals).drafts(Self.drafts)
        let log = try await Self.wholeLog(reader)
        // Dense, each draft exactly once, whatever was acknowledged is where it was said to be.
        #expect(log.map(\.record.position) == Array(1...Int64(drafts.count)), "seed \(seed)")
        let uuids = log.compactMap { shown -> String? in
            guard case .notification(let fact) = shown.fact else { return nil }
            return fact.uuid
        }
        #expect(Set(uuids).count == drafts.count, "seed \(seed)")
        for (index, position) in acknowledged {
            #expect(uuids[Int(position) - 1] == "uuid-\(seed)-\(index)", "seed \(seed)")
        }
        #expect(!acknowledged.isEmpty)
        // The reader that followed along saw a prefix without a hole.
        #expect(seen == Array(log.prefix(seen.count).map(\.record.hash)), "seed \(seed)")
        try Self.expectChain(log, seed: seed)
        try await Self.expectTrueViews(drafts, seed: seed, pool: pool)
        try await LogInspection(database).expectSound("seed \(seed)")
        try await Self.expectTrueViews(drafts, seed: seed, pool: pool)
    }

    /// Runs three workers, kills each a few times, then lets all finish; returns what they acknowledged.
    private static func killAndRestart(seed: UInt64, conninfo: String) async throws -> [(Int, Int64)] {
        try await withThrowingTaskGroup(of: [(Int, Int64)].self) { group in
            for number in 0..<3 {
                group.addTask {
                    var random = SplitMix64(seed: seed &* 31 &+ UInt64(number))
                    var acknowledged: [(Int, Int64)] = []
                    for life in 0..<4 {
                        let worker = try WorkerProcess([
                            conninfo, "\(seed)", "\(originals)", "\(drafts)", "\(random.next() >> 1)",
                        ])
                        if life < 3 {
                            // Not before it has done something, else nothing is tested.
                            try await worker.waitForFirstLine()
                            try await Task.sleep(for: .milliseconds(Int.random(in: 0...120, using: &random)))
                            worker.kill()
                        }
                        let said = try await worker.acknowledged()
                        // Each draft is appended twice; one that said less was killed at work.
                        #expect(life == 3 || said.count < 2 * drafts, "the worker was done before it was killed")
                        acknowledged += said
                    }
                    return acknowledged
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// Follows the log as it grows; throws at the first hole or change of order.
    private static func tail(_ reader: LedgerReader) async throws -> [Digest] {
        var hashes: [Digest] = []
        while !Task.isCancelled {
            let events: [ShownEvent]
            do {
                events = try await reader.events(after: Int64(hashes.count), limit: 200).events
            } catch {
                // It may be told to stop while it waits for a connection.
                guard Task.isCancelled else { throw error }
                break
            }
            for event in events {
                guard event.record.position == Int64(hashes.count) + 1,
                    event.record.previousHash == hashes.last ?? .zero
                else { throw HoleInLog(position: event.record.position, expected: Int64(hashes.count) + 1) }
                hashes.append(event.record.hash)
            }
        }
        return hashes
    }

    private static func wholeLog(_ reader: LedgerReader) async throws -> [ShownEvent] {
        var events: [ShownEvent] = []
        while true {
            let page = try await reader.events(after: Int64(events.count), limit: 1000)
            events += page.events
            if !page.hasMore { return events }
        }
    }

    private static func expectChain(_ log: [ShownEvent], seed: UInt64) throws {
        var previous = Digest.zero
        var recordedAt = Timestamp.earliest
        for event in log {
            #expect(event.record.previousHash == previous, "seed \(seed)")
            #expect(event.record.computedHash() == event.record.hash, "seed \(seed)")
            #expect(event.record.recordedAt >= recordedAt, "seed \(seed)")
            previous = event.record.hash
            recordedAt = event.record.recordedAt
        }
    }

    /// Views, the fold of the log, and a fold of the drafts in another order all agree.
    private static func expectTrueViews(_ drafts: [EventDraft], seed: UInt64, pool: PostgresPool) async throws {
        var random = SplitMix64(seed: seed)
        var expected: [OriginalKey: OriginalState] = [:]
        for draft in drafts.shuffled(using: &random) {
            let prepared = PreparedEvent(draft)
            let key = try #require(prepared.originalKey)
            expected[key, default: OriginalState()].join(
                draft.fact, originalTransactionID: key.originalTransactionID, source: .notification, position: 1)
        }
        let keys = expected.keys.sorted()
        let (views, folded) = try await pool.withConnection { connection in
            (
                try StateQuery.states(of: keys, upTo: .max, on: connection),
                try StateQuery.fold(keys, upTo: .max, on: connection)
            )
        }
        #expect(views == folded, "seed \(seed)")
        let catalog = Catalog(products: [CatalogProduct(productID: "com.example.pro", entitlements: ["pro"])])
        for key in keys {
            let state = try #require(folded[key])
            let reference = try #require(expected[key])
            #expect(state.anonymousIntervals(catalog) == reference.anonymousIntervals(catalog), "seed \(seed) \(key)")
        }
    }
}

private struct HoleInLog: Error {
    let position: Int64
    let expected: Int64
}

extension OriginalState {
    /// What the state reads as, without positions and identities.
    fileprivate func anonymousIntervals(_ catalog: Catalog) -> [[String]] {
        chains(catalog).map { chain in
            segments(of: chain, policy: catalog.policy).map { "\($0.start) \($0.end) \($0.state) \($0.reason)" }
        }
    }
}
