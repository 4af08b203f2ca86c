/// Verified facts with their evidence through the ledger's writer, beside batches of a hundred rows as large into a
/// plain table.
struct AppendRow: Row {
    func run(_ bench: Bench) throws {
        try bench.withRig("append") { rig in
            let plain = try rig.makeDatabase("plain")
            var told = 0
            var stored: Int?
            for concurrency in [1, 8, 64, 256] {
                let (limit, sample) = try bench.inTurn(
                    {
                        let (sample, bytes) = try Self.insert(bench, rig, plain, isCompressed: false)
                        stored = bytes
                        return sample
                    },
                    {
                        try AppendRow.append(
                            bench, rig, LifeStream.Shape(), skip: &told, concurrency: concurrency,
                            seconds: bench.roundSeconds)
                    })
                let figure = Figure(
                    "append", "\(concurrency) at a time", unit: "events/s", sample,
                    limit: ("100-row batches into a plain table", limit)
                ).noting(stored.map { "\($0) bytes a row" })
                guard concurrency == 256 else {
                    bench.report.add(figure)
                    continue
                }
                bench.report.add(figure.judged(.ratio(atLeast: 0.8)))
                bench.report.add(
                    Figure(
                        "append", "256 at a time, beside 9 x Message DB's best", unit: "events/s",
                        value: sample.perSecond
                    )
                    .judged(.value(atLeast: 9 * 4500)))
                let (compressed, bytes) = try Self.insert(bench, rig, plain, isCompressed: true)
                bench.report.add(
                    Figure(
                        "append", "256 at a time, beside rows with compressed evidence", unit: "events/s", sample,
                        limit: ("100-row batches into a plain table", compressed)
                    ).noting(bytes.map { "\($0) bytes a row" }))
                bench.report.add(
                    Figure(
                        "append", "PostgreSQL alone, the same rows by psql's \\copy", unit: "events/s",
                        try Self.copyAlone(bench, rig), limit: ("100-row batches into a plain table", limit)))
            }
        }
    }

    /// The tables that an append writes, and what their rows are ordered by.
    private static let tables = [
        ("event", "position"), ("evidence", "position"), ("event_name", "position"), ("identity", "identity"),
    ]

    /// Copies the events written last, and what was written with them, into tables with the same indexes.
    private static func copyAlone(_ bench: Bench, _ rig: Rig) throws -> Sample {
        let last = try rig.position()
        let first = max(2, last - 200_000)
        let firstIdentity = try rig.number("SELECT min(identity) FROM event_name WHERE position >= \(first)")
        try rig.query("CREATE SCHEMA alone")
        var copies: [String] = []
        for (table, key) in tables {
            try rig.query("CREATE TABLE alone.\(table) (LIKE public.\(table) INCLUDING ALL)")
            let file = bench.directory.path("alone-\(table)")
            let from = key == "identity" ? firstIdentity : first
            try rig.query(
                "\\copy (SELECT * FROM \(table) WHERE \(key) >= \(from) ORDER BY \(key)) TO '\(file)' (FORMAT binary)")
            copies += ["--command", "\\copy alone.\(table) FROM '\(file)' (FORMAT binary)"]
        }
        try rig.query("CHECKPOINT")
        let meter = ProcessorMeter(service: nil, postmaster: rig.postmaster)
        let start = ContinuousClock.now
        let ending = try ChildProgram(
            [rig.postgres("psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", rig.ownerConninfo]
                + copies, in: rig.directory
        ).finish(limit: .seconds(600)).ending
        var sample = Sample(operations: Double(last - first + 1), seconds: start.duration(to: .now) / .seconds(1))
        sample.reading = meter.read(load: ending.processorTime)
        return sample
    }

    /// Appends for so many seconds, or so many events, going on in the stream where the last call stopped.
    ///
    /// - Parameter told: how many of the stream's events are in the log.
    static func append(
        _ bench: Bench, _ rig: Rig, _ shape: LifeStream.Shape, skip told: inout Int, concurrency: Int, events: Int = 0,
        seconds: Double = 0
    ) throws -> Sample {
        let before = try rig.position()
        let meter = ProcessorMeter(service: nil, postmaster: rig.postmaster)
        let request = WorkerRequest.Append(
            conninfo: rig.serveConninfo, shape: shape, skip: told, concurrency: concurrency, events: events,
            seconds: seconds)
        let (result, ending) = try rig.worker("append", request)
            .result(WorkerResult.self, limit: .seconds(seconds + 600))
        told += try rig.position() - before
        return Sample(result, ending, meter)
    }

    private static func insert(
        _ bench: Bench, _ rig: Rig, _ conninfo: String, isCompressed: Bool
    ) throws -> (Sample, bytes: Int?) {
        let meter = ProcessorMeter(service: nil, postmaster: rig.postmaster)
        let request = WorkerRequest.Insert(
            conninfo: conninfo, isCompressed: isCompressed, seconds: bench.roundSeconds)
        let (result, ending) = try rig.worker("insert", request).result(WorkerResult.self, limit: .seconds(240))
        return (Sample(result, ending, meter), result.rowBytes)
    }
}
