/// Subscribers with sixty periods beside those with five: reads, first reads and appends.
struct LongLivesRow: Row {
    private static let subscribers = 3000
    private static let short = 5
    private static let long = 60
    /// How many more events a life takes while appending is measured.
    private static let headroom = 12

    /// A ledger whose subscribers have paid for so many periods each, and what was measured of it.
    private final class Ledger {
        let rig: Rig
        let shape: LifeStream.Shape
        let reads: CustomerReads
        /// How many of the stream's events are in the log.
        var told: Int
        var first: [Sample] = []
        var plain: [Sample] = []
        var appends: [Sample] = []

        init(_ bench: Bench, _ rig: Rig, periods: Int) throws {
            let months = periods + headroom
            self.rig = rig
            shape = LifeStream.Shape(
                fewestPeriods: months, mostPeriods: months, window: subscribers, firstLife: 0, lives: subscribers)
            told = subscribers * periods
            reads = CustomerReads(bench, rig, try bench.load(rig, shape, events: told))
        }
    }

    func run(_ bench: Bench) throws {
        try bench.withRig("lives-\(Self.short)") { few in
            let short = try Ledger(bench, few, periods: Self.short)
            try bench.withRig("lives-\(Self.long)") { many in
                let long = try Ledger(bench, many, periods: Self.long)
                try measure(bench, [short, long])
                report(bench, long, beside: short)
            }
        }
    }

    private func measure(_ bench: Bench, _ ledgers: [Ledger]) throws {
        try bench.inTurn(ledgers) { $0.first.append(try $0.reads.firstTimeSample(connections: 8)) }
        try bench.inTurn(ledgers) { $0.plain.append(try $0.reads.sample("entitlements", connections: 8)) }
        for ledger in ledgers { ledger.rig.stopService() }
        // A share of what is left of the lives each time, which would else be over in the first round.
        let events = Self.subscribers * Self.headroom / bench.options.rounds
        try bench.inTurn(ledgers) {
            $0.appends.append(
                try AppendRow.append(bench, $0.rig, $0.shape, skip: &$0.told, concurrency: 256, events: events))
        }
    }

    private func report(_ bench: Bench, _ long: Ledger, beside short: Ledger) {
        for (what, unit, samples) in [
            ("reads, 8 connections", "answers/s", \Ledger.plain),
            ("first reads, 8 connections", "answers/s", \.first),
            ("appends, 256 at a time", "events/s", \.appends),
        ] {
            bench.report.add(
                Figure(
                    "long-lives", "\(Self.long) periods, \(what)", unit: unit, .joined(long[keyPath: samples]),
                    limit: ("with \(Self.short) periods", .joined(short[keyPath: samples]))
                ).judged(.ratio(atLeast: 0.7)))
        }
    }
}
