/// A rate as it was measured once, with who used the processors meanwhile.
struct Sample: Sendable {
    let operations: Double
    let seconds: Double
    var p50Milliseconds: Double?
    var p99Milliseconds: Double?
    var reading = ProcessorMeter.Reading()

    var perSecond: Double { operations / seconds }
    var others: Double { reading.others }

    /// Processor time of one operation.
    var processorTime: Figure.ProcessorTime? {
        guard operations > 0 else { return nil }
        func each(_ time: Duration) -> Double { time / .microseconds(1) / operations }
        return Figure.ProcessorTime(
            service: each(reading.service), database: each(reading.database), load: each(reading.load))
    }

    /// Several measurements of one thing as one: rates over the whole time, percentiles as the mean of the rounds.
    static func joined(_ samples: [Sample]) -> Sample {
        func mean(_ values: [Double]) -> Double? {
            values.isEmpty ? nil : values.reduce(0, +) / Double(values.count)
        }
        var joined = Sample(
            operations: samples.reduce(0) { $0 + $1.operations }, seconds: samples.reduce(0) { $0 + $1.seconds })
        joined.p50Milliseconds = mean(samples.compactMap(\.p50Milliseconds))
        joined.p99Milliseconds = mean(samples.compactMap(\.p99Milliseconds))
        for sample in samples {
            joined.reading.service += sample.reading.service
            joined.reading.database += sample.reading.database
            joined.reading.load += sample.reading.load
        }
        joined.reading.others = mean(samples.map(\.others)) ?? 0
        return joined
    }
}

extension Sample {
    init(_ result: Wrk.Result, _ meter: ProcessorMeter) {
        self.init(operations: Double(result.requests), seconds: result.seconds)
        p50Milliseconds = result.p50Milliseconds
        p99Milliseconds = result.p99Milliseconds
        reading = meter.read(load: result.processorTime)
    }

    init(_ result: PgBench.Result, _ meter: ProcessorMeter) {
        self.init(operations: Double(result.operations), seconds: Double(result.operations) / result.perSecond)
        reading = meter.read(load: result.processorTime)
    }

    init(_ result: WorkerResult, _ ending: ChildProgram.Ending, _ meter: ProcessorMeter) {
        self.init(operations: Double(result.operations), seconds: result.seconds)
        p50Milliseconds = result.p50Milliseconds
        p99Milliseconds = result.p99Milliseconds
        reading = meter.read(load: ending.processorTime)
        // What it did before and after is not the work that was measured.
        if let seconds = result.processorSeconds { reading.load = .seconds(seconds) }
    }
}
