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

    /// Small pages, so that originals span them and many of them fit a test; and snapshots of short lives.
    static func limits(_ change: (inout Rebuilder.Limits) -> Void = { _ in }) -> Rebuilder.Limits {
        var limits = Rebuilder.Limits()
        limits.pageEvents = 7
        limits.walkEvents = 20
        limits.pageRows = 3
        limits.policy = .early
        limits.lease = .milliseconds(400)
        change(&limits)
        return limits
    }

    func rebuilder(_ change: (inout Rebuilder.Limits) -> Void = { _ in }) -> Rebuilder {
        Rebuilder(pool: ledger.pool, limits: Self.limits(change))
    }

    /// Small pages, as above.
    var projector: ViewProjector { ViewProjector(pool: ledger.pool, pageEvents: 11, policy: .early) }

    var views: ViewInspection { ViewInspection(ledger.database) }

    /// What a rebuild that starts now writes: every life that is long enough, folded to its end.
    func folded() async throws -> ViewInspection.Rows {
        try await views.lives().compactMapValues { $0.row() }.filter { $0.value.events >= SnapshotPolicy.early.tail }
    }

    /// The views that count are true, there are no others, and nothing asks for a rebuild; when the projector has
    /// caught up, too.
    func expectRebuilt(_ comment: String = "") async throws {
        for _ in 0..<2 {
            try await views.expectTrue(.early, comment)
            try await views.expectTrueReads(comment)
            let strays = try await owner.query(
                """
                SELECT count(*) FROM original_view
                WHERE ledger_id <> 1 OR generation <> (SELECT view_generation FROM ledger_head)
                """
            ).first?.int(0)
            #expect(strays == 0, "\(comment)")
            #expect(try await rebuilder().reasonToRebuild() == nil, "\(comment)")
            try await projector.catchUp()
        }
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
