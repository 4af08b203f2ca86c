/// `rightful rebuild` as a process, beside `COPY` of what the fold reads on one connection: the states of original
/// transactions, of which answers are made, and all views together.
///
/// Twice: with usual lives, most of which are too short for a snapshot, and with lives so long that nearly every event is
/// folded into one.
struct RebuildRow: Row {
    private static let longLives = LifeStream.Shape(fewestPeriods: 20, mostPeriods: 60)

    func run(_ bench: Bench) throws {
        let events = bench.options.events
        for (directory, shape, note) in [
            ("rebuild", LifeStream.Shape(), nil),
            ("rebuild-long", Self.longLives, "lives of 20 to 60 months, each with a snapshot to write"),
        ] {
            try bench.withRig(directory) { rig in
                _ = try bench.load(rig, shape, events: events)
                try RebuildRow.measure(bench, rig, events: events, only: "originals", note: note)
                try RebuildRow.measure(bench, rig, events: events, note: note)
            }
        }
    }

    /// Rebuilds a ledger of that size.
    ///
    /// - Parameters:
    ///   - view: this view alone; `nil` for all of them.
    ///   - note: what is special about its lives.
    static func measure(_ bench: Bench, _ rig: Rig, events: Int, only view: String? = nil, note: String? = nil) throws {
        let name = "\(events) events" + (note == nil ? "" : ", long lives") + (view == nil ? ", all views" : "")
        let count = Double(try rig.number("SELECT count(*) FROM event WHERE facts IS NOT NULL", limit: .seconds(600)))
        var memory = 0
        let (copy, rebuild) = try bench.inTurn(
            {
                let meter = ProcessorMeter(service: nil, postmaster: rig.postmaster)
                let start = ContinuousClock.now
                let ending = try copyAll(rig)
                var sample = Sample(operations: count, seconds: start.duration(to: .now) / .seconds(1))
                sample.reading = meter.read(load: ending.processorTime)
                return sample
            },
            {
                let meter = ProcessorMeter(service: nil, postmaster: rig.postmaster)
                let start = ContinuousClock.now
                let program = try ChildProgram(
                    [rig.programs.rightful, "rebuild"] + (view.map { ["--only", $0] } ?? []) + rig.common,
                    in: rig.directory)
                let ending = try program.wait(limit: .seconds(3600)) {
                    memory = max(memory, ProcessStatistics.peakMemory(of: program.pid) ?? 0)
                }
                guard ending.status == 0 else { throw BenchmarkFailure("rebuild failed: \(program.errors)") }
                var sample = Sample(operations: count, seconds: start.duration(to: .now) / .seconds(1))
                sample.reading = meter.read(load: ending.processorTime)
                return sample
            })
        bench.report.add(
            Figure(
                "rebuild", name, unit: "events/s", rebuild,
                limit: ("COPY (what the fold reads) TO STDOUT (FORMAT binary), one connection", copy)
            ).placed(events: events).noting(note).judged(.ratio(atLeast: 0.5)))
        bench.report.add(
            Figure("rebuild", "\(name), peak memory", unit: "MiB", value: Double(memory) / Double(1 << 20))
                .placed(events: events).judged(.value(atMost: 512)))
    }

    /// What a fold needs of each event, where the schema has it.
    private static let columns = ["position", "environment", "source", "original_transaction_id", "facts"]

    private static func copyAll(_ rig: Rig) throws -> ChildProgram.Ending {
        let names = columns.map { "'\($0)'" }.joined(separator: ", ")
        let list = try rig.query(
            """
            SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
            WHERE attrelid = 'event'::regclass AND attname IN (\(names))
            """)
        let copy = "COPY (SELECT \(list) FROM event) TO STDOUT (FORMAT binary)"
        // Nobody keeps what comes.
        let command = "exec \"$0\" --no-psqlrc --quiet --dbname \"$1\" --command \"$2\" > /dev/null"
        return try ChildProgram(
            ["/bin/sh", "-c", command, rig.postgres("psql"), rig.ownerConninfo, copy], in: rig.directory
        ).finish(limit: .seconds(1800)).ending
    }
}
