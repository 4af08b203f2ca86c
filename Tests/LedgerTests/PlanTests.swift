import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// Every statement that serves or appends searches indexes, whatever the planner knows of the tables.
@Suite("Plans")
struct PlanTests {
    private static let tables = ["event", "event_name", "identity", "original_view", "evidence"]
    /// Conditions of which each finds little, and one of which a search of an index needs.
    private static let selective = [
        "identity =", "position\" =", "position\" >", "original_transaction_id = ANY", "original_transaction_id = key.",
        "original_transaction_id = part.", "original_transaction_id = life.", "original_transaction_id = named.",
        "original_transaction_id = $", "transaction_id =", "dedup_key =", "value =", "type =", "sha256 =",
    ]
    private static let bulk = 100_000

    /// Many customers with one original transaction of four events each, beside the few that the test asks for.
    private static func fill(_ owner: PostgresConnection) async throws {
        let settings = tables.map { "ALTER TABLE \($0) SET (autovacuum_enabled = false);" }.joined()
        try await owner.execute(
            script: """
                \(settings)
                INSERT INTO event SELECT 1, head.position + n, head.recorded_at, NULL, 1, 1, 'renewed',
                    'bulk-' || n / 4, 'bulk-' || n / 4 || '-' || n % 4, 'com.example.pro', 1000000 + n / 4, NULL,
                    substr(sha256(n::text::bytea), 1, 16), '\\x00', NULL, head.hash, head.hash
                FROM ledger_head AS head, generate_series(1, \(bulk)) AS n;
                INSERT INTO event_name SELECT 1, 1000000 + n / 4, 1, 0, 'bulk-' || n / 4, 1000 + n
                FROM generate_series(0, \(bulk), 4) AS n;
                INSERT INTO identity SELECT 1, 1000000 + n, 'salt', 'bulk-customer-' || n
                FROM generate_series(0, \(bulk) / 4) AS n;
                INSERT INTO original_view SELECT 1, 0, 1, 'bulk-' || n, 1, 1000 + n * 4, 4, '\\x00'
                FROM generate_series(0, \(bulk) / 4) AS n;
                INSERT INTO evidence SELECT 1, 1000000 + n, '\\x00' FROM generate_series(1, \(bulk)) AS n;
                UPDATE ledger_head SET position = position + \(bulk), next_identity = 2000000
                """)
    }

    @Test("no hot statement scans a table, before its first ANALYZE and after")
    func plans() async throws {
        let database = try await TestDatabase.make()
        let now: @Sendable () -> Timestamp = { Timestamp(milliseconds: Int64(1_800_000_000_000)) }
        // One session, so that it knows every statement.
        let pool = database.pool(connections: 1)
        let (writer, reader) = (LedgerWriter(pool: pool, now: now), LedgerReader(pool: pool, now: now))
        _ = try await writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        let drafts = VerifyRig.drafts(seed: 61, count: 60)
        for draft in drafts { _ = try await writer.append(draft) }
        _ = try await writer.append(
            EventDraft(
                environment: .production, source: .api, occurredAt: nil,
                fact: .transfer(TransferFact(originalTransactionID: "20001", customer: IdentityRef(0))),
                identities: ["receiver"], deduplication: .command(key: "k", requestHash: RandomDrafts.digest("r")),
                unchangedSince: UnchangedSince(
                    try await reader.status().position, customers: ["receiver"],
                    originals: [OriginalKey(environment: .production, originalTransactionID: "20001")])))
        let owner = try await database.owner()
        // A session keeps the plans that it made of a young ledger until the next ANALYZE, however much comes meanwhile.
        for state in ["small and analysed", "grown and never analysed", "grown and analysed"] {
            if state.hasPrefix("grown and never") { try await Self.fill(owner) }
            if state.hasSuffix(" analysed"), !state.contains("never") { try await owner.execute(script: "ANALYZE") }
            try await Self.exercise(writer, reader, drafts, state)
            try await Self.exercise(ConsumptionRegister(pool: pool, holder: "plans"), reader)
            try await DriftProjector(pool: pool).catchUp(isHurried: true)
            let found = try await Self.plans(pool)
            let quiet = try #require(found.first { $0.sql.contains("source = 2 OR type = 'drift'") })
            #expect(quiet.plan.contains("event_drift"), "\(state): \(quiet.plan)")
            #expect(found.count > 12, "\(state): only \(found.count) statements were run")
            for (sql, plan) in found {
                for problem in Self.problems(plan) { Issue.record("\(state): \(problem) in\n\(sql)\n\(plan)") }
            }
        }
    }

