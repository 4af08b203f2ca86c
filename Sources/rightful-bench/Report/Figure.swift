/// One measured figure, beside the limit it is held against and the target for it.
struct Figure: Codable, Sendable {
    /// What the machine could do at best, measured in the same run.
    struct Limit: Codable, Sendable {
        let name: String
        let value: Double
        var processorTime: ProcessorTime?

        enum CodingKeys: String, CodingKey {
            case name, value
            case processorTime = "cpu_us"
        }
    }

    /// Processor time of one operation, in microseconds.
    struct ProcessorTime: Codable, Sendable {
        let service: Double
        let database: Double
        let load: Double

        var total: Double { service + database + load }
    }

    /// The row of the table: the command that measured it.
    let row: String
    /// What was measured.
    let name: String
    let unit: String
    let value: Double
    var p50Milliseconds: Double?
    var p99Milliseconds: Double?
    var processorTime: ProcessorTime?
    /// The share of the machine that somebody else had meanwhile.
    var others: Double?
    var limit: Limit?
    /// The value as a fraction of its limit.
    var ratio: Double?
    /// The same by processor time: the limit's for one operation as a fraction of ours.
    var ratioOfProcessorTime: Double?
    var target: Target?
    /// Whether the target is met; `nil` without one, or where it was not measured under its conditions.
    var isMet: Bool?
    /// Whether it was judged by processor time, because others had too much of the machine.
    var judgedByProcessorTime: Bool?
    /// What the figure belongs to in a plot.
    var connections: Int?
    /// How many events the log held.
    var events: Int?
    /// What a reader must know.
    var note: String?

    enum CodingKeys: String, CodingKey {
        case row, name, unit, value, others, limit, ratio, target, connections, events, note
        case p50Milliseconds = "p50_ms"
        case p99Milliseconds = "p99_ms"
        case processorTime = "cpu_us"
        case ratioOfProcessorTime = "ratio_of_cpu"
        case isMet = "met"
        case judgedByProcessorTime = "judged_by_cpu"
    }

    init(_ row: String, _ name: String, unit: String, value: Double) {
        self.row = row
        self.name = name
        self.unit = unit
        self.value = value
    }

    /// A rate beside the rate that limits it.
    init(_ row: String, _ name: String, unit: String, _ sample: Sample, limit: (name: String, sample: Sample)? = nil) {
        self.init(row, name, unit: unit, value: sample.perSecond)
        p50Milliseconds = sample.p50Milliseconds
        p99Milliseconds = sample.p99Milliseconds
        processorTime = sample.processorTime
        others = sample.others
        guard let limit else { return }
        self.limit = Limit(
            name: limit.name, value: limit.sample.perSecond, processorTime: limit.sample.processorTime)
        ratio = sample.perSecond / limit.sample.perSecond
        if let ours = sample.processorTime?.total, let theirs = limit.sample.processorTime?.total, ours > 0, theirs > 0
        {
            ratioOfProcessorTime = theirs / ours
        }
    }

    /// A figure beside a limit that is no rate of its own run.
    func beside(_ name: String, _ value: Double) -> Figure {
        var figure = self
        figure.limit = Limit(name: name, value: value)
        figure.ratio = self.value / value
        return figure
    }

    /// The share of the machine above which others disturb a ratio by the clock too much: who runs more processes than
    /// its limit then gets more of the rest.
    private static let quiet = 0.1

    /// The same, judged by a target; by processor time where the machine was too busy otherwise.
    func judged(_ target: Target) -> Figure {
        var figure = self
        figure.target = target
        let isDisturbed = (others ?? 0) > Self.quiet && !target.ofValue && ratioOfProcessorTime != nil
        figure.judgedByProcessorTime = isDisturbed ? true : nil
        let judged = target.ofValue ? value : isDisturbed ? ratioOfProcessorTime : ratio
        figure.isMet = judged.map { target.holds($0) }
        return figure
    }

    /// The same, with what a plot needs to place it.
    func placed(connections: Int? = nil, events: Int? = nil) -> Figure {
        var figure = self
        figure.connections = connections
        figure.events = events
        return figure
    }

    /// The same, with what a reader must know.
    func noting(_ note: String?) -> Figure {
        var figure = self
        figure.note = note
        return figure
    }
}

/// What a figure should reach.
struct Target: Codable, Sendable {
    let bound: Double
    let isAtLeast: Bool
    /// Whether the figure itself is held to it rather than its ratio to the limit.
    let ofValue: Bool

    enum CodingKeys: String, CodingKey {
        case bound
        case isAtLeast = "at_least"
        case ofValue = "of_value"
    }

    /// The ratio must be this high.
    static func ratio(atLeast bound: Double) -> Target { Target(bound: bound, isAtLeast: true, ofValue: false) }
    /// The ratio must not be higher.
    static func ratio(atMost bound: Double) -> Target { Target(bound: bound, isAtLeast: false, ofValue: false) }
    /// The figure must be this high.
    static func value(atLeast bound: Double) -> Target { Target(bound: bound, isAtLeast: true, ofValue: true) }
    /// The figure must not be higher.
    static func value(atMost bound: Double) -> Target { Target(bound: bound, isAtLeast: false, ofValue: true) }

    /// Whether a value meets it.
    func holds(_ value: Double) -> Bool { isAtLeast ? value >= bound : value <= bound }
}
