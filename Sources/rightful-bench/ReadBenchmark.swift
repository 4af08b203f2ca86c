import PostgresClient

/// A customer's entitlements over HTTP, and one row by its primary key through the same connections.
struct ReadBenchmark {
    private static let customers = 1000

    private let workload: Workload
    private let service: RunningService

    init(_ workload: Workload, _ service: RunningService) {
        self.workload = workload
        self.service = service
    }

    func run(_ options: Options, _ report: Report) async throws {
        let (payloads, customers) = try await workload.signed(
            atLeast: Self.customers * Workload.notificationsPerCustomer, seed: 20)
        try fill(payloads)
        // As autovacuum does within a minute of a real service's life.
        try await service.database.analyze()
        for connections in [1, 8, 64] {
            let limit = try await rowLimit(concurrency: connections, options)
            let port = service.port
            let requests = customers.map {
                HTTPConnection.request("GET", "/v1/customers/\($0)/entitlements", key: service.key)
            }
            let ticket = Ticket()
            let done = try Measure.onThreads(connections, for: options.duration) { _ in
                let connection = try HTTPConnection(port: port)
                return {
                    let status = try connection.exchange(requests[ticket.take() &* 7919 % requests.count])
                    guard status == 200 else { throw ConnectionFailure("a read was answered \(status)") }
                    return true
                }
            }
            try report.add(
                Figure(
                    "read", "\(connections) connections", unit: "answers/s", done, limit: limit))
        }
    }

    private func fill(_ payloads: [String]) throws {
        let requests = payloads.map(Workload.delivery)
        let port = service.port
        let ticket = Ticket()
        _ = try Measure.onThreads(64, for: .seconds(600)) { _ in
            let connection = try HTTPConnection(port: port)
            return {
                let index = ticket.take()
                guard index < requests.count else { return false }
                let status = try connection.exchange(requests[index])
                guard status == 200 else { throw ConnectionFailure("a notification was answered \(status)") }
                return true
            }
        }
    }

    /// `SELECT` of one state by its primary key.
    private func rowLimit(concurrency: Int, _ options: Options) async throws -> Figure.Limit {
        let pool = service.pool
        let originals = try await pool.withConnection { connection in
            try connection.query("SELECT original_transaction_id FROM original_view WHERE ledger_id = 1 LIMIT 1000")
                .rows.map { try $0.text(0) }
        }
        let ticket = Ticket()
        let done = try await Measure.concurrently(concurrency, for: options.duration) {
            let original = originals[ticket.take() &* 7919 % originals.count]
            let found = try await pool.withConnection { connection in
                try connection.query(
                    """
                    SELECT state FROM original_view
                    WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3
                    """, [.int4(1), .text("production"), .text(original)]
                ).rowCount
            }
            return found == 1
        }
        return Figure.Limit(name: "rows by primary key through the same pool", perSecond: done.perSecond)
    }
}
