import Foundation

/// A row of the table: measures a few figures and reports them.
protocol Row: Sendable {
    func run(_ bench: Bench) throws
}

/// What all rows share.
///
/// To be used on the main thread.
final class Bench {
    let options: Options
    let directory: WorkDirectory
    let programs: Programs
    let workload: Workload
    let report: Report
    private var rigs: [String: Rig] = [:]

    init(_ options: Options, _ directory: WorkDirectory, _ programs: Programs, _ report: Report) throws {
        self.options = options
        self.directory = directory
        self.programs = programs
        self.report = report
        workload = try Workload()
    }

    var wrk: Wrk { Wrk(directory: directory) }

    /// How long one round of one figure takes.
    var roundSeconds: Double { max(1, options.seconds / Double(options.rounds)) }

    /// Lends a new ledger, and removes it afterwards.
    func withRig<Value>(
        _ name: String, asks store: AskedStore? = nil, _ body: (Rig) throws -> Value
    ) throws -> Value {
        let rig = try Rig(name, directory, programs, workload, asks: store)
        defer { rig.tearDown() }
        return try body(rig)
    }

    /// A ledger filled with lives; the file of its customers, and how many there are.
    func load(
        _ rig: Rig, _ shape: LifeStream.Shape = LifeStream.Shape(), events: Int, already: Int = 0
    ) throws -> Customers {
        report.step("loading \(events - already) events")
        let file = directory.path("customers-\(shape.firstLife)-\(events)")
        let request = WorkerRequest.Append(
            conninfo: rig.serveConninfo, shape: shape, skip: already, concurrency: 2048, events: events - already,
            customersFile: file, showsProgress: true)
        let (result, _) = try rig.worker("append", request, showsErrors: true)
            .result(WorkerResult.self, limit: .seconds(3600))
        report.step("loaded at \(Int(result.perSecond)) events/s; settling")
        try rig.settle()
        rig.stopService()
        return try Customers(file)
    }

    /// Measures a figure and its limit in turn, so that what disturbs one disturbs the other.
    func inTurn(_ limit: () throws -> Sample, _ figure: () throws -> Sample) throws -> (limit: Sample, figure: Sample) {
        var (limits, figures) = ([Sample](), [Sample]())
        for _ in 0..<options.rounds {
            limits.append(try limit())
            figures.append(try figure())
        }
        return (.joined(limits), .joined(figures))
    }

    /// Measures several ledgers in turn, for the same reason.
    func inTurn<Ledger>(_ ledgers: [Ledger], _ body: (Ledger) throws -> Void) throws {
        for _ in 0..<options.rounds { try ledgers.forEach(body) }
    }

    /// Measures a figure that has no limit of its own.
    func repeated(_ figure: () throws -> Sample) throws -> Sample {
        .joined(try (0..<options.rounds).map { _ in try figure() })
    }
}

/// Customers that a ledger holds, in a file, one a line.
struct Customers: Sendable {
    let file: String
    let ids: [String]

    init(_ file: String) throws {
        self.file = file
        ids = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").map(String.init)
        guard !ids.isEmpty else { throw BenchmarkFailure("the ledger has no customers") }
    }

    /// Some of them, spread over all, in a file of their own.
    init(every: Int, of all: Customers, file: String) throws {
        self.file = file
        ids = stride(from: 0, to: all.ids.count, by: max(1, every)).map { all.ids[$0] }
        try (ids.joined(separator: "\n") + "\n").write(toFile: file, atomically: true, encoding: .utf8)
    }
}
