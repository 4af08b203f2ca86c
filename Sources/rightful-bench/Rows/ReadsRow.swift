import Foundation

/// A customer's entitlements over HTTP beside `pgbench -S -M prepared` on the same PostgreSQL.
struct ReadsRow: Row {
    func run(_ bench: Bench) throws {
        try bench.withRig("reads") { rig in
            let customers = try bench.load(rig, events: bench.options.events)
            let limit = try PgBench(rig, rows: bench.options.events)
            let reads = CustomerReads(bench, rig, customers)
            bench.report.add(
                try reads.firstTime(connections: 8).placed(connections: 8, events: bench.options.events))
            for connections in bench.options.connections {
                let (select, sample) = try bench.inTurn(
                    { try reads.select(limit, connections: connections) },
                    { try reads.sample("entitlements", connections: connections) })
                let figure = Figure(
                    "reads", "\(connections) connections", unit: "answers/s", sample,
                    limit: ("pgbench -S -M prepared, as many connections", select)
                ).placed(connections: connections, events: bench.options.events)
                bench.report.add(figure.judged(.ratio(atLeast: connections == 1 ? 0.4 : 0.5)))
            }
            try conditional(bench, rig, reads, customers)
            if let memory = try rig.serve().peakMemory {
                bench.report.add(
                    Figure("reads", "peak memory of the service", unit: "MiB", value: Double(memory) / Double(1 << 20)))
            }
        }
    }

    /// Reads with the tag of the answer that the asker has already.
    private func conditional(_ bench: Bench, _ rig: Rig, _ reads: CustomerReads, _ customers: Customers) throws {
        let service = try rig.serve()
        let connection = try HTTPConnection(port: service.port)
        var requests: [[UInt8]] = []
        for customer in customers.ids.prefix(1000) {
            let target = "/v1/customers/\(customer)/entitlements"
            let answer = try connection.exchange(HTTPConnection.request("GET", target, key: service.key))
            guard let tag = answer.field("ETag") else { throw BenchmarkFailure("an answer bears no ETag") }
            requests.append(
                HTTPConnection.request("GET", target, key: service.key, fields: ["If-None-Match: \(tag)"]))
        }
        // Whether they are answered as meant, before they are counted.
        for request in requests.prefix(20) {
            let status = try connection.exchange(request).status
            guard status == 304 else { throw BenchmarkFailure("a known tag was answered \(status)") }
        }
        let file = bench.directory.path("conditional")
        try Requests.write(requests, to: file, files: 1)
        let sample = try bench.repeated {
            let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
            return Sample(
                try bench.wrk.run(
                    .requestsAtRandom, [file + "0"], connections: 64, seconds: bench.roundSeconds, port: service.port),
                meter)
        }
        bench.report.add(
            Figure("reads", "64 connections, If-None-Match (304)", unit: "answers/s", sample)
                .placed(connections: nil, events: bench.options.events))
    }
}

/// Reads at instants of the past, and as the log was known at positions of the past, beside plain reads.
struct PastReadsRow: Row {
    func run(_ bench: Bench) throws {
        try bench.withRig("past") { rig in
            let customers = try bench.load(rig, events: bench.options.events)
            let reads = CustomerReads(bench, rig, customers)
            _ = try reads.firstTime(connections: 8)
            let position = try rig.position()
            // Plain reads are measured once each customer was read; so are these. What the first one costs is told apart.
            bench.report.add(
                Figure(
                    "past-reads", "each customer's first, 8 connections", unit: "answers/s",
                    try reads.eachOnce(connections: 8, query: "?known_at=\(position)")
                ).placed(connections: 8, events: bench.options.events))
            for connections in [8, 64] {
                for (name, query) in [("at", "at"), ("known_at", "known_at:\(position)")] {
                    let (plain, sample) = try bench.inTurn(
                        { try reads.sample("entitlements", connections: connections) },
                        { try reads.sample("entitlements", query, connections: connections) })
                    bench.report.add(
                        Figure(
                            "past-reads", "\(name) at random, \(connections) connections", unit: "answers/s", sample,
                            limit: ("plain reads, as many connections", plain)
                        ).judged(.ratio(atLeast: 0.3)))
                }
            }
        }
    }
}

/// Reads of random customers of one ledger by `wrk`.
struct CustomerReads {
    private let bench: Bench
    private let rig: Rig
    private let customers: Customers

    init(_ bench: Bench, _ rig: Rig, _ customers: Customers) {
        self.bench = bench
        self.rig = rig
        self.customers = customers
    }

    /// One round of a route below the customer.
    func sample(_ route: String, _ query: String = "plain", connections: Int) throws -> Sample {
        let service = try rig.serve()
        let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
        let result = try bench.wrk.run(
            .customers, [customers.file, "\(customers.ids.count)", service.key, route, query],
            connections: connections, seconds: bench.roundSeconds, port: service.port)
        return Sample(result, meter)
    }

    /// One round of the limit, with the service up and idle.
    func select(_ limit: PgBench, connections: Int) throws -> Sample {
        let service = try rig.serve()
        let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
        return Sample(try limit.select(connections: connections, seconds: bench.roundSeconds), meter)
    }

    /// Each customer once, of a service that was just started.
    func firstTime(connections: Int) throws -> Figure {
        Figure(
            "reads", "each customer's first, \(connections) connections", unit: "answers/s",
            try firstTimeSample(connections: connections))
    }

    /// The same, as it was measured.
    func firstTimeSample(connections: Int) throws -> Sample {
        rig.stopService()
        return try eachOnce(connections: connections)
    }

    /// Each customer once, in turn.
    ///
    /// - Parameter query: what follows the path, with its question mark.
    func eachOnce(connections: Int, query: String = "") throws -> Sample {
        let service = try rig.serve()
        let file = bench.directory.path("first")
        // Enough to measure, spread over all, and no more than can be held.
        let every = 1 + customers.ids.count / 300_000
        let asked = stride(from: 0, to: customers.ids.count, by: every).map {
            HTTPConnection.request("GET", "/v1/customers/\(customers.ids[$0])/entitlements\(query)", key: service.key)
        }
        try Requests.write(asked, to: file, files: 1)
        let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
        let request = WorkerRequest.Send(port: service.port, file: file + "0", connections: connections)
        let (result, ending) = try rig.worker("send", request).result(WorkerResult.self, limit: .seconds(600))
        return Sample(result, ending, meter)
    }
}
