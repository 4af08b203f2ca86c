import Foundation

/// Runs `pgbench`, which comes with PostgreSQL, in a small database of its own beside the ledger's.
struct PgBench {
    /// What it measured.
    struct Result: Sendable {
        let perSecond: Double
        let averageMilliseconds: Double
        let operations: Int
        let processorTime: Duration
    }

    private let rig: Rig
    private let conninfo: String

    /// Makes its tables, about `rows` rows of them.
    init(_ rig: Rig, rows: Int) throws {
        self.rig = rig
        conninfo = try rig.makeDatabase("limit")
        let scale = max(1, (rows + 50_000) / 100_000)
        _ = try ChildProgram(
            [rig.postgres("pgbench"), "--initialize", "--quiet", "--scale", "\(scale)", conninfo],
            in: rig.directory
        ).finish(limit: .seconds(900))
    }

    /// One row by its primary key, prepared.
    func select(connections: Int, seconds: Double) throws -> Result {
        try run(["--select-only", "--protocol", "prepared"], connections: connections, seconds: seconds).result
    }

    /// Single rows, each committed by itself.
    ///
    /// - Parameter perSecond: begun so often, whatever they take; `nil`: each begins when the one before it is done.
    /// - Returns: median and 99th percentile, in milliseconds, from the instant at which a commit was to begin.
    func commit(
        connections: Int = 1, perSecond: Double? = nil, seconds: Double
    ) throws -> (result: Result, p50Milliseconds: Double, p99Milliseconds: Double) {
        try rig.query("CREATE TABLE IF NOT EXISTS single (number bigint PRIMARY KEY, content text NOT NULL)", conninfo)
        try rig.query("CREATE SEQUENCE IF NOT EXISTS single_number", conninfo)
        let script = rig.directory.path("commit.sql")
        let row = String(repeating: "x", count: 1000)
        try "INSERT INTO single VALUES (nextval('single_number'), '\(row)');\n"
            .write(toFile: script, atomically: true, encoding: .utf8)
        let log = rig.directory.path("commit-log")
        let (result, _) = try run(
            ["--file", script, "--protocol", "prepared", "--log", "--log-prefix", log]
                + (perSecond.map { ["--rate", "\(Int($0))"] } ?? []), connections: connections, seconds: seconds)
        // Client, transaction, latency in microseconds, …
        var latencies: [Double] = []
        for name in try FileManager.default.contentsOfDirectory(atPath: rig.directory.root.path())
        where name.hasPrefix("commit-log") {
            let text = try String(contentsOfFile: rig.directory.path(name), encoding: .utf8)
            latencies += text.split(separator: "\n").compactMap { line in
                line.split(separator: " ").dropFirst(2).first.flatMap { Double($0) }
            }
            try FileManager.default.removeItem(atPath: rig.directory.path(name))
        }
        return (result, Quantile.of(latencies, 0.5) / 1000, Quantile.of(latencies, 0.99) / 1000)
    }

    private func run(
        _ options: [String], connections: Int, seconds: Double
    ) throws -> (result: Result, output: String) {
        let whole = max(1, Int(seconds.rounded()))
        let program = try ChildProgram(
            [rig.postgres("pgbench"), "--no-vacuum"] + options + [
                "--client", "\(connections)", "--jobs", "\(min(connections, Machine.cores))", "--time", "\(whole)",
                conninfo,
            ], in: rig.directory)
        let (output, ending) = try program.finish(limit: .seconds(whole + 60))
        func number(_ prefix: String) -> Double? {
            output.split(separator: "\n").first { $0.hasPrefix(prefix) }?.dropFirst(prefix.count)
                .split(whereSeparator: { $0 == " " || $0 == "/" }).first.flatMap { Double($0) }
        }
        guard let perSecond = number("tps = "), let latency = number("latency average = "),
            let operations = number("number of transactions actually processed: ")
        else { throw BenchmarkFailure("pgbench printed no result: \(output.suffix(200))") }
        return (
            Result(
                perSecond: perSecond, averageMilliseconds: latency, operations: Int(operations),
                processorTime: ending.processorTime), output
        )
    }
}

/// Order statistics.
enum Quantile {
    /// The value below which that share of the values lies; 0 of none.
    static func of(_ values: [Double], _ quantile: Double) -> Double {
        guard !values.isEmpty else { return 0 }
        let sorted = values.sorted()
        return sorted[Int((Double(sorted.count - 1) * quantile).rounded())]
    }
}
