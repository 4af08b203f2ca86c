import EntitlementCore
import Foundation
import OpenSSLCrypto
import PostgresClient
import SeededRandom
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// Several instances at once, by their writers and readers.
@Suite("Races between instances")
struct RaceTests {
    private static func writers(_ database: TestDatabase, batchEvents: Int = 256) -> [LedgerWriter] {
        var limits = LedgerWriter.Limits()
        limits.batchEvents = batchEvents
        return (0..<3).map { number in
            LedgerWriter(
                pool: database.pool(), limits: limits,
                now: { Timestamp(milliseconds: Int64(1_800_000_000_000) + number * 7_000) })
        }
    }

    private static func appendAll(_ drafts: [EventDraft], _ writers: [LedgerWriter]) async throws -> [AppendOutcome] {
        try await withThrowingTaskGroup(of: AppendOutcome.self) { group in
            for (index, draft) in drafts.enumerated() {
                group.addTask { try await writers[index % writers.count].append(draft) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("one notification posted fifty times at once to three instances is one event")
    func onceOnly() async throws {
        let database = try await TestDatabase.make()
        let writers = Self.writers(database)
        for (index, draft) in RandomDrafts(seed: 31, originals: 4).drafts(4).enumerated() {
            let outcomes = try await Self.appendAll(Array(repeating: draft, count: 50), writers)
            #expect(outcomes.allSatisfy { $0.position == Int64(index + 1) })
            #expect(outcomes.count { !$0.isDuplicate } == 1)
        }
        try await LogInspection(database).expectSound("fifty times")
    }

    @Test("one id with many payloads at once gives an event for each, all but the first flagged")
    func reusedIDs() async throws {
        let database = try await TestDatabase.make()
        let drafts = RandomDrafts(seed: 32, originals: 4).drafts(30).enumerated().map { index, draft in
            var draft = draft.posing(as: "same", payloadHash: RandomDrafts.digest("\(index)"))
            draft.environment = .production
            return draft
        }
        let outcomes = try await Self.appendAll(drafts + drafts, Self.writers(database))
        #expect(Set(outcomes.map(\.position)) == Set(1...30))
        #expect(outcomes.count { !$0.isDuplicate } == 30)
        let events = try await LedgerReader(pool: database.pool(), now: { .latest }).events(after: 0, limit: 100).events
        let flagged = events.filter { event in
            if case .notification(let fact) = event.fact { fact.remarks == ["id_reused"] } else { false }
        }
        #expect(flagged.map(\.record.position) == Array(2...30))
    }

    @Test("the header of a signer is stored once, whoever comes first, and erased evidence leaves the event")
    func headers() async throws {
        let database = try await TestDatabase.make()
        let header = Base64.encodeURL(Array(String(repeating: "certificate ", count: 200).utf8))
        let drafts = RandomDrafts(seed: 33, originals: 4).drafts(60).enumerated().map { index, draft in
            var draft = draft
            let payload = Base64.encodeURL(Array(#"{"n":\#(index),"inner":"\#(header).e30.c2ln"}"#.utf8))
            draft.evidence = .received(Array("\(header).\(payload).c2ln".utf8))
            return draft
        }
        _ = try await Self.appendAll(drafts, Self.writers(database))
        let owner = try await database.owner()
        #expect(try await owner.query("SELECT count(*) FROM jws_header").first?.int(0) == 1)
        let reader = LedgerReader(pool: database.pool(), now: { .latest })
        let given = Set(
            drafts.compactMap { draft -> [UInt8]? in
                guard case .received(let bytes) = draft.evidence else { return nil }
                return bytes
            })
        for position in Int64(1)...60 {
            let (event, evidence) = try #require(try await reader.event(at: position))
            #expect(given.contains(try #require(evidence)))
            #expect(event.record.evidenceHash?.bytes == evidence.map { SHA256.hash($0) })
        }
        try await owner.execute(script: "DELETE FROM evidence WHERE position = 7; DELETE FROM identity")
        let (event, evidence) = try #require(try await reader.event(at: 7))
        #expect(evidence == nil && event.customerID == nil && event.record.hash == event.record.computedHash())
    }

    @Test("what the database refuses takes no neighbour with it and leaves no transaction open")
    func poison() async throws {
        let ledger = try await TestLedger()
        var random = SplitMix64(seed: 34)
        // Not compressible: too long for an index's row.
        let long = (0..<700).map { _ in String(random.next(), radix: 36) }.joined()
        var drafts = RandomDrafts(seed: 34, originals: 2).drafts(40)
        drafts[3].identities = [long]
        drafts[7].type = "nul\u{0}"
        // Of a key of fixed size, however long the id.
        drafts[11] = drafts[11].posing(as: long, payloadHash: RandomDrafts.digest("long"))
        drafts[13].deduplication = .command(key: long, requestHash: RandomDrafts.digest("long"))
        drafts[17].identities = ["\u{0}"]
        drafts[20].identities = (0..<1000).map { "someone-\($0)" }
        drafts[22].evidence = .received([UInt8](repeating: 0xff, count: 12 << 20))
        drafts[23].evidence = .received([])
        let bad: Set = [3, 7, 13, 17]
        let all = drafts
        await withTaskGroup(of: (Int, Bool).self) { group in
            for index in all.indices {
                group.addTask { (index, (try? await ledger.writer.append(all[index])) != nil) }
            }
            for await (index, isAppended) in group { #expect(isAppended != bad.contains(index), "draft \(index)") }
        }
        #expect(try await ledger.reader.status().position == 36)
        let open = try await ledger.database.owner().query(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'")
        #expect(open.isEmpty)
        try await LogInspection(ledger.database).expectSound("after poison")
    }

    /// At how many positions each reader has read.
    private final class ReadPositions: Sendable {
        private let positions = Mutex([Set<Int64>](repeating: [], count: 2))

        func add(_ position: Int64, by reader: Int) { positions.withLock { _ = $0[reader].insert(position) } }
        var fewest: Int { positions.withLock { $0.map(\.count).min() ?? 0 } }
    }

    private struct Reading: Sendable {
        let position: Int64
        let originals: [String: OriginalState]
    }

    @Test("reads that race appends and garbled views answer as the log does at their position, and for ever")
    func reads() async throws {
        let seed: UInt64 = 35
        let database = try await TestDatabase.make()
        let source = RandomDrafts(seed: seed, originals: 2)
        let customer = try #require(CustomerID(source.customer(of: "20000")))
        let drafts = source.drafts(150 * Campaign.factor)
        let reader = LedgerReader(pool: database.pool(), now: { .latest })
        let read = ReadPositions()
        let readers = (0..<2).map { number in
            Task {
                var readings: [Int64: Reading] = [:]
                while !Task.isCancelled {
                    let facts: CustomerFacts
                    let position: Int64
                    do {
                        (facts, position) = try await reader.customerFacts(customer, environment: .production)
                    } catch let error as LedgerError where error.code == .unavailable && Task.isCancelled {
                        break
                    }
                    let earlier = readings.updateValue(
                        Reading(position: position, originals: facts.originals), forKey: position)
                    #expect(earlier == nil || earlier?.originals == facts.originals, "seed \(seed)")
                    read.add(position, by: number)
                }
                return readings
            }
        }
        let vandal = Task {
            let owner = try await database.owner()
            var random = SplitMix64(seed: seed)
            let damages = [
                "DELETE FROM original_view", "UPDATE original_view SET state = substr(state, 2)",
                "UPDATE original_view SET last_position = last_position + 1",
                "UPDATE original_view SET fold_version = 0",
            ]
            while !Task.isCancelled {
                _ = try? await owner.execute(script: damages.randomElement(using: &random) ?? "")
                // Each deadlock with an append costs a second until the server sees it.
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        let projector = Task {
            let projector = ViewProjector(pool: database.pool(connections: 1), pageEvents: 5, policy: .early)
            while !Task.isCancelled {
                _ = try? await projector.catchUp()
                try? await Task.sleep(for: .milliseconds(2))
            }
        }
        // Small batches, so that there are many positions to read at; and pauses until every reader has read something new,
        // because a busy machine may let all appends go before.
        let writers = Self.writers(database, batchEvents: 4)
        for part in 0..<5 {
            let size = drafts.count / 5
            _ = try await Self.appendAll(Array(drafts[part * size..<(part + 1) * size]), writers)
            let end = ContinuousClock.now + .seconds(30)
            while read.fewest <= part, .now < end {
                try await Task.sleep(for: .milliseconds(1))
            }
        }
        vandal.cancel()
        projector.cancel()
        _ = try await vandal.value
        _ = await projector.value
        for task in readers {
            task.cancel()
            let readings = try await task.value
            #expect(readings.count > 1, "nothing was raced")
            for reading in readings.values {
                let (again, _) = try await reader.customerFacts(
                    customer, environment: .production, knownAt: .position(reading.position))
                #expect(again.originals == reading.originals, "seed \(seed) at \(reading.position)")
                let keys = reading.originals.keys.map {
                    OriginalKey(environment: .production, originalTransactionID: $0)
                }
                let folded = try await database.pool().withConnection {
                    try StateQuery.fold(keys, upTo: reading.position, on: $0)
                }
                #expect(folded.count == keys.count)
                for (key, state) in folded {
                    #expect(
                        state == reading.originals[key.originalTransactionID], "seed \(seed) at \(reading.position)")
                }
            }
        }
    }

    @Test("evidence of any shape comes back byte for byte")
    func evidenceShapes() throws {
        var random = SplitMix64(seed: 36)
        let header = Base64.encodeURL(Array(String(repeating: "head", count: 60).utf8))
        let joints = [
            #"{"a":""#, #"","b":""#, #"\/"#, #"\u002e"#, #"\""#, #"\\"#, #"""#, ".", "..", "=", "==", "}", "\n", " ",
            "é", "\u{0}", "!", "-_", "+/",
        ]
        func piece(_ depth: Int) -> String {
            switch Int.random(in: 0..<(depth > 5 ? 2 : 6), using: &random) {
            case 0: return joints.randomElement(using: &random) ?? ""
            case 1: return header
            case 2:
                let payload = Base64.encodeURL(Array(piece(depth + 1).utf8))
                return "\(header).\(payload).\(Base64.encodeURL(Array(piece(depth + 1).utf8)))"
            default: return piece(depth + 1) + piece(depth + 1)
            }
        }
        for round in 0..<(3000 * Campaign.factor) {
            let bytes = Array(piece(0).utf8)
            let parts = EvidenceParts(jws: bytes)
            #expect(try EvidenceParts.assemble(parts.bytes, headers: parts.headers) == bytes, "round \(round)")
            #expect(try EvidenceParts.headerNames(in: parts.bytes) == Set(parts.headers.keys), "round \(round)")
        }
    }
}