    /// Reads and appends of every kind.
    private static func exercise(
        _ writer: LedgerWriter, _ reader: LedgerReader, _ drafts: [EventDraft], _ state: String
    ) async throws {
        let customer = try #require(CustomerID("customer-of-20001"))
        for knownAt in [KnownAt.head, .position(40)] {
            let facts = try await reader.customerFacts(customer, environment: .production, knownAt: knownAt).facts
            #expect(!facts.originals.isEmpty)
        }
        let loaded = await reader.load([LedgerQuestion(of: customer, .production)])
        #expect(try loaded.first?.get().facts.originals.isEmpty == false)
        #expect(try await reader.pasts(of: [(customer, .production)]).first??.bytes ?? 0 > 500)
        _ = try await reader.subscription("20001", environment: .production)
        for lookup in [
            CustomerLookup.transactionID("20001-1"), .appAccountToken(customer.value), .appTransactionID("700001"),
        ] { _ = try await reader.customers(lookup) }
        _ = try await reader.events(of: customer, environment: .production, after: 0, limit: 50)
        _ = try await reader.events(after: 50, limit: 10)
        let app = AppScope("com.example")
        let scope = LogScope(environment: nil, app: app)
        #expect(try await !reader.customerFacts(customer, environment: .production, app: app).facts.originals.isEmpty)
        #expect(try await reader.subscription("20001", environment: .production, app: app).subscription != nil)
        #expect(try await !reader.customers(.appAccountToken(customer.value), only: scope).matches.isEmpty)
        _ = try await reader.events(of: customer, environment: .production, after: 0, limit: 50, app: app)
        #expect(try await !reader.events(after: 0, limit: 10, only: scope).events.isEmpty)
        _ = try await reader.drifts(of: customer, .production, limit: 5)
        _ = try await reader.driftRegister.page(DriftQuery(.production, limit: 5))
        _ = try await reader.driftRegister.page(DriftQuery(.sandbox, isResolved: false), only: scope)
        _ = try await reader.conflicts(on: ["20001"], .production)
        _ = try await reader.otherEnvironments(of: customer, than: .production, upTo: 60)
        #expect(try await writer.append(drafts[1]).isDuplicate || drafts[1].deduplication == .unique)
        var news = RandomDrafts(seed: 62, originals: 2).drafts(2)[0]
        news.deduplication = .news
        _ = try await writer.append(news)
        _ = try await writer.append(
            EventDraft(
                environment: nil, source: .api, occurredAt: nil,
                fact: .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))),
                identities: ["alias-\(state)", "receiver"], deduplication: .unique,
                unchangedSince: UnchangedSince(
                    try await reader.status().position, customers: ["receiver"],
                    originals: [OriginalKey(environment: .production, originalTransactionID: "20001")])))
    }

    /// What looks for refund requests, and for what was asked about an original transaction.
    private static func exercise(_ register: ConsumptionRegister, _ reader: LedgerReader) async throws {
        _ = try await register.requests(after: .none, since: .earliest)
        _ = try await register.settled([1, 2], knownAt: .none)
        _ = try await reader.original(of: "20001-1", in: .production)
        #expect(try await reader.original(of: "20001", in: .production) == "20001")
        _ = try await reader.storeDialogue(
            about: OriginalKey(environment: .production, originalTransactionID: "20001"))
    }

    /// What the session has prepared that looks at one of the tables, and how it runs it.
    private static func plans(_ pool: PostgresPool) async throws -> [(sql: String, plan: String)] {
        try await pool.withConnection { connection in
            let prepared = try connection.query(
                """
                SELECT name, statement, cardinality(parameter_types)::bigint FROM pg_prepared_statements
                WHERE statement ~ '\\m(event|event_name|identity|original_view|evidence)\\M'
                    AND statement ~ '^(SELECT|WITH|INSERT|UPDATE)'
                """
            ).rows.map { (name: try $0.text(0), sql: try $0.text(1), count: Int(try $0.int(2))) }
            return try prepared.map { statement in
                let values = [String](repeating: "NULL", count: statement.count).joined(separator: ", ")
                let call = "\"\(statement.name)\"" + (values.isEmpty ? "" : "(\(values))")
                let lines = try connection.query("EXPLAIN (COSTS off) EXECUTE \(call)").rows.map { try $0.text(0) }
                return (sql: statement.sql, plan: lines.joined(separator: "\n"))
            }
        }
    }

    /// Scans of a table, or of an index from one end of the ledger to the other.
    private static func problems(_ plan: String) -> [String] {
        let lines = plan.split(separator: "\n").map(String.init)
        var problems: [String] = []
        for (index, line) in lines.enumerated() {
            guard line.contains("Scan"), let place = line.firstRange(of: " on "),
                let table = line[place.upperBound...].split(separator: " ").first, tables.contains(String(table))
            else { continue }
            if !line.contains("Index") || line.contains("Bitmap") {
                problems.append(line)
            } else {
                // Every index begins with the ledger's number, which finds nothing.
                let condition = lines.dropFirst(index + 1).first ?? ""
                if !condition.contains("Index Cond:") || !selective.contains(where: { condition.contains($0) }) {
                    problems.append("\(line), \(condition)")
                }
            }
        }
        return problems
    }
}
