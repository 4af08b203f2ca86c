import EntitlementCore
import Ledger
import PostgresClient
import StoreSimulator

/// Everything from the log to timelines, as a rebuild of all views and a look at each customer would do it.
struct FoldBenchmark {
    private static let events = 20_000
    private static let page: Int64 = 10_000

    private let workload: Workload
    private let server: DatabaseServer

    init(_ workload: Workload, _ server: DatabaseServer) {
        self.workload = workload
        self.server = server
    }

    private struct Row: Sendable {
        let position: Int64
        let original: String
        let facts: [UInt8]
    }

    func run(_ options: Options, _ report: Report) async throws {
        let database = try await server.makeDatabase("fold")
        let pool = database.pool(connections: 2)
        try await fill(pool)
        let catalog = catalog()

        let read = try await rate(options) { try await pool.withConnection { try Self.rows(on: $0).count } }
        let limit = Figure.Limit(name: "rows read by position, \(Self.page) at a time", perSecond: read)
        let rows = try await pool.withConnection { try Self.rows(on: $0) }

        let decoded = try await rate(options) {
            try rows.reduce(into: 0) { count, row in
                _ = try FactCodec.decode(row.facts)
                count += 1
            }
        }
        try report.add(Figure("fold", "decoded", unit: "statements/s", perSecond: decoded, limit: limit))
        let joined = try await rate(options) {
            _ = try Self.states(rows)
            return rows.count
        }
        try report.add(Figure("fold", "decoded and joined", unit: "statements/s", perSecond: joined, limit: limit))
        let folded = try await rate(options) {
            guard try Self.timelines(rows, catalog) > 0 else { throw UsageError("the fold gave no timeline") }
            return rows.count
        }
        try report.add(
            Figure("fold", "decoded, joined, timelines", unit: "statements/s", perSecond: folded, limit: limit))
        let whole = try await rate(options) {
            let rows = try await pool.withConnection { try Self.rows(on: $0) }
            _ = try Self.timelines(rows, catalog)
            return rows.count
        }
        try report.add(
            Figure("fold", "read, decoded, joined, timelines", unit: "statements/s", perSecond: whole, limit: limit))
        await pool.close()
    }

    /// How many a second, over as many calls as fit.
    private func rate(_ options: Options, _ operation: () async throws -> Int) async throws -> Double {
        let start = ContinuousClock.now
        let end = start + options.duration
        var count = 0
        repeat { count += try await operation() } while ContinuousClock.now < end
        return Double(count) / (start.duration(to: .now) / .seconds(1))
    }

    private func fill(_ pool: PostgresPool) async throws {
        let supply = try await workload.drafts(atLeast: 500)
        let writer = LedgerWriter(pool: pool, now: Workload.now)
        let ticket = Ticket()
        _ = try await Measure.concurrently(256, for: .seconds(600)) {
            guard ticket.take() < Self.events else { return false }
            _ = try await writer.append(supply.next())
            return true
        }
    }

    private static func rows(on connection: isolated PostgresConnection) throws -> [Row] {
        var rows: [Row] = []
        var after: Int64 = 0
        while true {
            let page = try connection.query(
                """
                SELECT position, original_transaction_id, facts FROM event
                WHERE ledger_id = $1 AND position > $2 ORDER BY position LIMIT $3
                """, [.int(1), .int(after), .int(page)])
            for row in page.rows {
                rows.append(Row(position: try row.int(0), original: try row.text(1), facts: try row.bytes(2)))
            }
            guard let last = rows.last, page.rowCount == Int(Self.page) else { return rows }
            after = last.position
        }
    }

    private static func states(_ rows: [Row]) throws -> [String: OriginalState] {
        var states: [String: OriginalState] = [:]
        for row in rows {
            states[row.original, default: OriginalState()].join(
                try FactCodec.decode(row.facts), originalTransactionID: row.original, source: .notification,
                position: row.position)
        }
        return states
    }

    /// How many timelines there are.
    private static func timelines(_ rows: [Row], _ catalog: Catalog) throws -> Int {
        try states(rows).reduce(into: 0) { count, entry in
            let (original, state) = entry
            guard let owner = state.transactions.first?.fact.accountToken else { return }
            count += CustomerFacts(customer: owner, originals: [original: state], catalog: catalog).timelines().count
        }
    }

    private func catalog() -> Catalog {
        Catalog(
            products: workload.world.mappings.map {
                CatalogProduct(productID: $0.productID, entitlements: $0.entitlements)
            })
    }
}
