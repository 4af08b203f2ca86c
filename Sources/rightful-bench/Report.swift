import Foundation

/// One measured figure, beside the limit it is to be held against.
struct Figure: Encodable {
    /// The command that measured it.
    let benchmark: String
    /// What was measured.
    let name: String
    let unit: String
    let perSecond: Double
    var limit: Limit?
    /// Processor time of the benchmark's process for one.
    var processorMicroseconds: Double?
    /// Processor time of the database for one.
    var databaseMicroseconds: Double?
    var p50Milliseconds: Double?
    var p99Milliseconds: Double?
    /// Events of a transaction, on average.
    var batchEvents: Double?
    /// The figure as a fraction of its limit.
    private(set) var ofLimit: Double?

    /// What the machine could do at best, measured in the same run.
    struct Limit: Encodable {
        let name: String
        let perSecond: Double

        enum CodingKeys: String, CodingKey {
            case name
            case perSecond = "per_second"
        }
    }

    init(
        _ benchmark: String, _ name: String, unit: String, _ done: Throughput, limit: Limit? = nil,
        batchEvents: Double? = nil
    ) {
        self.init(benchmark, name, unit: unit, perSecond: done.perSecond, limit: limit)
        processorMicroseconds = done.processorMicroseconds
        databaseMicroseconds = done.databaseMicroseconds
        p50Milliseconds = done.latencies.milliseconds(atQuantile: 0.5)
        p99Milliseconds = done.latencies.milliseconds(atQuantile: 0.99)
        self.batchEvents = batchEvents
    }

    init(_ benchmark: String, _ name: String, unit: String, perSecond: Double, limit: Limit?) {
        self.benchmark = benchmark
        self.name = name
        self.unit = unit
        self.perSecond = perSecond
        self.limit = limit
        ofLimit = limit.map { perSecond / $0.perSecond }
    }

    enum CodingKeys: String, CodingKey {
        case benchmark, name, unit, limit
        case perSecond = "per_second"
        case processorMicroseconds = "cpu_us"
        case databaseMicroseconds = "database_cpu_us"
        case p50Milliseconds = "p50_ms"
        case p99Milliseconds = "p99_ms"
        case batchEvents = "batch_events"
        case ofLimit = "of_limit"
    }
}

/// Shows figures as they are measured: a table for people, or JSON lines.
struct Report {
    private let isJSON: Bool

    init(isJSON: Bool) {
        self.isJSON = isJSON
        if !isJSON {
            say(
                Self.row(
                    "", "", "per second", "limit", "of limit", "cpu us", "db cpu us", "p50 ms", "p99 ms", "batch"))
        }
    }

    func add(_ figure: Figure) throws {
        if isJSON {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return say(String(decoding: try encoder.encode(figure), as: UTF8.self))
        }
        say(
            Self.row(
                figure.benchmark, "\(figure.name), \(figure.unit)", Self.number(figure.perSecond, digits: 0),
                Self.number(figure.limit?.perSecond, digits: 0), Self.number(figure.ofLimit, digits: 2),
                Self.number(figure.processorMicroseconds, digits: 1),
                Self.number(figure.databaseMicroseconds, digits: 1),
                Self.number(figure.p50Milliseconds, digits: 2), Self.number(figure.p99Milliseconds, digits: 2),
                Self.number(figure.batchEvents, digits: 1)))
    }

    private static func number(_ value: Double?, digits: Int) -> String {
        value.map { String(format: "%.\(digits)f", $0) } ?? ""
    }

    private static func row(_ benchmark: String, _ name: String, _ numbers: String...) -> String {
        func pad(_ text: String, to width: Int) -> String { String(repeating: " ", count: max(0, width - text.count)) }
        return benchmark + pad(benchmark, to: 8) + name + pad(name, to: 58)
            + numbers.map { pad($0, to: 11) + $0 }.joined()
    }
}
