import EntitlementCore
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// A ledger with a random log, and what its views must be.
struct RebuildRig: Sendable {
    let ledger: TestLedger
    let owner: PostgresConnection
    let drafts: RandomDrafts

    init(seed: UInt64, originals: Int, events: Int) async throws {
        ledger = try await TestLedger()
        owner = try await ledger.database.owner()
        drafts = RandomDrafts(seed: seed, originals: originals)
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        try await append(drafts.drafts(events))
    }

    /// Appends with up to 64 waiting at a time.
    func append(_ drafts: some Sequence<EventDraft>) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (started, draft) in drafts.enumerated() {
                if started >= 64 { try await group.next() }
                group.addTask { _ = try await ledger.writer.append(draft) }
            }
            try await group.waitForAll()
        }
    }

    /// Small pages, so that originals span them and many of them fit a test.
    static func limits(_ change: (inout Rebuilder.Limits) -> Void = { _ in }) -> Rebuilder.Limits {
        var limits = Rebuilder.Limits()
        limits.pageEvents = 7
        limits.catchUpPositions = 5
        limits.deletedRows = 3
        limits.swapPositions = 4
        limits.lease = .milliseconds(400)
        change(&limits)
        return limits
    }

    func rebuilder(_ change: (inout Rebuilder.Limits) -> Void = { _ in }) -> Rebuilder {
        Rebuilder(pool: ledger.pool, limits: Self.limits(change))
    }

    typealias Rows = [OriginalKey: [UInt8]]

    /// Every row of a view table, its version and position checked.
    func rows(_ table: ViewTable) async throws -> Rows {
        try await owner.run { connection in
            var rows: Rows = [:]
            let result = try connection.query(
                "SELECT environment, original_transaction_id, fold_version, last_position, state FROM \(table.name)")
            for row in result.rows {
                let key = OriginalKey(
                    environment: try StoreEnvironment(stored: row.text(0)), originalTransactionID: try row.text(1))
                let state = try OriginalState(encoded: row.bytes(4))
                #expect(try row.int(2) == Int64(OriginalState.foldVersion), "\(key)")
                #expect(try row.int(3) == state.lastPosition, "\(key)")
                rows[key] = state.encoded()
            }
            return rows
        }
    }

    var live: ViewTable { get async throws { try await owner.run { try ViewTable.live(on: $0) } } }

    /// The fold of the whole log, made here from the events alone.
    func folded() async throws -> Rows {
        var states: [OriginalKey: OriginalState] = [:]
        var after: Int64 = 0
        while true {
            let page = try await ledger.reader.events(after: after, limit: 1000)
            for event in page.events {
                let record = event.record
                guard let environment = record.environment, let original = record.originalTransactionID else {
                    continue
                }
                let key = OriginalKey(environment: environment, originalTransactionID: original)
                states[key, default: OriginalState()].join(
                    event.fact, originalTransactionID: original, source: record.source.statementSource,
                    position: record.position)
            }
            after = page.nextAfter
            if !page.hasMore { return states.mapValues { $0.encoded() } }
        }
    }

    /// The live table is the fold of the log, the other one empty, and nothing asks for a rebuild.
    func expectRebuilt(_ comment: String = "") async throws {
        let live = try await live
        #expect(try await rows(live) == folded(), "\(comment)")
        #expect(try await rows(live.other).isEmpty, "\(comment)")
        #expect(try await rebuilder().reasonToRebuild() == nil, "\(comment)")
        let status = try await ledger.reader.status()
        let originals = try #require(status.projections.first { $0.name == "originals" })
        #expect(originals.checkpoint == status.position && originals.version == Int64(OriginalState.foldVersion))
    }
}

/// Counts calls, and remembers what matters of them.
final class ProgressKeeper: Sendable {
    private let kept = Mutex<[RebuildProgress]>([])
    private let reaction: @Sendable (Int, RebuildProgress) -> Void

    /// `reaction` gets the number of the call, from 1.
    init(_ reaction: @escaping @Sendable (Int, RebuildProgress) -> Void = { _, _ in }) { self.reaction = reaction }

    func keep(_ progress: RebuildProgress) {
        let count = kept.withLock { kept in
            kept.append(progress)
            return kept.count
        }
        reaction(count, progress)
    }

    var all: [RebuildProgress] { kept.withLock { $0 } }
}

/// A number that tasks count up.
final class Tally: Sendable {
    private let value = Atomic(0)

    /// Returns what it was before.
    @discardableResult
    func add() -> Int { value.add(1, ordering: .relaxed).oldValue }

    var count: Int { value.load(ordering: .relaxed) }
}
