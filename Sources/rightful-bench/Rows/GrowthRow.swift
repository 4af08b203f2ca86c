/// One ledger that grows: reads, explanations, proofs, appends and the service's start at each size, beside the smallest.
struct GrowthRow: Row {
    /// Which part of the log is appended before appends are measured.
    private static let uncountedShare = 20

    /// A ledger of some size, and what was measured of it.
    private final class Ledger {
        let rig: Rig
        /// Ten thousand customers, spread over all.
        let customers: Customers
        /// How many of the stream's events are in the log.
        var told: Int
        var startup = 0.0
        var firstReads: [Sample] = []
        var reads: [Sample] = []
        var explanations: [Sample] = []
        var proofs: [Sample] = []
        var appends: [Sample] = []

        init(_ rig: Rig, _ all: Customers, told: Int) throws {
            self.rig = rig
            customers = try Customers(every: all.ids.count / 10_000, of: all, file: all.file + "-some")
            self.told = told
        }
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
                let large = try Ledger(rig, try bench.load(rig, events: size, already: told), told: size)
                if size == bench.options.sizes[0] {
                    try measure(bench, [large])
                    report(bench, large, beside: nil, size: size, empty: empty)
                } else {
                    try measure(bench, large, besidesSmallest: size, empty: empty)
                }
                told = large.told
                if size == bench.options.sizes.last {
                    try RebuildRow.measure(bench, rig, events: told, only: "originals")
                }
            }
        }
    }

    /// Measures a large ledger beside one of the smallest size.
    ///
    /// That one is made anew: a large log takes half an hour to load, in which the speed of a machine that is shared with
    /// others changes by more than what is asked here.
    private func measure(_ bench: Bench, _ large: Ledger, besidesSmallest size: Int, empty: Double) throws {
        let events = bench.options.sizes[0]
        try bench.withRig("growth-\(size)") { rig in
            let small = try Ledger(rig, try bench.load(rig, events: events), told: events)
            try measure(bench, [small, large])
            report(bench, large, beside: small, size: size, empty: empty)
        }
    }

    private func measure(_ bench: Bench, _ ledgers: [Ledger]) throws {
        for ledger in ledgers {
            ledger.rig.stopService()
            ledger.startup = try startup(ledger.rig)
            try ledger.rig.warmUp()
        }
        // Of a service that was just started each time: what a read costs that nothing in memory answers.
        try bench.inTurn(ledgers) { $0.firstReads.append(try reads(bench, $0).firstTimeSample(connections: 8)) }
        try bench.inTurn(ledgers) { $0.reads.append(try reads(bench, $0).sample("entitlements", connections: 8)) }
        try bench.inTurn(ledgers) { $0.explanations.append(try reads(bench, $0).sample("explain", connections: 8)) }
        try bench.inTurn(ledgers) { $0.proofs.append(try proofs(bench, $0.rig)) }
        for ledger in ledgers {
            ledger.rig.stopService()
            // The first change of a page after a checkpoint goes to the log as a whole page, and what was read before has taken
            // the place of the indexes in memory. At such rates a checkpoint comes after some gigabytes of log; here one has
            // just been made, and a measurement of seconds would show nothing but what follows it.
            _ = try append(bench, ledger, events: ledger.told / Self.uncountedShare)
        }
        try bench.inTurn(ledgers) { $0.appends.append(try append(bench, $0, seconds: bench.roundSeconds)) }
    }

    private func reads(_ bench: Bench, _ ledger: Ledger) -> CustomerReads {
        CustomerReads(bench, ledger.rig, ledger.customers)
    }

    private func proofs(_ bench: Bench, _ rig: Rig) throws -> Sample {
        let service = try rig.serve()
        let position = try rig.position()
        let meter = ProcessorMeter(service: service.pid, postmaster: rig.postmaster)
        return Sample(
            try bench.wrk.run(
                .proofs, ["\(position)", service.key], connections: 8, seconds: bench.roundSeconds, port: service.port),
            meter)
    }

    private func append(_ bench: Bench, _ ledger: Ledger, events: Int = 0, seconds: Double = 0) throws -> Sample {
        try AppendRow.append(
            bench, ledger.rig, LifeStream.Shape(), skip: &ledger.told, concurrency: 256, events: events,
            seconds: seconds)
    }

    private func report(
        _ bench: Bench, _ ledger: Ledger, beside smallest: Ledger?, size: Int, empty: Double
    ) {
        for (name, unit, samples) in [
            ("first reads, 8 connections", "answers/s", \Ledger.firstReads),
            ("reads of 10000 customers, 8 connections", "answers/s", \.reads),
            ("explain, 8 connections", "answers/s", \.explanations),
            ("appends, 256 at a time", "events/s", \.appends),
        ] {
            let text = "\(size) events: \(name)"
            let sample = Sample.joined(ledger[keyPath: samples])
            guard let smallest else {
                bench.report.add(Figure("growth", text, unit: unit, sample).placed(events: size))
                continue
            }
            let limit = Sample.joined(smallest[keyPath: samples])
            bench.report.add(
                Figure("growth", text, unit: unit, sample, limit: ("with \(bench.options.sizes[0]) events", limit))
                    .placed(events: size).judged(.ratio(atLeast: 0.9)))
        }
        let proofs = Sample.joined(ledger.proofs)
        bench.report.add(
            Figure("growth", "\(size) events: proofs, 8 connections", unit: "answers/s", proofs).placed(events: size))
        if let p99 = proofs.p99Milliseconds {
            bench.report.add(
                Figure("growth", "\(size) events: proofs, 8 connections, p99", unit: "ms", value: p99)
                    .placed(events: size).judged(.value(atMost: 10)))
        }
        bench.report.add(
            Figure("growth", "\(size) events: start to ready", unit: "ms", value: ledger.startup)
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
