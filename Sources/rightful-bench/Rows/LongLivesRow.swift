/// Subscribers with sixty periods beside those with five: reads, first reads and appends.
struct LongLivesRow: Row {
    private static let subscribers = 3000
    private static let short = 5
    private static let long = 60
    /// How many more events a life takes while appending is measured.
    private static let headroom = 12

    private struct Rates {
        var reads: Sample
        var first: Sample
        var appends: Sample
    }

    func run(_ bench: Bench) throws {
        let short = try rates(bench, periods: Self.short)
        let long = try rates(bench, periods: Self.long)
        let name = "\(Self.long) periods"
        let target = Target.ratio(atLeast: 0.7)
        for (what, unit, figure, limit) in [
            ("reads, 8 connections", "answers/s", long.reads, short.reads),
            ("first reads, 8 connections", "answers/s", long.first, short.first),
            ("appends, 256 at a time", "events/s", long.appends, short.appends),
        ] {
            bench.report.add(
                Figure(
                    "long-lives", "\(name), \(what)", unit: unit, figure, limit: ("with \(Self.short) periods", limit)
                ).judged(target))
        }
    }

    private func rates(_ bench: Bench, periods: Int) throws -> Rates {
        try bench.withRig("lives-\(periods)") { rig in
            let months = periods + Self.headroom
            let shape = LifeStream.Shape(
                fewestPeriods: months, mostPeriods: months, window: Self.subscribers, firstLife: 0,
                lives: Self.subscribers)
            var told = Self.subscribers * periods
            let customers = try bench.load(rig, shape, events: told)
            let reads = CustomerReads(bench, rig, customers)
            let first = try bench.repeated { try reads.firstTimeSample(connections: 8) }
            let plain = try bench.repeated { try reads.sample("entitlements", connections: 8) }
            rig.stopService()
            let appends = try AppendRow.append(
                bench, rig, shape, skip: &told, concurrency: 256, seconds: bench.options.seconds)
            return Rates(reads: plain, first: first, appends: appends)
        }
    }
}
