import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("What the log speaks of")
struct SeenProjectorTests {
    @Test("kinds of remarks and products are counted behind the log, each event once")
    func seen() async throws {
        let rig = try await RebuildRig(seed: 27, originals: 2, events: 30)
        // A server may be set to take backslashes in literals for escapes.
        let pool = PostgresPool(rig.ledger.database.serveConninfo + " options='-c standard_conforming_strings=off'")
        let projector = SeenProjector(pool: pool, pageEvents: 4)
        #expect(try await projector.catchUp())
        let odd = RandomDrafts(seed: 28, originals: 2).drafts(3).map { draft -> EventDraft in
            var draft = draft
            guard case .notification(var fact) = draft.fact else { return draft }
            fact.remarks = ["unknown_field:a", "unknown_field:b", "grace_without_end"]
            draft.fact = .notification(fact)
            return draft
        }
        for draft in odd { _ = try await rig.ledger.writer.append(draft) }
        // Several transactions at once have no column of their own, and a claim speaks of no product.
        let several = odd.compactMap(\.fact.transaction)
        var another = several[1]
        another.productID = "com.example.other"
        let original = several[0].originalTransactionID
        for fact in [
            LedgerFact.statements(
                StatementsFact(
                    originalTransactionID: original, transactions: [several[0], another, several[2]], renewals: [],
                    remarks: [])),
            .claim(ClaimFact(originalTransactionID: original, customer: IdentityRef(0))),
        ] {
            _ = try await rig.ledger.writer.append(
                EventDraft(
                    environment: .production, source: .device, occurredAt: nil, fact: fact,
                    identities: ["somebody", "else"], deduplication: .unique))
        }
        for _ in 0..<2 {
            try await projector.catchUp()
            let summary = try await projector.summary(besides: .empty)
            #expect(summary.checkpoint == 36)
            #expect(
                summary.remarks == [
                    SeenName(name: "grace_without_end", events: 3, firstPosition: 32, lastPosition: 34),
                    SeenName(name: "unknown_field", events: 3, firstPosition: 32, lastPosition: 34),
                ])
            #expect(
                summary.unmappedProducts == [
                    SeenName(name: "com.example.pro", events: 34, firstPosition: 2, lastPosition: 35),
                    SeenName(name: "com.example.other", events: 1, firstPosition: 35, lastPosition: 35),
                ])
            try await projector.reset()
        }
        #expect(try await projector.summary(besides: .empty).checkpoint == 0)
    }

    @Test("while one process counts, another passes by, or waits for as long as it is told")
    func seenElsewhere() async throws {
        let rig = try await RebuildRig(seed: 29, originals: 2, events: 10)
        let projector = SeenProjector(pool: rig.ledger.pool, pageEvents: 4)
        try await projector.catchUp()
        _ = try await rig.ledger.writer.append(RandomDrafts(seed: 30, originals: 2).drafts(1)[0])
        let head = try await rig.ledger.reader.headPosition()
        try await rig.owner.execute(script: "BEGIN; SELECT FROM projection WHERE name = 'seen' FOR UPDATE")
        #expect(try await projector.catchUp() == false)
        let waiting = Task { try await projector.catchUp(patience: .seconds(30)) }
        try await Task.sleep(for: .milliseconds(50))
        try await rig.owner.execute(script: "COMMIT")
        #expect(try await waiting.value)
        #expect(try await projector.summary(besides: .empty).checkpoint == head)
    }

    @Test("what was counted is counted anew, and not once more, where somebody has deleted how far that had come")
    func seenRowDeleted() async throws {
        let rig = try await RebuildRig(seed: 33, originals: 2, events: 10)
        let projector = SeenProjector(pool: rig.ledger.pool, pageEvents: 4)
        try await projector.catchUp()
        let summary = try await projector.summary(besides: .empty)
        #expect(!summary.unmappedProducts.isEmpty)
        try await rig.owner.execute(script: "DELETE FROM projection WHERE name = 'seen'")
        try await projector.catchUp()
        #expect(try await projector.summary(besides: .empty) == summary)
    }

    @Test("a product that was sold as non-renewing is listed while the catalog knows it and says no duration")
    func withoutDuration() async throws {
        let rig = try await RebuildRig(seed: 34, originals: 2, events: 10)
        let projector = SeenProjector(pool: rig.ledger.pool, pageEvents: 4)
        let sold = RandomDrafts(seed: 35, originals: 2).drafts(4).enumerated().map { number, draft -> EventDraft in
            var draft = draft
            guard case .notification(var fact) = draft.fact else { return draft }
            fact.transaction?.kind = .known(number == 3 ? .consumable : .nonRenewing)
            fact.transaction?.productID = ["season", "season", "pass", "coins"][number]
            fact.remarks = number == 1 ? ["unknown_field:a"] : []
            draft.fact = .notification(fact)
            return draft
        }
        for draft in sold { _ = try await rig.ledger.writer.append(draft) }
        try await projector.catchUp()
        func listed(_ products: [CatalogProduct]) async throws -> [SeenName] {
            try await projector.summary(besides: Catalog(products: products)).productsWithoutDuration
        }
        #expect(try await listed([]).isEmpty)
        let gives = ["season", "pass", "coins"].map { CatalogProduct(productID: $0, entitlements: ["premium"]) }
        #expect(
            try await listed(gives) == [
                SeenName(name: "season", events: 2, firstPosition: 12, lastPosition: 13),
                SeenName(name: "pass", events: 1, firstPosition: 14, lastPosition: 14),
            ])
        let quarter = CalendarDuration(iso8601: "P90D")
        let mended = [
            CatalogProduct(productID: "season", entitlements: ["premium"], duration: quarter),
            CatalogProduct(productID: "pass", entitlements: []),
        ]
        #expect(try await listed(mended).isEmpty)
    }

    @Test("of each list there are at most a thousand, and none takes another's place")
    func limits() async throws {
        let rig = try await RebuildRig(seed: 36, originals: 2, events: 2)
        let projector = SeenProjector(pool: rig.ledger.pool)
        try await projector.catchUp()
        try await rig.owner.execute(
            script: """
                INSERT INTO seen SELECT 1, 'product', 'p' || n, 100 + n, 1, 2 FROM generate_series(1, 1100) AS n;
                INSERT INTO seen VALUES (1, 'remark', 'unknown_type', 1, 1, 1)
                """)
        let summary = try await projector.summary(besides: .empty)
        #expect(summary.remarks.map(\.name) == ["unknown_type"])
        #expect(summary.unmappedProducts.count == 1000)
        #expect(summary.unmappedProducts.first?.name == "p1100" && summary.unmappedProducts.last?.name == "p101")
    }
}
