import Foundation

/// Runs `wrk`, the load generator that Debian ships, against the service.
struct Wrk {
    /// What it measured.
    struct Result: Sendable {
        let requests: Int
        let seconds: Double
        let p50Milliseconds: Double
        let p99Milliseconds: Double
        /// Its own processor time.
        let processorTime: Duration

        var perSecond: Double { Double(requests) / seconds }
    }

    let directory: WorkDirectory

    /// As many threads as `pgbench` gets too.
    static func threads(connections: Int) -> Int { min(connections, Machine.cores) }

    /// Sends what the script makes for so many seconds.
    ///
    /// Throws when a request failed or was refused: a figure must not count errors.
    func run(
        _ script: WrkScript, _ arguments: [String], connections: Int, seconds: Double, port: UInt16
    ) throws -> Result {
        try Programs.require("wrk")
        let file = directory.path("\(script.name).lua")
        try script.text.write(toFile: file, atomically: true, encoding: .utf8)
        let whole = max(1, Int(seconds.rounded()))
        let program = try ChildProgram(
            [
                "/usr/bin/env", "wrk", "--threads", "\(Self.threads(connections: connections))", "--connections",
                "\(connections)", "--duration", "\(whole)s", "--timeout", "20s", "--script", file,
                "http://127.0.0.1:\(port)", "--",
            ] + arguments, in: directory)
        let (output, ending) = try program.finish(limit: .seconds(whole + 60))
        guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("result ") }) else {
            throw BenchmarkFailure("wrk printed no result: \(output.suffix(200))")
        }
        let numbers = line.split(separator: " ").dropFirst().compactMap { Double($0) }
        guard numbers.count == 9 else { throw BenchmarkFailure("wrk printed '\(line)'") }
        let errors = zip(["connect", "read", "write", "status", "timeout"], numbers[2...6]).filter { $0.1 > 0 }
        guard errors.isEmpty else {
            throw BenchmarkFailure(
                "wrk met errors: " + errors.map { "\(Int($0.1)) of kind \($0.0)" }.joined(separator: ", ")
                    + " in \(Int(numbers[0])) requests of \(script.name)")
        }
        return Result(
            requests: Int(numbers[0]), seconds: numbers[1] / 1e6, p50Milliseconds: numbers[7] / 1000,
            p99Milliseconds: numbers[8] / 1000, processorTime: ending.processorTime)
    }
}
