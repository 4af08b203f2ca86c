import Foundation
import Glibc

/// The program: measures what the product does, each figure beside its limit on the same machine in the same run.
@main
struct RightfulBench {
    static func main() async {
        // A connection that the server closes is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
            exit(0)
        } catch let error as UsageError {
            complain("\(error.description); see `rightful-bench --help`")
            exit(2)
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    private static func run(_ words: [String]) async throws {
        let options = try Options(words)
        if options.wantsHelp { return say(help) }
        let report = Report(isJSON: options.isJSON)
        let workload = try Workload()
        if options.includes("verify") { try VerifyBenchmark(workload: workload).run(options, report) }
        guard ["append", "notify", "read", "reconcile", "fold"].contains(where: options.includes) else { return }
        let server = try await DatabaseServer.start()
        do {
            if options.includes("append") { try await AppendBenchmark(workload, server).run(options, report) }
            if ["notify", "read", "reconcile"].contains(where: options.includes) {
                let service = try await RunningService.start(workload, try await server.makeDatabase("service"))
                if options.includes("notify") { try await NotifyBenchmark(workload, service).run(options, report) }
                if options.includes("read") { try await ReadBenchmark(workload, service).run(options, report) }
                if options.includes("reconcile") {
                    try await ReconcileBenchmark(workload, service).run(options, report)
                }
                await service.stop()
            }
            if options.includes("fold") { try await FoldBenchmark(workload, server).run(options, report) }
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    private static func complain(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("rightful-bench: \(text)\n".utf8))
    }

    private static let help = """
        rightful-bench: what the product does in a second, each figure beside its limit on this machine.

        Usage: rightful-bench COMMAND [--seconds S] [--json]

          verify   whole notifications verified          limit: bare P-256 verification, three to each
          append   events appended durably               limit: batches of 100 such rows into a plain table
          notify   notifications received over HTTP      limit: verification on all cores
          read     entitlements read over HTTP           limit: reading one row by its primary key
          reconcile  steady launches of an app over HTTP  limit: bare verification of what is posted
          fold     statements folded into timelines      limit: reading the same rows
          all      all of these; the default

          --seconds S   how long each figure is measured; default 1
          --json        one JSON object a line

        "cpu us" is the processor time of this process for one, load included, and "db cpu us" the database's: what to
        compare where other work shares the machine.

        The database is a private PostgreSQL of its own, with the durability that the product has. Load and service
        share the machine. Build with `swift build -c release`: figures of a debug build mean nothing.
        """
}

/// A command line that makes no sense.
struct UsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// What the command line asks for.
struct Options: Sendable {
    private(set) var isJSON = false
    private(set) var wantsHelp = false
    /// How long each figure is measured.
    private(set) var seconds = 1.0
    private var benchmark = "all"

    init(_ words: [String]) throws(UsageError) {
        var words = words[...]
        var named: [String] = []
        while let word = words.popFirst() {
            switch word {
            case "--help", "help": wantsHelp = true
            case "--json": isJSON = true
            case "--seconds":
                guard let value = words.popFirst().flatMap(Double.init), (0.01...3600).contains(value) else {
                    throw UsageError("--seconds must be a number from 0.01 to 3600")
                }
                seconds = value
            case "all", "verify", "append", "notify", "read", "reconcile", "fold": named.append(word)
            default: throw UsageError("there is no command or option '\(word)'")
            }
        }
        guard named.count <= 1 else { throw UsageError("give one command") }
        if let name = named.first { benchmark = name }
    }

    func includes(_ name: String) -> Bool { benchmark == "all" || benchmark == name }

    var duration: Duration { .seconds(seconds) }
}

/// Prints a line at once, also when nobody watches a terminal.
func say(_ line: String) {
    try? FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}
