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
        let store = APIKeyStore(pool: ledger.pool, writer: ledger.writer)
        let (key, secret) = try await store.create(name: "backend", scopes: [.customersRead], environment: .sandbox)
        #expect(secret.hasPrefix("rightful_sk_"))
        #expect(try await store.find(secret: secret) == key)
        #expect(try await store.find(secret: secret + "x") == nil)
        #expect(key.allows(.customersRead) && !key.allows(.catalogWrite))
        #expect(try await store.revoke(key.id))
        #expect(try await store.find(secret: secret) == nil)
        #expect(try await store.revoke(key.id), "revoked before")
        #expect(try await store.revoke("key_none") == false)
        let listed = try await store.list()
        #expect(listed.map(\.id) == [key.id] && listed.first?.revokedAt != nil)
    }

    @Test("making and revoking a key are one event each, which never hold the secret")
    func keyEvents() async throws {
        let ledger = try await TestLedger()
        let store = APIKeyStore(pool: ledger.pool, writer: ledger.writer)
        let (backend, secret) = try await store.create(name: "backend", scopes: [.eventsRead, .customersRead])
        let (app, appSecret) = try await store.create(
            name: "app", scopes: [], isPublishable: true, bundleID: "com.example.app")
        // Two who revoke at once, and one who comes late.
        async let first = store.revoke(backend.id)
        async let second = store.revoke(backend.id)
        #expect(try await [first, second, store.revoke(backend.id)] == [true, true, true])
        #expect(try await store.find(secret: appSecret) == app && app.revokedAt == nil)

        let events = try await ledger.reader.events(after: 0, limit: 10).events
        #expect(events.map(\.record.type) == ["api_key_created", "api_key_created", "api_key_revoked"])
        #expect(events.allSatisfy { $0.record.source == .operatorCommand && $0.record.environment == nil })
        guard case .access(.keyCreated(let made)) = events.first?.fact else {
            Issue.record("the first event makes no key")
            return
        }
        #expect(made.scopes == ["customers:read", "events:read"] && made.name == "backend")
        let owner = try await ledger.database.owner()
        let rows = try await owner.query("SELECT event::text, encode(facts, 'escape') FROM event").rows
        for row in rows {
            for text in [try row.text(0), try row.text(1)] { #expect(!text.contains(secret.suffix(43))) }
        }
        #expect(try await ledger.reader.statistics().keys == 1)
    }

    @Test("the keys of passes are recorded when they change, and only then")
    func passKeys() async throws {
        let ledger = try await TestLedger()
        let register = PassKeyRegister(pool: ledger.pool, writer: ledger.writer)
        let old = PassKeyFact(keyID: "a", notBefore: nil, x: "x", y: "y")
        let new = PassKeyFact(keyID: "b", notBefore: .earliest, x: "v", y: "w")
        #expect(try await register.record([]) == false, "none is what there was")
        #expect(try await register.record([old]))
        #expect(try await register.record([old]) == false)
        #expect(try await register.record([old, new]))
        #expect(try await register.record([new]))
        #expect(try await register.record([]))
        let events = try await ledger.reader.events(after: 0, limit: 10).events
        #expect(events.map(\.fact) == [[old], [old, new], [new], []].map { .access(.passKeys($0)) })
    }

    @Test("the keys of passes are recorded again when the log has lost them, and only then")
    func lostPassKeys() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        let register = PassKeyRegister(pool: ledger.pool, writer: ledger.writer)
        let own = [PassKeyFact(keyID: "a", notBefore: nil, x: "x", y: "y")]
        let others = [PassKeyFact(keyID: "b", notBefore: nil, x: "v", y: "w")]
        #expect(try await register.record(others))
        let end = try await LogEnd.now(of: owner)
        let (isRecorded, seen) = try await register.keep(own, since: nil)
        #expect(isRecorded && seen.position == 2)
        #expect(try await register.record(others), "another instance's")
        let (isRecordedInTurn, _) = try await register.keep(own, since: seen)
        #expect(!isRecordedInTurn)
        try await end.restore(by: owner)
        // As long as before.
        for keys in [[], others] { #expect(try await register.record(keys)) }
        let (isRecordedAgain, seenAgain) = try await register.keep(own, since: seen)
        #expect(isRecordedAgain && seenAgain.position == 4)
        let events = try await ledger.reader.events(after: 0, limit: 10).events
        #expect(events.map(\.fact) == [others, [], others, own].map { .access(.passKeys($0)) })
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
