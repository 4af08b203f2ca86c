import EntitlementCore
import PostgresClient
import Schema
import TestSupport
import Testing

@testable import Ledger

@Suite("Commands, keys and migrations")
struct CommandTests {
    private static let other = Catalog(products: [CatalogProduct(productID: "x", entitlements: ["y"])])

    @Test("a command under one idempotency key is carried out once a day, and never mistaken for another")
    func idempotencyKeys() async throws {
        let clock = TestClock(Timestamp(milliseconds: Int64(1_000_000_000)))
        let ledger = try await TestLedger(now: { clock.now })
        func send(_ key: String, _ request: String) async throws -> AppendOutcome {
            try await ledger.writer.append(
                TestLedger.catalogDraft(
                    Self.other, deduplication: .command(key: key, requestHash: RandomDrafts.digest(request))))
        }
        #expect(try await send("k", "a") == AppendOutcome(position: 1, isDuplicate: false))
        #expect(try await send("k", "a") == AppendOutcome(position: 1, isDuplicate: true))
        await #expect(throws: AppendRefusal.idempotencyConflict) { try await send("k", "b") }
        #expect(try await send("l", "b").position == 2)
        clock.now = clock.now.adding(milliseconds: Timestamp.millisecondsPerDay)
        #expect(try await send("k", "b") == AppendOutcome(position: 3, isDuplicate: false))
        #expect(try await send("k", "b") == AppendOutcome(position: 3, isDuplicate: true))
    }

    @Test("a catalog meant for another than the one in force is refused and writes nothing")
    func preconditions() async throws {
        let ledger = try await TestLedger()
        func apply(expected: Int64) async throws -> Int64 {
            try await ledger.writer.append(TestLedger.catalogDraft(Self.other, expected: expected)).position
        }
        #expect(try await apply(expected: 0) == 1)
        await #expect(throws: AppendRefusal.catalogChanged(writtenAt: 1)) { try await apply(expected: 0) }
        #expect(try await apply(expected: 1) == 2)
        #expect(try await ledger.reader.status().position == 2)
        #expect(try await ledger.reader.catalog().catalog == Self.other)
        #expect(try await ledger.reader.catalog(knownAt: .position(0)).catalog == .empty)
    }

    @Test("of many that change the catalog at once from the same state one wins")
    func racingCatalogs() async throws {
        let ledger = try await TestLedger()
        let wins = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    (try? await ledger.writer.append(TestLedger.catalogDraft(Self.other, expected: 0))) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(wins == 1)
    }

    @Test("a key is shown once, found by its secret, and gone when revoked")
    func apiKeys() async throws {
        let ledger = try await TestLedger()
        let store = APIKeyStore(pool: ledger.pool, now: { .earliest })
        let (key, secret) = try await store.create(name: "backend", scopes: [.customersRead], environment: .sandbox)
        #expect(secret.hasPrefix("rightful_sk_"))
        #expect(try await store.find(secret: secret) == key)
        #expect(try await store.find(secret: secret + "x") == nil)
        #expect(key.allows(.customersRead) && !key.allows(.catalogWrite))
        #expect(try await store.revoke(key.id))
        #expect(try await store.find(secret: secret) == nil)
        #expect(try await store.revoke("key_none") == false)
        #expect(try await store.list().map(\.id) == [key.id])
        let owner = try await ledger.database.owner()
        let kept = try await owner.query("SELECT api_key::text FROM api_key").first?.text(0) ?? ""
        #expect(!kept.contains(secret))
    }

    @Test("migrating again does nothing; a changed or newer schema is refused by name")
    func migrations() async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        #expect(try await owner.run { try Migrator().migrate(servingRole: nil, on: $0) } == [])
        #expect(try await owner.run { try Migrator().standing(on: $0) } == .current)
        let fewer = Migrator(migrations: Array(Migration.all.dropLast()))
        #expect(try await owner.run { try fewer.standing(on: $0) } == .ahead(version: Migration.all.count))
        await #expect(throws: LedgerError.self) {
            try await owner.run { try fewer.migrate(servingRole: nil, on: $0) }
        }
        try await owner.execute(script: "UPDATE schema_migration SET sha256 = '' WHERE version = 3")
        #expect(try await owner.run { try Migrator().standing(on: $0) } == .changed(name: "0003_event"))
        try await owner.execute(script: "DELETE FROM schema_migration WHERE version >= 3")
        #expect(
            try await owner.run { try Migrator().standing(on: $0) } == .behind(missing: Migration.all.count - 2))
    }

    @Test("a database of an unreleased form is refused, whatever else it holds, and left as it is")
    func unreleased() async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        try await owner.execute(script: "UPDATE schema_migration SET name = '0019_ensure_partitions' WHERE version = 5")
        let standing = try await owner.run { try Migrator().standing(on: $0) }
        #expect(standing == .unreleased)
        #expect(standing.refusal?.contains("before the first release") == true)
        #expect(standing.refusal?.contains("\n") == false)
        let error = await #expect(throws: LedgerError.self) {
            try await owner.run { try Migrator().migrate(servingRole: nil, on: $0) }
        }
        #expect(error?.code == .schema && error?.description.contains("empty database") == true)
        let steps = try await owner.query("SELECT count(*) FROM schema_migration").first?.int(0)
        #expect(steps == Int64(Migration.all.count))
    }
}
