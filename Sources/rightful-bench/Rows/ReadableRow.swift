import Foundation
import Glibc

/// From the sending of a customer's first notification to the first answer that shows it, at half of the greatest rate;
/// beside a bare commit of a single row, and beside as many bare commits a second.
struct ReadableRow: Row {
    private static let committers = 8

    func run(_ bench: Bench) throws {
        try bench.withRig("readable") { rig in
            let service = try rig.serve()
            let database = try PgBench(rig, rows: 100_000)
            let commit = try database.commit(seconds: bench.options.seconds)
            let verification = try OpenSSLSpeed(directory: bench.directory).verify(seconds: 1)
            let greatest = try greatestRate(bench, service, expected: verification.capacity / 3)
            let half = greatest / 2
            let seconds = max(4, bench.options.seconds)
            let supply = try prepare(bench, seed: 201, count: Int(half * seconds) + 100, files: 1)
            let pipe = bench.directory.path("probes")
            guard mkfifo(pipe, 0o600) == 0 else { throw BenchmarkFailure("cannot make \(pipe)") }
            let watcher = try rig.worker(
                "watch", WorkerRequest.Watch(port: service.port, key: service.key, pipe: pipe))
            let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
            let poster = try rig.worker(
                "post",
                WorkerRequest.Post(
                    port: service.port, file: supply.file + "0", customersFile: supply.customers, perSecond: half,
                    seconds: seconds, pipe: pipe))
            let (posted, ending) = try poster.result(WorkerResult.self, limit: .seconds(seconds + 90))
            let sample = Sample(posted, ending, meter)
            let (seen, _) = try watcher.result(WorkerResult.self, limit: .seconds(60))
            var figure = Figure(
                "readable", "sent to readable at \(Int(half)) notifications/s, p99", unit: "ms",
                value: seen.p99Milliseconds
            ).beside("p99 of a bare single-row commit (pgbench, one connection)", commit.p99Milliseconds)
            figure.p50Milliseconds = seen.p50Milliseconds
            figure.p99Milliseconds = seen.p99Milliseconds
            figure.others = sample.others
            bench.report.add(
                figure.judged(.ratio(atMost: 4))
                    .noting("\(seen.operations) probes of \(posted.operations); greatest rate \(Int(greatest))/s"))
            var acknowledged = Figure(
                "readable", "sent to acknowledged at \(Int(half)) notifications/s, p99", unit: "ms",
                value: posted.p99Milliseconds)
            acknowledged.p50Milliseconds = posted.p50Milliseconds
            acknowledged.p99Milliseconds = posted.p99Milliseconds
            acknowledged.processorTime = sample.processorTime
            bench.report.add(acknowledged)
            // What follows the log would take its part of the machine.
            rig.stopService()
            let commits = try database.commit(connections: Self.committers, perSecond: half, seconds: seconds)
            var bare = Figure(
                "readable", "\(Int(half)) bare commits/s (pgbench --rate, \(Self.committers) connections), p99",
                unit: "ms", value: commits.p99Milliseconds
            ).beside("p99 of a bare single-row commit (pgbench, one connection)", commit.p99Milliseconds)
            bare.p50Milliseconds = commits.p50Milliseconds
            bare.p99Milliseconds = commits.p99Milliseconds
            bench.report.add(bare)
        }
    }

    /// What the service takes in over 64 connections.
    private func greatestRate(_ bench: Bench, _ service: Service, expected: Double) throws -> Double {
        let supply = try prepare(
            bench, seed: 200, count: Int(expected * bench.roundSeconds * 1.2), files: Wrk.threads(connections: 64))
        return try bench.wrk.run(
            .requestsOnce, [supply.file], connections: 64, seconds: bench.roundSeconds, port: service.port
        ).perSecond
    }

    private func prepare(
        _ bench: Bench, seed: UInt64, count: Int, files: Int
    ) throws -> (file: String, customers: String) {
        let notifications = bench.workload.notifications(atLeast: max(500, count), seed: seed, onlyFirst: true)
        let file = bench.directory.path("first-notifications")
        let customers = bench.directory.path("first-customers")
        try Requests.write(try bench.workload.sign(notifications).map(Workload.delivery), to: file, files: files)
        try (notifications.map { try Workload.customer(of: $0) }.joined(separator: "\n") + "\n").write(
            toFile: customers, atomically: true, encoding: .utf8)
        return (file, customers)
    }
}
