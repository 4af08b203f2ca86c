import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Many catalogs at once", .timeLimit(.minutes(1)))
struct ManyCatalogsTests {
    private static let catalogs = 40
    private static let now = Timestamp(milliseconds: Int64(1_900_000_000_000))

    private static func catalog(_ number: Int) -> EventDraft {
        TestLedger.catalogDraft(
            Catalog(products: [CatalogProduct(productID: "com.example.pro", entitlements: ["pro-\(number)"])]))
    }

    @Test("a walk over everybody reads each catalog once, however many there are and whoever is looked at")
    func walk() async throws {
        let ledger = try await TestLedger()
        let pool = ledger.database.pool(connections: 1)
        let projector = WebhookProjector(
            pool: pool, settle: .zero, teller: NoTeller(), showDrift: { _ in [] }, show: { Array("\($0)".utf8) })
        for number in 0..<10 {
            _ = try await ledger.writer.append(.grant("\(number)", of: "pro", to: "c-\(number)"))
        }
        _ = try await ledger.writer.append(.endpoint("we_1", types: [.entitlementsChanged]))
        while try await projector.step(now: { Self.now }).isUnfinished {}
        for number in 0..<Self.catalogs { _ = try await ledger.writer.append(Self.catalog(number)) }
        while try await projector.step(now: { Self.now }).isUnfinished {}
        let reads = try await pool.withConnection { connection in
            try connection.query(
                """
                SELECT coalesce(sum(generic_plans + custom_plans), 0)::bigint FROM pg_prepared_statements
                WHERE starts_with(statement, 'SELECT facts FROM event') AND statement LIKE '% hash = $3'
                """
            ).row(0).int(0)
        }
        #expect(reads == Self.catalogs)
        await pool.close()
    }

    @Test("there is room for so many catalogs, and some of more than these are at hand")
    func room() async throws {
        let ledger = try await TestLedger()
        var marks: [EventMark] = []
        for number in 0..<Self.catalogs {
            let position = try await ledger.writer.append(Self.catalog(number)).position
            let event = try await ledger.reader.events(after: position - 1, limit: 1).events[0].record
            marks.append(EventMark(position: position, hash: event.hash))
        }
        let weight = try await ledger.reader.events(after: 0, limit: 1).events[0].record.facts.count
        // Those of numbers of two digits are larger by a byte.
        let cache = CatalogCache(limit: (weight + 1) * Self.catalogs / 2)
        for _ in 0..<3 {
            for mark in marks {
                _ = try await ledger.pool.withConnection { try cache.catalog(mark, on: $0) }
                #expect(cache.known(mark) != nil)
            }
        }
        let atHand = marks.count { cache.known($0) != nil }
        #expect((Self.catalogs / 2 - 1...Self.catalogs / 2 + 1).contains(atHand))
        // What alone is larger than the room is at hand for as long as nothing else is asked for.
        let none = CatalogCache(limit: 0)
        for mark in marks.prefix(3) { _ = try await ledger.pool.withConnection { try none.catalog(mark, on: $0) } }
        #expect(marks.filter { none.known($0) != nil } == [marks[2]])
    }
}
