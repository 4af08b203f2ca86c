import EmbeddedPostgres
import EntitlementCore
import Foundation
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

/// A migrated database with a writer and a reader of the serving role.
struct TestLedger {
    let database: TestDatabase
    let pool: PostgresPool
    let writer: LedgerWriter
    let reader: LedgerReader

    init(now: @escaping @Sendable () -> Timestamp = { Timestamp(milliseconds: Int64(1_800_000_000_000)) }) async throws
    {
        database = try await TestDatabase.make()
        pool = database.pool()
        writer = LedgerWriter(pool: pool, now: now)
        reader = LedgerReader(pool: pool, now: now)
    }

    static let catalog = Catalog(products: [CatalogProduct(productID: "com.example.pro", entitlements: ["pro"])])

    static func catalogDraft(
        _ catalog: Catalog, expected: Int64? = nil, deduplication: Deduplication = .unique
    ) -> EventDraft {
        EventDraft(
            environment: nil, source: .api, type: "catalog_applied", occurredAt: nil, fact: .catalog(catalog),
            identities: [], deduplication: deduplication, expectedCatalogPosition: expected)
    }
}

@Suite("The log")
struct LogTests {
    @Test("the database refuses the serving role every change to the log, and its owner too")
    func appendOnly() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(RandomDrafts(seed: 1, originals: 1).drafts(1)[0])
        let statements = [
            "UPDATE event SET type = 'x'", "DELETE FROM event", "TRUNCATE event", "UPDATE event_name SET kind = 1",
            "DELETE FROM event_name", "TRUNCATE event_name",
            "SET session_replication_role = replica; DELETE FROM event", "ALTER TABLE event DISABLE TRIGGER ALL",
            "DROP TABLE event", "UPDATE evidence SET parts = ''",
        ]
        for conninfo in [ledger.database.serveConninfo, ledger.database.ownerConninfo] {
            let connection = try await PostgresConnection.connect(conninfo)
            let isOwner = conninfo == ledger.database.ownerConninfo
            // An owner can always remove its own guards; what it cannot do is change the log by mistake.
            for statement in isOwner ? Array(statements.prefix(7)) : statements {
                await #expect(throws: PostgresError.self, "\(statement)") {
                    try await connection.execute(script: statement)
                }
            }
        }
        #expect(try await ledger.reader.events(after: 0, limit: 10).events.count == 1)
    }

    @Test("one notification is one event; the same id with another payload is a flagged event of its own")
    func idempotency() async throws {
        let ledger = try await TestLedger()
        let drafts = RandomDrafts(seed: 2, originals: 3).drafts(2)
        let impostor = drafts[1].posing(as: "uuid-2-0", payloadHash: RandomDrafts.digest("other"))
        #expect(try await ledger.writer.append(drafts[0]) == AppendOutcome(position: 1, isDuplicate: false))
        #expect(try await ledger.writer.append(drafts[0]) == AppendOutcome(position: 1, isDuplicate: true))
        #expect(
            try await ledger.writer.append(impostor)
                == AppendOutcome(position: 2, isDuplicate: false, idIsReused: true))
        #expect(try await ledger.writer.append(impostor) == AppendOutcome(position: 2, isDuplicate: true))
        let events = try await ledger.reader.events(after: 0, limit: 10).events
        let remarks = events.map { event -> [String] in
            guard case .notification(let fact) = event.fact else { return [] }
            return fact.remarks
        }
        #expect(remarks == [[], ["id_reused"]])
    }

    @Test("the same notification in the other environment is an event of its own, and nothing is odd about it")
    func sameIDInBothEnvironments() async throws {
        let ledger = try await TestLedger()
        var draft = RandomDrafts(seed: 2, originals: 3).drafts(1)[0]
        for (position, environment) in [(Int64(1), StoreEnvironment.production), (2, .sandbox)] {
            draft.environment = environment
            for isDuplicate in [false, true] {
                #expect(
                    try await ledger.writer.append(draft)
                        == AppendOutcome(position: position, isDuplicate: isDuplicate))
            }
        }
        #expect(try await ledger.reader.events(after: 0, limit: 10).events.count == 2)
    }

    @Test("recorded time never runs back, though the clock does")
    func monotoneTime() async throws {
        let clock = TestClock(Timestamp(milliseconds: Int64(2_000_000)))
        let ledger = try await TestLedger(now: { clock.now })
        let drafts = RandomDrafts(seed: 3, originals: 2).drafts(3)
        _ = try await ledger.writer.append(drafts[0])
        clock.now = Timestamp(milliseconds: Int64(1_000_000))
        _ = try await ledger.writer.append(drafts[1])
        clock.now = Timestamp(milliseconds: Int64(3_000_000))
        _ = try await ledger.writer.append(drafts[2])
        let recorded = try await ledger.reader.events(after: 0, limit: 10).events.map(\.record.recordedAt.milliseconds)
        #expect(recorded == [2_000_000, 2_000_001, 3_000_000])

        func position(_ instant: Int64) async throws -> Int64 {
            try await ledger.reader.catalog(knownAt: .recorded(Timestamp(milliseconds: instant))).position
        }
        #expect(try await position(1_999_999) == 0)
        #expect(try await position(2_000_000) == 1)
        #expect(try await position(2_999_999) == 2)
        // No later batch can be recorded at the head's instant, but at the next.
        #expect(try await position(3_000_000) == 3)
        await #expect(throws: KnownAtError.notSettled) { try await position(3_000_001) }
        clock.now = Timestamp(milliseconds: Int64(3_100_000))
        #expect(try await position(3_000_001) == 3)
        await #expect(throws: KnownAtError.beyondHead(head: 3)) {
            try await ledger.reader.catalog(knownAt: .position(4))
        }
        // A writer that has the head may have dated its events before it stalled.
        let owner = try await ledger.database.owner()
        for end in ["ROLLBACK", "COMMIT"] {
            try await owner.execute(script: "BEGIN; SELECT FROM ledger_head FOR UPDATE")
            await #expect(throws: KnownAtError.notSettled) { try await position(3_000_001) }
            #expect(try await position(3_000_000) == 3)
            try await owner.execute(script: end)
            #expect(try await position(3_000_001) == 3)
        }
        try await owner.execute(script: "BEGIN; UPDATE ledger_head SET position = position")
        await #expect(throws: KnownAtError.notSettled) { try await position(3_000_001) }
        try await owner.execute(script: "ROLLBACK")
        #expect(try await position(3_000_001) == 3)
    }

    @Test("evidence comes back byte for byte, its certificates stored once")
    func evidence() async throws {
        let ledger = try await TestLedger()
        let header = String(repeating: "eyJoZWFkZXIi", count: 300)
        let inner = "\(header).eyJhIjoxfQ.c2ln"
        let payload = Data(
            "{\"data\":{\"signedTransactionInfo\":\"\(inner)\",\"signedRenewalInfo\":\"\(inner)\"}}".utf8)
        let outer = "\(header).\(payload.base64EncodedString().replacingOccurrences(of: "=", with: "")).c2lnbg"
        let oddities = [outer, outer + "=", "no.jws", "", "\(header).!.c2ln", "\(header).eyJhIjoxfQ.c2luZ"]
        var drafts = RandomDrafts(seed: 4, originals: 2).drafts(oddities.count)
        for (index, text) in oddities.enumerated() {
            drafts[index].evidence = .received(Array(text.utf8))
            #expect(try await ledger.writer.append(drafts[index]).position == Int64(index + 1))
            let stored = try await ledger.reader.event(at: Int64(index + 1))
            #expect(stored?.evidence == Array(text.utf8))
        }
        let owner = try await ledger.database.owner()
        #expect(try await owner.query("SELECT count(*) FROM jws_header").first?.int(0) == 1)
        let size = try #require(
            try await owner.query("SELECT length(parts)::bigint FROM evidence WHERE position = 1").first?.int(0))
        #expect(size < 400, "three headers of 3600 bytes went into \(size)")
    }

    @Test("deleted, outdated and garbled views change no answer, and the projector restores what grows")
    func disposableViews() async throws {
        let ledger = try await TestLedger()
        let source = RandomDrafts(seed: 5, originals: 2)
        let drafts = source.drafts(40)
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        for draft in drafts.prefix(39) { _ = try await ledger.writer.append(draft) }
        let customer = try #require(CustomerID(source.customer(of: "20000")))
        func timelines() async throws -> [EntitlementTimeline] {
            try await ledger.reader.customerFacts(customer, environment: .production).facts.timelines()
        }
        let truth = try await timelines()
        #expect(!truth.isEmpty)
        let projector = ViewProjector(pool: ledger.pool, policy: .early)
        try await projector.catchUp()
        let owner = try await ledger.database.owner()
        try await owner.execute(script: "CREATE TABLE saved_view AS TABLE original_view")
        #expect(try await timelines() == truth)
        for damage in [
            "UPDATE original_view SET state = decode('00', 'hex')", "UPDATE original_view SET fold_version = 0",
            "UPDATE original_view SET last_position = last_position - 1", "UPDATE original_view SET generation = 1",
            "UPDATE original_view SET last_position = last_position + 100", "DELETE FROM original_view",
        ] {
            try await owner.execute(script: damage)
            #expect(try await timelines() == truth, "\(damage)")
            try await owner.execute(
                script: "DELETE FROM original_view; INSERT INTO original_view SELECT * FROM saved_view")
        }
        try await owner.execute(script: "DELETE FROM original_view")
        _ = try await ledger.writer.append(drafts[39])
        try await projector.catchUp()
        #expect(try await owner.query("SELECT count(*) FROM original_view").first?.int(0) == 1)
    }

    @Test("an answer known at a position stays what it was")
    func knownAt() async throws {
        let ledger = try await TestLedger()
        let source = RandomDrafts(seed: 6, originals: 2)
        let customer = try #require(CustomerID(source.customer(of: "20001")))
        var answers: [[EntitlementTimeline]] = []
        func timelines(_ knownAt: KnownAt) async throws -> [EntitlementTimeline] {
            try await ledger.reader.customerFacts(customer, environment: .production, knownAt: knownAt).facts
                .timelines()
        }
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        for draft in source.drafts(30) {
            _ = try await ledger.writer.append(draft)
            answers.append(try await timelines(.head))
        }
        _ = try await ledger.writer.append(TestLedger.catalogDraft(.empty))
        #expect(try await timelines(.head).isEmpty)
        for (index, answer) in answers.enumerated() {
            #expect(try await timelines(.position(Int64(index + 2))) == answer)
        }
    }

    @Test("customer ids that differ only in how a character is spelt are two customers, also in one batch")
    func spelling() async throws {
        let ledger = try await TestLedger()
        var drafts = RandomDrafts(seed: 8, originals: 1).drafts(2)
        drafts[0].identities = ["caf\u{E9}"]
        drafts[1].identities = ["cafe\u{301}"]
        for round in 0..<2 {
            let plan = try await ledger.pool.withConnection { [drafts] connection in
                try AppendTransaction.run(
                    drafts.map { PreparedEvent($0) }, inDoubt: nil, memory: WriterMemory(), lease: ReadLease(),
                    now: { .earliest },
                    on: connection)
            }
            guard case .committed(let committed) = plan else {
                Issue.record("not committed")
                return
            }
            #expect(committed.outcomes.count == 2, "round \(round)")
        }
        let events = try await ledger.reader.events(after: 0, limit: 10).events
        #expect(events.map { $0.customerID.map { Array($0.utf8) } } == drafts.map { Array($0.identities[0].utf8) })
        #expect(Set(events.compactMap(\.record.identity)).count == 2)
    }

    @Test("a batch with one event that the database refuses still commits the others")
    func poison() async throws {
        let ledger = try await TestLedger()
        var drafts = RandomDrafts(seed: 7, originals: 2).drafts(6)
        drafts[3].identities = ["a customer\u{0}"]
        let outcomes = await withTaskGroup(of: (Int, Result<AppendOutcome, any Error>).self) { group in
            for (index, draft) in drafts.enumerated() {
                group.addTask {
                    do {
                        return (index, .success(try await ledger.writer.append(draft)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        for index in drafts.indices {
            switch outcomes[index] {
            case .success: #expect(index != 3)
            case .failure(let error): #expect(index == 3, "\(error)")
            case nil: Issue.record("no outcome")
            }
        }
        #expect(try await ledger.reader.status().position == 5)
    }
}

extension EventDraft {
    /// The same notification under another id, with another payload.
    func posing(as uuid: String, payloadHash: Digest) -> EventDraft {
        guard case .notification(var fact) = fact else { return self }
        (fact.uuid, fact.payloadHash) = (uuid, payloadHash)
        var draft = self
        draft.fact = .notification(fact)
        draft.deduplication = .statement(id: "notification:\(uuid)", payloadHash: payloadHash)
        return draft
    }
}

/// A clock that tests set.
final class TestClock: Sendable {
    private let value: Mutex<Timestamp>

    init(_ start: Timestamp) { value = Mutex(start) }

    var now: Timestamp {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}
