import EntitlementCore
import Ledger
import PostgresClient
import Synchronization

/// Durable appends through the ledger's writer, and batches of rows as large into a table that promises nothing else.
struct AppendBenchmark {
    private let workload: Workload
    private let server: DatabaseServer

    init(_ workload: Workload, _ server: DatabaseServer) {
        self.workload = workload
        self.server = server
    }

    func run(_ options: Options, _ report: Report) async throws {
        let database = try await server.makeDatabase("append")
        let supply = try await workload.drafts(atLeast: 500)
        let samples = supply.storedSamples(100)
        for (writers, concurrencies) in [(1, [1, 8, 64, 256]), (3, [256])] {
            let limit = try await plainLimit(database, samples, connections: writers, options)
            for concurrency in concurrencies {
                try report.add(
                    try await measure(database, supply, writers: writers, concurrency, limit, options))
            }
        }
    }

    private func measure(
        _ database: BenchmarkDatabase, _ supply: DraftSupply, writers count: Int, _ concurrency: Int,
        _ limit: Figure.Limit, _ options: Options
    ) async throws -> Figure {
        let batches = BatchCount()
        let writers = (0..<count).map { _ in
            LedgerWriter(
                pool: database.pool(connections: 2), now: Workload.now, report: { batches.add($0) })
        }
        // Connections are made and statements prepared before the time begins.
        for writer in writers { _ = try await writer.append(supply.next()) }
        batches.reset()
        let turn = Ticket()
        let done = try await Measure.concurrently(concurrency, for: options.duration) {
            _ = try await writers[turn.take() % count].append(supply.next())
            return true
        }
        let name = count == 1 ? "1 writer" : "\(count) writers"
        return Figure(
            "append", "\(name), \(concurrency) at a time", unit: "events/s", done, limit: limit,
            batchEvents: batches.mean)
    }

    /// Batches of 100 rows, each with a position and the bytes of an event, one fsync each.
    private func plainLimit(
        _ database: BenchmarkDatabase, _ samples: [[UInt8]], connections: Int, _ options: Options
    ) async throws -> Figure.Limit {
        let owner = try await PostgresConnection.connect(database.ownerConninfo)
        try await owner.execute(
            script: """
                CREATE TABLE IF NOT EXISTS plain (position bigint PRIMARY KEY, stored bytea NOT NULL);
                GRANT INSERT ON plain TO PUBLIC;
                """)
        try await owner.execute(script: "TRUNCATE plain")
        let pool = database.pool(connections: connections)
        let ticket = Ticket()
        let batches = try await Measure.concurrently(connections, for: options.duration) {
            let start = Int64(ticket.take() * samples.count)
            _ = try await pool.withConnection { connection in
                try connection.query(
                    "INSERT INTO plain (position, stored) SELECT * FROM unnest($1::bigint[], $2::bytea[])",
                    [.intArray((0..<samples.count).map { start + Int64($0) }), .bytesArray(samples)])
            }
            return true
        }
        await pool.close()
        return Figure.Limit(
            name: "plain rows in batches of \(samples.count)", perSecond: batches.perSecond * Double(samples.count))
    }
}

/// Counts batches, to say how large they were.
private final class BatchCount: Sendable {
    private let state = Mutex((batches: 0, events: 0))

    func add(_ report: LedgerWriter.BatchReport) {
        state.withLock { $0 = ($0.batches + 1, $0.events + report.events) }
    }

    func reset() { state.withLock { $0 = (0, 0) } }

    var mean: Double { state.withLock { $0.batches == 0 ? 0 : Double($0.events) / Double($0.batches) } }
}
