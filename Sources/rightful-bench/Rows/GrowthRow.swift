/// One ledger that grows: reads, explanations, proofs, appends and the service's start at each size, beside the smallest.
struct GrowthRow: Row {
    /// Which part of the log is appended before appends are measured.
    private static let uncountedShare = 20

    private struct Rates {
        var firstReads: Sample
        var reads: Sample
        var explanations: Sample
        var proofs: Sample
        var appends: Sample
        var startup: Double
    }

    func run(_ bench: Bench) throws {
        try bench.withRig("growth") { rig in
            let empty = try startup(rig)
            var told = 0
            for size in bench.options.sizes {
                guard size > told else {
                    throw BenchmarkFailure(
                        "what was measured has appended to the log: it has \(told) events already; give --sizes further apart "
                            + "than \(size), or fewer --seconds")
                }
                let customers = try bench.load(rig, events: size, already: told)
                told = size
                let smallest = size == bench.options.sizes[0] ? nil : try smallest(bench, besides: size)
                let rates = try measure(bench, rig, customers, told: &told)
                report(bench, rates, beside: smallest, size: size, empty: empty)
                if size == bench.options.sizes.last {
                    try RebuildRow.measure(bench, rig, events: told, only: "originals")
                }
            }
        }
    }

    /// The smallest size again, in a ledger of its own.
    ///
    /// A large log takes half an hour to load, in which the speed of a machine that is shared with others changes by more
    /// than what is asked here.
    private func smallest(_ bench: Bench, besides size: Int) throws -> Rates {
        try bench.withRig("growth-\(size)") { rig in
            var told = bench.options.sizes[0]
            let customers = try bench.load(rig, events: told)
            return try measure(bench, rig, customers, told: &told)
        }
    }

    private func measure(_ bench: Bench, _ rig: Rig, _ all: Customers, told: inout Int) throws -> Rates {
        let some = try Customers(every: all.ids.count / 10_000, of: all, file: all.file + "-some")
        rig.stopService()
        let startup = try startup(rig)
        try rig.warmUp()
        // Without a service's memory: what a read costs at this size.
        let firstReads = try CustomerReads(bench, rig, all).firstTimeSample(connections: 8)
        let reads = CustomerReads(bench, rig, some)
        _ = try reads.firstTimeSample(connections: 8)
        let remembered = try bench.repeated { try reads.sample("entitlements", connections: 8) }
        let explanations = try bench.repeated { try reads.sample("explain", connections: 8) }
        let proofs = try proofs(bench, rig)
        rig.stopService()
        // The first change of a page after a checkpoint goes to the log as a whole page, and what was read before has taken
        // the place of the indexes in memory. At such rates a checkpoint comes after some gigabytes of log; here one has just
        // been made, and a measurement of seconds would show nothing but what follows it.
        _ = try AppendRow.append(
            bench, rig, LifeStream.Shape(), skip: &told, concurrency: 256, events: told / Self.uncountedShare)
        let appends = try AppendRow.append(
            bench, rig, LifeStream.Shape(), skip: &told, concurrency: 256, seconds: bench.options.seconds)
        return Rates(
            firstReads: firstReads, reads: remembered, explanations: explanations, proofs: proofs,
            appends: appends, startup: startup)
    }

    private func proofs(_ bench: Bench, _ rig: Rig) throws -> Sample {
        let service = try rig.serve()
        let position = try rig.position()
        return try bench.repeated {
            let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
            return Sample(
                try bench.wrk.run(
                    .proofs, ["\(position)", service.key], connections: 8, seconds: bench.roundSeconds,
                    port: service.port), meter)
        }
    }

    private func report(_ bench: Bench, _ rates: Rates, beside smallest: Rates?, size: Int, empty: Double) {
        let target = Target.ratio(atLeast: 0.9)
        for (name, unit, sample, limit) in [
            ("first reads, 8 connections", "answers/s", rates.firstReads, smallest?.firstReads),
            ("reads of 10000 customers, 8 connections", "answers/s", rates.reads, smallest?.reads),
            ("explain, 8 connections", "answers/s", rates.explanations, smallest?.explanations),
            ("appends, 256 at a time", "events/s", rates.appends, smallest?.appends),
        ] {
            let text = "\(size) events: \(name)"
            guard let limit else {
                bench.report.add(Figure("growth", text, unit: unit, sample).placed(events: size))
                continue
            }
            bench.report.add(
                Figure("growth", text, unit: unit, sample, limit: ("with \(bench.options.sizes[0]) events", limit))
                    .placed(events: size).judged(target))
        }
        bench.report.add(
            Figure("growth", "\(size) events: proofs, 8 connections", unit: "answers/s", rates.proofs).placed(
                events: size))
        if let p99 = rates.proofs.p99Milliseconds {
            bench.report.add(
                Figure("growth", "\(size) events: proofs, 8 connections, p99", unit: "ms", value: p99)
                    .placed(events: size).judged(.value(atMost: 10)))
        }
        bench.report.add(
            Figure("growth", "\(size) events: start to ready", unit: "ms", value: rates.startup)
                .beside("on an empty ledger", empty).placed(events: size).judged(.ratio(atMost: 2)))
    }

    /// From the start of `rightful serve` to its first answer that it is ready, PostgreSQL being up: the median of
    /// five, in milliseconds.
    private func startup(_ rig: Rig) throws -> Double {
        var times: [Double] = []
        for _ in 0..<5 {
            rig.stopService()
            times.append(try rig.serve().startup / .milliseconds(1))
        }
        rig.stopService()
        return Quantile.of(times, 0.5)
    }
}
