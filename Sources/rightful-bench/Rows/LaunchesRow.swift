/// Launches of steady customers' apps: each posts all it holds, of which nothing is new.
struct LaunchesRow: Row {
    private static let customers = 1000
    /// Eight times what the first draft did on the machine that the target was written on.
    private static let target = 8.0 * 1140

    func run(_ bench: Bench) throws {
        try bench.withRig("launches") { rig in
            let service = try rig.serve()
            let launches = try bench.workload.launches(customers: Self.customers, key: service.key)
            let file = bench.directory.path("launches")
            try Requests.write(launches, to: file, files: 1)
            // What is new of them becomes known.
            let send = WorkerRequest.Send(port: service.port, file: file + "0", connections: 8)
            let (first, _) = try rig.worker("send", send).result(WorkerResult.self, limit: .seconds(300))
            bench.report.add(
                Figure(
                    "launches", "the first of each customer, 8 connections", unit: "launches/s", value: first.perSecond)
            )
            try rig.settle()
            for connections in bench.options.connections {
                let sample = try bench.repeated {
                    let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
                    return Sample(
                        try bench.wrk.run(
                            .requestsAtRandom, [file + "0"], connections: connections, seconds: bench.roundSeconds,
                            port: service.port), meter)
                }
                let figure = Figure(
                    "launches", "\(connections) connections", unit: "launches/s", sample
                ).placed(connections: connections)
                bench.report.add(connections == 64 ? figure.judged(.value(atLeast: Self.target)) : figure)
            }
        }
    }
}
